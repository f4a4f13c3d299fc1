"""Commands for the platform: run, up, down, status and what keeps it well.

Doors: up, status, run.
"""
