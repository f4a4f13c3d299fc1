"""A skip mark has one text, `<first>:<last>`: the offsets between which the real-time lane left
events to the micro-batch lane."""

from __future__ import annotations

from slicewise.errors import CodecError


def pack_skip(first: int, last: int) -> bytes:
    """The field `x:` of a partition."""
    return b"%d:%d" % (first, last)


def unpack_skip(raw: bytes) -> tuple[int, int]:
    """First and last offset. Raises CodecError."""
    try:
        first, last = map(int, raw.split(b":"))
    except ValueError as error:
        raise CodecError(
            f"a skip mark that is none: {raw[:40]!r}", expected="<first>:<last>"
        ) from error
    return first, last
