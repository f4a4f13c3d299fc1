"""Answers by brute force over raw events: quadratic, obvious, and sharing no code with the product.

Numbers are added as fractions and rounded once; order is decided by plain tuples. Nothing here
imports slicewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

from tests.support.oracles import moments

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(frozen=True)
class OracleEvent:
    """One event of the raw log: its time in microseconds, its identity, and its columns as the
    producer meant them."""

    time: int
    topic: str
    partition: int
    offset: int
    columns: Mapping[str, Any]

    @property
    def order(self) -> tuple[int, str, int, int]:
        return (self.time, self.topic, self.partition, self.offset)


def as_double(exact: Fraction) -> float | None:
    """The double nearest to an exact number, half to even; none when it lies beyond the largest."""
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return None


def _present(events: Iterable[OracleEvent], column: str) -> list[OracleEvent]:
    return [e for e in events if e.columns.get(column) is not None]


def count(events: Sequence[OracleEvent], column: str | None = None) -> int:
    return len(events) if column is None else len(_present(events, column))


def sum_(events: Sequence[OracleEvent], column: str) -> float | int | None:
    values = [e.columns[column] for e in _present(events, column)]
    if not values:
        return None
    exact = sum((Fraction(v) for v in values), Fraction(0))
    return int(exact) if all(isinstance(v, int) for v in values) else as_double(exact)


def mean(events: Sequence[OracleEvent], column: str) -> float | None:
    values = [Fraction(e.columns[column]) for e in _present(events, column)]
    return as_double(sum(values, Fraction(0)) / len(values)) if values else None


def min_(events: Sequence[OracleEvent], column: str) -> Any:
    return min((e.columns[column] for e in _present(events, column)), default=None)


def max_(events: Sequence[OracleEvent], column: str) -> Any:
    return max((e.columns[column] for e in _present(events, column)), default=None)


def _ranked(events: Sequence[OracleEvent], by: str, largest: bool) -> list[OracleEvent]:
    # Two stable sorts: the earliest in the total order first, then by value, so that ties keep the
    # earliest.
    ordered = sorted(_present(events, by), key=lambda e: e.order)
    return sorted(ordered, key=lambda e: e.columns[by], reverse=largest)


def _reverse_is_stable() -> None:
    # Python keeps the order of equal elements also with reverse=True; the ranking above rests on
    # it.
    assert sorted([(1, "a"), (1, "b")], key=lambda p: p[0], reverse=True) == [(1, "a"), (1, "b")]


_reverse_is_stable()


def argmax(events: Sequence[OracleEvent], payload: str, by: str) -> Any:
    ranked = _ranked(events, by, largest=True)
    return ranked[0].columns.get(payload) if ranked else None


def argmin(events: Sequence[OracleEvent], payload: str, by: str) -> Any:
    ranked = _ranked(events, by, largest=False)
    return ranked[0].columns.get(payload) if ranked else None


def top_k(
    events: Sequence[OracleEvent], payload: str, by: str, k: int
) -> list[tuple[Any, Any]] | None:
    """(by, payload) of the k largest; none when there is no event with a value."""
    ranked = _ranked(events, by, largest=True)[:k]
    return [(e.columns[by], e.columns.get(payload)) for e in ranked] or None


def last_k(events: Sequence[OracleEvent], column: str, k: int) -> list[Any] | None:
    """The values of the k latest events, newest first; none when there is none."""
    latest = sorted(_present(events, column), key=lambda e: e.order, reverse=True)[:k]
    return [e.columns[column] for e in latest] or None


def first_k(events: Sequence[OracleEvent], column: str, k: int) -> list[Any] | None:
    """The values of the k earliest events, oldest first; none when there is none."""
    return [
        e.columns[column] for e in sorted(_present(events, column), key=lambda e: e.order)[:k]
    ] or None


def first(events: Sequence[OracleEvent], column: str) -> Any:
    result = first_k(events, column, 1)
    return result[0] if result else None


def last(events: Sequence[OracleEvent], column: str) -> Any:
    result = last_k(events, column, 1)
    return result[0] if result else None


def last_k_distinct(events: Sequence[OracleEvent], column: str, k: int) -> list[Any] | None:
    """The k values that were seen last, newest first; none when there is none."""
    results: list[Any] = []
    for value in last_k(events, column, len(events)) or []:
        if value not in results:
            results.append(value)
    return results[:k] or None


def top_k_frequent(events: Sequence[OracleEvent], column: str, k: int) -> dict[str, Any] | None:
    """The k values that came most often, equals by value, while there are few enough to count them
    all."""
    values = [e.columns[column] for e in _present(events, column)]
    ranked = sorted(
        set(values), key=lambda v: (-values.count(v), v.encode() if isinstance(v, str) else v)
    )
    items = [{"value": v, "count": values.count(v)} for v in ranked[:k]]
    return {"items": items, "error": 0, "miss": 0.0} if items else None


def quantiles(events: Sequence[OracleEvent], column: str, q: Sequence[float]) -> list[float] | None:
    """For each q the least value that at least so large a share of the values do not exceed."""
    values = sorted(float(e.columns[column]) for e in _present(events, column))
    return (
        [
            next(v for i, v in enumerate(values) if (i + 1) >= Fraction(str(s)) * len(values))
            for s in q
        ]
        if values
        else None
    )


def distinct_count(events: Sequence[OracleEvent], column: str) -> int:
    return len({e.columns[column] for e in _present(events, column)})


def bool_and(events: Sequence[OracleEvent], column: str) -> bool | None:
    values = [e.columns[column] for e in _present(events, column)]
    return all(values) if values else None


def bool_or(events: Sequence[OracleEvent], column: str) -> bool | None:
    values = [e.columns[column] for e in _present(events, column)]
    return any(values) if values else None


def decay_sum(events: Sequence[OracleEvent], column: str, half_life: str, end: int) -> float | None:
    """The values of each event, by the weight of its age; rounded once."""
    present = [(e.time, Fraction(e.columns[column])) for e in _present(events, column)]
    return _decayed(present, half_life, end) if present else None


def decay_count(
    events: Sequence[OracleEvent], column: str | None, half_life: str, end: int
) -> float | None:
    present = events if column is None else _present(events, column)
    return _decayed([(e.time, Fraction(1)) for e in present], half_life, end)


def rises(events: Sequence[OracleEvent], column: str) -> int | None:
    """The number of values greater than the one before them; nulls are passed over, no events give
    none."""
    values = [e.columns[column] for e in sorted(_present(events, column), key=lambda e: e.order)]
    return sum(b > a for a, b in pairwise(values)) if events else None


def doubles(events: Sequence[OracleEvent], column: str) -> float | None:
    """The greatest ratio of a value to the one before it, of those that at least double; 0 where
    none does."""
    values = [e.columns[column] for e in sorted(_present(events, column), key=lambda e: e.order)]
    return (
        max([b / a for a, b in pairwise(values) if a > 0 and b >= 2 * a], default=0.0)
        if events
        else None
    )


def reach(events: Sequence[OracleEvent], column: str) -> float | None:
    """The distance from the least to the greatest, where they are not alike."""
    values = sorted(e.columns[column] for e in _present(events, column))
    return values[-1] - values[0] if values and values[0] < values[-1] else None


def power(events: Sequence[OracleEvent], column: str, degree: int) -> str | None:
    """The sum of a power of whole numbers, and whether their number is odd."""
    values = [e.columns[column] for e in _present(events, column)]
    return (
        f"{sum(n**degree for n in values)} {'odd' if len(values) % 2 else 'even'}"
        if values
        else None
    )


def discount(events: Sequence[OracleEvent], price: str, pieces: str, beyond: float) -> str | None:
    """A tenth of what each price is beyond another, in cents of each piece."""
    both = [e for e in _present(events, price) if e.columns[pieces] is not None]
    cents = sum(
        round(min(max(e.columns[price] - beyond, 0.0), 1e9) * 10) * e.columns[pieces] for e in both
    )
    return f"{cents} cents" if both else None


def _decayed(present: Sequence[tuple[int, Fraction]], half_life: str, end: int) -> float | None:
    us = int(half_life[:-1]) * {"s": 1_000_000, "m": MINUTE, "h": HOUR, "d": DAY}[half_life[-1]]
    last = end // us  # weights in units of that octave, so that they stay small numbers
    exact = sum((value * _weight(time, us, last) for time, value in present), Fraction(0))
    return as_double(exact / _weight(end, us, last))


def _weight(time: int, us: int, last: int) -> Fraction:
    """2^(time / us - last) as docs/format.md has it: 33 bits of the part of a half-life, by three
    powers."""
    bits, factor = time % us * 2**33 // us, 2**63
    for topic_partition in (1, 2, 3):
        factor = factor * _power(bits >> (11 * (3 - topic_partition)) & 2047, topic_partition) >> 63
    return factor * Fraction(2) ** (time // us - last - 63)


@cache
def _power(part: int, topic_partition: int) -> int:
    with localcontext(prec=50):
        return int(
            (
                Decimal(2) ** (Decimal(part) / 2 ** (11 * topic_partition)) * 2**63
            ).to_integral_value()
        )


def where(
    events: Sequence[OracleEvent],
    holds: Callable[[Mapping[str, Any]], bool],
    value: Callable[[Sequence[OracleEvent]], Any],
) -> Any:
    """The value of the events for which it holds."""
    return value([e for e in events if holds(e.columns)])


def bucketed(
    events: Sequence[OracleEvent],
    by: str,
    value: Callable[[Sequence[OracleEvent]], Any],
    most: int = 100,
) -> list[dict[str, Any]] | None:
    """Key and value of each key, ascending, text by its UTF-8 bytes; none of too many. A list holds
    several keys."""
    keyed = [
        (set(of) if isinstance(of := e.columns[by], list) else {of}, e)
        for e in _present(events, by)
    ]
    every = {key for keys, _ in keyed for key in keys} - {None}
    if len(every) > most:
        return None
    ordered = sorted(every, key=lambda key: key.encode() if isinstance(key, str) else key)
    return [
        {"key": key, "value": value([e for keys, e in keyed if key in keys])} for key in ordered
    ] or None


def histogram(events: Sequence[OracleEvent], column: str, edges: Sequence[float]) -> dict[str, Any]:
    """The numbers of values below the first edge, from each edge to the next, and from the last
    on."""
    values = [e.columns[column] for e in _present(events, column)]
    bins = [sum(edge <= value for edge in edges) for value in values]
    topic_partitions = [bins.count(topic_partition) for topic_partition in range(len(edges) + 1)]
    return {
        "under": topic_partitions[0],
        "bins": topic_partitions[1:-1],
        "over": topic_partitions[-1],
    }


def _moment(kind: str) -> Callable[..., float | None]:
    def judged(events: Sequence[OracleEvent], *arguments: Any, **given: Any) -> float | None:
        try:
            return moments.BY_KIND[kind](events, *arguments, **given)
        except moments.TooLarge:
            return None

    return judged


def span(events: Sequence[OracleEvent]) -> int | None:
    times = [e.time for e in events]
    return max(times) - min(times) if times else None


BY_KIND: dict[str, Callable[..., Any]] = {
    "bucketed": bucketed,
    "count": count,
    "sum": sum_,
    "histogram": histogram,
    "mean": mean,
    "min": min_,
    "max": max_,
    "argmax": argmax,
    "argmin": argmin,
    "reach": reach,
    "power": power,
    "rises": rises,
    "top_k": top_k,
    "first": first,
    "first_k": first_k,
    "last": last,
    "last_k": last_k,
    "last_k_distinct": last_k_distinct,
    "decay_count": decay_count,
    "decay_sum": decay_sum,
    "distinct_count": distinct_count,
    "discount": discount,
    "doubles": doubles,
    "quantiles": quantiles,
    "top_k_frequent": top_k_frequent,
    "bool_and": bool_and,
    "bool_or": bool_or,
    "where": where,
    **{kind: _moment(kind) for kind in moments.BY_KIND},
    "span": span,
}


def inside(events: Iterable[OracleEvent], start: int, end: int) -> list[OracleEvent]:
    """The events of a half-open interval of event time."""
    return [e for e in events if start <= e.time < end]


def contained(
    events: Iterable[OracleEvent],
    base: Mapping[tuple[str, int], int],
    compacted_beyond: Mapping[int, Mapping[tuple[str, int], int]],
) -> list[OracleEvent]:
    """The events that an answer with this base offset vector and these offset vectors of hours must
    hold."""
    return [
        e
        for e in events
        if e.offset
        < max(
            base.get((e.topic, e.partition), 0),
            compacted_beyond.get(e.time // HOUR, {}).get((e.topic, e.partition), 0),
        )
    ]


def session(
    events: Iterable[OracleEvent], searched_from: int, end: int, gap: int
) -> list[OracleEvent]:
    """The session that is open at `end`, of what lies after searched_from: back from its latest
    event."""
    left = sorted((e for e in events if searched_from <= e.time < end), key=lambda e: e.time)
    oracle_events: list[OracleEvent] = []
    after = end
    while left and after - left[-1].time < gap:
        after = left[-1].time
        oracle_events.append(left.pop())
    return oracle_events
