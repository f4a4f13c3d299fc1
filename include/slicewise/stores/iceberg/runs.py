"""What every job did is kept: `ops.runs` gets one commit at the end of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from slicewise.stores.iceberg.catalog import ensure
from slicewise.stores.iceberg.schemas import RUNS


def append_runs(catalog: SqlCatalog, now_us: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Appends rows of plain values by column name; `hour` may be text (2026-11-21T08) or a number."""
    table = ensure(catalog, RUNS)
    schema = table.schema().as_arrow()
    values: dict[str, list[Any]] = {name: [] for name in schema.names}
    for row in rows:
        given = dict(row) | {"time": now_us, "hour": _hour(row.get("hour"))}
        for name, column in values.items():
            column.append(given.get(name))
    arrays = [pa.array(values[field.name], _type(field)).cast(field.type) for field in schema]
    table.append(pa.Table.from_arrays(arrays, schema=schema))


def _type(field: pa.Field) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(field.type) else field.type


def _hour(value: object) -> int | None:
    if value is None or isinstance(value, int):
        return value
    from datetime import UTC, datetime

    return int(datetime.strptime(str(value), "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp()) // 3600
