"""Aggregates by exact sums and counts: sum, mean, moments, booleans, decay, span.

Doors: Count, Sum, Span.
"""

from __future__ import annotations

from slicewise.aggregates.exact.booleans import BoolAnd, BoolOr
from slicewise.aggregates.exact.counting import Count
from slicewise.aggregates.exact.decay import DecayCount, DecaySum
from slicewise.aggregates.exact.moments import Kurtosis, Skewness, Stddev, Variance
from slicewise.aggregates.exact.pairs import Correlation, Covariance, LinearTrend
from slicewise.aggregates.exact.spans import Span
from slicewise.aggregates.exact.sums import Mean, Sum

__all__ = [
    "BoolAnd",
    "BoolOr",
    "Correlation",
    "Count",
    "Covariance",
    "DecayCount",
    "DecaySum",
    "Kurtosis",
    "LinearTrend",
    "Mean",
    "Skewness",
    "Span",
    "Stddev",
    "Sum",
    "Variance",
]
