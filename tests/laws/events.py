"""Hostile events: unique identities in any order, many partitions, and values at every edge of
their type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from slicewise.aggregates import Event

DOUBLES = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.0**-1022,
    1e308,
    -1e308,
    1.7976931348623157e308,
    0.1,
    -0.1,
    1.0,
    2.0**53 + 2,
]
INTEGERS = [0, 1, -1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**62, -(2**62)]
TEXTS = ["", "a", "b", "ab", "\x00", "a\x00", "é", "é", "日本", "😀", "x" * 300, "\x7f", "￿"]
INSTANTS = [0, 1, -1, 1_357_000_000_000_000, -62_135_596_800_000_000, 2**62]
DAYS = [0, 1, -1, 15_706, -719_162, 2_932_896]
TIMES = [0, -1, 1, 1_357_034_400_000_000, 1_357_034_400_000_001, -(2**62), 2**62]
TOPICS = [(0, 0), (0, 1), (1, 0), (2**64 - 1, 2**63)]


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a column of this type, a quarter of them null."""
    return st.one_of(_edges(kind), _edges(kind), _any(kind), st.none())


def edges_of(kind: pa.DataType) -> list[Any]:
    """The edges of this type."""
    if pa.types.is_list(kind):
        elements = edges_of(kind.value_type)
        return [[], [None], elements[:1] * 2, [*elements[:3], None, *elements[:2]], elements[-2:]]
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return [_decimal(unscaled, kind) for unscaled in (0, 1, -1, 5, -5, most, -most)]
    edges: dict[str, list[Any]] = {
        "double": DOUBLES,
        "int64": INTEGERS,
        "string": TEXTS,
        "bool": [True, False],
        "timestamp[us, tz=UTC]": INSTANTS,
        "date32[day]": DAYS,
    }
    return edges[str(kind)]


def _edges(kind: pa.DataType) -> st.SearchStrategy[Any]:
    return st.sampled_from(edges_of(kind))


def _any(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        return st.lists(values_of(kind.value_type), max_size=5)
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda n: _decimal(n, kind))
    if str(kind) == "double":
        return st.floats(allow_nan=False)
    if str(kind) == "int64":
        return st.integers(-(2**63), 2**63 - 1)
    if str(kind) == "string":
        return st.text(st.characters(codec="utf-8"), max_size=12)
    return _edges(kind)


def _decimal(unscaled: int, kind: pa.DataType) -> Decimal:
    sign, digits = (1, -unscaled) if unscaled < 0 else (0, unscaled)
    return Decimal((sign, tuple(int(d) for d in str(digits)), -kind.scale))


@st.composite
def events(draw: st.DrawFn, types: Mapping[str, pa.DataType], most: int = 24) -> list[Event]:
    """Up to `most` events in any order; no two of one partition share an offset.

    Hypothesis draws pools of values, small ones (ties everywhere) and large ones; which event
    has which value of its pool follows from a drawn seed, so that many events cost few draws.
    """
    pools = {
        name: draw(st.lists(values_of(kind), min_size=1, max_size=8, unique_by=repr))
        for name, kind in types.items()
    }
    for name, kind in types.items():
        if draw(st.booleans()):
            pools[name] += edges_of(kind)
    random = Random(draw(st.integers(0, 2**32)))
    chosen = {
        (*random.choice(TOPICS), random.randrange(3), random.choice([*range(30), 2**53 - 1]))
        for _ in range(draw(st.one_of(st.just(most), st.integers(0, most))))
    }
    times = random.sample(TIMES, random.randint(1, len(TIMES)))
    return [
        Event(
            random.choice(times),
            *topic_partition,
            {name: random.choice(pool) for name, pool in pools.items()},
        )
        for topic_partition in random.sample(sorted(chosen), len(chosen))
    ]
