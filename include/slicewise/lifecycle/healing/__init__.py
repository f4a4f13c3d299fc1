"""Hours that hold wrong values stay marked until a check is green, whoever recomputes them.

Doors: record.
"""
