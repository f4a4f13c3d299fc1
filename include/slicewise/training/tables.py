"""Tables stand in files of three kinds, told by their names; CSV has no types, and none are guessed for an entity."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from slicewise.errors import BadRequest

CSV = ".csv"
FEATHER = (".feather", ".arrow")


def is_csv(path: Path) -> bool:
    return path.suffix.lower() == CSV


def read_table(path: Path, where: str) -> pa.Table:
    """The table of a Feather (Arrow) file, or else of a Parquet file. Raises BadRequest."""
    is_feather = path.suffix.lower() in FEATHER
    kind = "Feather" if is_feather else "Parquet"
    try:
        return pyarrow.feather.read_table(path) if is_feather else pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise _unread(path, where, kind, error) from error


def csv_texts(path: Path, where: str) -> pa.Table:
    """A CSV file's columns as texts. An empty field is null, and "" in quotes is the empty text. Raises BadRequest."""
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


def _unread(path: Path, where: str, kind: str, error: Exception) -> BadRequest:
    why = "there is no such file" if isinstance(error, FileNotFoundError) else str(error).partition("\n")[0]
    return BadRequest(
        f"{path} cannot be read as {kind}: {why}",
        where=where,
        expected=f"a {kind} file",
        next_step="give a file that ends in .parquet, .feather, .arrow or .csv, of that kind",
    )
