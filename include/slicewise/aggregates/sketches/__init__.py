"""Aggregates within a stated size: distinct counts, quantiles, frequent items, filters.

Doors: DistinctCount, Quantiles, membership_of.
"""

from __future__ import annotations

from slicewise.aggregates.sketches.bloom_filters import Bloom, BloomFill
from slicewise.aggregates.sketches.cuckoo_filters import Cuckoo
from slicewise.aggregates.sketches.distinct import DistinctCount
from slicewise.aggregates.sketches.frequent import TopKFrequent
from slicewise.aggregates.sketches.quantile import Quantiles

__all__ = [
    "Bloom",
    "BloomFill",
    "Cuckoo",
    "DistinctCount",
    "Quantiles",
    "TopKFrequent",
]
