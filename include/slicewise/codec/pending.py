"""A pending field holds consecutive events of one entity and partition: where they end, how many,
their sizes, the members.

docs/format.md, "Keys, fields, metadata", gives every byte; docs/adr/0066 why.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from slicewise.errors import CodecError

PENDING_HEAD_FORM = struct.Struct("<QI")
PENDING_HEAD = PENDING_HEAD_FORM.size
"""Bytes: the last offset (u64) and the number of events (u32)."""
PENDING_SIZE = 4
"""Bytes of each size after it (u32)."""
OFFSET_OF = slice(28, 36)
"""Place of the offset in a member, within its identity: big-endian."""


class Room(NamedTuple):
    """Bounds of one pending field; an event that is larger by itself has one of its own."""

    events: int
    bytes: int


ROOM = Room(64, 1024)
"""Length of the longest value with which the store keeps a hash as one piece
(hash-max-listpack-value of `local.redis_server`): beyond it the hash takes a quarter more, for
good, and each append is logged with all of it."""


def pack_pending(members: Sequence[bytes]) -> bytes:
    """One field of these events, at least one."""
    sizes = b"".join([len(member).to_bytes(PENDING_SIZE, "little") for member in members])
    return b"".join([PENDING_HEAD_FORM.pack(offset_of(members[-1]), len(members)), sizes, *members])


def offset_of(member: bytes) -> int:
    """The offset of the event that a member is."""
    return int.from_bytes(member[OFFSET_OF], "big")


def unpack_pending(value: bytes) -> tuple[int, list[bytes]]:
    """Last offset and members. Raises CodecError where sizes or last offset are not theirs."""
    if len(value) < PENDING_HEAD:
        raise _damaged(value)
    last, n = PENDING_HEAD_FORM.unpack_from(value)
    start = PENDING_HEAD + PENDING_SIZE * n
    if n == 0 or start > len(value):
        raise _damaged(value)
    sizes = struct.unpack_from(f"<{n}I", value, PENDING_HEAD)
    ends = list(accumulate(sizes, initial=start))
    members = [value[begin:end] for begin, end in pairwise(ends)]
    if ends[-1] != len(value) or offset_of(members[-1]) != last:
        raise _damaged(value)
    return last, members


def pack_pending_numbers(oldest: int, newest: int) -> bytes:
    """The field `o:` of a partition: the numbers of its pending fields, from which to which."""
    return b"%d:%d" % (oldest, newest)


def unpack_pending_numbers(raw: bytes) -> tuple[int, int]:
    """Oldest and newest. Raises CodecError."""
    try:
        oldest, newest = map(int, raw.split(b":"))
    except ValueError as error:
        raise CodecError(
            f"no numbers of pending fields: {raw[:40]!r}", expected="<oldest>:<newest>"
        ) from error
    return oldest, newest


def _damaged(value: bytes) -> CodecError:
    return CodecError(
        f"a pending field of {len(value)} bytes whose parts do not agree",
        expected="last offset, number, sizes, members",
    )
