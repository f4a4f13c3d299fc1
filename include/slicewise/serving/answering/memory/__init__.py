"""Memory of earlier answers and replies, so that no answer falls behind them.

Doors: HighWater, LastAnswers, Freshness.
"""
