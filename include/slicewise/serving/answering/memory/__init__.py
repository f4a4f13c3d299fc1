"""What earlier answers and replies showed, so that no answer falls behind them.

Doors: HighWater, LastKnown, Freshness.
"""
