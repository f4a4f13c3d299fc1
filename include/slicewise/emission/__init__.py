"""Publications of a view at each instant, and the leaderboards made of it; pure decisions.

Doors: ViewEmission, Tick, LeaderboardSink.
"""
