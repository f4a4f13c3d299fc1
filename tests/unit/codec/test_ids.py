"""Remembered ids come back as they were packed; anything else is refused."""

from __future__ import annotations

import numpy as np
import pytest

from slicewise.codec import IDS_HEAD, NOTHING, pack_ids, unpack_ids
from slicewise.errors import CodecError

CLOCKS = np.array([1_700_000_000_000_000, 1_700_000_000_000_001], np.int64)
IDS = np.array([1, 2**64 - 1], np.uint64)
GOLDEN = (
    "2a00000000000000"  # the last offset: 42
    "00401e18240a060001401e18240a0600"  # clocks
    "0100000000000000ffffffffffffffff"  # ids
)  # fmt: skip


def test_every_byte_is_as_the_format_says() -> None:
    raw = pack_ids(42, CLOCKS, IDS)
    assert raw[:-4].hex() == GOLDEN
    ids = unpack_ids(raw)
    assert (ids.last, ids.clocks.tolist(), ids.ids.tolist()) == (42, CLOCKS.tolist(), IDS.tolist())
    assert raw[:IDS_HEAD] != pack_ids(43, CLOCKS, IDS)[:IDS_HEAD]


def test_nothing_remembered_is_no_offset() -> None:
    assert (NOTHING.last, len(NOTHING.ids)) == (-1, 0)
    assert unpack_ids(pack_ids(7, NOTHING.clocks, NOTHING.ids)).last == 7


@pytest.mark.parametrize("cut", [1, 4, 8, 16, 43])
def test_what_was_cut_or_changed_is_refused(cut: int) -> None:
    raw = pack_ids(42, CLOCKS, IDS)
    with pytest.raises(CodecError):
        unpack_ids(raw[:-cut])
    changed = bytearray(raw)
    changed[cut % len(raw)] ^= 1
    with pytest.raises(CodecError):
        unpack_ids(bytes(changed))
