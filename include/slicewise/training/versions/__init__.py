"""Versions of a view compared by what each answers, from the archive.

Doors: compare, Difference.
"""
