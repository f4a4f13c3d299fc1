"""A model is judged on logged requests, before it answers any.

Doors: Backtest, run_backtest.
"""
