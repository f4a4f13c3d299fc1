"""A row of `ops.*` is written once, after what it tells of, and never changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import schema_to_pyarrow

from slicewise.errors import CommitConflict
from slicewise.stores.lake.archive import load
from slicewise.stores.lake.catalog import ensure
from slicewise.stores.lake.schemas import OFFSET_VECTOR, RUNS, Table

ATTEMPTS = 20
_PAUSE_S = 0.1
_UTC_US = pa.timestamp("us", tz="UTC")


def append(catalog: SqlCatalog, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows (column -> value; instants as integer microseconds UTC) in one commit.

    Raises CommitConflict when others commit first every time.
    """
    if not rows:
        return
    for attempt in range(ATTEMPTS):
        target = ensure(catalog, table)
        schema = schema_to_pyarrow(target.schema(), include_field_ids=False)
        try:
            target.append(as_table(rows, schema))
        except CommitFailedException as error:
            if attempt + 1 == ATTEMPTS:
                raise CommitConflict(
                    f"others committed first {ATTEMPTS} times",
                    where=".".join(table.identifier),
                    next_step="try again",
                ) from error
            time.sleep(_PAUSE_S)
        else:
            return


def as_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as a table's columns; what a row does not name is null."""
    return pa.table([_column(rows, field) for field in schema], schema=schema)


def _column(rows: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    if pa.types.is_timestamp(field.type):
        return pa.array(values, pa.int64()).cast(_UTC_US).cast(field.type)
    return pa.array(values, field.type)


BUILT, _NEWEST = "built", 20


class Built(NamedTuple):
    """A unit that a backfill built: how long it took, the bytes of its slices, and the events of
    the hours that were computed for it; 0 where the rows of all hours stood."""

    took_ms: int
    bytes: int
    events: int


def built(catalog: SqlCatalog) -> list[Built]:
    """The units that backfills built last."""
    table = ensure(catalog, RUNS).scan(row_filter=f"outcome = '{BUILT}'").to_arrow()
    figures = ("time", "took_ms", "bytes", "events")
    rows = zip(*(table[name].to_pylist() for name in figures), strict=True)
    ordered = sorted(rows, key=lambda row: row[0])[-_NEWEST:]
    return [Built(ms, size, events or 0) for _, ms, size, events in ordered if ms and size]


def records(catalog: SqlCatalog, table: Table) -> list[dict[str, Any]]:
    """All rows of a table, as they were written."""
    rows: list[dict[str, Any]] = ensure(catalog, table).scan().to_arrow().to_pylist()
    return rows


def archived_until_us(catalog: SqlCatalog, source: str, archive_version: int) -> int | None:
    """The time at which this archive of a source was taken (microseconds UTC); None if there is
    none."""
    table = load(catalog, source)
    if table is None or table.current_snapshot() is None:
        return None
    rows = table.scan(
        row_filter=f"kind = '{OFFSET_VECTOR}' and hour is null and archive_seq = {archive_version:d}",
        selected_fields=("archive_time",),
    ).to_arrow()
    times = [
        value for value in rows["archive_time"].cast(pa.int64()).to_pylist() if value is not None
    ]
    return min(times, default=None)
