"""A second opinion on every value: from raw events in plain Python, by sums that can be subtracted
where that is exact, else by the laws' brute force; nothing of the algebra has a part in it."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

from slicewise.aggregates import Event
from tests.laws.oracles import aggregates as laws
from tests.laws.oracles.values import OVERFLOW, Error, identity_of, plus

UNIT = 1 << 1074
"""The least double is one part of it: in such parts every double is a whole number."""


class Column:
    """The values of a column that are not null, in the order of their events; `at`: which event
    each is of."""

    def __init__(self, events: Sequence[Event], name: str) -> None:
        present = [
            (i, plus(e.columns[name])) for i, e in enumerate(events) if e.columns[name] is not None
        ]
        self.at = [i for i, _ in present]
        self.values = [value for _, value in present]

    def between(self, first: int, beyond: int) -> tuple[int, int]:
        """The range of values of the events [first, beyond)."""
        return bisect_left(self.at, first), bisect_left(self.at, beyond)

    @cached_property
    def doubles(self) -> bool:
        return bool(self.values) and isinstance(self.values[0], float)

    @cached_property
    def sums(self) -> list[int]:
        """The sums of the first n values, exactly; of doubles in parts of UNIT."""
        whole = (_parts(value) if self.doubles else value for value in self.values)
        return [0, *accumulate(whole)]

    @cached_property
    def trues(self) -> list[int]:
        return [0, *accumulate(int(value) for value in self.values)]


def _parts(value: float) -> int:
    above, below = value.as_integer_ratio()
    return above * (UNIT // below)


class Contained:
    """The events of an entity that an answer contains, in the total order; windows are ranges of
    them."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = sorted(events, key=identity_of)
        self.times = [event.time for event in self.events]
        self._columns: dict[str, Column] = {}
        self._conditions: dict[str, tuple[list[int], Contained]] = {}
        self._values: dict[tuple[Any, ...], Any] = {}

    def between(self, start: int, end: int) -> tuple[int, int]:
        """The range of a half-open interval of event time."""
        return bisect_left(self.times, start), bisect_left(self.times, end)

    def session(self, searched_from: int, end: int, gap: int) -> tuple[int, int]:
        """The range of the session that is open at `end`."""
        first, beyond = self.between(searched_from, end)
        after, at = end, beyond
        while at > first and after - self.times[at - 1] < gap:
            at -= 1
            after = self.times[at]
        return at, beyond

    def column(self, name: str) -> Column:
        if name not in self._columns:
            self._columns[name] = Column(self.events, name)
        return self._columns[name]

    def value(self, key: str, aggregate: Any, first: int, beyond: int, end: int) -> Any:
        """The answer of a bound aggregate, named by `key`, over a range of a window that ends
        there; or an `Error`."""
        question = (key, first, beyond, end if "half_life" in key else None)
        if question not in self._values:
            self._values[question] = self._counted_out(aggregate, first, beyond, end)
        return self._values[question]

    def _counted_out(self, aggregate: Any, first: int, beyond: int, end: int) -> Any:
        if aggregate.kind == "where":
            at, chosen = self._only(aggregate.column)
            return chosen._counted_out(
                aggregate.aggregate, bisect_left(at, first), bisect_left(at, beyond), end
            )
        quick = QUICK.get(aggregate.kind)
        result = NotImplemented if quick is None else quick(self, aggregate, first, beyond)
        if result is not NotImplemented:
            return result
        return laws.expected(aggregate, self.events[first:beyond], end)

    def _only(self, condition: str) -> tuple[list[int], Contained]:
        """The events for which a condition is true, and which of all events they are."""
        if condition not in self._conditions:
            at = [i for i, event in enumerate(self.events) if event.columns[condition] is True]
            self._conditions[condition] = at, Contained([self.events[i] for i in at])
        return self._conditions[condition]


Quick = Callable[[Contained, Any, int, int], Any]


def _count(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    if aggregate.column is None:
        return beyond - first
    a, b = contained.column(aggregate.column).between(first, beyond)
    return b - a


def _sum(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    if a == b:
        return None
    total = column.sums[b] - column.sums[a]
    if column.doubles:
        return _double(total, UNIT)
    return total if -(2**63) <= total < 2**63 else Error(OVERFLOW)


def _mean(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    total = column.sums[b] - column.sums[a]
    return None if a == b else _double(total, (b - a) * (UNIT if column.doubles else 1))


def _double(above: int, below: int) -> float | Error:
    try:
        return above / below + 0.0  # Python rounds the quotient of whole numbers once, half to even
    except OverflowError:
        return Error(OVERFLOW)


def _extreme(choose: Callable[..., Any]) -> Quick:
    def extreme(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
        column = contained.column(aggregate.column)
        a, b = column.between(first, beyond)
        return choose(column.values[a:b], default=None)

    return extreme


def _ranked(choose: Callable[..., Any]) -> Quick:
    def ranked(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
        column = contained.column(aggregate.by)
        a, b = column.between(first, beyond)
        if a == b:
            return None
        event = contained.events[column.at[column.values.index(choose(column.values[a:b]), a, b)]]
        return plus(event.columns[aggregate.payload])

    return ranked


def _top(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.by)
    a, b = column.between(first, beyond)
    if any(isinstance(value, str | bool) for value in column.values[:1]):
        return NotImplemented
    sign = -1 if aggregate.kind == "top_k" else 1
    best = heapq.nsmallest(aggregate.k, range(a, b), key=lambda i: (sign * column.values[i], i))
    results = [
        {
            "by": column.values[i],
            "payload": plus(contained.events[column.at[i]].columns[aggregate.payload]),
        }
        for i in best
    ]
    return results or None


def _newest(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    if aggregate.kind == "last":
        return column.values[b - 1] if b > a else None
    return column.values[max(a, b - aggregate.k) : b][::-1] or None


def _oldest(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    if aggregate.kind == "first":
        return column.values[a] if b > a else None
    return column.values[a : min(b, a + aggregate.k)] or None


def _truth(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    true = column.trues[b] - column.trues[a]
    return None if a == b else true == b - a if aggregate.kind == "bool_and" else true > 0


def _distinct(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    values = set(column.values[a:b])
    size = sum(len(value.encode()) for value in values if isinstance(value, str))
    exact = len(values) <= aggregate.threshold and size <= 1 << aggregate.precision
    return len(values) if exact else NotImplemented


def _quantiles(contained: Contained, aggregate: Any, first: int, beyond: int) -> Any:
    column = contained.column(aggregate.column)
    a, b = column.between(first, beyond)
    values = sorted(float(value) for value in column.values[a:b])
    if len(set(values)) > aggregate.threshold:
        return NotImplemented
    ranks = [max(0, math.ceil(Fraction(repr(q)) * len(values)) - 1) for q in aggregate.q]
    return [values[rank] for rank in ranks] if values else None


def _span(contained: Contained, _: Any, first: int, beyond: int) -> Any:
    return contained.times[beyond - 1] - contained.times[first] if beyond > first else None


QUICK: dict[str, Quick] = {
    "count": _count,
    "sum": _sum,
    "mean": _mean,
    "min": _extreme(min),
    "max": _extreme(max),
    "argmin": _ranked(min),
    "argmax": _ranked(max),
    "top_k": _top,
    "bottom_k": _top,
    "last": _newest,
    "last_k": _newest,
    "first": _oldest,
    "first_k": _oldest,
    "bool_and": _truth,
    "bool_or": _truth,
    "distinct_count": _distinct,
    "quantiles": _quantiles,
    "span": _span,
}
"""Kinds whose windows follow from sums and ranges of the events at hand; NotImplemented: not of
these events."""
