"""Monitors: features that are to stay within bounds, and a judgement of their values.

Doors: Monitor.
"""
