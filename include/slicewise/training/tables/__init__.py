"""Tables of a user: spines, files and given events, typed or refused by row.

Doors: Spine, read_spine, as_timestamps.
"""
