"""A compacted hour is what stood ⊕ the events beyond its offset vector, committed whole or not at
all.

Rows and header of an hour are replaced in one commit that is validated against the snapshot they
were read from; the header's offset vector never decreases. Only what is committed is published.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from slicewise.errors import CommitConflict
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.types import TIMESTAMP
from slicewise.offsets.vector import OffsetVector, joined
from slicewise.settings import Settings
from slicewise.spark.lake.partials import (
    COUNTED,
    EVENT_ID,
    Accumulate,
    Combine,
    RowShape,
    UnitRef,
    Whole,
    WriteHours,
)
from slicewise.spark.lake.publish_hours import (
    Outcomes,
    PublishHours,
    StoreRef,
    TotalDay,
    outcomes_of,
)
from slicewise.spark.microbatch.apply import drop
from slicewise.spark.records.parse import spark_type
from slicewise.spark.records.rows import with_units
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.lake import slices
from slicewise.stores.lake.archive import ArchiveState
from slicewise.stores.lake.catalog import Catalog, IcebergTable, ensure
from slicewise.stores.lake.hour_files import DataFile, HourFiles, from_text, replace
from slicewise.stores.lake.schemas import GOOD, LOG, SLICES, slices_table, unit_table
from slicewise.stores.lake.slices import Header
from slicewise.windows.durations import HOUR_US

_ROWS_PER_TASK = 500_000
_DRIVER_EVENTS = 100_000
"""Events that the driver makes rows of itself."""
_DRIVER_ROWS, _DRIVER_BYTES = 1_000_000, 32 << 20
_DRIVER_HOURS = 500
_GROUPING = "spark.sql.iceberg.planning.preserve-data-grouping"
_UNDIVIDED = {"split-size": str(1 << 50)}
"""Options of a read that divides no hour, however large its files are."""
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Number of hours that are published from here: a Spark job of its own takes longer than they
do."""


@dataclass(frozen=True)
class HourJob:
    """An hour to be written: what stands up to base's offset vector ⊕ the events from there to
    offset vector.

    base: None to compute the hour from its events alone.
    """

    hour: int
    archive_version: int
    offset_vector: OffsetVector
    base: Header | None = None


@dataclass(frozen=True)
class UnitTable:
    """One unit's compaction against one archive state."""

    session: SparkSession
    settings: Settings
    catalog: Catalog
    deployment: Deployment
    unit: StorageUnit
    archive: ArchiveState
    store: StoreRef
    manifest: str
    table: IcebergTable = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", ensure(self.catalog, slices_table(self.unit)))

    @property
    def source(self) -> Source:
        return self.deployment.source(self.unit.source)

    @property
    def ref(self) -> UnitRef:
        return UnitRef(self.manifest, self.unit.storage_fingerprint)

    @property
    def name(self) -> str:
        return f"{self.settings.catalog_name}.{SLICES}.{unit_table(self.unit.storage_fingerprint)}"

    def headers(self) -> dict[int, Header]:
        """The headers that stand now."""
        self.table.refresh()
        return slices.headers(self.table)

    def write(self, jobs: Sequence[HourJob], rows: int) -> None:
        """Commits these hours together. rows: about how many events they are made of.

        Raises CommitConflict where another commit touched one of them first.
        """
        _check_growth(jobs, self.headers())
        hour_files = HourFiles.of(self.table)
        files = self._files(jobs, rows, hour_files)
        try:
            replace(self.table, [job.hour for job in jobs], files)
        except CommitConflict:
            hour_files.remove(files)
            raise
        self.table.refresh()
        event("compacted", unit=self.unit.storage_fingerprint, view=self.unit.view, hours=len(jobs))

    def _files(
        self, jobs: Sequence[HourJob], rows: int, hour_files: HourFiles, *, shuffled: bool = False
    ) -> list[DataFile]:
        """The files of these hours, headers in them. shuffled: hours that stand together in the
        archive are brought together once more."""
        headers = {job.hour: Header(job.archive_version, job.offset_vector) for job in jobs}
        if rows <= _DRIVER_EVENTS and (rows_here := self._rows_here(jobs)) is not None:
            writes = WriteHours(Combine(self.ref), hour_files, headers)
            files = [
                from_text(text) for batch in writes(rows_here) for text in batch["file"].to_pylist()
            ]
            empty = set(headers) - {file.partition[0] for file in files}
            return files + hour_files.write_headers({hour: headers[hour] for hour in empty})
        tasks = max(1, -(-rows // _ROWS_PER_TASK))
        # an hour in one task is one file, where there are enough hours for all tasks
        whole_hours = tasks == 1 or len(jobs) >= 4 * tasks
        reads_whole = whole_hours and not shuffled and not any(job.base for job in jobs)
        together, made = self._together(
            jobs, tasks, whole_hours=whole_hours, reads_whole=reads_whole
        )
        writes = WriteHours(made, hour_files, headers if whole_hours else {})
        with _whole_partitions(self.session) if reads_whole else nullcontext():
            written = together.mapInArrow(writes, "file string").collect()
        files = [from_text(row.file) for row in written]
        hours = {file.partition[0] for file in files}
        if whole_hours and len(hours) < len(files):
            hour_files.remove(files)
            if not reads_whole:
                raise AssertionError(f"{len(files)} files of {len(hours)} hours after a shuffle")
            warning("hours_apart", unit=self.unit.storage_fingerprint, hours=len(hours))
            return self._files(jobs, rows, hour_files, shuffled=True)
        headless = set(headers) - (hours if whole_hours else set())
        return files + hour_files.write_headers({hour: headers[hour] for hour in headless})

    def _rows_here(self, jobs: Sequence[HourJob]) -> Iterator[pa.RecordBatch] | None:
        """Rows of few events, made here as a task makes them, and what they are added to; None
        where that is much. A worker of Spark's would take longer to start than they take."""
        if self.unit.dedupe is not None:
            return None  # with the events of the time that it looks back they may be many
        based = [job.hour for job in jobs if job.base is not None]
        snapshot = self.table.current_snapshot()
        stands: list[pa.RecordBatch] | None = []
        if based and snapshot is not None:
            stands = self._in_driver(based, snapshot.snapshot_id)
        if stands is None:
            return None
        events = self._events(jobs, 1, reads_whole=False).toArrow().to_batches()
        return chain(self._accumulate(iter(events)), stands)

    def _together(
        self, jobs: Sequence[HourJob], tasks: int, *, whole_hours: bool, reads_whole: bool
    ) -> tuple[DataFrame, Whole | Combine]:
        """Brings all rows of an (entity, slice) into one of so many tasks. The rows, and what makes
        of them those that are written."""
        based = [job.hour for job in jobs if job.base is not None]
        snapshot = self.table.current_snapshot()
        within_hour = () if whole_hours else self._entity
        events, combine = self._events(jobs, tasks, reads_whole=reads_whole), Combine(self.ref)
        if not based and (tasks == 1 or self.unit.dedupe is None):
            # events go to their task as they are: one Python stage, as rows are hardly fewer
            whole = Whole(self._accumulate, combine)
            if self.unit.dedupe is not None:
                return events, whole
            if reads_whole:
                return events.coalesce(tasks), whole
            hour = F.expr(f"event_time DIV {HOUR_US}")
            return events.repartition(tasks, hour, *within_hour), whole
        schema = from_arrow_schema(RowShape(self.unit).schema, prefer_timestamp_ntz=False)
        parts = events.mapInArrow(self._accumulate, schema)
        if based and snapshot is not None:
            parts = parts.unionByName(self._rows(based, snapshot.snapshot_id))
        if tasks == 1:
            return parts.coalesce(1), combine
        return parts.repartition(tasks, "hour", *within_hour), combine

    def publish(
        self, hours: Mapping[int, Header], silent: frozenset[int], share: float = 1.0
    ) -> Outcomes:
        """Moves committed hours into the online store; those of `silent` are only counted. share:
        of their time that its tasks write."""
        snapshot = self.table.current_snapshot()
        if snapshot is None or not hours:
            return Outcomes()
        plan = {
            hour: (header.archive_version, header.offset_vector) for hour, header in hours.items()
        }
        publish = PublishHours(self.ref, self.store, plan, silent, share)
        if (batches := self._in_driver(list(hours), snapshot.snapshot_id)) is not None:
            return outcomes_of(self._outcomes(publish, batches))
        rows = self._rows(list(hours), snapshot.snapshot_id)
        tasks = 2 if len(hours) > 1 else 1
        repartitioned = (
            rows.repartition(tasks, *RowShape(self.unit).entity)
            if self._entity
            else rows.coalesce(1)
        )
        done = repartitioned.mapInArrow(publish, "outcome string")
        return outcomes_of([json.loads(row.outcome) for row in done.collect()])

    def total(self, day: int) -> int:
        """Writes the day's totals; how many."""
        snapshot = self.table.current_snapshot()
        if snapshot is None:
            return 0
        hours, columns = list(range(day * 24, day * 24 + 24)), self._entity
        total = TotalDay(self.ref, self.store, day)
        if (batches := self._in_driver(hours, snapshot.snapshot_id)) is not None:
            return sum(outcome["totals"] for outcome in self._outcomes(total, batches))
        rows = self._rows(hours, snapshot.snapshot_id)
        entities = rows.select(*columns).distinct() if columns else rows.limit(1)
        done = entities.coalesce(1).mapInArrow(total, "outcome string")
        return sum(json.loads(row.outcome)["totals"] for row in done.collect())

    def publish_totals(self, hours: Sequence[int], task: Task) -> Counter[str]:
        """Brings the rows of these hours, of the snapshot that stood when headers were read, into
        the totals."""
        snapshot = self.table.current_snapshot()
        counts: Counter[str] = Counter()
        if snapshot is None or not hours:
            return counts
        batches = (
            self._in_driver(hours, snapshot.snapshot_id) if len(hours) <= _DRIVER_HOURS else None
        )
        if batches is not None:
            outcomes = self._outcomes(task, batches)
        else:
            rows = self._rows(hours, snapshot.snapshot_id)
            repartitioned = rows.repartition(2, *self._entity) if self._entity else rows.coalesce(1)
            outcomes = [
                json.loads(row.outcome)
                for row in repartitioned.mapInArrow(task, "outcome string").collect()
            ]
        for outcome in outcomes:
            counts.update(outcome)
        return counts

    @property
    def _entity(self) -> tuple[str, ...]:
        return RowShape(self.unit).entity

    @property
    def _entity_columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.unit.entity)

    @property
    def _accumulate(self) -> Accumulate:
        event_id = None if self.unit.dedupe is None else EVENT_ID
        return Accumulate(self.ref, dict(self._inputs), event_id)

    @property
    def _inputs(self) -> dict[str, str]:
        return inputs_of(self.unit)

    def _rows(self, hours: Sequence[int], snapshot_id: int) -> DataFrame:
        columns = RowShape(self.unit).schema.names
        return (
            self.session.read.option("versionAsOf", str(snapshot_id))
            .table(self.name)
            .where(F.col("hour").isin(list(hours)) & F.col("slice").isNotNull())
            .select(*columns)
        )

    def _in_driver(self, hours: Sequence[int], snapshot_id: int) -> list[pa.RecordBatch] | None:
        """The hours' rows, read without Spark; None where they are many."""
        rows, size = slices.bounds(self.table, hours, snapshot_id)
        if rows > _DRIVER_ROWS or size > _DRIVER_BYTES:
            return None
        scanned = slices.scan_slices(self.table, hours, snapshot_id)
        schema = RowShape(self.unit).schema
        batches: list[pa.RecordBatch] = scanned.select(schema.names).cast(schema).to_batches()
        return batches

    def _outcomes(self, task: Task, rows: list[pa.RecordBatch]) -> list[dict[str, Any]]:
        """The outcomes of a task that runs here, as it would in a worker of Spark's."""
        try:
            return [
                json.loads(text)
                for batch in task(iter(rows))
                for text in batch["outcome"].to_pylist()
            ]
        finally:
            drop(self.store.url)

    def _events(self, jobs: Sequence[HourJob], tasks: int, *, reads_whole: bool) -> DataFrame:
        """The jobs' events: good, of their hours, from the base's offset vector up to the job's.
        Where events count once by their id, also those before by which they are known, and in the
        order that tells it. reads_whole: an hour of the archive in one partition of the read."""
        wanted = f"hour IN ({_listed([job.hour for job in jobs])}) AND ({_between(jobs)})"
        select = partial(
            selected_events,
            self.session,
            self.settings,
            self.archive.snapshot_id,
            self.source,
            self.unit,
        )
        if self.unit.dedupe is None:
            return select(wanted, options=_UNDIVIDED if reads_whole else {})
        log = _log(self.session, self.settings, self.archive.snapshot_id, self.source)
        (oldest,) = log.where(wanted).selectExpr("min(unix_micros(kafka_time))").first() or (None,)
        if oldest is None:
            return select("FALSE", "FALSE").coalesce(1)
        ends = joined(job.offset_vector for job in jobs)
        since = (
            f"kafka_time >= timestamp_micros({oldest - self.unit.dedupe.look_back_us}L) AND "
            f"({below(ends)})"
        )
        groups = ("topic_id", "partition", *self._entity_columns)
        repartitioned = (
            select(since, wanted).repartition(tasks, *groups)
            if tasks > 1
            else select(since, wanted).coalesce(1)
        )
        return repartitioned.sortWithinPartitions(*groups, "offset")


def inputs_of(unit: StorageUnit) -> dict[str, str]:
    """Name that an aggregate reads -> column of `selected_events`."""
    computed = dict(unit.columns)
    return {name: f"i_{name}" if name in computed else f"c_{name}" for name, _ in unit.given_types}


def selected_events(
    session: SparkSession,
    settings: Settings,
    snapshot_id: int | None,
    source: Source,
    unit: StorageUnit,
    wanted: str,
    counted: str | None = None,
    options: Mapping[str, str] = {},
) -> DataFrame:
    """The unit's archived events where `wanted` (SQL over the log) holds: identity, times, entity,
    inputs.

    counted: SQL that says which of them are to be counted (`COUNTED`); then also their ids
    (`EVENT_ID`). options: of the read, as Iceberg names them.
    """
    log = _log(session, settings, snapshot_id, source, options).where(wanted)
    kinds, inputs = dict(source.columns), inputs_of(unit)
    typed = log.selectExpr(
        "topic_id",
        "partition",
        "offset",
        "unix_micros(event_time) AS event_time",
        "unix_micros(kafka_time) AS kafka_time",
        *(() if counted is None else (f"({counted}) AS {COUNTED}",)),
        *(_column(name, kinds[name]) for name in unit.reads),
    )
    wide, (columns,) = with_units(typed, [unit], good="TRUE")
    named = dict(zip((name for name, _ in unit.entity), columns.entity, strict=True))
    return wide.where(f"{columns.keep} = 0").selectExpr(
        "topic_id",
        "partition",
        "offset",
        "event_time",
        "kafka_time",
        *(() if counted is None else (COUNTED, f"`{columns.event_id}` AS {EVENT_ID}")),
        *(f"`{at}` AS `{name}`" for name, at in named.items()),
        *(f"`{at}` AS `{inputs[name]}`" for name, at in columns.inputs.items()),
    )


@contextmanager
def _whole_partitions(session: SparkSession) -> Iterator[None]:
    """Lets Iceberg put no files of two hours into one partition of a read, meanwhile."""
    session.conf.set(_GROUPING, "true")
    try:
        yield
    finally:
        session.conf.unset(_GROUPING)


def _log(
    session: SparkSession,
    settings: Settings,
    snapshot_id: int | None,
    source: Source,
    options: Mapping[str, str] = {},
) -> DataFrame:
    """Good rows of a snapshot, with the columns that the source has: what was archived before a
    column was added lacks it, and so does the schema of a snapshot of then."""
    log = (
        session.read.options(**options)
        .option("versionAsOf", str(snapshot_id))
        .table(f"{settings.catalog_name}.{LOG}.`{source.name}`")
        .where(f"kind = '{GOOD}'")
    )
    types = dict(log.dtypes)
    kinds = {
        name: "timestamp" if kind == TIMESTAMP else spark_type(kind)
        for name, kind in source.columns
    }
    casts = {
        name: F.col(f"`{name}`").cast(kind) if name in types else F.lit(None).cast(kind)
        for name, kind in kinds.items()
        if types.get(name) != kind
    }
    return log.withColumns(casts) if casts else log


def _check_growth(jobs: Sequence[HourJob], headers: Mapping[int, Header]) -> None:
    """A header's offset vector never decreases, and what a job builds on still stands."""
    for job in jobs:
        header = headers.get(job.hour)
        moved = job.base is not None and job.base != header
        if moved or (header is not None and not job.offset_vector.dominates(header.offset_vector)):
            raise CommitConflict(
                (
                    f"hour {job.hour} is compacted to archive version "
                    f"{header.archive_version if header else None} already"
                ),
                expected=f"what stood when archive version {job.archive_version} was planned",
                next_step="plan again from what stands now",
            )


def _column(name: str, kind: str) -> str:
    return (
        f"unix_micros(`{name}`) AS `c_{name}`"
        if kind == "timestamp_us"
        else f"`{name}` AS `c_{name}`"
    )


def _between(jobs: Sequence[HourJob]) -> str:
    """SQL: which events each hour takes; hours of equal offset vectors share a condition."""
    groups: dict[tuple[OffsetVector, OffsetVector], list[int]] = {}
    for job in jobs:
        base = job.base.offset_vector if job.base is not None else OffsetVector()
        groups.setdefault((base, job.offset_vector), []).append(job.hour)
    conditions = (
        f"(hour IN ({_listed(hours)}) AND ({below(offset_vector)}) AND NOT ({below(base)}))"
        for (base, offset_vector), hours in groups.items()
    )
    return " OR ".join(conditions)


def below(offset_vector: OffsetVector) -> str:
    """SQL: which events an offset vector contains."""
    topic_partitions = (
        f"(topic_id = '{topic}' AND partition = {partition} AND offset < {offset})"
        for (topic, partition), offset in offset_vector.offsets.items()
    )
    return " OR ".join(topic_partitions) or "FALSE"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(set(numbers))))
