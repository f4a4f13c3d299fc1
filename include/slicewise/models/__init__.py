"""Models of a project: where they stand, their scores of features, and how good these were.

Doors: load_models, scored, measured.
"""
