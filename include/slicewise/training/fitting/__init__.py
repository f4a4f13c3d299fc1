"""Models are trained on training sets, and trained again to the same bytes.

Doors: training.
"""
