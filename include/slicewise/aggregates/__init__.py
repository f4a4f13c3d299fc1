"""The algebra: what is stored of events, and how it merges, exact and in any order. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from slicewise.aggregates.base import (
    OVERFLOW,
    REGISTRY,
    Aggregate,
    Failed,
    Finished,
    Invertible,
    State,
    from_spec,
)
from slicewise.aggregates.booleans import BoolAnd, BoolOr
from slicewise.aggregates.columns import Columns
from slicewise.aggregates.counting import Count
from slicewise.aggregates.distinct import DistinctCount
from slicewise.aggregates.events import Event, Rows
from slicewise.aggregates.extremes import Max, Min
from slicewise.aggregates.fields import IDENTITY, Field, Fixed, Items, Texts
from slicewise.aggregates.frequent import TopKFrequent
from slicewise.aggregates.latest import First, FirstK, Last, LastK, LastKDistinct
from slicewise.aggregates.quantiles import Quantiles
from slicewise.aggregates.ragged import Ragged, RaggedBytes
from slicewise.aggregates.ranked import ArgMax, ArgMin, BottomK, TopK
from slicewise.aggregates.sums import Mean, Sum
from slicewise.aggregates.values import canonicalise


def count(column: str | None = None) -> Count:
    """Number of events; with a column, of events where it is not null. Of no events 0."""
    return Count(column)


def sum(column: str) -> Sum:
    """Exact sum of a number column, rounded once."""
    return Sum(column)


def mean(column: str) -> Mean:
    """Exact mean of a number column, rounded once."""
    return Mean(column)


def min(column: str) -> Min:
    """The least value; text by its UTF-8 bytes."""
    return Min(column)


def max(column: str) -> Max:
    """The greatest value; text by its UTF-8 bytes."""
    return Max(column)


def argmin(payload: str, *, by: str) -> ArgMin:
    """The payload of the event with the least `by`, the earliest of several."""
    return ArgMin(payload, by)


def argmax(payload: str, *, by: str) -> ArgMax:
    """The payload of the event with the greatest `by`, the earliest of several."""
    return ArgMax(payload, by)


def top_k(payload: str, *, by: str, k: int) -> TopK:
    """The k events of greatest `by`: list<struct<by, payload>>, greatest first."""
    return TopK(payload, by, k)


def bottom_k(payload: str, *, by: str, k: int) -> BottomK:
    """The k events of least `by`: list<struct<by, payload>>, least first."""
    return BottomK(payload, by, k)


def first(column: str) -> First:
    """The earliest value that is not null."""
    return First(column)


def last(column: str) -> Last:
    """The latest value that is not null."""
    return Last(column)


def first_k(column: str, *, k: int) -> FirstK:
    """The values, not null, of the k earliest events: a list, oldest first."""
    return FirstK(column, k)


def last_k(column: str, *, k: int) -> LastK:
    """The values, not null, of the k latest events: a list, newest first."""
    return LastK(column, k)


def last_k_distinct(column: str, *, k: int) -> LastKDistinct:
    """The k distinct values that were seen last: a list, newest first."""
    return LastKDistinct(column, k)


def distinct_count(column: str, *, threshold: int = 256, precision: int = 12) -> DistinctCount:
    """Number of distinct values: exact up to `threshold`, beyond it HyperLogLog's estimate."""
    return DistinctCount(column, threshold, precision)


def top_k_frequent(column: str, *, k: int, capacity: int = 1_000, error: float = 0.005) -> TopKFrequent:
    """The k values that came most often, their counts, and how far these may be off.

    Exact up to `capacity` distinct values; beyond it counts may be too high, by a share `error` of all events.
    """
    return TopKFrequent(column, k, capacity, error)


def quantiles(column: str, *, q: Sequence[float], threshold: int = 256, error: float = 0.01) -> Quantiles:
    """For each share q the least value that so many values do not exceed: a list of doubles.

    Exact up to `threshold` distinct values; beyond it within a share `error` of the value (DDSketch).
    """
    return Quantiles(column, tuple(q), threshold, error)


def bool_and(column: str) -> BoolAnd:
    """Whether all values that are not null are true."""
    return BoolAnd(column)


def bool_or(column: str) -> BoolOr:
    """Whether any value that is not null is true."""
    return BoolOr(column)


__all__ = [
    "IDENTITY",
    "OVERFLOW",
    "REGISTRY",
    "Aggregate",
    "Columns",
    "Event",
    "Failed",
    "Field",
    "Finished",
    "Fixed",
    "Invertible",
    "Items",
    "Ragged",
    "RaggedBytes",
    "Rows",
    "State",
    "Texts",
    "argmax",
    "argmin",
    "bool_and",
    "bool_or",
    "bottom_k",
    "canonicalise",
    "count",
    "distinct_count",
    "first",
    "first_k",
    "from_spec",
    "last",
    "last_k",
    "last_k_distinct",
    "max",
    "mean",
    "min",
    "quantiles",
    "sum",
    "top_k",
    "top_k_frequent",
]
