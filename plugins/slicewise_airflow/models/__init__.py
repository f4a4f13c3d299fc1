"""Models are judged and trained by runs: their pages, notes and decisions.

Doors: backtesting, training, runs.
"""
