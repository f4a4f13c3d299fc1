"""What every aggregate must finish to, by brute force over a list of events; shares no code with the algebra."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import xxhash

from slicewise.aggregates import Aggregate, Event
from tests.support import moments

OVERFLOW = "overflow"
SEED = 0x736C696365776973
LARGEST = Fraction(int(math.ldexp(1.0, 1000))) * 2**24 * (1 - Fraction(1, 2**53))


class Error(str):
    """A value that is null with this error code."""


def expected(aggregate: Aggregate, events: Sequence[Event], end_us: int = 0) -> Any:
    """The finished value of a window that ends there, or an `Error`."""
    if aggregate.kind in ENDED:
        return ENDED[aggregate.kind](aggregate, events, end_us)
    return ORACLES[aggregate.kind](aggregate, events)


def nearest_double(exact: Fraction) -> float | Error:
    """Half to even, by hand: no float arithmetic before the last, exact, step."""
    if exact == 0:
        return 0.0
    magnitude, exponent = abs(exact), -1074
    while magnitude / Fraction(2) ** exponent >= 2**53:
        exponent += 64
    while exponent > -1074 and magnitude / Fraction(2) ** exponent < 2**52:
        exponent -= 1
    scaled = magnitude / Fraction(2) ** exponent
    whole = scaled.numerator // scaled.denominator
    rest = scaled - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    if whole * Fraction(2) ** exponent > LARGEST:
        return Error(OVERFLOW)
    return math.copysign(math.ldexp(float(whole), exponent), 1 if exact > 0 else -1) + 0.0  # no zero is negative


def _values(events: Sequence[Event], column: str) -> list[Any]:
    found = [event.columns[column] for event in events]
    return [value + 0.0 if isinstance(value, float) else value for value in found if value is not None]


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)  # NaN above every number
    return value.encode() if isinstance(value, str) else value


def _not_finite(values: Sequence[Any]) -> float | None:
    """What IEEE 754 makes of a sum with NaN or infinities in it; None of a finite one."""
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    return sum(odd[1:], odd[0]) if odd else None


def _place(event: Event) -> tuple[int, ...]:
    return (event.time, event.topic_hi, event.topic_lo, event.partition, event.offset)


def _count(aggregate: Any, events: Sequence[Event]) -> int:
    return len(events) if aggregate.column is None else len(_values(events, aggregate.column))


def _as_decimal(exact: Fraction, kind: pa.DataType) -> Decimal | Error:
    scaled = abs(exact) * 10**kind.scale + Fraction(1, 2)
    unscaled = scaled.numerator // scaled.denominator
    if len(str(unscaled)) > kind.precision:
        return Error(OVERFLOW)
    with decimal.localcontext(prec=100):
        value: Decimal = Decimal(unscaled if exact >= 0 else -unscaled) / 10**kind.scale
        return value


def _sum(aggregate: Any, events: Sequence[Event]) -> Any:
    values = _values(events, aggregate.column)
    if not values:
        return None
    odd = _not_finite(values)
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
    values = _values(events, aggregate.column)
    if not values:
        return None
    odd = _not_finite(values)
    if odd is not None:
        return odd
    mean = sum((Fraction(value) for value in values), Fraction(0)) / len(values)
    kind = aggregate.types[0]
    if pa.types.is_decimal(kind):
        return _as_decimal(mean, pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4)))
    return nearest_double(mean)


def _extreme(choose: Callable[..., Any]) -> Callable[[Any, Sequence[Event]], Any]:
    return lambda aggregate, events: choose(_values(events, aggregate.column), key=_key, default=None)


def _ranked(largest: bool, single: bool) -> Callable[[Any, Sequence[Event]], Any]:
    def rank(aggregate: Any, events: Sequence[Event]) -> Any:
        left = [event for event in events if event.columns[aggregate.by] is not None]
        chosen: list[Event] = []
        while left and len(chosen) < (1 if single else aggregate.k):
            keys = [_key(event.columns[aggregate.by]) for event in left]
            best = max(keys) if largest else min(keys)
            winner = min((e for e, key in zip(left, keys, strict=True) if key == best), key=_place)
            left.remove(winner)
            chosen.append(winner)
        entries = [
            {"by": _plus(event.columns[aggregate.by]), "payload": _plus(event.columns[aggregate.payload])}
            for event in chosen
        ]
        if not entries:
            return None
        return entries[0]["payload"] if single else entries

    return rank


def _plus(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def _last(aggregate: Any, events: Sequence[Event]) -> Any:
    held = sorted((e for e in events if e.columns[aggregate.column] is not None), key=_place, reverse=True)
    return [_plus(event.columns[aggregate.column]) for event in held[: aggregate.k]] or None


def _first(aggregate: Any, events: Sequence[Event]) -> Any:
    held = sorted((e for e in events if e.columns[aggregate.column] is not None), key=_place)
    return [_plus(event.columns[aggregate.column]) for event in held[: aggregate.k]] or None


def _outermost(choose: Callable[..., Any]) -> Callable[[Any, Sequence[Event]], Any]:
    def value(aggregate: Any, events: Sequence[Event]) -> Any:
        held = [e for e in events if e.columns[aggregate.column] is not None]
        return _plus(choose(held, key=_place).columns[aggregate.column]) if held else None

    return value


def _last_distinct(aggregate: Any, events: Sequence[Event]) -> Any:
    found: list[Any] = []
    for event in sorted(events, key=_place, reverse=True):
        value = event.columns[aggregate.column]
        if value is not None and value not in found:
            found.append(value)
    return found[: aggregate.k] or None


def _distinct(aggregate: Any, events: Sequence[Event]) -> int:
    kind = aggregate.types[0]
    raw = {_canonical_bytes(value, kind) for value in _values(events, aggregate.column)}
    text = pa.types.is_string(kind) or pa.types.is_decimal(kind)
    if len(raw) <= aggregate.threshold and not (text and sum(map(len, raw)) > 2**aggregate.precision):
        return len(raw)
    registers = [0] * 2**aggregate.precision
    for value in raw:
        bits = format(xxhash.xxh64(value, seed=SEED).intdigest(), "064b")
        index, rest = int(bits[: aggregate.precision], 2), bits[aggregate.precision :]
        registers[index] = max(registers[index], (rest + "1").index("1") + 1)
    return ertl(registers, aggregate.precision)


def _quantiles(aggregate: Any, events: Sequence[Event]) -> Any:
    values = sorted((float(value) for value in _values(events, aggregate.column)), key=_key)
    if not values:
        return None
    ranks = [max(0, math.ceil(Fraction(Decimal(repr(q))) * len(values)) - 1) for q in aggregate.q]
    if len({_key(value) for value in values}) <= aggregate.threshold:
        return [values[rank] for rank in ranks]
    edges = _edges_of_octave(aggregate.error)
    places = sorted({_sketched(value, edges) for value in values})
    lowest = places[-2048:][0]
    found = []
    for rank in ranks:
        place = _sketched(values[rank], edges)
        found.append(None if len(places) > 2048 and place <= lowest else place[1])
    return found


@cache
def _edges_of_octave(error: float) -> tuple[Fraction, ...]:
    """From 1 to 2, at the powers of the (1/n)-th power of 2, rounded up to 52 bits after the point."""
    share = Fraction(Decimal(repr(error))) * (1 - Fraction(1, 2**32))
    n = next(n for n in range(1, 1000) if ((1 + share) / (1 - share)) ** n >= 2)
    edges = []
    for j in range(n + 1):
        low, high = 2**52, 2**53  # the least m of 52 bits after the point with m^n >= 2^j
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if middle**n >= 2 ** (52 * n + j) else (middle + 1, high)
        edges.append(Fraction(low, 2**52))
    return tuple(edges)


@lru_cache(maxsize=100_000)  # the same amounts come in window after window
def _sketched(value: float, edges: tuple[Fraction, ...]) -> tuple[Any, float]:
    """The order of the value's bin, and what that bin answers."""
    if not math.isfinite(value) or value == 0:
        return _key(value), value
    size, octave = abs(Fraction(value)), math.frexp(value)[1] - 1
    unit = Fraction(2) ** octave
    j = max(j for j, edge in enumerate(edges) if edge * unit <= size)
    low, high = edges[j] * unit, edges[j + 1] * unit
    middle = nearest_double(2 * low * high / (low + high))
    assert not isinstance(middle, Error)
    return _key(math.copysign(float(low) or 5e-324, value)), math.copysign(middle, value)


def _splitmix(word: int) -> int:
    """SplitMix64's next value after this state, as its authors' C code has it."""
    z = (word + 0x9E3779B97F4A7C15) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return z ^ (z >> 31)


def _frequent(aggregate: Any, events: Sequence[Event]) -> Any:
    kind = aggregate.types[0]
    counts: dict[bytes, int] = {}
    priorities: dict[bytes, int] = {}
    values: dict[bytes, Any] = {}
    for event in events:
        value = event.columns[aggregate.column]
        if value is None:
            continue
        raw = _canonical_bytes(value, kind)
        hashed = xxhash.xxh64(raw, seed=SEED).intdigest()
        for word in ((event.time + 2**63) % 2**64, *_place(event)[1:]):
            hashed = _splitmix(hashed ^ word)
        counts[raw], values[raw] = counts.get(raw, 0) + 1, value
        priorities[raw] = min(hashed, priorities.get(raw, hashed))
    if not counts:
        return None
    text = pa.types.is_string(kind) or pa.types.is_decimal(kind)
    size = sum(map(len, counts)) if text else 0
    exact = len(counts) <= aggregate.capacity and size <= 256 * aggregate.capacity
    if not exact and text and max(map(len, counts)) > 256:
        return Error("oversized")
    estimates, chosen, error, miss = counts, list(counts), 0, 0.0
    if not exact:
        n = sum(counts.values())
        width = next(
            2**i for i in range(40) if Fraction(str(aggregate.error)) * 2**i >= Fraction("2.718281828459045236")
        )
        error = math.floor(Fraction("2.718281828459045236") * n / width) + 1
        table: dict[tuple[int, int], int] = {}
        cells = {
            raw: [
                (row, _splitmix((xxhash.xxh64(raw, seed=SEED).intdigest() + row * 0x9E3779B97F4A7C15) % 2**64) % width)
                for row in range(4)
            ]
            for raw in counts
        }
        for raw, count in counts.items():
            for cell in cells[raw]:
                table[cell] = table.get(cell, 0) + count
        estimates = {raw: min(table[cell] for cell in cells[raw]) for raw in counts}
        chosen = sorted(counts, key=lambda raw: priorities[raw])[: aggregate.capacity]
    listed = sorted(chosen, key=lambda raw: (-estimates[raw], _key(values[raw])))[: aggregate.k]
    if not exact:
        power = estimates[listed[-1]]
        miss, base = 1.0, (2**64 - 1 - max(priorities[raw] for raw in chosen)) / 2**64
        while power:  # binary powers, from the lowest bit
            miss, base, power = miss * base if power % 2 else miss, base * base, power // 2
    items = [{"value": _plus(values[raw]), "count": estimates[raw]} for raw in listed]
    return {"items": items, "error": error, "miss": miss}


def _seen(aggregate: Any, events: Sequence[Event]) -> set[int]:
    raw = {_canonical_bytes(value, aggregate.types[0]) for value in _values(events, aggregate.column)}
    return {xxhash.xxh64(value, seed=SEED).intdigest() for value in raw}


def _bloom_bits(aggregate: Any, seen: set[int]) -> tuple[int, int, set[int]]:
    """(bits, bits per value, those that are set)."""
    error = Fraction(str(aggregate.error))
    probes = next(k for k in range(1, 64) if Fraction(1, 2**k) <= error)
    bits = math.ceil(Fraction(aggregate.capacity * probes * 15149 // 10000 + 1024, 64)) * 64
    places = {_splitmix((h + i * 0x9E3779B97F4A7C15) % 2**64) % bits for h in seen for i in range(probes)}
    return bits, probes, places


def _bloom(aggregate: Any, events: Sequence[Event]) -> bytes | None:
    seen = _seen(aggregate, events)
    bits, probes, places = _bloom_bits(aggregate, seen)
    if len(seen) <= bits // 64:
        return b"\x00" + b"".join(h.to_bytes(8, "little") for h in sorted(seen)) if seen else None
    full = Fraction(len(places), bits) ** probes > Fraction(str(aggregate.error))
    return (b"\x02" if full else b"\x01") + sum(1 << place for place in places).to_bytes(bits // 8, "little")


def _bloom_fill(aggregate: Any, events: Sequence[Event]) -> float | None:
    seen = _seen(aggregate, events)
    bits, _, places = _bloom_bits(aggregate, seen)
    return len(places) / bits if seen else None


def _cuckoo(aggregate: Any, events: Sequence[Event]) -> bytes | None:
    seen = _seen(aggregate, events)
    width = next(f for f in range(64) if 2**f * Fraction(str(aggregate.error)) >= 8)
    buckets = next(2**i for i in range(64) if 4 * 2**i * Fraction(19, 20) >= aggregate.capacity)
    entries = set()
    for h in seen:
        mark, bucket = h // 2 ** (64 - width), h % buckets
        entries.add(min(bucket, bucket ^ (_splitmix(mark) % buckets)) * 2**width + mark)
    if len(entries) > aggregate.capacity:
        return b"\x02"
    size = 4 if buckets * 2**width <= 2**32 else 8
    return b"\x00" + b"".join(entry.to_bytes(size, "little") for entry in sorted(entries)) if entries else None


def _canonical_bytes(value: Any, kind: pa.DataType) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal):
        return (int(value.scaleb(kind.scale, decimal.Context(prec=60))) + 2**127).to_bytes(16, "big")
    return int(value).to_bytes(8, "little", signed=True)


def ertl(registers: Sequence[int], precision: int) -> int:
    """Ertl's improved estimator in 60-digit decimals, term by term as its series are defined."""
    with decimal.localcontext(prec=60):
        m, q = Decimal(2**precision), 64 - precision
        share = [Decimal(registers.count(k)) for k in range(q + 2)]
        x, sigma = share[0] / m, share[0] / m
        for k in range(1, 200):
            sigma += x ** (2**k) * Decimal(2) ** (k - 1) if x < 1 else Decimal("Infinity")
        x = 1 - share[q + 1] / m
        tau = Decimal(0)
        if x not in (0, 1):
            tau, root = 1 - x, x
            for k in range(1, 200):
                root = root.sqrt()
                tau -= (1 - root) ** 2 / Decimal(2) ** k
            tau /= 3
        z = m * tau / Decimal(2) ** q + m * sigma
        z += sum(share[k] / Decimal(2) ** k for k in range(1, q + 1))
        return round(m * m / (2 * Decimal(2).ln()) / z)


def _all(aggregate: Any, events: Sequence[Event]) -> bool | None:
    values = _values(events, aggregate.column)
    return all(values) if values else None


def _some(aggregate: Any, events: Sequence[Event]) -> bool | None:
    values = _values(events, aggregate.column)
    return any(values) if values else None


def _where(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    return expected(aggregate.aggregate, [e for e in events if e.columns[aggregate.column] is True], end_us)


def _bucketed(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    keyed = []
    for event in events:
        value = event.columns[aggregate.by]
        keyed += [(key, event) for key in (set(value) if isinstance(value, list) else [value])]
    found: list[Any] = []
    for key in sorted({key for key, _ in keyed if key is not None}, key=_key):
        value = expected(aggregate.aggregate, [event for each, event in keyed if each == key], end_us)
        if isinstance(value, Error):
            found.append(value)
        else:
            found.append({"key": key, "value": value})
    if len(found) > aggregate.max_buckets:
        return Error("too_many_buckets")
    return next((each for each in found if isinstance(each, Error)), found or None)


def _histogram(aggregate: Any, events: Sequence[Event]) -> Any:
    edges = [Fraction(float.fromhex(e)) if isinstance(e, str) and "0x" in e else Fraction(e) for e in aggregate.edges]
    values = _values(events, aggregate.column)
    odd = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    exact = [Fraction(value) for value in values if value not in odd]
    under = odd.count(-math.inf)
    return {
        "under": under + sum(value < edges[0] for value in exact),
        "bins": [sum(low <= value < high for value in exact) for low, high in pairwise(edges)],
        "over": len(odd) - under + sum(value >= edges[-1] for value in exact),
    }


def _folded(aggregate: Any, events: Sequence[Event]) -> Any:
    """By the functions of its own text, event after event."""
    kept = sorted(events, key=_place)
    if aggregate.policy == "newest":
        kept = kept[-aggregate.cap :]
    if len(kept) > aggregate.cap:
        return Error("too_many_events")
    made: dict[str, Any] = {}
    exec(aggregate.source, made)
    state = made[aggregate.init]()
    for event in kept:
        state = made[aggregate.step](state, {name: _plus(event.columns[name]) for name in aggregate.columns})
    return made[aggregate.final](state) if kept else None


def _own(aggregate: Any, events: Sequence[Event]) -> Any:
    """What the classes of the examples are meant to say."""
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
    return _plus(numbers[-1] - numbers[0]) if numbers and numbers[0] < numbers[-1] else None


def _decayed(aggregate: Any, values: Sequence[tuple[Any, int]], end_us: int) -> Any:
    """The sum of (value, time) by weight, in a unit of the earliest value's."""
    odd = _not_finite([value for value, _ in values])
    if odd is not None:
        return odd
    us = int(aggregate.half_life[:-1]) * {"h": 3_600, "d": 86_400}[aggregate.half_life[-1]] * 1_000_000
    steps = [time // us for _, time in values]
    if max(steps) - min(steps) > 1_024:
        return Error("too_long")
    total = sum((Fraction(v) * _factor(t, us) * 2 ** (t // us - min(steps)) for v, t in values), Fraction(0))
    total /= _factor(end_us, us)
    octave = min(steps) - end_us // us
    if abs(octave) > 40_000:  # the quotient is no double, whatever the values are
        return 0.0 if octave < 0 or total == 0 else Error(OVERFLOW)
    found = nearest_double(total * Fraction(2) ** octave)
    return found if isinstance(found, Error) else found + 0.0


def _factor(time: int, us: int) -> Fraction:
    """2^(part of a half-life), to 33 bits of it: three powers rounded to 63 bits, products cut to as many."""
    bits, factor = time % us * 2**33 // us, 2**63
    with decimal.localcontext(prec=60):
        for place in (11, 22, 33):
            power = Decimal(2) ** (Decimal(bits >> (33 - place) & 2047) / 2**place)
            factor = factor * int((power * 2**63).to_integral_value()) >> 63
    return Fraction(factor, 2**63)


def _decay_sum(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    values = [(_plus(e.columns[aggregate.column]), e.time) for e in events if e.columns[aggregate.column] is not None]
    return _decayed(aggregate, values, end_us) if values else None


def _decay_count(aggregate: Any, events: Sequence[Event], end_us: int) -> Any:
    held = [e for e in events if aggregate.column is None or e.columns[aggregate.column] is not None]
    return _decayed(aggregate, [(1, event.time) for event in held], end_us) if held else 0.0


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
    "ordered": _folded,
    "own": _own,
    "first_k": _first,
    "last": _outermost(max),
    "last_k": _last,
    "last_k_distinct": _last_distinct,
    "distinct_count": _distinct,
    "quantiles": _quantiles,
    "bloom": _bloom,
    "bloom_fill": _bloom_fill,
    "cuckoo": _cuckoo,
    "top_k_frequent": _frequent,
    "bool_and": _all,
    "bool_or": _some,
    "histogram": _histogram,
    **dict.fromkeys(moments.BY_KIND, _moment),
    "span": _duration,
}
