"""Aggregates of a user's own: the text of a class, what it may do, and what it stores.

Doors: Own, functions, raised.
"""
