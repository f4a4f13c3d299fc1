"""Bytes that are not exactly a stored value are refused, in memory of the order of their own
size."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise import aggregates as agg
from slicewise import codec
from slicewise.aggregates import Event, Rows
from slicewise.codec import Layout
from slicewise.codec.envelopes import _sealed
from slicewise.errors import CodecError, DefinitionError

TYPES = {"x": pa.float64(), "s": pa.string()}
LAYOUT = Layout.of(
    aggregate.bind(TYPES)
    for aggregate in (
        agg.count(),
        agg.sum("x"),
        agg.max("s"),
        agg.top_k("s", by="x", k=3),
        agg.distinct_count("s", threshold=2, precision=4),
    )
)


def block(n: int = 3) -> bytes:
    events = [Event(i, 0, 1, 0, i, {"x": i / 3, "s": "text" * (i % 4)}) for i in range(20)]
    groups = np.arange(20) % n
    rows = Rows.from_events(events, TYPES)
    return LAYOUT.encode_block(
        [partial.accumulate_columns(rows, groups, n) for partial in LAYOUT.partials]
    )


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 2**40])
def test_another_count_of_rows_is_refused(count: int) -> None:
    with pytest.raises(CodecError):
        LAYOUT.decode_blocks([block(3)], [count])


@pytest.mark.parametrize(
    "change", [lambda raw: raw[:-1], lambda raw: raw + b"\0", lambda raw: raw[1:], lambda _: b""]
)
def test_a_block_cut_or_grown_is_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CodecError):
        LAYOUT.decode_blocks([block(), change(block()), block()], [3, 3, 3])


def test_what_one_block_lacks_another_cannot_give() -> None:
    # Together the heaps have the right size; each alone has not.
    raw = block()
    with pytest.raises(CodecError):
        LAYOUT.decode_blocks([raw[:-1], raw + raw[-1:]], [3, 3])


def test_lengths_of_texts_that_do_not_add_up_are_refused() -> None:
    layout = Layout((agg.max("s").bind(TYPES),))
    good = struct.pack("<III", 1, 2, 2) + b"ab"
    assert layout.encode_block(layout.decode_blocks([good], [1])) == good
    with pytest.raises(CodecError, match="do not add up"):
        layout.decode_blocks([struct.pack("<III", 1, 2, 1) + b"ab"], [1])


@pytest.mark.parametrize("size", [2**32 - 1, 2**31, 2**20])
def test_a_size_beyond_the_input_allocates_nothing_of_that_size(size: int) -> None:
    layout = Layout((agg.last_k("x", k=2).bind(TYPES),))
    raw = struct.pack("<II", size, size) + bytes(200)
    tracemalloc.start()
    with pytest.raises(CodecError):
        layout.decode_blocks([raw], [1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


@settings(max_examples=300, deadline=None, database=None)
@given(st.integers(0, 2**32))
def test_damaged_blocks_are_refused_or_decode_to_themselves(seed: int) -> None:
    random, raw = Random(seed), bytearray(block())
    for _ in range(random.randint(1, 4)):
        raw[random.randrange(len(raw))] = random.randrange(256)
    try:
        decoded = LAYOUT.decode_blocks([raw], [3])
    except CodecError:
        return
    assert LAYOUT.encode_block(decoded) == bytes(raw)


PACKED: dict[Callable[..., Any], bytes] = {
    codec.unpack_running: codec.pack_running(-5, 2**62, b"row"),
    codec.unpack_total: codec.pack_total(2**64 - 1, b"row"),
    codec.unpack_slices: codec.pack_slices(3, [-4, 0, 9], b"block"),
    codec.unpack_day: codec.pack_day(codec.day_digest(b"c"), b"row"),
    codec.unpack_lifetime: codec.pack_lifetime(-24, 2**64 - 1, b"row"),
}


@pytest.mark.parametrize("unpack", PACKED, ids=lambda f: f.__name__)
def test_every_flipped_bit_and_every_cut_of_an_envelope_is_refused(
    unpack: Callable[..., Any],
) -> None:
    raw = PACKED[unpack]
    for bit in range(len(raw) * 8):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(CodecError):
            unpack(bytes(damaged))
    for end in range(len(raw)):
        with pytest.raises(CodecError):
            unpack(raw[:end])


def test_envelopes_give_back_what_was_packed() -> None:
    running = codec.unpack_running(PACKED[codec.unpack_running])
    assert (running.first, running.last, bytes(running.row)) == (-5, 2**62, b"row")
    total = codec.unpack_total(PACKED[codec.unpack_total])
    assert (total.archive_version, bytes(total.row)) == (2**64 - 1, b"row")
    slices = codec.unpack_slices(memoryview(PACKED[codec.unpack_slices]))
    assert (slices.archive_version, slices.numbers.tolist(), bytes(slices.block)) == (
        3,
        [-4, 0, 9],
        b"block",
    )
    day = codec.unpack_day(PACKED[codec.unpack_day])
    ever = codec.unpack_lifetime(PACKED[codec.unpack_lifetime])
    assert (ever.total_until, ever.archive_version, bytes(ever.row)) == (-24, 2**64 - 1, b"row")
    assert (day.digest, bytes(day.row)) == (codec.day_digest(b"c"), b"row")


def test_slice_numbers_must_ascend() -> None:
    with pytest.raises(CodecError, match="ascend"):
        codec.pack_slices(1, [3, 3], b"")
    head = struct.pack("<QIqq", 1, 2, 5, 4)
    with pytest.raises(CodecError, match="ascend"):
        codec.unpack_slices(_sealed(head))
    with pytest.raises(CodecError, match="cannot hold"):
        codec.unpack_slices(_sealed(struct.pack("<QI", 1, 2**31)))


def test_a_table_without_a_column_or_with_nulls_is_refused() -> None:
    table = pa.table(LAYOUT.to_arrow(LAYOUT.decode_blocks([block()], [3])))
    assert LAYOUT.encode_block(LAYOUT.from_arrow(table.slice(1, 2))) == LAYOUT.encode_block(
        [part.take(np.array([1, 2])) for part in LAYOUT.decode_blocks([block()], [3])]
    )
    with pytest.raises(CodecError, match="no column"):
        LAYOUT.from_arrow(table.drop_columns(table.column_names[:1]))
    nulls = table.set_column(0, table.column_names[0], pa.nulls(3, table.schema.field(0).type))
    with pytest.raises(CodecError, match="nulls"):
        LAYOUT.from_arrow(nulls)


def test_a_layout_is_ordered_and_without_repeats() -> None:
    count, total = agg.count().bind({}), agg.sum("x").bind(TYPES)
    assert Layout.of([total, count, agg.mean("x").bind(TYPES)]) == Layout.of(
        [count, agg.mean("x").bind(TYPES), total]
    )
    assert len(Layout.of([total, agg.mean("x").bind(TYPES)]).partials) == 1
    for wrong in ((), (count, count), tuple(reversed(Layout.of([count, total]).partials))):
        with pytest.raises(DefinitionError):
            Layout(wrong)
    with pytest.raises(DefinitionError, match="no partial"):
        Layout.of([count]).index(total)
