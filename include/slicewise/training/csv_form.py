"""A table as CSV: what has no text of its own is JSON, and every double comes back as the same
double."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from slicewise.codec.plain import converter, json_safe

CSV = ".csv"
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
"""Form of a timestamp: in microseconds Arrow's %S has six decimals."""


def is_csv(path: Path) -> bool:
    """Tells whether a file is CSV, by its name."""
    return path.suffix.lower() == CSV


def csv_bytes(table: pa.Table, *, names: bool = True) -> bytes:
    """CSV with a line of names: equal tables, equal bytes. names: False for what follows on a part
    that has it.

    A null is an empty field and an empty text is "". Instants are RFC 3339 in UTC, lists and
    structs the JSON that the serving API answers. Doubles have the fewest digits that give the same
    double again.
    """
    columns = [_flat(column.combine_chunks()) for column in table.columns]
    sink = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=names)
    pyarrow.csv.write_csv(pa.table(columns, names=table.column_names), sink, options)
    return sink.getvalue()


def _flat(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, format=_INSTANT)
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    if not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return column
    values = converter(kind)(column)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: object) -> str:
    if isinstance(value, str | bytes):
        return value if isinstance(value, str) else value.hex()
    return json.dumps(json_safe(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
