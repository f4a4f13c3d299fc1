"""A reader of many stored values opens each as the reader of one does, and refuses what that
refuses."""

from __future__ import annotations

import zlib
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise import aggregates, codec
from slicewise.aggregates import REGISTRY, Columns, Event
from slicewise.aggregates.kernel import limbs
from slicewise.aggregates.kernel.ragged import Ragged
from slicewise.codec import Layout
from slicewise.errors import CodecError
from slicewise.reading.columnar import rows_of
from tests.laws.events import edges_of

rows = st.binary(max_size=40)
LAYOUT = Layout.of([aggregates.sum("x").bind({"x": pa.float64()}), aggregates.count().bind({})])


def damaged(value: bytes) -> bytes:
    return bytes([value[0] ^ 1]) + value[1:]


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), rows), max_size=5))
def test_many_values_are_checked_as_each_alone(totals: list[tuple[int, bytes]]) -> None:
    values = [codec.pack_total(archive_version, row) for archive_version, row in totals]
    codec.check_values(values, codec.TOTAL_HEAD)
    assert codec.versions_of(values) == [archive_version for archive_version, _ in totals]
    for i in range(len(values)):
        with pytest.raises(CodecError, match="checksum"):
            codec.check_values(
                [*values[:i], damaged(values[i]), *values[i + 1 :]], codec.TOTAL_HEAD
            )
        with pytest.raises(CodecError, match="too few"):
            codec.check_values([*values[:i], values[i][:9]], codec.TOTAL_HEAD)
    with pytest.raises(CodecError, match="too few"):  # its checksum holds, but of nothing
        codec.check_values([*values, zlib.crc32(b"").to_bytes(4, "little")], codec.TOTAL_HEAD)


@given(
    st.integers(0, 2**63 - 1),
    st.lists(st.integers(-(2**40), 2**40), unique=True, max_size=150).map(sorted),
    rows,
)
def test_slices_open_as_the_reader_of_one_does(
    archive_version: int, numbers: list[int], block: bytes
) -> None:
    value = codec.pack_slices(archive_version, numbers, block)
    read_version, result, start = codec.open_slices(value)
    assert (read_version, list(result), value[start : -codec.SEAL_BYTES]) == (
        archive_version,
        numbers,
        block,
    )


def made(layout: Layout, states: list[list[Any]]) -> list[Columns]:
    """Columns of these states, per partial."""
    return [partial.to_columns(own) for partial, own in zip(layout.partials, states, strict=True)]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1)
        )
    )
)
def test_few_rows_hold_what_whole_columns_hold(numbers: list[tuple[float, int]]) -> None:
    # one list in a row, and two
    for kinds in (LAYOUT.partials, [*LAYOUT.partials, aggregates.sum("y").bind({"y": pa.int64()})]):
        layout = Layout.of(kinds)
        states = []
        for partial in layout.partials:
            values: list[Any] = [(1,)] * len(numbers)
            if partial.kind == "sum":
                column = 0 if partial.inputs == ("x",) else 1
                values = [(1, *limbs.of_int(int(pair[column]))) for pair in numbers]
            states.append(values)
        parts = made(layout, states)
        alone = layout.scalar.columns(
            layout.scalar.singles([b"head" + v + b"seal" for v in layout.encode_rows(parts)], 4)
        )
        value = b"head" + layout.encode_block(parts) + b"seal"
        assert layout.scalar.columns(layout.scalar.block(value, 4, len(numbers))) == alone
        for partial, fields, columns in zip(layout.partials, alone, parts, strict=True):
            for one, values_of in zip(partial.fields, fields, strict=True):
                whole: Any = columns.values[one.name]
                if isinstance(whole, Ragged):
                    cut = [whole.values[a:b].tobytes() for a, b in pairwise(whole.offsets.tolist())]
                    assert list(values_of) == cut
                else:
                    assert list(values_of) == whole.tolist()


EVERY = [example for registration in REGISTRY.values() for example in registration.bound_examples()]


@pytest.mark.parametrize("seed", range(12))
def test_of_few_rows_what_is_wanted_is_cut_whatever_stands_beside_it(seed: int) -> None:
    """Lists of items and of texts, none of them, or many."""
    chance = Random(seed)
    layout = Layout.of(chance.sample(EVERY, chance.choice((1, 2, 5, 20))))
    n = chance.choice((1, 2, 7))
    parts = made(
        layout, [[random_state(partial, chance) for _ in range(n)] for partial in layout.partials]
    )
    value = b"head" + layout.encode_block(parts) + b"seal"
    rows = layout.scalar.block(value, 4, n)
    assert rows == layout.scalar_rows(parts)
    sealed = [b"head" + row + b"seal" for row in layout.encode_rows(parts)]
    assert layout.scalar.singles(sealed, 4) == rows
    every = layout.scalar.columns(rows)
    for partial, fields, columns in zip(layout.partials, every, parts, strict=True):
        assert same(partial, rows_of(partial.fields, fields), columns)
    wanted = frozenset(i for i in range(len(layout.partials)) if chance.random() < 0.4)
    some = layout.scalar.columns(rows, wanted)
    decoded = layout.decode_blocks([value[4:-4]], [n], wanted)
    for i, partial in enumerate(layout.partials):
        assert some[i] == (every[i] if i in wanted else [])
        if i in wanted:
            assert same(partial, decoded[i], parts[i])
        else:
            assert not decoded[i].values


def same(partial: aggregates.Aggregate, a: Columns, b: Columns) -> bool:
    layout = Layout((partial,))
    return layout.encode_rows([a]) == layout.encode_rows([b])


def random_state(partial: aggregates.Aggregate, chance: Random) -> Any:
    """The partial of up to three events."""
    state = partial.empty()
    for offset in range(chance.randrange(4)):
        columns = {
            name: chance.choice([*edges_of(partial.type_of(name)), None]) for name in partial.inputs
        }
        event = Event(chance.randrange(10**15), 0, 1, 0, offset, columns)
        state = partial.accumulate(state, event)
    return state


def test_texts_whose_lengths_do_not_add_up_are_refused() -> None:
    layout = Layout((aggregates.max("x").bind({"x": pa.string()}),))
    (row,) = layout.encode_rows(made(layout, [[((b"abc",),)]]))
    changed = bytearray(row)
    changed[layout.record.itemsize] = 2  # the length of the text
    with pytest.raises(CodecError, match="add up"):
        layout.scalar.columns(layout.scalar.singles([bytes(changed) + b"seal"], 0))
    (none,) = layout.encode_rows(made(layout, [[((),)]]))
    with pytest.raises(CodecError, match="add up"):  # beside a row of no text
        layout.scalar.columns(layout.scalar.singles([none + b"seal", bytes(changed) + b"seal"], 0))


@pytest.mark.parametrize("change", ["cut", "long", "head"])
def test_few_rows_that_are_not_exactly_such_rows_are_refused(change: str) -> None:
    scalar = LAYOUT.scalar
    parts = made(LAYOUT, [[p.empty()] * 2 for p in LAYOUT.partials])
    empty, row = LAYOUT.encode_rows(parts)
    wrong = {"cut": row[:-1], "long": row + b"\0" * 4, "head": b""}[change]
    with pytest.raises(CodecError):
        scalar.columns(scalar.singles([empty + b"seal", wrong + b"seal"], 0))
    with pytest.raises(CodecError):
        scalar.block(empty + wrong + b"seal", 0, 2)
    with pytest.raises(CodecError):
        scalar.block(LAYOUT.encode_block(parts) + b"seal", 0, 3)
    # too much in one and too little in the other is no less wrong
    full = LAYOUT.encode_rows(
        made(LAYOUT, [[(1,)] if p.kind == "count" else [(1, 0, (7,))] for p in LAYOUT.partials])
    )[0]
    with pytest.raises(CodecError):
        scalar.columns(scalar.singles([full[:-4] + b"seal", row + full[-4:] + b"seal"], 0))


def test_slice_numbers_that_do_not_ascend_are_refused() -> None:
    value = bytearray(codec.pack_slices(1, [5, 6], b""))
    value[12:20], value[20:28] = value[20:28], value[12:20]
    body = bytes(value[:-4])
    with pytest.raises(CodecError, match="ascend"):
        codec.open_slices(body + zlib.crc32(body).to_bytes(4, "little"))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**63 - 1),
            st.lists(st.integers(-(2**40), 2**40), unique=True, min_size=1, max_size=9).map(sorted),
            rows,
        ),
        min_size=1,
        max_size=9,
    )
)
def test_runs_of_slices_are_packed_as_each_alone(
    runs: list[tuple[int, list[int], bytes]],
) -> None:
    numbers = np.array([number for _, own, _ in runs for number in own], np.int64)
    bounds = [0, *np.cumsum([len(own) for _, own, _ in runs]).tolist()]
    packed = codec.pack_slice_runs(
        [version for version, _, _ in runs], numbers, bounds, [block for _, _, block in runs]
    )
    assert packed == [codec.pack_slices(*run) for run in runs]


def test_a_run_whose_numbers_do_not_ascend_is_refused() -> None:
    numbers = np.array([5, 6, 5, 5], np.int64)
    with pytest.raises(CodecError, match="ascend"):
        codec.pack_slice_runs([1, 1], numbers, [0, 2, 4], [b"", b""])


@given(st.lists(st.none() | rows, min_size=1, max_size=20), st.data())
def test_runs_of_rows_are_encoded_as_blocks_and_told_by_size(
    texts: list[bytes | None], data: st.DataObject
) -> None:
    layout = Layout((aggregates.max("x").bind({"x": pa.string()}),))
    columns = made(layout, [[((),) if text is None else ((text,),) for text in texts]])
    cuts = data.draw(st.lists(st.integers(0, len(texts)), max_size=4).map(sorted))
    bounds = [0, *cuts, len(texts)]
    blocks, sizes = layout.encode_runs(columns, bounds)
    assert blocks == layout.encode_blocks(columns, bounds)
    assert sizes.tolist() == [len(row) for row in layout.encode_rows(columns)]
