"""Results of every aggregate by brute force over a list of events; shares no code with the
algebra."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa

from slicewise.aggregates import Aggregate, Event
from tests.laws.oracles import sketches
from tests.laws.oracles.values import (
    OVERFLOW,
    Error,
    identity_of,
    nearest_double,
    not_finite,
    plus,
    rank_of,
    values_of,
)
from tests.support.oracles import moments


def expected(aggregate: Aggregate, events: Sequence[Event], end_us: int = 0) -> Any:
    """The finished value of a window that ends there, or an `Error`."""
    if aggregate.kind in ENDED:
        return ENDED[aggregate.kind](aggregate, events, end_us)
    return ORACLES[aggregate.kind](aggregate, events)


def _count(aggregate: Any, events: Sequence[Event]) -> int:
    return len(events) if aggregate.column is None else len(values_of(events, aggregate.column))


def _as_decimal(exact: Fraction, kind: pa.DataType) -> Decimal | Error:
    scaled = abs(exact) * 10**kind.scale + Fraction(1, 2)
    unscaled = scaled.numerator // scaled.denominator
    if len(str(unscaled)) > kind.precision:
        return Error(OVERFLOW)
    with decimal.localcontext(prec=100):
        value: Decimal = Decimal(unscaled if exact >= 0 else -unscaled) / 10**kind.scale
        return value


def _sum(aggregate: Any, events: Sequence[Event]) -> Any:
    values = values_of(events, aggregate.column)
    if not values:
        return None
    odd = not_finite(values)
    if odd is not None:
        return odd
    total = sum((Fraction(value) for value in values), Fraction(0))
    kind = aggregate.types[0]
    if pa.types.is_decimal(kind):
        return _as_decimal(total, pa.decimal128(min(38, kind.precision + 10), kind.scale))
    if pa.types.is_floating(kind):
        return nearest_double(total)
    return int(total) if -(2**63) <= total <= 2**63 - 1 else Error(OVERFLOW)


def _mean(aggregate: Any, events: Sequence[Event]) -> Any:
    values = values_of(events, aggregate.column)
    if not values:
        return None
    odd = not_finite(values)
    if odd is not None:
        return odd
    mean = sum((Fraction(value) for value in values), Fraction(0)) / len(values)
    kind = aggregate.types[0]
    if pa.types.is_decimal(kind):
        return _as_decimal(
            mean, pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))
        )
    return nearest_double(mean)


def _extreme(choose: Callable[..., Any]) -> Callable[[Any, Sequence[Event]], Any]:
    return lambda aggregate, events: choose(
        values_of(events, aggregate.column), key=rank_of, default=None
    )


def _ranked(largest: bool, single: bool) -> Callable[[Any, Sequence[Event]], Any]:
    def rank(aggregate: Any, events: Sequence[Event]) -> Any:
        left = [event for event in events if event.columns[aggregate.by] is not None]
        chosen: list[Event] = []
        while left and len(chosen) < (1 if single else aggregate.k):
            keys = [rank_of(event.columns[aggregate.by]) for event in left]
            best = max(keys) if largest else min(keys)
            winner = min(
                (e for e, key in zip(left, keys, strict=True) if key == best), key=identity_of
            )
            left.remove(winner)
            chosen.append(winner)
        entries = [
            {
                "by": plus(event.columns[aggregate.by]),
                "payload": plus(event.columns[aggregate.payload]),
            }
            for event in chosen
        ]
        if not entries:
            return None
        return entries[0]["payload"] if single else entries

    return rank


def _last(aggregate: Any, events: Sequence[Event]) -> Any:
    present = sorted(
        (e for e in events if e.columns[aggregate.column] is not None),
        key=identity_of,
        reverse=True,
    )
    return [plus(event.columns[aggregate.column]) for event in present[: aggregate.k]] or None


def _first(aggregate: Any, events: Sequence[Event]) -> Any:
    present = sorted(
        (e for e in events if e.columns[aggregate.column] is not None), key=identity_of
    )
    return [plus(event.columns[aggregate.column]) for event in present[: aggregate.k]] or None


def _outermost(choose: Callable[..., Any]) -> Callable[[Any, Sequence[Event]], Any]:
    def value(aggregate: Any, events: Sequence[Event]) -> Any:
        present = [e for e in events if e.columns[aggregate.column] is not None]
        return plus(choose(present, key=identity_of).columns[aggregate.column]) if present else None

    return value


def _last_distinct(aggregate: Any, events: Sequence[Event]) -> Any:
    results: list[Any] = []
    for event in sorted(events, key=identity_of, reverse=True):
        value = event.columns[aggregate.column]
        if value is not None and value not in results:
            results.append(value)
    return results[: aggregate.k] or None


def _all(aggregate: Any, events: Sequence[Event]) -> bool | None:
    values = values_of(events, aggregate.column)
    return all(values) if values else None


def _some(aggregate: Any, events: Sequence[Event]) -> bool | None:
    values = values_of(events, aggregate.column)
    return any(values) if values else None


def _where(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    return expected(
        aggregate.aggregate, [e for e in events if e.columns[aggregate.column] is True], end_us
    )


def _bucketed(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    keyed = []
    for event in events:
        value = event.columns[aggregate.by]
        keyed += [(key, event) for key in (set(value) if isinstance(value, list) else [value])]
    results: list[Any] = []
    for key in sorted({key for key, _ in keyed if key is not None}, key=rank_of):
        value = expected(
            aggregate.aggregate, [event for value_key, event in keyed if value_key == key], end_us
        )
        if isinstance(value, Error):
            results.append(value)
        else:
            results.append({"key": key, "value": value})
    if len(results) > aggregate.max_buckets:
        return Error("too_many_buckets")
    return next((item for item in results if isinstance(item, Error)), results or None)


def _histogram(aggregate: Any, events: Sequence[Event]) -> Any:
    edges = [
        Fraction(float.fromhex(e)) if isinstance(e, str) and "0x" in e else Fraction(e)
        for e in aggregate.edges
    ]
    values = values_of(events, aggregate.column)
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    exact = [Fraction(value) for value in values if value not in odd]
    under = odd.count(-math.inf)
    return {
        "under": under + sum(value < edges[0] for value in exact),
        "bins": [sum(low <= value < high for value in exact) for low, high in pairwise(edges)],
        "over": len(odd) - under + sum(value >= edges[-1] for value in exact),
    }


def _ordered_value(aggregate: Any, events: Sequence[Event]) -> Any:
    """By the functions of its own text, event after event."""
    kept = sorted(events, key=identity_of)
    if aggregate.policy == "newest":
        kept = kept[-aggregate.cap :]
    if len(kept) > aggregate.cap:
        return Error("too_many_events")
    made: dict[str, Any] = {}
    exec(aggregate.source, made)
    state = made[aggregate.init]()
    for event in kept:
        state = made[aggregate.step](
            state, {name: plus(event.columns[name]) for name in aggregate.columns}
        )
    return made[aggregate.final](state) if kept else None


def _own(aggregate: Any, events: Sequence[Event]) -> Any:
    """The results that the classes of the examples are meant to give."""
    rows = [tuple(event.columns[name] for name in aggregate.columns) for event in events]
    rows = [row for row in rows if None not in row]
    if not rows:
        return None
    first = [row[0] for row in rows]
    if aggregate.own.name == "Power":
        total = sum(x ** aggregate.parameters["degree"] for x in first)
        return f"{total} {'odd' if sum(x % 2 for x in first) % 2 else 'even'} {len(first)}"
    if aggregate.own.name == "Longest":
        lengths = sorted(map(len, first))
        return lengths[-1] + 1000 * sum(lengths[-3:])
    numbers = sorted(float(x) for x in first if x == x)
    return plus(numbers[-1] - numbers[0]) if numbers and numbers[0] < numbers[-1] else None


def _decayed(aggregate: Any, values: Sequence[tuple[Any, int]], end_us: int) -> Any:
    """The sum of (value, time) by weight, in a unit of the earliest value's."""
    odd = not_finite([value for value, _ in values])
    if odd is not None:
        return odd
    us = (
        int(aggregate.half_life[:-1])
        * {"m": 60, "h": 3_600, "d": 86_400}[aggregate.half_life[-1]]
        * 1_000_000
    )
    steps = [time // us for _, time in values]
    if max(steps) - min(steps) > 1_024:
        return Error("too_long")
    total = sum(
        (Fraction(v) * _factor(t, us) * 2 ** (t // us - min(steps)) for v, t in values), Fraction(0)
    )
    total /= _factor(end_us, us)
    octave = min(steps) - end_us // us
    if abs(octave) > 40_000:  # the quotient is no double, whatever the values are
        return 0.0 if octave < 0 or total == 0 else Error(OVERFLOW)
    result = nearest_double(total * Fraction(2) ** octave)
    return result if isinstance(result, Error) else result + 0.0


def _factor(time: int, us: int) -> Fraction:
    """2^(part of a half-life), to 33 bits of it: three powers rounded to 63 bits, products cut to
    as many."""
    bits, factor = time % us * 2**33 // us, 2**63
    for position in (11, 22, 33):
        factor = factor * _power(bits >> (33 - position) & 2047, position) >> 63
    return Fraction(factor, 2**63)


@cache
def _power(part: int, position: int) -> int:
    """2^(part / 2^place), to 63 bits."""
    with decimal.localcontext(prec=60):
        power = Decimal(2) ** (Decimal(part) / 2**position)
        return int((power * 2**63).to_integral_value())


def _decay_sum(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    values = [
        (plus(e.columns[aggregate.column]), e.time)
        for e in events
        if e.columns[aggregate.column] is not None
    ]
    return _decayed(aggregate, values, end_us) if values else None


def _decay_count(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    present = [
        e for e in events if aggregate.column is None or e.columns[aggregate.column] is not None
    ]
    return _decayed(aggregate, [(1, event.time) for event in present], end_us) if present else 0.0


ENDED: dict[str, Callable[[Any, Sequence[Event], int], Any]] = {
    "bucketed": _bucketed,
    "where": _where,
    "decay_count": _decay_count,
    "decay_sum": _decay_sum,
}


def _moment(aggregate: Any, events: Sequence[Event]) -> Any:
    given = {name: value for name, value in aggregate.spec().items() if name != "kind"}
    try:
        return moments.BY_KIND[aggregate.kind](events, **given)
    except moments.TooLarge:
        return Error(OVERFLOW)


def _duration(_: Any, events: Sequence[Event]) -> int | Error | None:
    times = sorted(event.time for event in events)
    if not times:
        return None
    return times[-1] - times[0] if times[-1] - times[0] < 2**63 else Error(OVERFLOW)


ORACLES: dict[str, Callable[[Any, Sequence[Event]], Any]] = {
    "count": _count,
    "sum": _sum,
    "mean": _mean,
    "min": _extreme(min),
    "max": _extreme(max),
    "argmin": _ranked(largest=False, single=True),
    "argmax": _ranked(largest=True, single=True),
    "top_k": _ranked(largest=True, single=False),
    "bottom_k": _ranked(largest=False, single=False),
    "first": _outermost(min),
    "ordered": _ordered_value,
    "own": _own,
    "first_k": _first,
    "last": _outermost(max),
    "last_k": _last,
    "last_k_distinct": _last_distinct,
    "distinct_count": sketches.distinct,
    "quantiles": sketches.quantiles,
    "bloom": sketches.bloom,
    "bloom_fill": sketches.bloom_fill,
    "cuckoo": sketches.cuckoo,
    "top_k_frequent": sketches.frequent,
    "bool_and": _all,
    "bool_or": _some,
    "histogram": _histogram,
    **dict.fromkeys(moments.BY_KIND, _moment),
    "span": _duration,
}
