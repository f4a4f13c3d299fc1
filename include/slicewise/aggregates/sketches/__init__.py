"""Aggregates within a stated size: distinct counts, quantiles, frequent items, filters.

Doors: DistinctCount, Quantiles, membership_of.
"""
