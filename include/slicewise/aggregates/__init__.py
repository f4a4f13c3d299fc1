"""The algebra: what is stored of events, and how it merges, exact and in any order. No I/O.

Doors: Aggregate, event_forms, scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from slicewise.aggregates.combinators.buckets import Bucketed
from slicewise.aggregates.combinators.conditional import only
from slicewise.aggregates.combinators.histograms import Histogram
from slicewise.aggregates.contract import Aggregate, Invertible
from slicewise.aggregates.custom import Ordered, Own
from slicewise.aggregates.custom.functions import source_of
from slicewise.aggregates.definition import SEMANTIC
from slicewise.aggregates.exact import (
    BoolAnd,
    BoolOr,
    Correlation,
    Count,
    Covariance,
    DecayCount,
    DecaySum,
    Kurtosis,
    LinearTrend,
    Mean,
    Skewness,
    Span,
    Stddev,
    Sum,
    Variance,
)
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import IDENTITY, Field, Fixed, Items, Texts
from slicewise.aggregates.kernel.ragged import Ragged, RaggedBytes
from slicewise.aggregates.kernel.values import canonicalise
from slicewise.aggregates.operations import OVERFLOW, Ends, Failed, Finished
from slicewise.aggregates.ordering.extremes import Max, Min
from slicewise.aggregates.ordering.latest import First, FirstK, Last, LastK, LastKDistinct
from slicewise.aggregates.ordering.ranked import ArgMax, ArgMin, BottomK, TopK
from slicewise.aggregates.registry import REGISTRY, Behind, from_spec
from slicewise.aggregates.sketches import (
    Bloom,
    BloomFill,
    Cuckoo,
    DistinctCount,
    Quantiles,
    TopKFrequent,
)
from slicewise.aggregates.stored_form import State
from slicewise.aggregates.texts import check_texts, listed
from slicewise.calls import checked_call


@checked_call
def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Number of events; with a column, of events where it is not null. Of no events 0.

    Example: `sw.count()`
    """
    return _given(Count(column), where)


@checked_call
def sum(column: str, *, where: str | None = None) -> Aggregate:
    """Exact sum of a number column, rounded once.

    Example: `sw.sum("seconds")`
    """
    return _given(Sum(column), where)


@checked_call
def mean(column: str, *, where: str | None = None) -> Aggregate:
    """Exact mean of a number column, rounded once.

    Example: `sw.mean("seconds")`
    """
    return _given(Mean(column), where)


@checked_call
def variance(column: str, *, population: bool = False, where: str | None = None) -> Aggregate:
    """Exact variance of a number column, rounded once: SQL's VAR_SAMP, or VAR_POP of a population.

    Example: `sw.variance("seconds")`
    """
    return _given(Variance(column, population), where)


@checked_call
def stddev(column: str, *, population: bool = False, where: str | None = None) -> Aggregate:
    """Square root of the exact variance, rounded once: SQL's STDDEV_SAMP, or STDDEV_POP of a
    population.

    Example: `sw.stddev("price", population=True)`
    """
    return _given(Stddev(column, population), where)


@checked_call
def skewness(column: str, *, where: str | None = None) -> Aggregate:
    """Population skewness of a number column, as Spark defines it, exact and rounded once.

    Example: `sw.skewness("stars")`
    """
    return _given(Skewness(column), where)


@checked_call
def kurtosis(column: str, *, where: str | None = None) -> Aggregate:
    """Population excess kurtosis of a number column, as Spark defines it, exact and rounded once.

    Example: `sw.kurtosis("seconds")`
    """
    return _given(Kurtosis(column), where)


@checked_call
def covariance(x: str, y: str, *, population: bool = False, where: str | None = None) -> Aggregate:
    """Exact covariance of two number columns, rounded once: SQL's COVAR_SAMP, or COVAR_POP of a
    population.

    Example: `sw.covariance("stars", "seconds")`
    """
    return _given(Covariance(x, y, population), where)


@checked_call
def correlation(x: str, y: str, *, where: str | None = None) -> Aggregate:
    """Pearson's correlation of two number columns, exact and rounded once: SQL's CORR.

    Example: `sw.correlation("stars", "seconds")`
    """
    return _given(Correlation(x, y), where)


@checked_call
def linear_trend(
    column: str, *, over: str | None = None, output: str = "slope", where: str | None = None
) -> Aggregate:
    """The line of least squares of a number column over event time in seconds, or over a second
    column.

    output: `slope`, `intercept` or `r2`; the three share one partial. SQL's REGR_SLOPE(column,
    over) and so on.

    Example: `sw.linear_trend("seconds", over="stars")`
    """
    return _given(LinearTrend(column, over, output), where)


@checked_call
def min(column: str, *, where: str | None = None) -> Aggregate:
    """The least value; text by its UTF-8 bytes.

    Example: `sw.min("song")`
    """
    return _given(Min(column), where)


@checked_call
def max(column: str, *, where: str | None = None) -> Aggregate:
    """The greatest value; text by its UTF-8 bytes.

    Example: `sw.max("price")`
    """
    return _given(Max(column), where)


@checked_call
def argmin(payload: str, *, by: str, where: str | None = None) -> Aggregate:
    """The payload of the event with the least `by`, the earliest of several.

    Example: `sw.argmin("song", by="price")`
    """
    return _given(ArgMin(payload, by), where)


@checked_call
def argmax(payload: str, *, by: str, where: str | None = None) -> Aggregate:
    """The payload of the event with the greatest `by`, the earliest of several.

    Example: `sw.argmax("song", by="seconds")`
    """
    return _given(ArgMax(payload, by), where)


@checked_call
def top_k(payload: str, *, by: str, k: int, where: str | None = None) -> Aggregate:
    """The k events of greatest `by`: list<struct<by, payload>>, greatest first.

    Example: `sw.top_k("song", by="seconds", k=2)`
    """
    return _given(TopK(payload, by, k), where)


@checked_call
def bottom_k(payload: str, *, by: str, k: int, where: str | None = None) -> Aggregate:
    """The k events of least `by`: list<struct<by, payload>>, least first.

    Example: `sw.bottom_k("song", by="stars", k=2)`
    """
    return _given(BottomK(payload, by, k), where)


@checked_call
def first(column: str, *, where: str | None = None) -> Aggregate:
    """The earliest value that is not null: of the first event by event time, not of the first to
    arrive.

    Example: `sw.first("song")`
    """
    return _given(First(column), where)


@checked_call
def last(column: str, *, where: str | None = None) -> Aggregate:
    """The latest value that is not null: of the last event by event time, not of the last to
    arrive; of one instant the last by topic, partition and offset.

    Example: `sw.last("stars")`
    """
    return _given(Last(column), where)


@checked_call
def first_k(column: str, *, k: int, where: str | None = None) -> Aggregate:
    """The values, not null, of the k earliest events: a list, oldest first.

    Example: `sw.first_k("song", k=2)`
    """
    return _given(FirstK(column, k), where)


@checked_call
def last_k(column: str, *, k: int, where: str | None = None) -> Aggregate:
    """The values, not null, of the k latest events: a list, newest first.

    Example: `sw.last_k("song", k=3)`
    """
    return _given(LastK(column, k), where)


@checked_call
def last_k_distinct(column: str, *, k: int, where: str | None = None) -> Aggregate:
    """The k distinct values that were seen last: a list, newest first.

    Example: `sw.last_k_distinct("song", k=3)`
    """
    return _given(LastKDistinct(column, k), where)


@checked_call
def distinct_count(
    column: str, *, threshold: int = 256, precision: int = 12, where: str | None = None
) -> Aggregate:
    """Number of distinct values: exact up to `threshold`, beyond it HyperLogLog's estimate.

    Example: `sw.distinct_count("song")`
    """
    return _given(DistinctCount(column, threshold, precision), where)


@checked_call
def bloom(
    column: str, *, capacity: int, error: float = 0.01, where: str | None = None
) -> Aggregate:
    """Tells whether the value that a reader asks for was seen, of up to `capacity` values;
    strangers are taken for members with a probability of at most `error`.

    Example: `sw.bloom("song", capacity=1_000)`
    """
    return _given(Bloom(column, capacity, error), where)


@checked_call
def bloom_fill(
    column: str, *, capacity: int, error: float = 0.01, where: str | None = None
) -> Aggregate:
    """The share of bits that are set in the filter of `bloom` with the same parameters.

    Example: `sw.bloom_fill("song", capacity=1_000)`
    """
    return _given(BloomFill(column, capacity, error), where)


@checked_call
def cuckoo(
    column: str, *, capacity: int, error: float = 0.01, where: str | None = None
) -> Aggregate:
    """Answers as `bloom`, by sorted fingerprints: 4 bytes a value, smaller where few are seen or
    the error is small.

    Example: `sw.cuckoo("song", capacity=1_000)`
    """
    return _given(Cuckoo(column, capacity, error), where)


@checked_call
def top_k_frequent(
    column: str, *, k: int, capacity: int = 1_000, error: float = 0.005, where: str | None = None
) -> Aggregate:
    """The k values that came most often, their counts, and how far these may be off.

    Exact up to `capacity` distinct values; beyond it counts may be too high, by a share `error` of
    all events.

    Example: `sw.top_k_frequent("song", k=2)`
    """
    return _given(TopKFrequent(column, k, capacity, error), where)


@checked_call
def quantiles(
    column: str,
    *,
    q: Sequence[float],
    threshold: int = 256,
    error: float = 0.01,
    where: str | None = None,
) -> Aggregate:
    """For each share q the least value that so many values do not exceed: a list of doubles.

    Exact up to `threshold` distinct values; beyond it within a share `error` of the value
    (DDSketch).

    Example: `sw.quantiles("seconds", q=[0.5, 0.9])`
    """
    return _given(Quantiles(column, listed(q, "q", "[0.5, 0.9]"), threshold, error), where)


@checked_call
def decay_sum(column: str, *, half_life: str, where: str | None = None) -> Aggregate:
    """Exact sum in which a value weighs half after each `half_life` of age at the window's end.

    Example: `sw.decay_sum("seconds", half_life="5m")`
    """
    return _given(DecaySum(half_life, column), where)


@checked_call
def decay_count(
    column: str | None = None, *, half_life: str, where: str | None = None
) -> Aggregate:
    """Number of events (with a column, of values not null), each of which weighs half after each
    `half_life`.

    Example: `sw.decay_count(half_life="5m")`
    """
    return _given(DecayCount(half_life, column), where)


@checked_call
def ordered(
    init: Callable[[], Any],
    step: Callable[[Any, Any], Any],
    finish: Callable[[Any], Any],
    *,
    columns: Sequence[str],
    output: str,
    cap: int = 1_000,
    policy: str = "refuse",
    where: str | None = None,
) -> Aggregate:
    """finish(step(… step(init(), first event) …, last event)) over the events in their total order.

    An event is a dict of `columns`; the functions are plain ones of the project's module that
    compute from their arguments alone, and travel as text in the definition. output: long, double,
    boolean or string. Beyond `cap` events null with the error `too_many_events` (policy "refuse"),
    or of the latest `cap` (policy "newest").

    Example: `sw.ordered(nothing, rise, rises, columns=["stars"], output="long")`
    """
    source = source_of((init, step, finish), (0, 2, 1))
    names = (init.__name__, step.__name__, finish.__name__)
    read = listed(columns, "columns", '["seconds"]')
    return _given(Ordered(source, *names, read, output, cap, policy), where)


@checked_call
def span(*, where: str | None = None) -> Aggregate:
    """Microseconds from the first event to the last, of event time; of one event 0.

    Example: `sw.span()`
    """
    return _given(Span(), where)


@checked_call
def bool_and(column: str, *, where: str | None = None) -> Aggregate:
    """Tells whether all values that are not null are true.

    Example: `sw.bool_and("liked")`
    """
    return _given(BoolAnd(column), where)


@checked_call
def bool_or(column: str, *, where: str | None = None) -> Aggregate:
    """Tells whether any value that is not null is true.

    Example: `sw.bool_or("liked")`
    """
    return _given(BoolOr(column), where)


@checked_call
def bucketed(
    aggregate: Aggregate, *, by: str, max_buckets: int = 100, where: str | None = None
) -> Aggregate:
    """One aggregate per value of a second column: list<struct<key, value>>, ascending by key.

    Exact up to `max_buckets` keys; beyond them null with the error `too_many_buckets`. Of an array
    column every element is a key: an event is in the bucket of each different one that it holds.

    Example: `sw.bucketed(sw.sum("seconds"), by="song")`
    """
    return _given(Bucketed(aggregate, by, max_buckets), where)


@checked_call
def count_by(category: str, *, max_categories: int = 100, where: str | None = None) -> Aggregate:
    """Number of events per value of a column: list<struct<key, value>>, ascending by key.

    Of an array column, how many events hold each element (once, however often one holds it).

    Example: `sw.count_by("song")`
    """
    return bucketed(Count(), by=category, max_buckets=max_categories, where=where)


@checked_call
def histogram(
    column: str, *, edges: Sequence[float | Decimal], where: str | None = None
) -> Aggregate:
    """Number of values in each bin [edge, next edge), under the first edge, and from the last on.

    Example: `sw.histogram("seconds", edges=[60, 120, 180])`
    """
    return _given(Histogram(column, listed(edges, "edges", "[0, 10, 100]")), where)


def _given(aggregate: Aggregate, where: str | None) -> Aggregate:
    """The aggregate of the events for which `where`, a condition of row logic, is true; of all
    without one."""
    check_texts(aggregate)
    return aggregate if where is None else only(aggregate, where)


__all__ = [
    "IDENTITY",
    "OVERFLOW",
    "REGISTRY",
    "SEMANTIC",
    "Aggregate",
    "Behind",
    "Columns",
    "Ends",
    "Event",
    "Failed",
    "Field",
    "Finished",
    "Fixed",
    "Invertible",
    "Items",
    "Own",
    "Ragged",
    "RaggedBytes",
    "Rows",
    "Span",
    "State",
    "Texts",
    "argmax",
    "argmin",
    "bloom",
    "bloom_fill",
    "bool_and",
    "bool_or",
    "bottom_k",
    "bucketed",
    "canonicalise",
    "correlation",
    "count",
    "count_by",
    "covariance",
    "cuckoo",
    "decay_count",
    "decay_sum",
    "distinct_count",
    "first",
    "first_k",
    "from_spec",
    "histogram",
    "kurtosis",
    "last",
    "last_k",
    "last_k_distinct",
    "linear_trend",
    "max",
    "mean",
    "min",
    "ordered",
    "quantiles",
    "skewness",
    "span",
    "stddev",
    "sum",
    "top_k",
    "top_k_frequent",
    "variance",
]
