"""Answer beside recomputation, value by value, and the likeliest cause of a difference.

Doors: compare, engine.
"""
