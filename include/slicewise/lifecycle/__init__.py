"""Decisions about running the platform are pure functions here: nothing in this package does I/O.

Doors: compaction, restarts, sweep.
"""
