"""Every column type has one name in definitions, one in Arrow, and one in fingerprints.

Narrow types (int8 … uint32, float) are what a record may hold; past the reader there are longs and
doubles alone, so that a value has one meaning and one key whatever its width was (docs/adr/0039).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from slicewise.calls import shown
from slicewise.errors import DefinitionError

if TYPE_CHECKING:
    import pyarrow as pa

STRING, LONG, DOUBLE, BOOLEAN, TIMESTAMP = "string", "long", "double", "boolean", "timestamp_us"
DATE, FLOAT = "date", "float"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ALIASES = {
    "string": STRING,
    "text": STRING,
    "long": LONG,
    "int64": LONG,
    "bigint": LONG,
    "double": DOUBLE,
    "float64": DOUBLE,
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "date": DATE,
}
_NARROW_ALIASES = {
    "byte": "int8",
    "tinyint": "int8",
    "short": "int16",
    "smallint": "int16",
    "int": "int32",
    "integer": "int32",
    "float32": FLOAT,
    "real": FLOAT,
}
RANGES = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32)},
}
"""Least and greatest value of each narrow integer type."""
KAFKA_TIME = "kafka"
"""Timestamp of a source that is the time of the Kafka record."""
TIME_FORMS = {
    "timestamp_s": "s",
    "timestamp_ms": "ms",
    "timestamp_us": "us",
    "timestamp_rfc3339": "rfc3339",
}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_ARRAY = re.compile(r"array<\s*(.+?)\s*>")
_EXPECTED = (
    "string, int64 (or long), int8 to int32, uint8 to uint32, double, float, boolean, decimal(p,s), date, "
    "timestamp_us, timestamp_ms, timestamp_s or timestamp_rfc3339, or an array<…> of one that is no instant"
)


def column_type(text: str) -> str:
    """The type of a declared column's values; every form of a timestamp is "timestamp_us", every
    width of integers is "long", a float is a "double".

    Raises DefinitionError for a type that is none.
    """
    kind = wire_type(text)
    element = element_type(kind)
    if element is not None:
        return f"array<{column_type(element)}>"
    return LONG if kind in RANGES else DOUBLE if kind == FLOAT else kind


def wire_type(text: str) -> str:
    """The canonical name of a declared type, as narrow as it was declared.

    Raises DefinitionError for a type that is none.
    """
    if not isinstance(text, str):
        raise DefinitionError(
            f"{shown(text)} is no column type", expected=_EXPECTED, next_step="write one of these"
        )
    lowered = text.strip().lower()
    narrow = _NARROW_ALIASES.get(lowered, lowered)
    if narrow in RANGES or narrow == FLOAT:
        return narrow
    if lowered in _ALIASES:
        return _ALIASES[lowered]
    if lowered in TIME_FORMS:
        return TIMESTAMP
    matched = _DECIMAL.fullmatch(lowered)
    if matched:
        precision, scale = (int(group) for group in matched.groups())
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    listed = _ARRAY.fullmatch(lowered)
    if listed:
        element = wire_type(listed[1])
        if element != TIMESTAMP and element_type(element) is None:
            return f"array<{element}>"
    raise DefinitionError(
        f"{shown(text)} is no column type", expected=_EXPECTED, next_step="change the schema"
    )


def element_type(kind: str) -> str | None:
    """Type of an array's elements, else None."""
    matched = _ARRAY.fullmatch(kind)
    return matched[1] if matched else None


def time_form(text: str) -> str:
    """The form of a declared timestamp type on the wire: s, ms, us or rfc3339."""
    return TIME_FORMS[text.strip().lower()]


def decimal_parts(kind: str) -> tuple[int, int] | None:
    """(precision, scale) of a decimal type, else None."""
    matched = _DECIMAL.fullmatch(kind)
    return (int(matched[1]), int(matched[2])) if matched else None


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a column; timestamps are int64 microseconds with UTC as their zone."""
    import pyarrow as pa

    parts = decimal_parts(kind)
    if parts:
        return pa.decimal128(*parts)
    element = element_type(kind)
    if element is not None:
        return pa.list_(arrow_type(element))
    types: dict[str, pa.DataType] = {
        STRING: pa.string(),
        LONG: pa.int64(),
        DOUBLE: pa.float64(),
        BOOLEAN: pa.bool_(),
        DATE: pa.date32(),
        TIMESTAMP: pa.timestamp("us", tz="UTC"),
    }
    return types[kind]


def type_name(kind: pa.DataType) -> str:
    """The name of an Arrow type, for people: of a column's type what a schema calls it."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (f"{one.name}:{type_name(one.type)}" for one in kind)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    names = {arrow_type(name): name for name in (STRING, LONG, DOUBLE, BOOLEAN, DATE, TIMESTAMP)}
    return names.get(kind, "binary" if pa.types.is_large_binary(kind) else str(kind))


def parse_instant(text: str) -> int:
    """Microseconds since 1970 of an RFC 3339 text with a zone. Raises DefinitionError for anything
    else."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None or instant < _EPOCH:
        raise DefinitionError(
            f"{shown(text)} is no instant",
            expected="an instant with a zone, since 1970, as 2026-11-01T00:00:00Z",
            next_step="write it so; Z is UTC",
        )
    return (instant - _EPOCH) // timedelta(microseconds=1)


def instant_text(micros: int) -> str:
    """RFC 3339 in UTC."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
