"""Aggregates by exact sums and counts: sum, mean, moments, booleans, decay, span.

Doors: Count, Sum, Span.
"""
