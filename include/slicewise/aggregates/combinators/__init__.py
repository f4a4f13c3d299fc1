"""Aggregates of aggregates: under a condition, by bucket, by bin.

Doors: Bucketed, Histogram, only.
"""
