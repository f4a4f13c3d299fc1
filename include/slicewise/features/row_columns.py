"""Row logic runs once per unit, in DuckDB, and only canonical values that the view accepts go on.

An event whose entity is null, or whose computed value is NaN or infinite, is left out of this view
only and counted by reason; `where` keeps the events for which it is true. Where a view computes
nothing, its columns are those of the events, and no engine is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.aggregates import canonicalise
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.rowlogic.functions.dialects import to_duckdb
from slicewise.features.rowlogic.row_function import computed as functions_of
from slicewise.features.schema.types import TIMESTAMP, arrow_type

NULL_ENTITY = "null_entity"
NOT_FINITE = "not_finite"
NO_VALUE = "row_function"
ROW = "slicewise_row"


def row_logic(
    unit: StorageUnit, events: pa.Table, carried: Sequence[str]
) -> tuple[pa.Table, Mapping[str, int]]:
    """The events that the view takes, in their order, with entity columns and what its aggregates
    read.

    Also how many it refused, by reason. carried: columns that go along as they are.
    """
    computed = dict(unit.columns)
    entity = [name for name, _ in unit.entity]
    kinds = dict(unit.entity) | dict(unit.given_types)
    selected = [f'"{name}"' for name in kinds if name not in computed]
    selected += [
        f'{to_duckdb(expression.tree)} AS "{name}"' for name, expression in computed.items()
    ]
    selected += [f'"{name}"' for name in carried]
    if not computed and unit.where is None:
        kept, refused = _accepted(
            _typed(_as_numbers(events.select([*kinds, *carried])), kinds), entity, ()
        )
        return _with_functions(unit, kept, refused)
    where = f" WHERE {to_duckdb(unit.where.tree)}" if unit.where is not None else ""
    ordered = events.append_column(ROW, pa.array(np.arange(events.num_rows, dtype=np.int64)))
    with duckdb.connect() as engine:
        engine.execute("SET threads = 2")
        engine.register("events", _as_numbers(ordered))
        text = f"SELECT {', '.join(selected)} FROM events{where} ORDER BY {ROW}"
        result = engine.sql(text).to_arrow_table()
    kinds |= {name: expression.kind for name, expression in computed.items()}
    kept, refused = _accepted(_typed(result, kinds), entity, tuple(computed))
    # there to refuse rows by
    beside = [name for name in computed if name not in dict(unit.given_types)]
    return _with_functions(unit, kept.drop_columns(beside), refused)


def _with_functions(
    unit: StorageUnit, table: pa.Table, refused: Mapping[str, int]
) -> tuple[pa.Table, Mapping[str, int]]:
    """With the columns of row functions, of the rows for which each has a value."""
    if not unit.functions:
        return table, refused
    given = {name: flat(table[name]) for name, _ in unit.given_types}
    columns, there = functions_of(unit.functions, given)
    keep, counted = np.ones(table.num_rows, np.bool_), dict(refused)
    for name, values in columns.items():
        _count(counted, f"{NO_VALUE}:{name}", keep & ~there[name])
        keep &= there[name]
        table = table.append_column(name, values)
    return table.filter(pa.array(keep)), counted


def _accepted(
    table: pa.Table, entity: list[str], computed: tuple[str, ...]
) -> tuple[pa.Table, Mapping[str, int]]:
    n = table.num_rows
    refused: dict[str, int] = {}
    keep = np.ones(n, np.bool_)
    for name in entity:
        null = table[name].is_null().to_numpy()
        _count(refused, NULL_ENTITY, keep & null)
        keep &= ~null
    for name in computed:
        if pa.types.is_float64(table[name].type):
            # A null is finite here: it is skipped, not refused.
            finite = pc.fill_null(pc.is_finite(table[name]), True).to_numpy()
            _count(refused, f"{NOT_FINITE}:{name}", keep & ~finite)
            keep &= finite
    return table if keep.all() else table.filter(pa.array(keep)), refused


def _count(refused: dict[str, int], reason: str, rows: np.ndarray) -> None:
    if rows.any():
        refused[reason] = refused.get(reason, 0) + int(rows.sum())


def _as_numbers(table: pa.Table) -> pa.Table:
    """Timestamps are integer microseconds in row logic, in both engines."""
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            whole = table.column(i).cast(arrow_type(TIMESTAMP)).cast(pa.int64())
            table = table.set_column(i, field.name, whole)
    return table


def _typed(table: pa.Table, kinds: Mapping[str, str]) -> pa.Table:
    for i, field in enumerate(table.schema):
        if field.name in kinds:
            column = table.column(i).cast(arrow_type(kinds[field.name]))
            if pa.types.is_floating(column.type):
                chunks = [canonicalise(chunk) for chunk in column.chunks]
                column = pa.chunked_array(chunks, column.type)
            table = table.set_column(i, field.name, column)
    return table


def flat(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array."""
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
