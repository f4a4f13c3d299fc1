"""The algebra: what is stored of events, and how it merges, exact and in any order. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

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
from slicewise.aggregates.bucketed import Bucketed
from slicewise.aggregates.columns import Columns
from slicewise.aggregates.conditional import only
from slicewise.aggregates.counting import Count
from slicewise.aggregates.distinct import DistinctCount
from slicewise.aggregates.events import Event, Rows
from slicewise.aggregates.extremes import Max, Min
from slicewise.aggregates.fields import IDENTITY, Field, Fixed, Items, Texts
from slicewise.aggregates.frequent import TopKFrequent
from slicewise.aggregates.histogram import Histogram
from slicewise.aggregates.latest import First, FirstK, Last, LastK, LastKDistinct
from slicewise.aggregates.quantiles import Quantiles
from slicewise.aggregates.ragged import Ragged, RaggedBytes
from slicewise.aggregates.ranked import ArgMax, ArgMin, BottomK, TopK
from slicewise.aggregates.sums import Mean, Sum
from slicewise.aggregates.values import canonicalise


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Number of events; with a column, of events where it is not null. Of no events 0."""
    return _given(Count(column), where)


def sum(column: str, *, where: str | None = None) -> Aggregate:
    """Exact sum of a number column, rounded once."""
    return _given(Sum(column), where)


def mean(column: str, *, where: str | None = None) -> Aggregate:
    """Exact mean of a number column, rounded once."""
    return _given(Mean(column), where)


def min(column: str, *, where: str | None = None) -> Aggregate:
    """The least value; text by its UTF-8 bytes."""
    return _given(Min(column), where)


def max(column: str, *, where: str | None = None) -> Aggregate:
    """The greatest value; text by its UTF-8 bytes."""
    return _given(Max(column), where)


def argmin(payload: str, *, by: str, where: str | None = None) -> Aggregate:
    """The payload of the event with the least `by`, the earliest of several."""
    return _given(ArgMin(payload, by), where)


def argmax(payload: str, *, by: str, where: str | None = None) -> Aggregate:
    """The payload of the event with the greatest `by`, the earliest of several."""
    return _given(ArgMax(payload, by), where)


def top_k(payload: str, *, by: str, k: int, where: str | None = None) -> Aggregate:
    """The k events of greatest `by`: list<struct<by, payload>>, greatest first."""
    return _given(TopK(payload, by, k), where)


def bottom_k(payload: str, *, by: str, k: int, where: str | None = None) -> Aggregate:
    """The k events of least `by`: list<struct<by, payload>>, least first."""
    return _given(BottomK(payload, by, k), where)


def first(column: str, *, where: str | None = None) -> Aggregate:
    """The earliest value that is not null."""
    return _given(First(column), where)


def last(column: str, *, where: str | None = None) -> Aggregate:
    """The latest value that is not null."""
    return _given(Last(column), where)


def first_k(column: str, *, k: int, where: str | None = None) -> Aggregate:
    """The values, not null, of the k earliest events: a list, oldest first."""
    return _given(FirstK(column, k), where)


def last_k(column: str, *, k: int, where: str | None = None) -> Aggregate:
    """The values, not null, of the k latest events: a list, newest first."""
    return _given(LastK(column, k), where)


def last_k_distinct(column: str, *, k: int, where: str | None = None) -> Aggregate:
    """The k distinct values that were seen last: a list, newest first."""
    return _given(LastKDistinct(column, k), where)


def distinct_count(column: str, *, threshold: int = 256, precision: int = 12, where: str | None = None) -> Aggregate:
    """Number of distinct values: exact up to `threshold`, beyond it HyperLogLog's estimate."""
    return _given(DistinctCount(column, threshold, precision), where)


def top_k_frequent(
    column: str, *, k: int, capacity: int = 1_000, error: float = 0.005, where: str | None = None
) -> Aggregate:
    """The k values that came most often, their counts, and how far these may be off.

    Exact up to `capacity` distinct values; beyond it counts may be too high, by a share `error` of all events.
    """
    return _given(TopKFrequent(column, k, capacity, error), where)


def quantiles(
    column: str, *, q: Sequence[float], threshold: int = 256, error: float = 0.01, where: str | None = None
) -> Aggregate:
    """For each share q the least value that so many values do not exceed: a list of doubles.

    Exact up to `threshold` distinct values; beyond it within a share `error` of the value (DDSketch).
    """
    return _given(Quantiles(column, tuple(q), threshold, error), where)


def bool_and(column: str, *, where: str | None = None) -> Aggregate:
    """Whether all values that are not null are true."""
    return _given(BoolAnd(column), where)


def bool_or(column: str, *, where: str | None = None) -> Aggregate:
    """Whether any value that is not null is true."""
    return _given(BoolOr(column), where)


def bucketed(aggregate: Aggregate, *, by: str, max_buckets: int = 100, where: str | None = None) -> Aggregate:
    """One aggregate per value of a second column: list<struct<key, value>>, ascending by key.

    Exact up to `max_buckets` keys; beyond them null with the error `too_many_buckets`.
    """
    return _given(Bucketed(aggregate, by, max_buckets), where)


def count_by(category: str, *, max_categories: int = 100, where: str | None = None) -> Aggregate:
    """Number of events per value of a column: list<struct<key, value>>, ascending by key."""
    return bucketed(Count(), by=category, max_buckets=max_categories, where=where)


def histogram(column: str, *, edges: Sequence[float | Decimal], where: str | None = None) -> Aggregate:
    """Number of values in each bin [edge, next edge), under the first edge, and from the last on."""
    return _given(Histogram(column, tuple(edges)), where)


def _given(aggregate: Aggregate, where: str | None) -> Aggregate:
    """The aggregate of the events for which `where`, a condition of row logic, is true; of all without one."""
    return aggregate if where is None else only(aggregate, where)


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
    "bucketed",
    "canonicalise",
    "count",
    "count_by",
    "distinct_count",
    "first",
    "first_k",
    "from_spec",
    "histogram",
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
