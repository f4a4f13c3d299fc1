"""A scan's files that have exactly the table's columns are read together; all others one by one, as
PyIceberg maps them.

What PyIceberg does per file (its schema, the filter's names, the projection) takes longer than
reading an hour of events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.io.pyarrow import (
    ArrowScan,
    PyArrowFileIO,
    expression_to_pyarrow,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask

_FIELD_ID = b"PARQUET:field_id"


def read(
    scan: DataScan,
    dictionaries: Sequence[str] = (),
    planned: DataScan | None = None,
    certain: Callable[[DataFile], bool] = lambda _: False,
) -> pa.Table:
    """The rows of a scan, in any order, with the columns that it selects; these as dictionaries.

    dictionaries: texts of few distinct values, which no filter reads. planned: chooses the files,
    by a filter that holds for all rows of the scan; a short one is planned in a fraction. certain:
    tells of a file that its metadata says of all its rows that the filter holds.
    """
    wanted = scan.projection()
    tasks = list((planned or scan).plan_files())
    together = _alike(scan, wanted, tasks, dictionaries)
    names = {task.file.file_path for task, _ in together}
    others = [task for task in tasks if task.file.file_path not in names]
    tables = []
    for filtered in (False, True):
        some = [fragment for task, fragment in together if certain(task.file) != filtered]
        if some:
            tables.append(_read_together(scan, wanted, some, filtered=filtered))
    if others or not tables:
        tables.append(_read_mapped(scan, wanted, others, dictionaries))
    return pa.concat_tables(tables, promote_options="permissive")


def _read_mapped(
    scan: DataScan, wanted: Schema, tasks: Sequence[FileScanTask], dictionaries: Sequence[str]
) -> pa.Table:
    mapped = ArrowScan(
        scan.table_metadata, scan.io, wanted, scan.row_filter, scan.case_sensitive
    ).to_table(tasks)
    for name in dictionaries:
        encoded = mapped[name].cast(pa.string()).dictionary_encode()
        mapped = mapped.set_column(mapped.column_names.index(name), name, encoded)
    return mapped


def _read_together(
    scan: DataScan,
    wanted: Schema,
    fragments: Sequence[ds.ParquetFileFragment],
    *,
    filtered: bool,
) -> pa.Table:
    schema, first = scan.table_metadata.schema(), fragments[0]
    row_filter = bind(schema, scan.row_filter, case_sensitive=scan.case_sensitive)
    dataset = ds.FileSystemDataset(fragments, first.physical_schema, first.format, first.filesystem)
    return dataset.to_table(
        columns=[field.name for field in wanted.fields],
        filter=expression_to_pyarrow(row_filter, schema) if filtered else None,
    )


def _alike(
    scan: DataScan,
    wanted: Schema,
    tasks: Sequence[FileScanTask],
    dictionaries: Sequence[str],
) -> list[tuple[FileScanTask, ds.ParquetFileFragment]]:
    """Tasks whose files need no mapping, with their files: without deletes, and with each column
    that is read under its name, number and type."""
    schema = scan.table_metadata.schema()
    bound = bind(schema, scan.row_filter, case_sensitive=scan.case_sensitive)
    numbers = {field.field_id for field in wanted.fields} | extract_field_ids(bound)
    expected = schema_to_pyarrow(
        Schema(*(field for field in schema.fields if field.field_id in numbers))
    )
    narrow = pa.schema([_narrow(field) for field in expected])
    if type(scan.io) is not PyArrowFileIO:  # another may find files elsewhere
        return []
    file_format = ds.ParquetFileFormat(dictionary_columns=list(dictionaries))
    alike: list[tuple[FileScanTask, ds.ParquetFileFragment]] = []
    for task in tasks:
        if task.delete_files or task.file.file_format != FileFormat.PARQUET:
            continue
        scheme, netloc, path = scan.io.parse_location(task.file.file_path, scan.io.properties)
        fragment = file_format.make_fragment(path, scan.io.fs_by_scheme(scheme, netloc))
        physical = fragment.physical_schema
        if not alike and not _has(physical, expected):
            expected = narrow
        if _has(physical, expected):
            alike.append((task, fragment))
    return alike


def _has(physical: pa.Schema, expected: pa.Schema) -> bool:
    """Tells whether a file has each of these columns, once, as it is expected."""
    for field in expected:
        at = physical.get_all_field_indices(field.name)
        if len(at) != 1:
            return False
        own = physical.field(at[0])
        if not _is(own.type, field.type) or _number(own) != _number(field):
            return False
    return True


def _is(own: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_dictionary(own):  # of texts, whose width is the dictionary's own
        return bool(pa.types.is_string(expected) or pa.types.is_large_string(expected))
    return bool(own.equals(expected))


def _number(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


def _narrow(field: pa.Field) -> pa.Field:
    """The column as a file has it that says nothing of 64 bits: with ends of 32."""
    if pa.types.is_large_string(field.type):
        return field.with_type(pa.string())
    return field.with_type(pa.binary()) if pa.types.is_large_binary(field.type) else field
