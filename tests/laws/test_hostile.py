"""Rare events: runs of nulls, one event, ties of all, megabytes of text, sums at the edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from slicewise.aggregates import REGISTRY, Aggregate, Event
from tests.laws import laws
from tests.laws.events import TIMES, edges_of

EXAMPLES = [
    example for registration in REGISTRY.values() for example in registration.bound_examples()
]
LAWS = (
    laws.any_split_gives_the_same_bytes,
    laws.rows_and_columns_agree,
    laws.the_oracle_agrees,
    laws.bytes_come_back,
)
MEGABYTE = ["é" * 500_000 + ending for ending in ("", "a", "\x00")]
# Pairs that are lost where a sum is rounded or overflows on its way.
PAIRS: Mapping[str, list[Any]] = {
    "double": [1e308, 1e308, -1e308, 5e-324, -1e308],
    "int64": [2**63 - 1, 1, -(2**63), -1, 2**63 - 1],
}


def events_of(columns: Mapping[str, Sequence[Any]], times: Sequence[int] = TIMES) -> list[Event]:
    """Events of these values in turn, of three partitions, with offsets that descend."""
    n = max(map(len, columns.values()), default=3)
    return [
        Event(
            times[i % len(times)],
            0,
            i % 2,
            i % 3,
            1_000 - i,
            {k: v[i % len(v)] for k, v in columns.items()},
        )
        for i in range(n)
    ]


def _pairs(kind: pa.DataType) -> list[Any]:
    pairs: list[Any] = PAIRS.get(str(kind)) or edges_of(kind)[-3:]
    return pairs


@pytest.mark.long
@pytest.mark.parametrize(
    "aggregate", EXAMPLES, ids=lambda a: f"{a.kind}-{'-'.join(map(str, a.types or ()))}"
)
def test_the_laws_hold_of_what_is_seldom_drawn(aggregate: Aggregate) -> None:
    types = {name: aggregate.type_of(name) for name in aggregate.inputs}
    first = {name: edges_of(kind)[0] for name, kind in types.items()}
    histories = [
        events_of({name: [None] * 9 for name in types}),
        events_of({name: [value] for name, value in first.items()}),
        events_of(
            {name: [*[None] * 4, *_pairs(kind), *[None] * 4] for name, kind in types.items()}
        ),
        events_of({name: [edges_of(kind)[-1]] * 7 for name, kind in types.items()}, [5]),
    ]
    if pa.string() in types.values():
        long = {
            name: MEGABYTE if kind == pa.string() else edges_of(kind)[:3]
            for name, kind in types.items()
        }
        histories.append(events_of(long))
    for seed, events in enumerate(histories):
        for law in LAWS:
            law(aggregate, events, Random(seed))
