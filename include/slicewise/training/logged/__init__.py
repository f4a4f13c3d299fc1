"""Logged answers of the API are answered once more, from the archive.

Doors: replaying, columns.
"""
