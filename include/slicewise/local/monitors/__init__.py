"""Monitors of a project: read from its file, and looked at by asking the prediction API.

Doors: load_monitors.
"""
