"""Pending fields are what docs/format.md says, to the byte, and are refused for anything else."""

from __future__ import annotations

import random
import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from slicewise.aggregates.kernel.events import Rows
from slicewise.codec import (
    TOPIC_PARTITION,
    Members,
    offset_of,
    pack_pending,
    pack_pending_numbers,
    unpack_pending,
    unpack_pending_numbers,
)
from slicewise.errors import CodecError

EVEN = Members((("n", pa.int64()), ("v", pa.float64())))
TEXTS = Members((("n", pa.int64()), ("song", pa.string())))
FORMS = pytest.mark.parametrize("form", [EVEN, TEXTS], ids=["even", "texts"])


def members(form: Members, offsets: list[int], partition: int = 2) -> list[bytes]:
    n = len(offsets)
    values = {
        "n": list(range(n)),
        "v": [0.5 * i for i in range(n)],
        "song": ["ab" * (i % 4) for i in range(n)],
    }
    rows = Rows(
        np.arange(n, dtype=np.int64),
        np.full(n, 0x0123456789ABCDEF, np.uint64),
        np.full(n, 0x0123456789ABCDEF, np.uint64),
        np.full(n, partition, np.int32),
        np.array(offsets, np.int64),
        {name: pa.array(values[name], kind) for name, kind in form.columns},
    )
    return form.encode(rows)


def test_a_field_is_the_golden_one() -> None:
    one, two = members(Members(()), [7, 300])
    identity = "8000000000000001" + "0123456789abcdef" * 2 + "00000002" + "000000000000012c"
    assert two.hex() == identity + zlib.crc32(bytes.fromhex(identity)).to_bytes(4, "little").hex()
    golden = "2c01000000000000" + "02000000" + "28000000" * 2 + one.hex() + two.hex()
    assert pack_pending([one, two]).hex() == golden
    assert unpack_pending(bytes.fromhex(golden)) == (300, [one, two])
    assert (pack_pending_numbers(3, 17), unpack_pending_numbers(b"3:17")) == (b"3:17", (3, 17))


@FORMS
@pytest.mark.parametrize("sizes", [(1,), (1, 64), (64, 64, 5)])
def test_what_fields_hold_is_opened_as_their_members_are(
    form: Members, sizes: tuple[int, ...]
) -> None:
    given = members(form, list(range(0, 3 * sum(sizes), 3)))
    ends = np.cumsum([0, *sizes]).tolist()
    fields = [pack_pending(given[begin:end]) for begin, end in pairwise(ends)]
    whole, alone = form.open_fields(fields), form.open(given)
    assert len(whole) == len(given)
    assert list(whole.members) == given
    assert whole.records.tobytes() == alone.records.tobytes()
    assert list(whole.take([0, len(given) - 1]).members) == [given[0], given[-1]]
    assert whole.rows().columns == alone.rows().columns
    assert [offset_of(member) for member in given] == whole.records["identity"]["offset"].tolist()


@FORMS
def test_fields_of_one_partition_say_so(form: Members) -> None:
    here, there = pack_pending(members(form, [1, 2])), pack_pending(members(form, [3], partition=7))
    assert form.open_fields([here, here]).topic_partition == members(form, [1])[0][TOPIC_PARTITION]
    assert form.open_fields([here, there]).topic_partition is None
    assert (
        form.open_fields([here]).take([1]).topic_partition
        == form.open_fields([here]).topic_partition
    )


@FORMS
def test_a_damaged_field_is_refused_wherever_the_damage_is(form: Members) -> None:
    field, chance = pack_pending(members(form, [1, 5, 6])), random.Random(5)
    whole = pack_pending(members(form, [7, 9]))
    for at in range(len(field)):
        damaged = field[:at] + bytes([field[at] ^ chance.randint(1, 255)]) + field[at + 1 :]
        if form is EVEN and 12 <= at < 24:
            continue  # sizes, which all members of this form have; a reader has no use of them
        for fields in ([damaged], [whole, damaged], [damaged, whole]):
            with pytest.raises(CodecError):
                form.open_fields(fields)
    for short in (b"", field[:11], field[:-1], field[: len(field) // 2], field + b"\0"):
        with pytest.raises(CodecError):
            form.open_fields([whole, short])


@FORMS
def test_a_field_of_another_unit_is_refused(form: Members) -> None:
    other = TEXTS if form is EVEN else EVEN
    with pytest.raises(CodecError):
        other.open_fields([pack_pending(members(form, [1, 5, 6]))])


@pytest.mark.parametrize("raw", [b"", b"3", b"3:", b"a:b", b"1:2:3"])
def test_a_head_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(CodecError, match="no numbers of pending fields"):
        unpack_pending_numbers(raw)
