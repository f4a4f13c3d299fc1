"""What a user declares: sources, views, features, sets, cases and leaderboards.

Doors: Feature, FeatureView, Project.
"""
