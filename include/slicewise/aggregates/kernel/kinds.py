"""The type of a column in the words of a source's schema, for messages."""

from __future__ import annotations

import pyarrow as pa

_SAME = {
    "bool": "boolean",
    "halffloat": "float16",
    "large_string": "string",
    "string_view": "string",
}


def named(kind: pa.DataType) -> str:
    """The type's name in a schema; a type that no schema has gets a word of the field."""
    types = pa.types
    if types.is_dictionary(kind):
        return f"{named(kind.value_type)}, as categories"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"array<{named(kind.value_type)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp with no time zone" if kind.tz is None else f"timestamp in {kind.tz}"
    for is_kind, word in (
        (types.is_date, "date"),
        (types.is_time, "time of day"),
        (types.is_duration, "duration"),
        (types.is_struct, "struct (a dict in each row)"),
        (types.is_map, "map"),
        (types.is_null, "null: it has no value"),
    ):
        if is_kind(kind):
            return word
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "bytes"
    return _SAME.get(str(kind), str(kind))
