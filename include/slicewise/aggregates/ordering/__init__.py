"""Aggregates that depend on an order of events: extremes, first and last, top-k, folds.

Doors: Max, ArgMax, LastK.
"""
