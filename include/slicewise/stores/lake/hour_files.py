"""Files of compacted hours are written where their rows are made, and committed together by one.

A task writes a file for each hour that it has rows of, and names it to who commits; until then no
snapshot has it. A commit replaces all that stands of its hours, or nothing: PyIceberg validates it
against the snapshot from which it was decided.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import parser
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow, write_file
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table import WriteTask
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record

from slicewise.errors import CommitConflict
from slicewise.stores.lake.slices import Header

__all__ = ["DataFile", "HourFiles", "from_text", "header_row", "replace", "to_text"]

HOUR = "hour"
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class HourFiles:
    """Writes files of a table that is partitioned by hour; it goes to tasks.

    metadata: of the table, as JSON, without its history; properties: of its files' place.
    """

    metadata: str
    properties: Mapping[str, str]

    @staticmethod
    def of(table: IcebergTable) -> HourFiles:
        """Takes the table as it stands."""
        bare = table.metadata.model_copy(
            update={
                "snapshots": [],
                "snapshot_log": [],
                "metadata_log": [],
                "refs": {},
                "statistics": [],
                "partition_statistics": [],
                "current_snapshot_id": None,
            }
        )
        return HourFiles(bare.model_dump_json(), dict(table.io.properties))

    @cached_property
    def _table(self) -> TableMetadata:
        return TableMetadataUtil.parse_raw(self.metadata)

    @cached_property
    def _io(self) -> FileIO:
        return load_file_io(dict(self.properties), self._table.location)

    @cached_property
    def _columns(self) -> pa.Schema:
        return schema_to_pyarrow(self._table.schema(), include_field_ids=False)

    def write(self, rows: Iterable[tuple[int | None, pa.Table]]) -> list[DataFile]:
        """A file of each (hour, its rows); None is the partition of what has no hour. Columns that
        rows lack are null. Where one fails, none stays."""
        written: list[DataFile] = []
        identity = uuid4()
        try:
            for number, (hour, table) in enumerate(rows):
                whole = self._whole(table)
                task = WriteTask(
                    write_uuid=identity,
                    task_id=number,
                    schema=pyarrow_to_schema(
                        whole.schema,
                        name_mapping=self._table.schema().name_mapping,
                        format_version=self._table.format_version,
                    ),
                    record_batches=whole.to_batches(),
                    partition_key=self._partition(hour),
                )
                (file,) = write_file(self._io, self._table, iter((task,)))
                written.append(file)
        except BaseException:
            self.remove(written)
            raise
        return written

    def write_headers(self, headers: Mapping[int, Header]) -> list[DataFile]:
        """A file of one row for each header."""
        return self.write((hour, header_row(hour, headers[hour])) for hour in sorted(headers))

    def remove(self, files: Iterable[DataFile]) -> None:
        """Removes files that no snapshot has."""
        for file in files:
            self._io.delete(file.file_path)

    def stand(self, files: Iterable[DataFile]) -> bool:
        """Tells whether all of them are there."""
        return all(self._io.new_input(file.file_path).exists() for file in files)

    def _whole(self, table: pa.Table) -> pa.Table:
        """All columns of the table, in its order."""
        named = set(table.schema.names)
        return pa.table(
            {
                field.name: table[field.name]
                if field.name in named
                else pa.nulls(table.num_rows, field.type)
                for field in self._columns
            }
        )

    def _partition(self, hour: int | None) -> PartitionKey:
        spec = self._table.spec()
        (field,) = spec.fields
        return PartitionKey([PartitionFieldValue(field, hour)], spec, self._table.schema())


def header_row(hour: int, header: Header) -> pa.Table:
    """The row without a slice that says what the hour contains."""
    return pa.table(
        {
            HOUR: pa.array([hour], pa.int32()),
            "seq": pa.array([header.archive_version], pa.int64()),
            "cover": pa.array([header.offset_vector.pack()], pa.binary()),
        }
    )


def to_text(file: DataFile) -> str:
    """A written file as text: name, size, and what its footer says of its columns."""
    fields = {
        "path": file.file_path,
        "hour": file.partition[0],
        "size": file.file_size_in_bytes,
        "rows": file.record_count,
        "split_offsets": file.split_offsets,
        **{name: getattr(file, name) for name in _COUNTS},
        **{
            name: {column: value.hex() for column, value in getattr(file, name).items()}
            for name in _BOUNDS
        },
    }
    return json.dumps(fields)


def from_text(text: str) -> DataFile:
    """The file that `to_text` tells of."""
    fields = json.loads(text)
    of_columns: dict[str, Any] = {
        name: {int(column): n for column, n in fields[name].items()} for name in _COUNTS
    }
    for name in _BOUNDS:
        of_columns[name] = {int(column): bytes.fromhex(v) for column, v in fields[name].items()}
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=fields["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(fields["hour"]),
        record_count=fields["rows"],
        file_size_in_bytes=fields["size"],
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        split_offsets=fields["split_offsets"],
        **of_columns,
    )


def replace(table: IcebergTable, hours: Sequence[int], files: Sequence[DataFile]) -> None:
    """Commits files in place of all that the table has of these hours, as it was loaded.

    Raises CommitConflict where another commit touched one of them since.
    """
    of_hours = f"{HOUR} in ({', '.join(map(str, sorted(hours)))})"
    stood = [task.file for task in table.scan(row_filter=of_hours).plan_files()]
    transaction = table.transaction()
    try:
        with transaction.update_snapshot().overwrite() as change:
            change.delete_by_predicate(parser.parse(of_hours))
            for file in stood:
                change.delete_data_file(file)
            for file in files:
                change.append_data_file(file)
        transaction.commit_transaction()
    except (CommitFailedException, ValidationException) as error:
        raise CommitConflict(
            "another commit came first",
            where=".".join(table.name()),
            next_step="read the table again",
        ) from error
