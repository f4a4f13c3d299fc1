"""Parts of a read that its answer was made of: what counted, and where it stood.

Doors: segments, bounded.
"""
