"""A local file's columns are read as the source declares them; without a source, as the file
says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from slicewise.errors import BadRequest, DefinitionError, Location
from slicewise.features.declare.definitions import KafkaSource
from slicewise.features.schema.kafka_source import check_column
from slicewise.features.schema.types import (
    DATE,
    KAFKA_TIME,
    STRING,
    TIMESTAMP,
    arrow_type,
    column_type,
    time_form,
)
from slicewise.training.tables import faults

RECORD_COLUMNS = ("partition", "offset", "kafka_time")
"""Columns that a file may hold beside the source's: where its events stood in the log."""

_LOST_BY_INT = "^[+-]?0[0-9]"
_LOST_BY_DOUBLE = "^[+-]?(0[0-9]|[0-9]{16,}$)"


@dataclass(frozen=True)
class FileEvents:
    """Events of a file. notes: what was taken to be so, for people."""

    table: pa.Table
    notes: tuple[str, ...] = ()


@dataclass
class _Guess:
    schema: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def read_events(path: Path, source: KafkaSource | None) -> FileEvents:
    """Events of a Parquet, CSV or JSON-lines file, told by its name; columns that the source lacks
    are left out.

    Times without a zone are UTC, which a note says. Raises BadRequest.
    """
    readers: dict[str, Callable[[Path, KafkaSource | None], pa.Table]] = {
        ".parquet": lambda path, _: pq.read_table(path),
        ".csv": _csv,
        ".json": _json,
        ".jsonl": _json,
        ".ndjson": _json,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise BadRequest(
            f"{path.name} is of no kind that is read",
            where=str(path),
            expected=", ".join(readers),
            next_step="save the table as one of these",
        )
    try:
        table = reader(path, source)
    except (OSError, pa.ArrowException) as error:
        raise BadRequest(
            f"the file cannot be read: {faults.of_file(error)}",
            where=str(path),
            expected=f"{path.suffix} with the columns of the source"
            if source
            else f"a file of {path.suffix}",
            next_step="correct the file, or save it again",
        ) from error
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise BadRequest(
            f"the file has two columns named {twice[0]!r}",
            where=str(path),
            expected="each name once",
            next_step="rename one of them in the file",
        )
    if source is not None:
        table = _placed(table, source)
        time = "kafka_time" if source.timestamp == KAFKA_TIME else source.timestamp
        missing = [name for name in (time, *source.required) if name not in table.column_names]
        if missing:
            raise BadRequest(
                f"the file lacks {', '.join(missing)}",
                where=str(path),
                expected=f"the columns of source {source.name!r}",
                next_step=f"it has {', '.join(table.column_names)}",
            )
        table = table.select(
            [name for name in table.column_names if name in (*source.schema, *RECORD_COLUMNS)]
        )
    return _in_utc(table)


def source_of_file(name: str, path: Path, timestamp: str | None) -> tuple[KafkaSource, FileEvents]:
    """A source by a file's own columns, and its events; `timestamp` is the column that the query
    orders by.

    Raises DefinitionError and BadRequest.
    """
    guess = _Guess()
    events = read_events(path, None)
    table, codes = (
        _with_codes(path, events.table) if path.suffix.lower() == ".csv" else (events.table, [])
    )
    unnamed: set[str] = set()
    for column in table.schema:
        kind = _kind(column.type, is_time=column.name == timestamp)
        try:
            check_column(column.name, str(path))
        except DefinitionError:
            if column.name == timestamp:
                raise  # what the query orders by cannot be left out
            kind = None
            unnamed.add(column.name)
        if kind is None:
            guess.left_out.append(column.name)
        else:
            guess.schema[column.name] = kind
    if timestamp not in guess.schema or column_type(guess.schema[timestamp or ""]) != TIMESTAMP:
        reason = (
            f"the query's time is {timestamp!r}" if timestamp else "the query names no event time"
        )
        names = [
            column.name
            for column in table.schema
            if pa.types.is_timestamp(column.type) and column.name not in unnamed
        ]
        raise DefinitionError(
            (
                f"source {name!r} is declared nowhere, and {reason}, which is no column of "
                "instants in the file"
            ),
            where=str(path),
            expected="one of " + (", ".join(names) or "none in this file"),
            next_step="declare it: CREATE SOURCE …, which says how the time is written",
        )
    source = KafkaSource(
        name, schema=guess.schema, timestamp=timestamp or "", location=Location(str(path), 1)
    )
    notes = [f"columns left out: {', '.join(guess.left_out)}"] if guess.left_out else []
    if codes:
        notes.append(f"read as text, as no number keeps their digits: {', '.join(codes)}")
    return source, FileEvents(table.select(list(guess.schema)), (*events.notes, *notes))


def _with_codes(path: Path, table: pa.Table) -> tuple[pa.Table, list[str]]:
    """With columns as text whose digits a number would lose: zeros that they begin with, and what
    is beyond a double. The names of these."""
    forms = {
        column.name: _LOST_BY_INT for column in table.schema if pa.types.is_integer(column.type)
    }
    forms |= {
        column.name: _LOST_BY_DOUBLE for column in table.schema if pa.types.is_floating(column.type)
    }
    if not forms:
        return table, []
    options = pyarrow.csv.ConvertOptions(
        include_columns=list(forms),
        column_types=dict.fromkeys(forms, pa.string()),
        strings_can_be_null=True,
    )
    texts = pyarrow.csv.read_csv(path, convert_options=options)
    codes = [
        n for n, form in forms.items() if pc.any(pc.match_substring_regex(texts[n], form)).as_py()
    ]
    for name in codes:
        table = table.set_column(table.column_names.index(name), name, texts[name])
    return table, codes


def _kind(kind: pa.DataType, *, is_time: bool) -> str | None:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return "timestamp_rfc3339" if is_time else "string"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "int64" if kind != pa.uint64() else None
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_timestamp(kind):
        return "timestamp_rfc3339" if is_time else None
    if pa.types.is_date32(kind):
        return "date"
    if pa.types.is_decimal(kind) and kind.scale >= 0 and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    return None


def _placed(table: pa.Table, source: KafkaSource) -> pa.Table:
    """With the columns that stand inside of objects, as the record reader finds them."""
    for name, path in source.column_paths().items():
        if path == (name,) or path[0] not in table.column_names:
            continue  # as a column of its own name, as tables have it
        value = table[path[0]].combine_chunks()
        for step in path[1:]:
            inside = pa.types.is_struct(value.type) and value.type.get_field_index(step) >= 0
            value = pc.struct_field(value, step) if inside else pa.nulls(table.num_rows)
        at = table.schema.get_field_index(name)
        table = table.append_column(name, value) if at < 0 else table.set_column(at, name, value)
    return table


def _types(source: KafkaSource, *, nested: bool = False) -> dict[str, pa.DataType]:
    """Types of the columns in text: instants as integers, or as RFC 3339 text. nested: in JSON,
    where days are text, and what stands inside of objects is left to what it is."""
    types: dict[str, pa.DataType] = {}
    for name, declared in source.schema.items():
        kind = column_type(declared)
        if nested and name in source.paths:
            continue
        if kind == TIMESTAMP:
            types[name] = pa.string() if time_form(declared) == "rfc3339" else pa.int64()
        else:
            types[name] = arrow_type(kind.replace(DATE, STRING) if nested else kind)
    return types


def _csv(path: Path, source: KafkaSource | None) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(
        column_types=_types(source) if source else None,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return pyarrow.csv.read_csv(path, convert_options=options)


def _json(path: Path, source: KafkaSource | None) -> pa.Table:
    options = None
    if source is not None:
        schema = pa.schema(list(_types(source, nested=True).items()))
        options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer"
        )
    return pyarrow.json.read_json(path, parse_options=options)


def _in_utc(table: pa.Table) -> FileEvents:
    naive = [
        column.name
        for column in table.schema
        if pa.types.is_timestamp(column.type) and column.type.tz is None
    ]
    for name in naive:
        column = table[name]
        whole = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
        table = table.set_column(table.column_names.index(name), name, whole)
    notes = (f"times without a zone are taken for UTC: {', '.join(naive)}",) if naive else ()
    return FileEvents(table, notes)
