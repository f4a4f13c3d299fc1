"""A leaderboard is one value: equal rows of one window from one offset vector are equal bytes,
whoever made them.

docs/format.md, "Leaderboards", gives every byte: canonical msgpack, then CRC-32.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import msgpack

from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector

VERSION = 1
MAX_BYTES = 16 << 20
_CRC_BYTES = 4
_PARTS = 8
KeyValue = str | int | bool
Ranked = int | float | str
"""Integer, double, or the digits of a decimal."""


@dataclass(frozen=True)
class LeaderboardRow:
    """An entity and what it is ranked by. key: per column text, integer, boolean, a date as
    yyyy-mm-dd, or an instant in microseconds."""

    key: tuple[KeyValue, ...]
    value: Ranked


@dataclass(frozen=True)
class StoredLeaderboard:
    """The rows of a leaderboard at one window end, best first.

    fingerprint: of what the rows mean, 16 hex digits. start_us, end_us: the window, half-open; of
    sessions the bounds within which they are looked for. offset_vector: what the rows contain.
    columns: (name, type) of the entity.
    """

    fingerprint: str
    start_us: int
    end_us: int
    offset_vector: OffsetVector
    columns: tuple[tuple[str, str], ...]
    rows: tuple[LeaderboardRow, ...]
    more: bool = False
    """Tells whether entities beyond these rows have a value too."""

    @property
    def version(self) -> int:
        """Grows with the offset vector: of two leaderboards of one window end the one of the
        greater version contains more."""
        return sum(self.offset_vector.offsets.values())

    def pack(self) -> bytes:
        """The one form of its bytes."""
        body = b"".join(
            (
                bytes((0x90 | _PARTS,)),
                _pack(VERSION),
                _pack(bytes.fromhex(self.fingerprint)),
                _pack(self.start_us),
                _pack(self.end_us),
                self.offset_vector.pack(),
                _pack(self.columns),
                _pack([[row.key, row.value] for row in self.rows]),
                _pack(self.more),
            )
        )
        return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")

    @staticmethod
    def unpack(raw: bytes) -> StoredLeaderboard:
        """The leaderboard that `pack` wrote; CodecError for any other bytes."""
        body, seal = raw[:-_CRC_BYTES], raw[-_CRC_BYTES:]
        if len(raw) > MAX_BYTES or zlib.crc32(body).to_bytes(_CRC_BYTES, "little") != seal:
            raise _damaged("its checksum does not hold")
        try:
            parts = msgpack.unpackb(body, strict_map_key=False)
            version, fingerprint, start_us, end_us, nested, columns, rows, more = parts
            if version != VERSION:
                raise _damaged(f"it is of version {version}")
            leaderboard = StoredLeaderboard(
                fingerprint.hex(),
                start_us,
                end_us,
                OffsetVector.unpack(_pack(nested)),
                tuple((name, kind) for name, kind in columns),
                tuple(LeaderboardRow(tuple(key), value) for key, value in rows),
                more is True,
            )
            same = leaderboard.pack() == raw and all(
                len(row.key) == len(leaderboard.columns) for row in leaderboard.rows
            )
        except (
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            msgpack.exceptions.UnpackException,
        ) as error:
            raise _damaged(str(error)) from error
        if not same:
            raise _damaged("it is not in canonical form")
        return leaderboard


def _pack(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


def _damaged(why: str) -> CodecError:
    return CodecError(
        f"these bytes are no leaderboard: {why}",
        expected="what a process of this version wrote",
        next_step="it is made anew within its period; see that the emitter runs: slicewise status",
    )
