"""What opens many stored values at once opens each as the reader of one does, and refuses what that refuses."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise import aggregates, codec
from slicewise.codec import Layout
from slicewise.errors import CodecError

rows = st.binary(max_size=40)
LAYOUT = Layout.of([aggregates.sum("x").bind({"x": pa.float64()}), aggregates.count().bind({})])


def damaged(value: bytes) -> bytes:
    return bytes([value[0] ^ 1]) + value[1:]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), rows), max_size=5))
def test_totals_open_as_each_alone(totals: list[tuple[int, bytes]]) -> None:
    values = [codec.pack_total(seq, row) for seq, row in totals]
    assert codec.open_totals(values) == ([seq for seq, _ in totals], [row for _, row in totals])
    for i in range(len(values)):
        with pytest.raises(CodecError, match="checksum"):
            codec.open_totals([*values[:i], damaged(values[i]), *values[i + 1 :]])
        with pytest.raises(CodecError, match="too few"):
            codec.open_totals([*values[:i], values[i][:9]])


@given(st.lists(rows, max_size=5))
def test_running_partials_open_as_each_alone(encoded: list[bytes]) -> None:
    values = [codec.pack_running(1, 2, row) for row in encoded]
    assert codec.open_runnings(values) == encoded
    for i in range(len(values)):
        with pytest.raises(CodecError, match="checksum"):
            codec.open_runnings([*values[:i], damaged(values[i]), *values[i + 1 :]])


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(-(2**40), 2**40), unique=True, max_size=150).map(sorted), rows)
def test_slices_open_as_the_reader_of_one_does(seq: int, numbers: list[int], block: bytes) -> None:
    value = codec.pack_slices(seq, numbers, block)
    found_seq, found, found_block = codec.open_slices(value)
    assert (found_seq, list(found), found_block) == (seq, numbers, block)
    with pytest.raises(CodecError, match="checksum"):
        codec.open_slices(damaged(value))


@pytest.mark.parametrize("change", ["cut", "long", "head"])
def test_few_rows_that_are_not_exactly_such_rows_are_refused(change: str) -> None:
    parts = [partial.to_columns([partial.empty()] * 2) for partial in LAYOUT.partials]
    empty, row = LAYOUT.encode_rows(parts)
    assert LAYOUT.decode_few([empty, row], [1, 1]) == LAYOUT.decode_few([LAYOUT.encode_block(parts)], [2])
    wrong = {"cut": row[:-1], "long": row + b"\0" * 4, "head": b""}[change]
    with pytest.raises(CodecError):
        LAYOUT.decode_few([empty, wrong], [1, 1])
    # too much in one and too little in the other is no less wrong
    limbs = LAYOUT.encode_rows([p.to_columns([(1,) if p.kind == "count" else (1, 0, (7,))]) for p in LAYOUT.partials])[
        0
    ]
    with pytest.raises(CodecError):
        LAYOUT.decode_few([limbs[:-4], row + limbs[-4:]], [1, 1])


def test_slice_numbers_that_do_not_ascend_are_refused() -> None:
    value = bytearray(codec.pack_slices(1, [5, 6], b""))
    value[12:20], value[20:28] = value[20:28], value[12:20]
    body = bytes(value[:-4])
    with pytest.raises(CodecError, match="ascend"):
        codec.open_slices(body + zlib.crc32(body).to_bytes(4, "little"))
