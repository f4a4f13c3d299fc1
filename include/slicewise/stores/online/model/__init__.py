"""What the store says of itself: metadata, versions, phases, gaps, leaderboards.

Doors: metadata, phases, MetadataBackup.
"""
