"""Two answers agree if and only if their canonical bytes are equal: 3 is not 3.0, and every bit of
a double counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = frozenset([type(None), bool, int, str, bytes])
"""Types whose values msgpack writes as they are."""


def canonical(value: object) -> bytes:
    """Canonical bytes of a value: msgpack, doubles as eight bytes, instants as microseconds.

    Decimals are their text; structs are maps with sorted keys.
    """
    plain = value if type(value) in _PLAIN else _plain(value)
    packed = msgpack.packb(plain, use_bin_type=True)
    assert isinstance(packed, bytes)
    return packed


def _plain(value: object) -> Any:
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value  # one NaN, whatever its bits were
    if value is None or isinstance(value, bool | str | bytes | int):
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        # Spark gives naive UTC
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(value[name]) for name in sorted(value)}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} is no value of a feature")


def instant(value: object) -> object:
    """Microseconds UTC of an instant that may be RFC 3339 text, a datetime or microseconds
    already."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return _plain(value)


def typed(value: Any, kind: pa.DataType) -> Any:
    """Instants as microseconds on both sides: the API writes them as text, Spark as integers."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return instant(value)
    if pa.types.is_list(kind):
        return [typed(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: typed(value[field.name], field.type) for field in kind}
    return value


def value_of(raw: bytes) -> Any:
    """The value of canonical bytes."""
    return msgpack.unpackb(raw, strict_map_key=False)


def shown(raw: bytes) -> str:
    """A value's canonical bytes as text for people; doubles in the shortest form that reads
    back."""
    return repr(value_of(raw))


def wire(value: Any) -> Any:
    """A value as a request writes it: decimals and dates as text, instants as microseconds."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return _plain(value)
    return value.isoformat() if isinstance(value, date) else value
