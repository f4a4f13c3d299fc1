"""The compacted hours of an entity's day have one text: the field `c`, by which `d` is checked."""

from __future__ import annotations

from collections.abc import Mapping

import msgpack

from slicewise.errors import CodecError

Hours = dict[int, int]
"""Compacted hours of one entity and day: hour since the epoch -> archive version."""


def pack_hours(hours: Mapping[int, int]) -> bytes:
    """The field `c`: canonical msgpack of [[hour, archive version], ...], ascending."""
    return bytes(
        msgpack.packb(sorted([hour, archive_version] for hour, archive_version in hours.items()))
    )


def unpack_hours(raw: bytes | None) -> Hours:
    """hour -> archive version of the field `c`; none where the field is absent. CodecError
    otherwise."""
    if raw is None:
        return {}
    try:
        pairs = msgpack.unpackb(raw)
        hours = dict(pairs)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise CodecError(f"{len(raw)} bytes are no list of hours: {error}") from error
    if pack_hours(hours) != raw:
        raise CodecError(
            "a list of hours is not in canonical form", expected="[[hour, archive version], ...]"
        )
    return hours
