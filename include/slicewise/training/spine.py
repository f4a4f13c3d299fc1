"""A spine is entities and instants without nulls or guesses: every row asks one question, also if rows repeat."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.errors import BadRequest, SlicewiseError
from slicewise.features.types import BOOLEAN, DATE, STRING, TIMESTAMP, arrow_type
from slicewise.token import Token, decode_all
from slicewise.training.instants import as_timestamps, times_us
from slicewise.training.ranges import Ints
from slicewise.training.wire import days

AT, TOKEN = "at", "token"


@dataclass(frozen=True)
class Spine:
    """Rows to be answered for: entity columns of their declared types, `at`, and what else was given.

    table: all columns as given, entity columns cast and `at` as timestamps in UTC. at_us: int64.
    """

    table: pa.Table
    at_us: Ints

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def tokens(self) -> list[tuple[Token, ...]]:
        """Per row the tokens of its `token` column, one per unit. Raises BadRequest."""
        if TOKEN not in self.table.column_names:
            raise BadRequest(
                "the spine has no tokens",
                where="spine",
                expected=f"a column {TOKEN!r} with the tokens that answers carried",
                next_step='add it, or ask with knowledge="event_time"',
            )
        out = []
        for row, text in enumerate(self.table[TOKEN].to_pylist()):
            if not isinstance(text, str):
                raise BadRequest(
                    f"{text!r} is no token",
                    where=f"spine, column {TOKEN!r}, row {row}",
                    expected="the text that an answer carried",
                    next_step="drop the row",
                )
            out.append(decode_all(text))
        return out

    def digest(self) -> str:
        """SHA-256 of the spine's Arrow form: equal spines, equal digests, in every process."""
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, self.table.schema) as stream:
            stream.write_table(self.table.combine_chunks())
        return hashlib.sha256(sink.getvalue()).hexdigest()


def read_spine(given: object, entity: Mapping[str, str], questions: Mapping[str, str] = MappingProxyType({})) -> Spine:
    """The spine in an Arrow table, a pandas frame, a list of dicts, or a Parquet file's path.

    entity: declared type of each entity column. questions: of each column that features are asked by,
    which may hold nulls, and lists. Raises BadRequest for a missing column, a null, a
    value that is not of its column's type, and an instant without zone.
    """
    table = as_table(given, "spine")
    missing = [name for name in (*entity, *questions, AT) if name not in table.column_names]
    if missing:
        raise BadRequest(
            f"the spine lacks {', '.join(missing)}",
            where="spine",
            expected=f"the columns {', '.join(dict.fromkeys((*entity, *questions, AT)))}",
            next_step=f"add them; it has {', '.join(table.column_names) or 'no columns'}",
        )
    for name, kind in entity.items():
        table = _put(table, name, typed(table[name], name, kind, "spine"))
    for name, kind in questions.items():
        if name not in entity:
            table = _put(table, name, _asked(table[name], name, kind, "spine"))
    at_us = times_us(table[AT], f"spine, column {AT!r}")
    table = _put(table, AT, pa.chunked_array([as_timestamps(at_us)]))
    # What pandas writes beside a schema differs from version to version, and says nothing here.
    return Spine(table.replace_schema_metadata(None).combine_chunks(), at_us)


def as_table(given: object, where: str) -> pa.Table:
    """An Arrow table of what a caller may hand in. Raises BadRequest for all else."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, str | Path):
        return _file(Path(given), where)
    if hasattr(given, "to_arrow"):  # polars
        return pa.table(given.to_arrow())
    if type(given).__module__.startswith("pandas") and hasattr(given, "columns"):
        return pa.Table.from_pandas(given, preserve_index=False)
    if isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given):
        return _listed(given, where)
    raise BadRequest(
        f"{type(given).__name__} is no table",
        where=where,
        expected="an Arrow table, a pandas frame, a list of dicts or the path of a Parquet file",
        next_step="give the rows in one of these forms",
    )


def typed(column: pa.ChunkedArray, name: str, kind: str, where: str) -> pa.ChunkedArray:
    """An entity column in its declared type, without nulls."""
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        raise BadRequest(
            f"{column.null_count} of {len(column)} values are null",
            where=f"{where}, column {name!r}, row {row}",
            expected="an entity in every row",
            next_step="drop the rows without entity",
        )
    if kind == TIMESTAMP:
        return pa.chunked_array([as_timestamps(times_us(column, f"{where}, column {name!r}"))])
    if kind == DATE:
        column = pa.chunked_array([days(column.combine_chunks(), f"{where}, column {name!r}")])
    if len(column) and _family(column.type) != _FAMILIES.get(kind, "number"):
        # An integer is not the text of it: the store would know another entity.
        raise _mistyped(column, name, kind, where)
    try:
        return column.cast(arrow_type(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _mistyped(column, name, kind, where) from error


def _asked(column: pa.ChunkedArray, name: str, kind: str, where: str) -> pa.ChunkedArray:
    """A column of questions: values of the declared type, nulls, or lists of these."""
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        if pa.types.is_null(column.type):
            return column.cast(arrow_type(kind))
        known = typed(column.drop_null(), name, kind, where)
        at = np.cumsum(column.is_valid().to_numpy()) - 1
        return known.take(pa.array(at, mask=np.asarray(column.is_null())))
    lists = column.combine_chunks()
    values = _asked(pa.chunked_array([lists.flatten()]), name, kind, where).combine_chunks()
    ends = np.append(0, np.cumsum(lists.value_lengths().fill_null(0).to_numpy())).astype(np.int32)
    bounds = pa.array(ends, mask=np.append(np.asarray(lists.is_null()), False))
    return pa.chunked_array([pa.ListArray.from_arrays(bounds, values)])


_FAMILIES = {STRING: "text", BOOLEAN: "boolean", DATE: "date"}


def _family(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _family(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date32(kind):
        return "date"
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return "number" if is_number or pa.types.is_decimal(kind) else "other"


def _mistyped(column: pa.ChunkedArray, name: str, kind: str, where: str) -> SlicewiseError:
    return BadRequest(
        f"the column is of type {column.type}",
        where=f"{where}, column {name!r}",
        expected=f"{kind}, as the view's entity is declared",
        next_step="cast the column",
    )


def _file(path: Path, where: str) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(
            f"{path} cannot be read as Parquet: {error}",
            where=where,
            expected="a Parquet file",
            next_step="save the spine again as Parquet",
        ) from error


def _listed(rows: Sequence[Any], where: str) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, pa.Array] = {}
    if rows and not names:
        raise BadRequest(
            f"{len(rows)} rows without a column", where=where, expected="dicts of columns", next_step="leave them out"
        )
    for name in names:
        if not isinstance(name, str):
            raise BadRequest(
                f"a column named {name!r}", where=where, expected="names as text", next_step="rename the column"
            )
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except OverflowError as error:
            raise BadRequest(
                "a whole number beyond 64 bits",
                where=f"{where}, column {name!r}",
                expected="-2^63 to 2^63 - 1",
                next_step="give it as the type that the source's schema declares",
            ) from error
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadRequest(
                f"values of several types: {error}",
                where=f"{where}, column {name!r}",
                expected="one type per column",
                next_step="give the column one type",
            ) from error
    return pa.table(columns)


def _put(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)
