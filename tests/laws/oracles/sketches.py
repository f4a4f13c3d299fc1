"""Results of aggregates that may be approximate: their sketches by brute force, from their papers
and docs."""

from __future__ import annotations

import decimal
import math
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
import xxhash

from slicewise.aggregates import Event
from tests.laws.oracles.values import (
    Error,
    canonical_bytes,
    identity_of,
    nearest_double,
    plus,
    rank_of,
    values_of,
)

SEED = 0x736C696365776973


def distinct(aggregate: Any, events: Sequence[Event]) -> int:
    kind = aggregate.types[0]
    raw = {canonical_bytes(value, kind) for value in values_of(events, aggregate.column)}
    text = pa.types.is_string(kind) or pa.types.is_decimal(kind)
    if len(raw) <= aggregate.threshold and not (
        text and sum(map(len, raw)) > 2**aggregate.precision
    ):
        return len(raw)
    registers = [0] * 2**aggregate.precision
    for value in raw:
        bits = format(xxhash.xxh64(value, seed=SEED).intdigest(), "064b")
        index, rest = int(bits[: aggregate.precision], 2), bits[aggregate.precision :]
        registers[index] = max(registers[index], (rest + "1").index("1") + 1)
    return ertl(registers, aggregate.precision)


def quantiles(aggregate: Any, events: Sequence[Event]) -> Any:
    values = sorted((float(value) for value in values_of(events, aggregate.column)), key=rank_of)
    if not values:
        return None
    ranks = [max(0, math.ceil(Fraction(Decimal(repr(q))) * len(values)) - 1) for q in aggregate.q]
    if len({rank_of(value) for value in values}) <= aggregate.threshold:
        return [values[rank] for rank in ranks]
    buckets = sorted({_sketched(value, aggregate.error) for value in values})
    lowest = buckets[-2048:][0]
    results = []
    for rank in ranks:
        bucket = _sketched(values[rank], aggregate.error)
        results.append(None if len(buckets) > 2048 and bucket <= lowest else bucket[1])
    return results


@cache
def _edges_of_octave(error: float) -> tuple[Fraction, ...]:
    """Edges from 1 to 2, at the powers of 2^(1/n), rounded up to 52 bits after the point."""
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
def _sketched(value: float, error: float) -> tuple[Any, float]:
    """The order of the value's bin, and what that bin answers."""
    if not math.isfinite(value) or value == 0:
        return rank_of(value), value
    size, octave = abs(Fraction(value)), math.frexp(value)[1] - 1
    unit, edges = Fraction(2) ** octave, _edges_of_octave(error)
    j = bisect_right(edges, size / unit) - 1
    low, high = edges[j] * unit, edges[j + 1] * unit
    middle = nearest_double(2 * low * high / (low + high))
    assert not isinstance(middle, Error)
    return rank_of(math.copysign(float(low) or 5e-324, value)), math.copysign(middle, value)


def _splitmix(word: int) -> int:
    """SplitMix64's next value after this state, as its authors' C code has it."""
    z = (word + 0x9E3779B97F4A7C15) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return z ^ (z >> 31)


def frequent(aggregate: Any, events: Sequence[Event]) -> Any:
    kind = aggregate.types[0]
    counts: dict[bytes, int] = {}
    priorities: dict[bytes, int] = {}
    values: dict[bytes, Any] = {}
    for event in events:
        value = event.columns[aggregate.column]
        if value is None:
            continue
        raw = canonical_bytes(value, kind)
        hashed = xxhash.xxh64(raw, seed=SEED).intdigest()
        for word in ((event.time + 2**63) % 2**64, *identity_of(event)[1:]):
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
            2**i
            for i in range(40)
            if Fraction(str(aggregate.error)) * 2**i >= Fraction("2.718281828459045236")
        )
        error = math.floor(Fraction("2.718281828459045236") * n / width) + 1
        table: dict[tuple[int, int], int] = {}
        cells = {
            raw: [
                (
                    row,
                    _splitmix(
                        (xxhash.xxh64(raw, seed=SEED).intdigest() + row * 0x9E3779B97F4A7C15)
                        % 2**64
                    )
                    % width,
                )
                for row in range(4)
            ]
            for raw in counts
        }
        for raw, count in counts.items():
            for cell in cells[raw]:
                table[cell] = table.get(cell, 0) + count
        estimates = {raw: min(table[cell] for cell in cells[raw]) for raw in counts}
        chosen = sorted(counts, key=lambda raw: priorities[raw])[: aggregate.capacity]
    listed = sorted(chosen, key=lambda raw: (-estimates[raw], rank_of(values[raw])))[: aggregate.k]
    if not exact:
        power = estimates[listed[-1]]
        miss, base = 1.0, (2**64 - 1 - max(priorities[raw] for raw in chosen)) / 2**64
        while power:  # binary powers, from the lowest bit
            miss, base, power = miss * base if power % 2 else miss, base * base, power // 2
    items = [{"value": plus(values[raw]), "count": estimates[raw]} for raw in listed]
    return {"items": items, "error": error, "miss": miss}


def _seen(aggregate: Any, events: Sequence[Event]) -> set[int]:
    raw = {
        canonical_bytes(value, aggregate.types[0]) for value in values_of(events, aggregate.column)
    }
    return {xxhash.xxh64(value, seed=SEED).intdigest() for value in raw}


def _bloom_bits(aggregate: Any, seen: set[int]) -> tuple[int, int, set[int]]:
    """(bits, bits per value, those that are set)."""
    error = Fraction(str(aggregate.error))
    probes = next(k for k in range(1, 64) if Fraction(1, 2**k) <= error)
    bits = math.ceil(Fraction(aggregate.capacity * probes * 15149 // 10000 + 1024, 64)) * 64
    positions = {
        _splitmix((h + i * 0x9E3779B97F4A7C15) % 2**64) % bits for h in seen for i in range(probes)
    }
    return bits, probes, positions


def bloom(aggregate: Any, events: Sequence[Event]) -> bytes | None:
    seen = _seen(aggregate, events)
    bits, probes, positions = _bloom_bits(aggregate, seen)
    if len(seen) <= bits // 64:
        return b"\x00" + b"".join(h.to_bytes(8, "little") for h in sorted(seen)) if seen else None
    full = Fraction(len(positions), bits) ** probes > Fraction(str(aggregate.error))
    return (b"\x02" if full else b"\x01") + sum(1 << bit for bit in positions).to_bytes(
        bits // 8, "little"
    )


def bloom_fill(aggregate: Any, events: Sequence[Event]) -> float | None:
    seen = _seen(aggregate, events)
    bits, _, positions = _bloom_bits(aggregate, seen)
    return len(positions) / bits if seen else None


def cuckoo(aggregate: Any, events: Sequence[Event]) -> bytes | None:
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
    return (
        b"\x00" + b"".join(entry.to_bytes(size, "little") for entry in sorted(entries))
        if entries
        else None
    )


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
