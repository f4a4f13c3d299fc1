"""A token says exactly which events an answer contains, and one answer has exactly one text.

An event (hour H, partition p, offset o) is in the answer if and only if
`o < max(base[p], compacted_beyond[H][p])` and its time lies within the bounds of the feature.
docs/format.md, section "Tokens", gives every byte.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgpack

from slicewise.errors import BadRequest, CodecError
from slicewise.offsets.vector import OffsetVector, TopicPartition

VERSION = 1
MODES = ("live", "at", "event_time")
SEPARATOR = "."
MAX_TEXT = 65_536
"""Characters of a token that are looked at; a longer one is refused before it is decoded."""

_ARRAY = b"\x98"  # msgpack array of eight
_CRC_HEAD = b"\xc4\x04"  # msgpack bin of four
Bounds = Mapping[str, tuple[int, int]]
"""Feature column -> effective (start_us, end_us), half-open, microseconds UTC."""


@dataclass(frozen=True)
class Token:
    """Content of one answer of one unit for one entity."""

    unit: str
    """Storage fingerprint, 16 hex digits."""
    definition: str
    """Definition fingerprint, 16 hex digits."""
    mode: str
    """ "live", "at" or "event_time"."""
    base: OffsetVector
    compacted_beyond: Mapping[int, OffsetVector]
    """Hour since the epoch -> offset vector of its compaction, where that ran ahead of the base."""
    bounds: Bounds

    def contains(self, hour: int, topic_partition: TopicPartition, offset: int) -> bool:
        """Tells whether an event of this hour, within a feature's bounds, is in the answer."""
        return offset < self.first_missing(hour, topic_partition)

    def first_missing(self, hour: int, topic_partition: TopicPartition) -> int:
        """The first offset at `topic_partition` that the answer does not contain for events of
        `hour`."""
        base = self.base.get(topic_partition)
        compacted_beyond = self.compacted_beyond.get(hour)
        return (
            base if compacted_beyond is None else max(base, compacted_beyond.get(topic_partition))
        )


def encode(
    unit: str,
    definition: str,
    base: OffsetVector,
    compacted_beyond: Mapping[int, OffsetVector],
    mode: str,
    bounds: Bounds,
) -> str:
    """The one text of these values: base64url without padding of canonical msgpack."""
    return seal(head(unit, definition, mode), base, compacted_beyond, bounds_bytes(bounds))


def head(unit: str, definition: str, mode: str) -> bytes:
    """The bytes before the offset vectors; the same for all entities of a read, so made once per
    plan."""
    return b"".join(
        (
            _ARRAY,
            _pack(VERSION),
            _pack(bytes.fromhex(unit)),
            _pack(bytes.fromhex(definition)),
            _pack(MODES.index(mode)),
        )
    )


def bounds_bytes(bounds: Bounds) -> bytes:
    """The bounds' bytes; the same for all entities of a read, so made once per plan."""
    grouped: dict[tuple[int, int], list[str]] = {}
    for column, interval in bounds.items():
        grouped.setdefault(interval, []).append(column)
    return _pack([[start, end, sorted(grouped[start, end])] for start, end in sorted(grouped)])


def seal(
    head_bytes: bytes,
    base: OffsetVector,
    compacted_beyond: Mapping[int, OffsetVector],
    ending: bytes,
) -> str:
    """A token of its four parts."""
    return _text(head_bytes + base.pack() + _pack_beyond(compacted_beyond) + ending)


def decode(text: str) -> Token:
    """The token of one unit. Raises BadRequest for all but the one text of a token."""
    return _decode(text)


def raw(text: str) -> bytes:
    """The bytes of a token's text; of what is no base64url, nothing that can be relied on."""
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


def join(tokens: Iterable[str]) -> str:
    """One text for the tokens of an entity's units, in the order given."""
    return SEPARATOR.join(tokens)


def decode_all(text: str) -> tuple[Token, ...]:
    """The tokens of a joined text. Raises BadRequest."""
    if len(text) > MAX_TEXT:
        raise _bad(f"a token of {len(text)} characters")
    return tuple(_decode(part) for part in text.split(SEPARATOR))


def missing_partitions(
    wanted: Token,
    base: OffsetVector,
    compacted_beyond: Mapping[int, OffsetVector],
    hours: tuple[int, int],
) -> tuple[TopicPartition, ...]:
    """Partitions at which an answer (base, compacted_beyond) lacks events that the wanted token
    contains.

    hours: the half-open range of hours that the answer reaches; what lies outside of it is in no
    answer of this read. Empty when the answer contains at least all that `wanted` does.
    """
    behind = {
        topic_partition
        for topic_partition, offset in wanted.base.offsets.items()
        if base.get(topic_partition) < offset
    }
    for hour, offset_vector in wanted.compacted_beyond.items():
        if hours[0] <= hour < hours[1]:
            contained = base.join(compacted_beyond[hour]) if hour in compacted_beyond else base
            behind.update(
                p for p, offset in offset_vector.offsets.items() if contained.get(p) < offset
            )
    return tuple(sorted(behind))


def _pack(value: object) -> bytes:
    return bytes(msgpack.packb(value, use_bin_type=True))


_NOTHING_BEYOND = _pack({})


def _pack_beyond(compacted_beyond: Mapping[int, OffsetVector]) -> bytes:
    if not compacted_beyond:
        return _NOTHING_BEYOND
    header = bytes(msgpack.Packer().pack_map_header(len(compacted_beyond)))
    return header + b"".join(
        _pack(hour) + compacted_beyond[hour].pack() for hour in sorted(compacted_beyond)
    )


def _text(body: bytes) -> str:
    sealed = body + _CRC_HEAD + zlib.crc32(body).to_bytes(4, "little")
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")


@lru_cache(maxsize=4_096)
def _decode(text: str) -> Token:
    if len(text) > MAX_TEXT:
        raise _bad(f"a token of {len(text)} characters")
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        sealed = base64.b64decode(padded, altchars=b"-_", validate=True)
        body, seal_bytes = sealed[:-6], sealed[-6:]
        if seal_bytes != _CRC_HEAD + zlib.crc32(body).to_bytes(4, "little"):
            raise _bad("a token that was cut or changed")
        token = _token(msgpack.unpackb(sealed, strict_map_key=False))
        again = encode(
            token.unit,
            token.definition,
            token.base,
            token.compacted_beyond,
            token.mode,
            token.bounds,
        )
    except BadRequest:
        raise
    except (
        CodecError,
        binascii.Error,
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        msgpack.UnpackException,
    ) as error:
        raise _bad(f"not a token ({type(error).__name__})") from error
    if again != text:
        raise _bad("a token in another form than its one text")
    return token


def _token(values: Any) -> Token:
    if not isinstance(values, list) or len(values) != 8:
        raise ValueError("not an array of eight")
    version, unit, definition, mode, base, compacted_beyond, bounds, _ = values
    if version != VERSION or isinstance(version, bool):
        raise _bad(f"a token of version {version!r}")
    if not isinstance(compacted_beyond, dict):
        raise TypeError("no map of hours")
    if len(unit) != 8 or len(definition) != 8:
        raise ValueError("a fingerprint is eight bytes")
    return Token(
        unit=bytes(unit).hex(),
        definition=bytes(definition).hex(),
        mode=MODES[_whole(mode)],
        base=_offset_vector(base),
        compacted_beyond={
            _whole(hour): _offset_vector(offset_vector)
            for hour, offset_vector in compacted_beyond.items()
        },
        bounds=_bounds(bounds),
    )


def _offset_vector(offsets: Any) -> OffsetVector:
    return OffsetVector.unpack(_pack(offsets))


def _bounds(groups: Sequence[Any]) -> dict[str, tuple[int, int]]:
    bounds: dict[str, tuple[int, int]] = {}
    for start, end, columns in groups:
        for column in columns:
            if not isinstance(column, str):
                raise ValueError("a column is text")
            bounds[column] = (_whole(start), _whole(end))
    return bounds


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("not an integer")
    return value


def _bad(what: str) -> BadRequest:
    return BadRequest(
        what,
        where="token",
        expected=f"a token of version {VERSION}, exactly as an answer gave it",
        next_step="pass the answer's token on unchanged",
    )
