"""A table that becomes the past of a source: its rows in files, and the commit that shows them.

Doors: history.
"""
