"""Connections to the store's nodes, and what was seen of each.

Doors: Flow, AsyncConnection, blocking.
"""
