"""Tables are rows, frames or files of four kinds; CSV has no types, and none are guessed for an
entity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from slicewise.errors import BadRequest
from slicewise.training.csv_form import is_csv
from slicewise.training.tables import faults

FEATHER = (".feather", ".arrow")
STREAM = ".arrows"
"""Ending of a file that holds Arrow's stream form."""


def read_table(path: Path, where: str) -> pa.Table:
    """The table of a Feather (Arrow) file, of an Arrow stream, or else of a Parquet file. Raises
    BadRequest."""
    suffix = path.suffix.lower()
    kind = "Feather" if suffix in FEATHER else "Arrow stream" if suffix == STREAM else "Parquet"
    try:
        if suffix == STREAM:
            with pa.ipc.open_stream(path) as stream:
                table = stream.read_all()
        elif suffix in FEATHER:
            table = pyarrow.feather.read_table(path)
        else:
            return pq.read_table(path)
        table.validate(full=True)  # offsets of a file that is damaged point anywhere
        return table
    except (OSError, pa.ArrowException) as error:
        raise _unread(path, where, kind, error) from error


def csv_texts(path: Path, where: str) -> pa.Table:
    """A CSV file's columns as texts. An empty field is null, and "" in quotes is the empty text.
    Raises BadRequest."""
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    try:
        names = pyarrow.csv.open_csv(path, parse_options=parse).schema.names
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert)
    except (OSError, pa.ArrowException) as error:
        raise _unread(path, where, "CSV", error) from error


def as_table(given: object, where: str) -> pa.Table:
    """An Arrow table of what a caller may hand in. Raises BadRequest for all else."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, str | Path):
        if is_csv(Path(given)):
            raise BadRequest(
                f"{given} is CSV, which has no types",
                where=where,
                expected="a file that ends in .parquet, .feather or .arrow, or the rows themselves",
                next_step=(
                    "read it with the types of the source's schema, and give the table or the frame"
                ),
            )
        return read_table(Path(given), where)
    if type(given).__module__.startswith("polars") and hasattr(given, "collect"):
        given = given.collect()  # a lazy frame
    if hasattr(given, "to_arrow"):  # polars
        return pa.table(given.to_arrow())
    if type(given).__module__.startswith("pandas") and hasattr(given, "columns"):
        return _of_frame(given, where)
    if hasattr(given, "__arrow_c_stream__"):  # a relation of DuckDB, a reader of batches
        return pa.table(given)
    if isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given):
        return _listed(given, where)
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        row = next(i for i, item in enumerate(given) if not isinstance(item, Mapping))
        raise BadRequest(
            f"{faults.shown(given[row])} is no row",
            where=f"{where}, row {row}",
            expected="a dict of the columns in each row",
            next_step='write {"user_id": "ann", …} for each row',
        )
    raise BadRequest(
        f"{type(given).__name__} is no table",
        where=where,
        expected="an Arrow table or stream, a frame of pandas or polars, a list of dicts or the path "
        "of a file",
        next_step="give the rows in one of these forms",
    )


def _unread(path: Path, where: str, kind: str, error: Exception) -> BadRequest:
    return BadRequest(
        f"{path} cannot be read as {kind}: {faults.of_file(error)}",
        where=where,
        expected=f"a {kind} file",
        next_step="give a file that ends in .parquet, .feather, .arrow, .arrows or .csv, of that kind",
    )


def _listed(rows: Sequence[Any], where: str) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, pa.Array] = {}
    if rows and not names:
        raise BadRequest(
            f"{len(rows)} rows without a column",
            where=where,
            expected="dicts of columns",
            next_step="leave them out",
        )
    for name in names:
        if not isinstance(name, str):
            raise BadRequest(
                f"a column named {name!r}",
                where=where,
                expected="names as text",
                next_step="rename the column",
            )
        try:
            values = [row.get(name) for row in rows]
            columns[name] = pa.array(values)
        except faults.CANNOT_CONVERT as error:
            raise _no_column(error, values, name, where) from error
    return pa.table(columns)


def _of_frame(frame: Any, where: str) -> pa.Table:
    """The table of a pandas frame; its index is no column."""
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadRequest(
            f"two columns are named {twice!r}",
            where=where,
            expected="each name once",
            next_step="rename one",
        )
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except faults.CANNOT_CONVERT as error:
        for at, name in enumerate(names):
            values = frame.iloc[:, at].tolist()
            try:
                pa.array(values, from_pandas=True)
            except faults.CANNOT_CONVERT as of_column:
                raise _no_column(of_column, values, name, where) from error
        raise _no_column(error, [], "", where) from error


def _no_column(error: Exception, values: Sequence[Any], name: str, where: str) -> BadRequest:
    where = f"{where}, column {name!r}" if name else where
    if isinstance(error, OverflowError):
        return BadRequest(
            "a whole number beyond 64 bits",
            where=where,
            expected="-2^63 to 2^63 - 1",
            next_step="give it as the type that the source's schema declares",
        )
    what, row = faults.of_values(values)
    return BadRequest(
        what,
        where=where if row is None else f"{where}, row {row}",
        expected="one type per column",
        next_step="give the column one type",
    )
