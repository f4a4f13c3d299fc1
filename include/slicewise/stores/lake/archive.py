"""The archive's own rows say what it holds: offset vectors are read from the table, never kept
aside.

`log.<source>` grows by whole archives: archive version n brings good rows, bad rows and the offset
vector that holds after it in one commit. Hours are partitions, so that which archive brought an
hour's newest event is known from the table's metadata alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile
from pyiceberg.table import DataScan
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import LongType, NestedField, PrimitiveType

from slicewise.errors import DataLoss
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import arrow_type, decimal_parts
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.lake import files
from slicewise.stores.lake.schemas import BAD, GOOD, LOG, OFFSET_VECTOR
from slicewise.windows.durations import HOUR_US

_SCHEMAS = "slicewise.schemas"
"""Property of a log table."""
UNTIL = "slicewise.archived-until-us"
"""Property of a snapshot that brought an archive's last part: what the log had by then, of the
clock of its job, is archived. Snapshots of maintenance have none."""


@dataclass(frozen=True)
class ArchiveState:
    """The archive of a source at one snapshot."""

    snapshot_id: int | None
    offset_vectors: Mapping[int, OffsetVector]
    """Archive version -> offset vector after it."""

    @property
    def archive_version(self) -> int:
        """The newest archive; 0 before the first."""
        return max(self.offset_vectors, default=0)

    @property
    def offset_vector(self) -> OffsetVector:
        return self.offset_vectors.get(self.archive_version, OffsetVector())

    def below(self, archive_version: int) -> ArchiveState:
        """The same without this archive and those after it."""
        kept = {n: vector for n, vector in self.offset_vectors.items() if n < archive_version}
        return replace(self, offset_vectors=kept)

    def contained(self, offset_vector: OffsetVector) -> int:
        """The newest archive all of whose events `offset_vector` contains; 0 if there is none."""
        return max(
            (n for n, archived in self.offset_vectors.items() if offset_vector.dominates(archived)),
            default=0,
        )


def load(catalog: SqlCatalog, source: str) -> IcebergTable | None:
    """The source's log; None before its first archive."""
    try:
        return catalog.load_table((LOG, source))
    except NoSuchTableError:
        return None


def archive_state(table: IcebergTable) -> ArchiveState:
    """Offset vectors of all archives, as of the table's newest snapshot.

    Raises DataLoss where one archive has two offset vectors: nothing says then which events it
    holds.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return ArchiveState(None, {})
    rows = table.scan(
        row_filter=f"kind = '{OFFSET_VECTOR}' and hour is null",
        selected_fields=("archive_seq", "topic_id", "partition", "offset"),
        snapshot_id=snapshot.snapshot_id,
    ).to_arrow()
    offsets: dict[int, dict[TopicPartition, int]] = {}
    for archive_version, topic, partition, offset in zip(
        *(c.to_pylist() for c in rows.columns), strict=True
    ):
        first = offsets.setdefault(archive_version, {}).setdefault((topic, partition), offset)
        if first != offset:
            raise DataLoss(
                f"archive {archive_version} has two offset vectors: {first} and {offset}",
                where=f"{'.'.join(table.name())}, topic {topic} partition {partition}",
                expected="one commit per archive",
                next_step=(
                    "roll the table back to the snapshot before the second commit, or ask its owner"
                ),
            )
    return ArchiveState(
        snapshot.snapshot_id, {n: OffsetVector(offset) for n, offset in offsets.items()}
    )


def archived_until_us(table: IcebergTable) -> int:
    """The instant by which the newest snapshot holds all that the log had; 0 where it does not
    say."""
    snapshot = table.current_snapshot()
    until = (
        None
        if snapshot is None or snapshot.summary is None
        else snapshot.summary.additional_properties.get(UNTIL)
    )
    return int(until) if until else 0


def newest_archive_us(table: IcebergTable) -> int:
    """The instant by which the newest of the archives held all that the log had, whatever
    maintenance did since; 0 where no snapshot says."""
    summaries = (snapshot.summary for snapshot in table.metadata.snapshots)
    return max(
        (int(one.additional_properties.get(UNTIL, 0)) for one in summaries if one is not None),
        default=0,
    )


def remember_schemas(table: IcebergTable, source: Source) -> None:
    """Keeps with the archive by which schemas, from which offsets on, its rows are judged, before
    they are.

    Raises DataLoss where it holds rows that were judged by a history that the source does not go on
    with: a store that lost a deployment would judge the same records otherwise (docs/adr/0057).
    """
    stored = table.properties.get(_SCHEMAS, "[]")
    if not source.goes_on(stored):
        raise DataLoss(
            (
                f"the archive of source {source.name!r} was judged by a schema that the "
                "deployment does not know"
            ),
            where=f"{'.'.join(table.name())}: {stored}",
            expected=f"the beginning of {source.history_text}",
            next_step="docs/runbook.md, 'A source's schema changes'",
        )
    if stored != (now := source.history_text):
        with table.transaction() as transaction:
            transaction.set_properties({_SCHEMAS: now})


def newest_by_hour(table: IcebergTable, snapshot_id: int | None = None) -> dict[int, int]:
    """Hour -> newest archive version among its good rows, from the files' bounds."""
    return bound_by_hour(table, "archive_seq", snapshot_id)


def records_by_hour(table: IcebergTable, snapshot_id: int | None = None) -> dict[int, int]:
    """Hour -> how many good rows, from metadata."""
    counts: dict[int, int] = {}
    if table.current_snapshot() is None:
        return counts
    for task in table.scan(snapshot_id=snapshot_id).plan_files():
        hour = task.file.partition[0]
        if hour is not None:
            counts[hour] = counts.get(hour, 0) + task.file.record_count
    return counts


def bound_by_hour(
    table: IcebergTable, column: str, snapshot_id: int | None = None
) -> dict[int, int]:
    """Hour -> largest value of a long column, of a table that is partitioned by hour."""
    if table.current_snapshot() is None:
        return {}
    field_id = table.schema().find_field(column).field_id
    largest: dict[int, int] = {}
    for task in table.scan(snapshot_id=snapshot_id).plan_files():
        hour = task.file.partition[0]
        bound = (task.file.upper_bounds or {}).get(field_id)
        if hour is None or bound is None:
            continue
        value = int(from_bytes(LongType(), bound))
        largest[hour] = max(value, largest.get(hour, value))
    return largest


def bad_records(table: IcebergTable, after_version: int) -> dict[str, int]:
    """Reason -> bad records of the archives after `after_seq`."""
    if table.current_snapshot() is None:
        return {}
    chosen = f"kind = '{BAD}' and archive_seq > {after_version}"
    reasons = table.scan(row_filter=chosen, selected_fields=("reason",)).to_arrow()["reason"]
    return {str(row["values"]): int(row["counts"]) for row in reasons.value_counts().to_pylist()}


def late_events(
    table: IcebergTable, after_version: int, bounds_us: Sequence[int]
) -> tuple[int, ...]:
    """Good events of the archives after `after_version` that came in Kafka after their hour was
    over: how many were as late as each of the ascending bounds, and not as the next."""
    counts = np.zeros(len(bounds_us), np.int64)
    if table.current_snapshot() is None:
        return tuple(map(int, counts))
    chosen = f"kind = '{GOOD}' and archive_seq > {after_version}"
    scan = table.scan(row_filter=chosen, selected_fields=("kafka_time", "hour"))
    for batch in scan.to_arrow_batch_reader():
        hours = batch.column("hour").to_numpy(zero_copy_only=False)
        times = batch.column("kafka_time").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        over_us = (hours.astype(np.int64) + 1) * HOUR_US
        late_us = times.to_numpy(zero_copy_only=False) - over_us
        classes = np.searchsorted(np.asarray(bounds_us), late_us[late_us >= 0], "right") - 1
        counts += np.bincount(classes, minlength=len(bounds_us))
    return tuple(map(int, counts))


def scan_events(
    table: IcebergTable,
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    start_us: int | None = None,
    end_us: int | None = None,
    archive_version: int | None = None,
    snapshot_id: int | None = None,
    hours: Sequence[int] | None = None,
    as_read: bool = False,
) -> pa.Table:
    """Good events in log order, with event times in [start_us, end_us) and up to archive_seq.

    as_read: in any order, topic ids as a dictionary, kafka_time where it is named, and without
    archive_seq, which takes a fraction.

    The source's columns (or those named) in their declared types, and event_time, kafka_time (int64
    microseconds UTC), topic_id, partition (int32), offset (int64), archive_seq.
    """
    conditions, hours_read = [f"kind = '{GOOD}'"], []
    if start_us is not None:
        hours_read.append(f"hour >= {start_us // HOUR_US}")
        conditions.append(f"event_time >= '{instant_literal(start_us)}'")
    if end_us is not None:
        hours_read.append(f"hour <= {(end_us - 1) // HOUR_US}")
        conditions.append(f"event_time < '{instant_literal(end_us)}'")
    if archive_version is not None:
        conditions.append(f"archive_seq <= {archive_version}")
    if hours is not None:
        hours_read.append(f"hour in ({', '.join(map(str, hours))})" if hours else "hour < 0")
    chosen = [name for name, _ in source.columns] if columns is None else list(columns)
    within = {
        "kind": (GOOD, GOOD),
        "event_time": (start_us, None if end_us is None else end_us - 1),
        "archive_seq": (None, archive_version),
        **({"hour": (0, -1)} if hours is not None else {}),
    }
    scan = _Scan(table, source, tuple(conditions), snapshot_id, tuple(hours_read), within)
    return scan.as_read(chosen) if as_read else scan.in_log_order(chosen)


def scan_below(
    table: IcebergTable,
    source: Source,
    columns: Sequence[str],
    offset_vector: OffsetVector,
    kafka_us: int,
    archive_version: int,
) -> pa.Table:
    """Scans the good events that the offset vector contains, of Kafka times at or after kafka_us,
    as `scan_events`."""
    topic_partitions = (
        f"(topic_id = '{topic}' and partition = {partition} and offset < {offset})"
        for (topic, partition), offset in offset_vector.offsets.items()
    )
    conditions = [
        f"kind = '{GOOD}'",
        f"archive_seq <= {archive_version}",
        f"kafka_time >= '{instant_literal(kafka_us)}'",
        f"({' or '.join(topic_partitions) or 'archive_seq < 0'})",
    ]
    return _Scan(table, source, tuple(conditions)).in_log_order(columns)


_IDENTITY = ("event_time", "topic_id", "partition", "offset")


@dataclass(frozen=True)
class _Scan:
    """Rows of a log table. hours: further conditions, on the hour alone, which files are chosen by.
    within: least and greatest value of each column that the conditions read, as metadata has
    them."""

    table: IcebergTable
    source: Source
    conditions: tuple[str, ...]
    snapshot_id: int | None = None
    hours: tuple[str, ...] = ()
    within: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def in_log_order(self, chosen: Sequence[str]) -> pa.Table:
        """These columns, and all that says which event a row is and whence it came."""
        fixed = ("event_time", "kafka_time", "topic_id", "partition", "offset", "archive_seq")
        rows = self._read(list(dict.fromkeys((*fixed, *chosen))), ())
        order = [("topic_id", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
        return rows.sort_by(order)

    def as_read(self, chosen: Sequence[str]) -> pa.Table:
        """These columns, and all that says which event a row is, with topic ids as a dictionary."""
        return self._read(list(dict.fromkeys((*_IDENTITY, *chosen))), ("topic_id",))

    def _read(self, wanted: Sequence[str], dictionaries: Sequence[str]) -> pa.Table:
        """One that was added since the last archive is null, a decimal widened since is as wide as
        declared."""
        kinds = dict(self.source.columns)
        scan = self._scan((*self.conditions, *self.hours))
        there = {field.name for field in scan.projection().fields}
        selected = scan.select(*(name for name in wanted if name in there))
        planned = self._scan(self.hours) if self.hours else None
        scanned = files.read(selected, dictionaries, planned, self._certain)
        for name in wanted:
            if name not in there:
                scanned = scanned.append_column(
                    name, pa.nulls(scanned.num_rows, arrow_type(kinds[name]))
                )
            elif decimal_parts(kinds.get(name, "")) and scanned[name].type != arrow_type(
                kinds[name]
            ):
                scanned = _put(scanned, name, scanned[name].cast(arrow_type(kinds[name])))
        for name in ("event_time", "kafka_time"):
            if name in wanted:
                scanned = _put(scanned, name, scanned[name].cast(pa.int64()))
        return scanned

    def _certain(self, file: DataFile) -> bool:
        """Tells whether the file's metadata says that all its rows are of this scan."""
        schema = self.table.schema()
        return bool(self.within) and all(
            _lies_within(file, schema.find_field(name), *bounds)
            for name, bounds in self.within.items()
        )

    def _scan(self, conditions: Sequence[str]) -> DataScan:
        return self.table.scan(row_filter=" and ".join(conditions), snapshot_id=self.snapshot_id)


def _lies_within(file: DataFile, column: NestedField, least: Any, greatest: Any) -> bool:
    """Tells whether no value is null, and all lie between these; None bounds nothing."""
    number, kind = column.field_id, column.field_type
    low = (file.lower_bounds or {}).get(number)
    high = (file.upper_bounds or {}).get(number)
    if low is None or high is None or (file.null_value_counts or {}).get(number) != 0:
        return False
    assert isinstance(kind, PrimitiveType)
    above = least is None or from_bytes(kind, low) >= least
    return bool(above and (greatest is None or from_bytes(kind, high) <= greatest))


def _put(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def instant_literal(micros: int) -> str:
    """An instant as the filters of scans are written with it."""
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()
