"""Rules of what may be written, as pure functions.

Doors: decisions, five_days.
"""
