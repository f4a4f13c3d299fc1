"""Model of the store's state: metadata, versions, phases, gaps, leaderboards.

Doors: metadata, phases, Status.
"""
