"""Memory of an entity's events in one partition, to know those that come again: ids, and clocks.

`last` (int64: the last offset that was looked at), then the clocks (int64, ascending, microseconds
UTC), then the ids (64-bit hashes), then a checksum: all little-endian.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slicewise.codec.envelopes import SEAL_BYTES, Raw
from slicewise.errors import CodecError

_LAST = struct.Struct("<q")
_CRC = struct.Struct("<I")
IDS_HEAD = _LAST.size
"""Bytes before the clocks: no two that were remembered of one partition begin alike."""
_ID_BYTES = 16


class Remembered(NamedTuple):
    """Events with ids, in the order of their offsets."""

    last: int
    clocks: NDArray[np.int64]
    ids: NDArray[np.uint64]


def pack_ids(last: int, clocks: NDArray[np.int64], ids: NDArray[np.uint64]) -> bytes:
    """The field of a partition."""
    body = _LAST.pack(last) + clocks.astype("<i8").tobytes() + ids.astype("<u8").tobytes()
    return body + _CRC.pack(zlib.crc32(body))


def unpack_ids(raw: Raw) -> Remembered:
    """Opens what was packed. Raises CodecError."""
    count, rest = divmod(len(raw) - IDS_HEAD - SEAL_BYTES, _ID_BYTES)
    if (
        count < 0
        or rest
        or zlib.crc32(memoryview(raw)[:-SEAL_BYTES]) != _CRC.unpack(raw[-SEAL_BYTES:])[0]
    ):
        raise CodecError(
            f"remembered ids that are none: {len(raw)} bytes",
            expected=f"{IDS_HEAD} bytes, {_ID_BYTES} for each id, and their checksum",
        )
    clocks = np.frombuffer(raw, "<i8", count, IDS_HEAD)
    ids = np.frombuffer(raw, "<u8", count, IDS_HEAD + 8 * count)
    return Remembered(_LAST.unpack_from(raw)[0], clocks, ids)


NOTHING = Remembered(-1, np.zeros(0, np.int64), np.zeros(0, np.uint64))
