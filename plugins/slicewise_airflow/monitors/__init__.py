"""Monitors are looked at while the stream is watched.

Doors: keep_looking.
"""
