"""Versions of views: compared for the person who approves, and promoted in that person's name.

Doors: promoting.
"""
