"""Every value in the online store ends in the CRC-32 of all bytes before it.

An unpacked value is a view into the given bytes, never a copy; a value whose
checksum or size does not hold is refused with CodecError. Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import operator
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slicewise.errors import CodecError

Raw = bytes | bytearray | memoryview

_CRC = struct.Struct("<I")
SEAL_BYTES = _CRC.size
"""Every value ends in so many bytes of checksum."""
_RUNNING = struct.Struct("<qq")
_VERSION = struct.Struct("<Q")
_LIFETIME = struct.Struct("<qQ")
_SLICES = struct.Struct("<QI")
DIGEST_BYTES = 8
NO_HOURS = bytes(DIGEST_BYTES)
"""Stands for the digest of a day of which nothing is compacted."""
RUNNING_HEAD, TOTAL_HEAD, DAY_HEAD, LIFETIME_HEAD = (
    _RUNNING.size,
    _VERSION.size,
    DIGEST_BYTES,
    _LIFETIME.size,
)
"""Bytes before the row of a running partial, of an hour's total, of a day's and of a lifetime's."""
SCALAR_NUMBERS = 128
"""Up to so many slice numbers are faster as a tuple than as an array."""
_WHOLE = 0x2144DF1C
"""CRC-32 of any bytes followed by their own CRC-32, little-endian."""


class Running(NamedTuple):
    """A running partial: offsets of the first and the last event in it, and its encoded row."""

    first: int
    last: int
    row: memoryview


class Slices(NamedTuple):
    """Rows of a compacted hour: slice (or minute) numbers [n], ascending, and their block."""

    archive_version: int
    numbers: NDArray[np.int64]
    block: memoryview


class Total(NamedTuple):
    """The total of a compacted hour: archive version and encoded row."""

    archive_version: int
    row: memoryview


class Lifetime(NamedTuple):
    """The total of all hours before `total_until` (since the epoch): what archive version contains
    of them, as a row."""

    total_until: int
    archive_version: int
    row: memoryview


class Day(NamedTuple):
    """The total of a day: digest of the `c` that it was made from, and encoded row."""

    digest: bytes
    row: memoryview


def pack_running(first: int, last: int, row: Raw) -> bytes:
    """Value of `r:`: first i64, last i64, row, CRC."""
    return _sealed(_RUNNING.pack(first, last) + row)


def unpack_running(raw: Raw) -> Running:
    """Reads what `pack_running` made."""
    body = _opened(raw, _RUNNING.size, "running partial")
    first, last = _RUNNING.unpack_from(body)
    return Running(first, last, body[_RUNNING.size :])


def open_running(raw: bytes) -> tuple[int, int, bytes]:
    """`unpack_running` for the path that reads many: a plain tuple, the row copied."""
    if zlib.crc32(raw) != _WHOLE or len(raw) < _RUNNING.size + _CRC.size:
        first, last, row = unpack_running(raw)
        return first, last, bytes(row)
    first, last = _RUNNING.unpack_from(raw)
    return first, last, raw[_RUNNING.size : -_CRC.size]


def pack_total(archive_version: int, row: Raw) -> bytes:
    """Value of `h:`: archive version u64, row, CRC."""
    return _sealed(_VERSION.pack(archive_version) + row)


def unpack_total(raw: Raw) -> Total:
    """Reads what `pack_total` made."""
    body = _opened(raw, _VERSION.size, "hour total")
    (archive_version,) = _VERSION.unpack_from(body)
    return Total(archive_version, body[_VERSION.size :])


def check_values(values: Sequence[bytes], head: int) -> None:
    """Refuses values of which one is damaged or has no `head` bytes: for the path that reads
    many."""
    if not values or (
        min(map(len, values)) >= head + SEAL_BYTES and set(map(zlib.crc32, values)) == {_WHOLE}
    ):
        return
    for value in values:
        _opened(value, head, "stored value")


def versions_of(totals: Sequence[bytes]) -> list[int]:
    """Archive versions of checked hour totals."""
    return [archive_version for (archive_version,) in map(_VERSION.unpack_from, totals)]


def pack_slices(
    archive_version: int, numbers: Sequence[int] | NDArray[np.int64], block: Raw
) -> bytes:
    """Value of `s:` and `m:`: archive version u64, n u32, n numbers i64 ascending, block of n rows,
    CRC."""
    column = np.asarray(numbers, "<i8")
    if (column[1:] <= column[:-1]).any():
        raise CodecError("slice numbers do not ascend", expected="each greater than the one before")
    return _sealed(b"".join((_SLICES.pack(archive_version, len(column)), column.tobytes(), block)))


def pack_slice_runs(
    archive_versions: Sequence[int],
    numbers: NDArray[np.int64],
    bounds: Sequence[int],
    blocks: Sequence[bytes],
) -> list[bytes]:
    """`pack_slices` of each run [bounds[i], bounds[i + 1]) of numbers: for the path that writes
    many."""
    column = np.ascontiguousarray(numbers, "<i8")
    falls = column[1:] <= column[:-1]
    falls[np.asarray(bounds[1:-1], np.int64) - 1] = False
    if falls.any():
        raise CodecError("slice numbers do not ascend", expected="each greater than the one before")
    raw, head = column.tobytes(), _SLICES.pack
    return [
        _sealed(b"".join((head(version, b - a), raw[8 * a : 8 * b], block)))
        for version, (a, b), block in zip(archive_versions, pairwise(bounds), blocks, strict=True)
    ]


def unpack_slices(raw: Raw) -> Slices:
    """Reads what `pack_slices` made."""
    body = _opened(raw, _SLICES.size, "slices of an hour")
    archive_version, n = _SLICES.unpack_from(body)
    end = _SLICES.size + 8 * n
    if end > len(body):
        raise CodecError(
            f"{len(body)} bytes cannot hold {n} slice numbers", where="slices of an hour"
        )
    numbers = np.frombuffer(body[_SLICES.size : end], "<i8")
    if (numbers[1:] <= numbers[:-1]).any():
        raise CodecError("slice numbers do not ascend", where="slices of an hour")
    return Slices(archive_version, numbers, body[end:])


def open_slices(raw: bytes) -> tuple[int, Sequence[int] | NDArray[np.int64], int]:
    """archive version, numbers and where the block begins, of a checked value: for the path that
    reads many. Few numbers are Python's own."""
    if len(raw) >= _SLICES.size + SEAL_BYTES:
        archive_version, n = _SLICES.unpack_from(raw)
        end = _SLICES.size + 8 * n
        if n <= SCALAR_NUMBERS and end + SEAL_BYTES <= len(raw):
            numbers = struct.unpack_from(f"<{n}q", raw, _SLICES.size)
            if all(map(operator.lt, numbers, numbers[1:])):
                return archive_version, numbers, end
    slices = unpack_slices(raw)
    return slices.archive_version, slices.numbers, _SLICES.size + 8 * len(slices.numbers)


def pack_day(digest: bytes, row: Raw) -> bytes:
    """Value of `d`: digest of `c` (8 bytes), row, CRC."""
    if len(digest) != DIGEST_BYTES:
        raise CodecError(f"a digest of {len(digest)} bytes", expected=f"{DIGEST_BYTES}")
    return _sealed(digest + row)


def unpack_day(raw: Raw) -> Day:
    """Reads what `pack_day` made."""
    body = _opened(raw, DIGEST_BYTES, "day total")
    return Day(bytes(body[:DIGEST_BYTES]), body[DIGEST_BYTES:])


def pack_lifetime(total_until: int, archive_version: int, row: Raw) -> bytes:
    """Value of `t`: total-until hour i64, archive version u64, row, CRC."""
    return _sealed(_LIFETIME.pack(total_until, archive_version) + row)


def unpack_lifetime(raw: Raw) -> Lifetime:
    """Reads what `pack_lifetime` made."""
    body = _opened(raw, _LIFETIME.size, "lifetime total")
    total_until, archive_version = _LIFETIME.unpack_from(body)
    return Lifetime(total_until, archive_version, body[_LIFETIME.size :])


def day_digest(compacted: Raw) -> bytes:
    """Digest of a day's `c` value: the first 8 bytes of its SHA-256."""
    return hashlib.sha256(compacted).digest()[:DIGEST_BYTES]


def five_day_digest(days: Sequence[Raw | None]) -> bytes:
    """Digest of the `c` values of a five-day total's days, in their order; None where a day has
    none."""
    of_days = [NO_HOURS if day is None else day_digest(day) for day in days]
    return hashlib.sha256(b"".join(of_days)).digest()[:DIGEST_BYTES]


def _sealed(body: bytes) -> bytes:
    return body + _CRC.pack(zlib.crc32(body))


def _opened(raw: Raw, least: int, where: str) -> memoryview:
    view = memoryview(raw)
    size = len(view) - _CRC.size
    if size < least:
        raise CodecError(
            f"{len(view)} bytes are too few", where=where, expected=f"{least + 4} or more"
        )
    body = view[:size]
    (stated,) = _CRC.unpack_from(view, size)
    checksum = zlib.crc32(body)
    if stated != checksum:
        raise CodecError(
            f"checksum {checksum:08x} where {stated:08x} is stated",
            where=where,
            next_step="the stored value is damaged: rebuild the store's hour or unit",
        )
    return body
