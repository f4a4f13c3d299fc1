"""The bytes of format.md: every vector, and a few by hand from the words of that page alone."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Event, Rows
from slicewise.codec import Layout, five_day_digest, pack_running, pack_slices
from tests.unit.golden import partials


def row(aggregate: Aggregate, values: list[object], times: list[int] | None = None) -> str:
    """Hex of the stored row of events with these values of column x, in partition 1 of topic
    0x0...02."""
    events = [
        Event(times[i] if times else i, 0, 2, 1, 10 + i, {"x": value} if aggregate.inputs else {})
        for i, value in enumerate(values)
    ]
    rows = Rows.from_events(events, {c: aggregate.type_of(c) for c in aggregate.inputs})
    partial = aggregate.accumulate_columns(rows, np.zeros(len(events), np.int64), 1)
    return Layout((aggregate,)).encode_rows([partial])[0].hex()


@pytest.mark.parametrize(
    "vector",
    json.loads(partials.PATH.read_text(encoding="utf-8"))["rows"],
    ids=lambda v: v["partial_id"],
)
def test_every_stored_row_is_its_vector(vector: dict[str, object]) -> None:
    by_id = {(v["partial_id"], v["aggregate"]["kind"]): v for v in partials.vectors()["rows"]}
    assert by_id[vector["partial_id"], vector["aggregate"]["kind"]] == vector  # type: ignore[index]


def test_every_vector_decodes_to_the_row_that_it_came_from() -> None:
    rows = {(v["partial_id"], v["aggregate"]["kind"]): v["row"] for v in partials.vectors()["rows"]}
    for registration in agg.REGISTRY.values():
        for aggregate in registration.bound_examples():
            wanted = rows[aggregate.partial_id(), aggregate.kind]
            layout = Layout((aggregate,))
            assert (
                layout.encode_rows(layout.decode_blocks([bytes.fromhex(wanted)], [1]))[0].hex()
                == wanted
            )


def test_the_envelopes_are_their_vectors() -> None:
    assert (
        partials.envelopes() == json.loads(partials.PATH.read_text(encoding="utf-8"))["envelopes"]
    )


@pytest.mark.parametrize(
    ("values", "kind", "start", "limbs"),
    [
        ([], pa.int64(), 0, []),
        ([5], pa.int64(), 0, [5]),
        ([-1], pa.int64(), 0, [0xFFFFFFFF]),
        ([2**31], pa.int64(), 0, [0x80000000, 0]),  # one limb more: the top limb is signed
        ([-(2**31)], pa.int64(), 0, [0x80000000]),
        ([2**32], pa.int64(), 1, [1]),  # the low zero limb is left out
        ([2**63 - 1, 1], pa.int64(), 1, [0x80000000, 0]),
        ([5e-324], pa.float64(), 0, [1]),
        ([1.0], pa.float64(), 33, [1 << 18]),  # 2^1074 = 2^(32·33 + 18)
        ([1.0, -1.0], pa.float64(), 0, []),
        ([Decimal("-0.02")], pa.decimal128(5, 2), 0, [0xFFFFFFFE]),
    ],
)
def test_a_sum_is_n_start_and_signed_limbs(
    values: list[object], kind: pa.DataType, start: int, limbs: list[int]
) -> None:
    wanted = struct.pack(f"<qiI{len(limbs)}I", len(values), start, len(limbs), *limbs)
    assert row(agg.sum("x").bind({"x": kind}), values) == wanted.hex()
    assert (
        agg.sum("x").bind({"x": kind}).partial_id() == agg.mean("x").bind({"x": kind}).partial_id()
    )


def test_a_least_text_is_its_count_its_bytes_its_lengths_and_itself() -> None:
    wanted = struct.pack("<III", 1, 2, 2) + "é".encode()
    assert row(agg.min("x").bind({"x": pa.string()}), ["é", "日", None]) == wanted.hex()


def test_latest_values_are_identities_in_total_order_then_values() -> None:
    # The second event is the earlier one: time -1 sorts below time 0, as its flipped sign bit says.
    wanted = struct.pack("<II", 2, 2)
    wanted += struct.pack(">QQQIQ", 2**63 - 1, 0, 2, 1, 11) + struct.pack(
        ">QQQIQ", 2**63, 0, 2, 1, 10
    )
    wanted += struct.pack("<dd", 2.5, 1.5)
    assert row(agg.last_k("x", k=2).bind({"x": pa.float64()}), [1.5, 2.5], [0, -1]) == wanted.hex()


def test_a_block_is_all_records_then_all_heaps() -> None:
    layout = Layout.of([agg.count().bind({}), agg.min("x").bind({"x": pa.string()})])
    rows = Rows.from_events(
        [Event(0, 0, 0, 0, i, {"x": x}) for i, x in enumerate("ba")], {"x": pa.string()}
    )
    columns = [partial.accumulate_columns(rows, np.arange(2), 2) for partial in layout.partials]
    assert [partial.kind for partial in layout.partials] == ["min", "count"]  # by partial_id
    records = struct.pack("<IIq", 1, 1, 1) * 2
    heaps = struct.pack("<I", 1) + b"b" + struct.pack("<I", 1) + b"a"
    assert layout.encode_block(columns) == records + heaps
    assert layout.encode_rows(columns) == [records[:16] + heaps[:5], records[16:] + heaps[5:]]


def test_a_five_day_digest_is_of_its_days_digests() -> None:
    one, other = (hashlib.sha256(text).digest()[:8] for text in (b"c of a day", b"c of another"))
    whole = hashlib.sha256(one + bytes(16) + other + bytes(8)).digest()
    assert five_day_digest([b"c of a day", None, None, b"c of another", None]) == whole[:8]


def test_envelopes_end_in_the_crc_of_all_before() -> None:
    body = struct.pack("<qq", 5, 9) + b"row"
    assert pack_running(5, 9, b"row") == body + struct.pack("<I", zlib.crc32(body))
    body = struct.pack("<QIqq", 3, 2, -1, 7) + b"block"
    assert pack_slices(3, [-1, 7], b"block") == body + struct.pack("<I", zlib.crc32(body))
