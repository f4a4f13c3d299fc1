"""Deployed names for people.

Doors: shown, uses.
"""
