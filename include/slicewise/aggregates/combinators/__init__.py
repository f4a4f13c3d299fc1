"""Aggregates of aggregates: under a condition, by bucket, by bin."""
