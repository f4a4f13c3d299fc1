"""A compacted hour says itself what it contains: its header row holds the archive version and the
offset vector."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import BinaryType, LongType

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.schemas import SLICES, unit_table


@dataclass(frozen=True)
class Header:
    """Content of a compacted hour."""

    archive_version: int
    offset_vector: OffsetVector


def load(catalog: SqlCatalog, fingerprint: str) -> IcebergTable | None:
    """The unit's table; None before its first compaction."""
    try:
        return catalog.load_table((SLICES, unit_table(fingerprint)))
    except NoSuchTableError:
        return None


def drop(catalog: SqlCatalog, fingerprint: str) -> None:
    """Drops the unit's table with its files; nothing where there is none."""
    with suppress(NoSuchTableError):
        catalog.purge_table((SLICES, unit_table(fingerprint)))


def headers(table: IcebergTable, snapshot_id: int | None = None) -> dict[int, Header]:
    """Hour -> header, of all compacted hours; from the files' bounds, which hold a header's values
    as they are, because no other row has them. Where a file lacks a bound, it is read."""
    if table.current_snapshot() is None:
        return {}
    schema = table.schema()
    version_id, offset_vector_id = (schema.find_field(name).field_id for name in ("seq", "cover"))
    by_hour: dict[int, Header] = {}
    unread = set()
    for task in table.scan(snapshot_id=snapshot_id).plan_files():
        hour, bounds = task.file.partition[0], task.file.upper_bounds or {}
        if version_id not in bounds and offset_vector_id not in bounds:
            continue  # a file without the header
        if version_id in bounds and offset_vector_id in bounds:
            archive_version = int(from_bytes(LongType(), bounds[version_id]))
            offset_vector: Any = from_bytes(BinaryType(), bounds[offset_vector_id])
            by_hour[hour] = Header(archive_version, OffsetVector.unpack(offset_vector))
        else:
            unread.add(hour)
    return by_hour | _read(table, sorted(unread), snapshot_id)


def _read(table: IcebergTable, hours: Sequence[int], snapshot_id: int | None) -> dict[int, Header]:
    if not hours:
        return {}
    rows = table.scan(
        row_filter=f"slice is null and {_of(hours)}",
        selected_fields=("hour", "seq", "cover"),
        snapshot_id=snapshot_id,
    ).to_arrow()
    return {
        hour: Header(archive_version, OffsetVector.unpack(offset_vector))
        for hour, archive_version, offset_vector in zip(
            *(c.to_pylist() for c in rows.columns), strict=True
        )
    }


def scan_slices(
    table: IcebergTable, hours: Sequence[int], snapshot_id: int | None = None
) -> pa.Table:
    """Rows of these hours, without headers: hour, slice, entity columns, partials, events, late."""
    scanned = table.scan(
        row_filter=f"slice is not null and {_of(hours)}", snapshot_id=snapshot_id
    ).to_arrow()
    return scanned.drop_columns(["seq", "cover"])


def bounds(
    table: IcebergTable, hours: Sequence[int], snapshot_id: int | None = None
) -> tuple[int, int]:
    """(rows, bytes) of the files of these hours, headers included: no rows are read for it."""
    files = [
        task.file
        for task in table.scan(row_filter=_of(hours), snapshot_id=snapshot_id).plan_files()
    ]
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)


def _of(hours: Sequence[int]) -> str:
    return f"hour in ({', '.join(map(str, hours))})" if hours else "hour < 0"
