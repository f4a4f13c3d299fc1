"""Each column type has one name in definitions, one in Arrow, and one in fingerprints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slicewise.errors import DefinitionError

if TYPE_CHECKING:
    import pyarrow as pa

STRING, LONG, DOUBLE, BOOLEAN, TIMESTAMP = "string", "long", "double", "boolean", "timestamp_us"

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
}
TIME_FORMS = {
    "timestamp_s": "s",
    "timestamp_ms": "ms",
    "timestamp_us": "us",
    "timestamp_rfc3339": "rfc3339",
}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_KNOWN = (
    "string, int64 (or long), double, boolean, decimal(p,s), "
    "timestamp_us, timestamp_ms, timestamp_s or timestamp_rfc3339"
)


def column_type(text: str) -> str:
    """The canonical name of a declared type; every form of a timestamp is "timestamp_us".

    Raises DefinitionError for a type that is none.
    """
    if not isinstance(text, str):
        raise DefinitionError(f"{text!r} is no column type", expected=_KNOWN)
    lowered = text.strip().lower()
    if lowered in _ALIASES:
        return _ALIASES[lowered]
    if lowered in TIME_FORMS:
        return TIMESTAMP
    matched = _DECIMAL.fullmatch(lowered)
    if matched:
        precision, scale = (int(group) for group in matched.groups())
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    raise DefinitionError(f"{text!r} is no column type", expected=_KNOWN, next_step="change the schema")


def time_form(text: str) -> str:
    """How a declared timestamp type stands on the wire: s, ms, us or rfc3339."""
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
    types: dict[str, pa.DataType] = {
        STRING: pa.string(),
        LONG: pa.int64(),
        DOUBLE: pa.float64(),
        BOOLEAN: pa.bool_(),
        TIMESTAMP: pa.timestamp("us", tz="UTC"),
    }
    return types[kind]
