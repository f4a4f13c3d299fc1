"""Definitions of a source of plays, as the texts of a project."""

from __future__ import annotations

SOURCE = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
)
"""
COUNTS = 'sw.Feature("plays", sw.count(), windows=["1h"])'
SUMS = 'sw.Feature("seconds", sw.sum("seconds"), windows=["1h"])'


def feature_set(*refs: str) -> str:
    return f'model = sw.FeatureSet("model", features={list(refs)!r})\n'
