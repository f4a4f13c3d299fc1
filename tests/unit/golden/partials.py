"""The vectors of partials.json, computed anew: `python -m tests.unit.golden.partials` rewrites the
file.

Rewriting is a change of the format: raise CODEC_VERSION or the partial's semantic version first.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from slicewise.aggregates import REGISTRY, Aggregate, Event, Rows
from slicewise.codec import (
    Layout,
    five_day_digest,
    pack_day,
    pack_lifetime,
    pack_running,
    pack_slices,
    pack_total,
)

PATH = Path(__file__).with_name("partials.json")
START = 1_357_034_400_000_000  # 2013-01-01T10:00:00Z
VALUES: dict[str, list[Any]] = {
    "double": [0.1, 5e-324, None, -2.5, 1e308],
    "int64": [3, -7, 2**62, None, 3],
    "string": ["JFK", "", "é日", "a\x00b", None],
    "bool": [True, None, False, True, True],
    "decimal128(12, 3)": [
        Decimal("1.005"),
        Decimal("-2.500"),
        None,
        Decimal("999999999.999"),
        Decimal("0.000"),
    ],
    "decimal128(38, 6)": [
        Decimal("1.000005"),
        None,
        Decimal(-(10**31)),
        Decimal("0.000001"),
        Decimal(10**31),
    ],
    "timestamp[us, tz=UTC]": [START, START - 1, None, 0, -1],
    "list<item: string>": [["JFK", "é日", "JFK"], [], ["", None, "é日"], None, ["a\x00b", "JFK"]],
    "list<item: int64>": [[3, 3, -7], None, [2**62, 3], [], [None]],
    "list<item: bool>": [[True], [True, False], None, [False, None], [True, True]],
    "date32[day]": [15706, None, 0, -1, 15706],
}


def events_for(aggregate: Aggregate) -> list[Event]:
    """Five events, out of order, of two topics and two partitions."""
    columns = {name: VALUES[str(aggregate.type_of(name))] for name in aggregate.inputs}
    identities = [(2, 0, 7), (2, 0, 8), (2, 1, 0), (1, 0, 40), (2, 0, 9)]
    times = [START + 5, START, START, START + 5, START - 1]
    return [
        Event(
            times[i],
            0xABCDEF0123456789,
            topic,
            partition,
            offset,
            {n: v[i] for n, v in columns.items()},
        )
        for i, (topic, partition, offset) in enumerate(identities)
    ]


@cache  # the same for every test that holds one of them
def vectors() -> dict[str, Any]:
    """All vectors, as they stand in the file."""
    rows = []
    for registration in REGISTRY.values():
        for aggregate in registration.bound_examples():
            events = Rows.from_events(
                events_for(aggregate), {c: aggregate.type_of(c) for c in aggregate.inputs}
            )
            partial = aggregate.accumulate_columns(events, np.zeros(5, np.int64), 1)
            finished = aggregate.finish_columns(partial)
            rows.append(
                {
                    "aggregate": aggregate.spec(),
                    "types": {
                        column: str(aggregate.type_of(column)) for column in aggregate.inputs
                    },
                    "partial_id": aggregate.partial_id(),
                    "row": Layout((aggregate,)).encode_rows([partial])[0].hex(),
                    "value": _plain(finished.values.to_pylist()[0]),
                    "errors": list(finished.errors.values()),
                }
            )
    return {"rows": rows, "envelopes": envelopes()}


def envelopes() -> dict[str, str]:
    """One stored value of each kind, around rows that are no rows."""
    return {
        "running": pack_running(5, 9, b"row").hex(),
        "total": pack_total(3, b"row").hex(),
        "slices": pack_slices(3, [-1, 0, 7], b"block").hex(),
        "lifetime": pack_lifetime(480_024, 3, b"row").hex(),
        "day": pack_day(b"8 bytes!", b"row").hex(),
        "pentad digest": five_day_digest([b"c of a day", None, None, b"c of another", None]).hex(),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, datetime):
        return int((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e6)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal | date):
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return (
        {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value
    )


if __name__ == "__main__":
    PATH.write_text(json.dumps(vectors(), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
