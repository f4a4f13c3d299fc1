"""Definitions of a user: sources, views, features, sets, cases and leaderboards.

Doors: Feature, Project, EventList.
"""
