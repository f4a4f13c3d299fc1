"""Pace of a build beside views that answer: it gives way to live events.

Doors: Freshness, next_share, pause_s.
"""
