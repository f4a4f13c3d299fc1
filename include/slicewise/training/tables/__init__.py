"""Tables of a user: spines, files and given events, typed or refused by row.

Doors: Spine, as_timestamps, read_events.
"""
