"""Commands that change what is deployed in several steps: migrate.

Doors: migrate.
"""
