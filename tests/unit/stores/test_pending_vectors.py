"""The JVM writes the same bytes for the real-time lane as Python: both hold these golden vectors.

The Java tests (include/slicewise/jvm/src/test/java) read the same file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa

from slicewise.aggregates.kernel.events import Rows
from slicewise.codec import Members
from slicewise.features.declare.event_list import EventList
from slicewise.features.schema.types import arrow_type
from slicewise.stores.online import keys
from slicewise.stores.online.rules import decisions

GOLDEN = Path(__file__).parents[1] / "golden" / "pending.json"
_LONG = 400
"""Bytes from which a member is told by its length and checksum."""


def _value(raw: Any) -> Any:
    if isinstance(raw, list):
        return [_value(item) for item in raw]
    if not isinstance(raw, dict):
        return raw
    if "bits" in raw:
        return struct.unpack(">d", bytes.fromhex(raw["bits"]))[0]
    if "times" in raw:
        value, times = raw["times"]
        return [_value(value)] * times
    return Decimal(raw["decimal"]) if "decimal" in raw else date.fromisoformat(raw["date"])


def _member(case: Mapping[str, Any]) -> str:
    columns = tuple((name, arrow_type(kind)) for name, kind in case["columns"])
    arrays = {
        name: _array(_value(value), kind)
        for (name, kind), value in zip(columns, case["values"], strict=True)
    }
    topic = case["topic"]
    rows = Rows(
        pa.array([case["time"]], pa.int64()).to_numpy(),
        pa.array([int(topic[:16], 16)], pa.uint64()).to_numpy(),
        pa.array([int(topic[16:], 16)], pa.uint64()).to_numpy(),
        pa.array([case["partition"]], pa.int32()).to_numpy(),
        pa.array([case["offset"]], pa.int64()).to_numpy(),
        arrays,
    )
    (member,) = Members(columns).encode(rows)
    return member.hex() if len(member) < _LONG else f"{len(member)} bytes, crc {crc32(member):08x}"


def _array(value: Any, kind: pa.DataType) -> pa.Array:
    stored = pa.int64() if pa.types.is_timestamp(kind) else kind
    return pa.array([value], stored).cast(kind)


def _tag(case: Mapping[str, Any]) -> str:
    columns = [(name, kind) for name, kind in case["columns"]]
    values = [[_value(value)] for value in case["values"]]
    (tag,) = keys.entity_tags(columns, values, case["partition"])
    return tag.decode()


def _expiry(case: Mapping[str, int]) -> int:
    end = (case["time"] // case["slice_us"] + 1) * case["slice_us"]
    return decisions.expiry_s(end, case["retention_us"])


def _list_expiry(case: Mapping[str, int]) -> int:
    return decisions.list_expiry_s(EventList(case["range_us"], case["rows"], 0, 10), case["time"])


_MADE = {
    "members": ("member", _member),
    "tags": ("tag", _tag),
    "expiries": ("expiry", _expiry),
    "list_expiries": ("expiry", _list_expiry),
}


def filled(cases: Mapping[str, Any]) -> dict[str, Any]:
    """The cases with what Python makes of each."""
    return {
        name: [{**case, member: make(case)} for case in cases[name]]
        for name, (member, make) in _MADE.items()
    }


def test_python_makes_of_each_case_what_the_golden_file_says() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert filled(golden) == golden
    assert {kind for case in golden["members"] for _, kind in case["columns"]} >= {
        *("string", "long", "double", "boolean", "date", "timestamp_us", "decimal(38,10)"),
        *(
            f"array<{kind}>"
            for kind in ("string", "long", "double", "boolean", "date", "decimal(6,2)")
        ),
    }
