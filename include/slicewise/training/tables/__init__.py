"""Tables of a user: typed, or refused by row and value.

Doors: Spine, as_timestamps, located.
"""
