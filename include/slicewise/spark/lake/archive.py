"""An archive is one commit: good rows, bad rows and the offset vector after them, or nothing at
all.

Archive n begins where the offset vector of n - 1 ends, and is validated against the snapshot from
which that offset vector was read: of two at once the later fails, reads again and goes on from the
other's offset vector.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from slicewise.clock import Clock
from slicewise.errors import CommitConflict, DeploymentSuperseded
from slicewise.features.plan.unit import Source
from slicewise.features.schema.dedupe import EventIds
from slicewise.lifecycle.archiving import Extent, next_extent, refuse_lost_end
from slicewise.lifecycle.history.entries import LATENESS
from slicewise.offsets.gaps import AcceptedGap
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.microbatch.streaming import kafka_options
from slicewise.spark.records.parse import parsed
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.lake.archive import (
    UNTIL,
    ArchiveState,
    archive_state,
    bad_records,
    late_events,
    remember_schemas,
)
from slicewise.stores.lake.catalog import Catalog, IcebergTable, ensure
from slicewise.stores.lake.gaps import accepted
from slicewise.stores.lake.schemas import BAD, EVENTS, GOOD, LOG, OFFSET_VECTOR, OPS, log_table
from slicewise.stores.log.topics import KafkaLog
from slicewise.windows.durations import HOUR_US

MAX_EVENTS = 5_000_000
"""Most events of one archive; what lies beyond comes with the next."""
_ONE_TASK_EVENTS = 20_000
"""Events that are written by one task: to spread them by hour first costs more than the task."""
_ATTEMPTS = 6
_CONFLICTS = ("ValidationException", "CommitFailedException", "Found conflicting files")


@dataclass(frozen=True)
class Archived:
    """Result of an archive run. events: new offsets, transaction markers included."""

    source: str
    state: ArchiveState
    archives: int
    events: int
    took_ms: int
    accepted_gaps: tuple[AcceptedGap, ...] = ()
    """Losses that were accepted."""
    bad: Mapping[str, int] = field(default_factory=dict)
    """Reason -> bad records among the new ones."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Class of lateness -> good events among the new ones that came after their hour was over."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, as jobs report them."""
        return {
            "source": self.source,
            "seq": self.state.archive_version,
            "archives": self.archives,
            "events": self.events,
            "bad": dict(self.bad),
            "late": dict(self.late),
            "took_ms": self.took_ms,
        }


@dataclass(frozen=True)
class Archiver:
    """Archives of one source. starts: start offsets of its deployed units. deployed: the source as
    it is deployed when it is asked; None where nobody deploys beside it."""

    session: SparkSession
    settings: Settings
    catalog: Catalog
    source: Source
    clock: Clock
    starts: tuple[OffsetVector, ...] = ()
    deployed: Callable[[], Source | None] | None = None

    @property
    def _name(self) -> str:
        return f"{self.settings.catalog_name}.{LOG}.`{self.source.name}`"

    def run(self, max_events: int = MAX_EVENTS) -> Archived:
        """Archives up to where the log ends now; without anything new, nothing is committed.
        DeploymentSuperseded where another schema was deployed."""
        begun = time.monotonic()
        table = ensure(self.catalog, log_table(self.source))
        log = KafkaLog(self.settings.kafka_bootstrap)
        topic = self.source.topic
        topic_id = log.topic_id(topic)
        # before the end is asked: what came until then is in the archive, what came after it may
        # not be
        taken_us = self.clock.now_us()
        goal = log.latest(topic)
        # after the end was asked for: the offset of a later one lies beyond it
        self._refuse_another_schema()
        remember_schemas(table, self.source)
        removed = self._removed(table)
        archives = events = attempts = 0
        before = archive_state(table).archive_version
        while True:
            table.refresh()
            state = archive_state(table)
            refuse_lost_end(state.offset_vector, log.latest(topic), topic_id)
            extent = next_extent(
                state.offset_vector, log.earliest(topic), goal, self.starts, max_events
            )
            if not extent.offsets:
                break
            log.check_topic(topic, topic_id)
            try:
                is_last = all(
                    extent.end[topic_partition[1]] >= offset
                    for topic_partition, offset in goal.offsets.items()
                )
                self._commit(state, topic_id, extent, taken_us, removed, is_last=is_last)
            except CommitConflict as conflict:
                attempts += 1
                warning("archive_conflict", source=self.source.name, attempt=attempts)
                if attempts == _ATTEMPTS:
                    raise conflict
                continue
            log.check_topic(topic, topic_id)
            archives, events = archives + 1, events + extent.offsets
        if archives:
            self._view()
        took = int((time.monotonic() - begun) * 1000)
        bad = bad_records(table, before) if archives else {}
        late = late_events(table, before, tuple(LATENESS.values())) if archives else ()
        classes = {name: count for name, count in zip(LATENESS, late, strict=False) if count}
        event(
            "archived",
            source=self.source.name,
            archive_version=state.archive_version,
            events=events,
            bad=sum(bad.values()),
            ms=took,
        )
        gaps = accepted(table)
        return Archived(self.source.name, state, archives, events, took, gaps, bad, classes)

    def _refuse_another_schema(self) -> None:
        source = self.source if self.deployed is None else self.deployed()
        if source is not None and (source.schema_fingerprint, source.earlier) != (
            self.source.schema_fingerprint,
            self.source.earlier,
        ):
            raise DeploymentSuperseded(
                f"another schema of source {self.source.name!r} was deployed",
                next_step="archive again, by what is deployed now",
            )

    def _removed(self, table: IcebergTable) -> Mapping[str, str]:
        """Columns that stay in the table of a source that was deployed before, and that this one
        never had. Gives their types in Spark."""
        names = {column.name for column in table.schema().fields} - {
            column.name for column in log_table(self.source).columns
        }
        types = self.session.table(self._name).dtypes if names else []
        return {name: kind for name, kind in types if name in names}

    def _commit(
        self,
        state: ArchiveState,
        topic_id: str,
        extent: Extent,
        taken_us: int,
        removed: Mapping[str, str],
        *,
        is_last: bool = False,
    ) -> None:
        archive_version = state.archive_version + 1
        offset_vector = state.offset_vector.join(
            OffsetVector({(topic_id, p): offset for p, offset in extent.end.items()})
        )
        archive_time = f"timestamp_micros({taken_us})"
        rows = self._rows(topic_id, extent.start, extent.end).selectExpr(
            f"{archive_version}L AS archive_seq",
            f"CASE WHEN reason IS NULL THEN '{GOOD}' ELSE '{BAD}' END AS kind",
            f"'{topic_id}' AS topic_id",
            "partition",
            "offset",
            "timestamp_micros(kafka_time) AS kafka_time",
            f"{archive_time} AS archive_time",
            "timestamp_micros(event_time) AS event_time",
            f"CAST(event_time DIV {HOUR_US} AS int) AS hour",
            "reason",
            "raw",
            *(
                _stored(name, kind)
                for name, kind in (*self.source.columns, *self.source.removed_columns)
            ),
            *(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in removed.items()),
        )
        repartitioned = (
            rows.coalesce(1) if extent.offsets <= _ONE_TASK_EVENTS else rows.repartition(2, "hour")
        )
        written = repartitioned.unionByName(
            self._offset_vectors(archive_version, offset_vector, archive_time),
            allowMissingColumns=True,
        )
        writer = (
            written.writeTo(self._name)
            .option("isolation-level", "serializable")
            .option("snapshot-property.slicewise.archive-seq", str(archive_version))
        )
        if is_last:
            writer = writer.option(f"snapshot-property.{UNTIL}", str(taken_us))
        if state.snapshot_id is not None:
            writer = writer.option("validate-from-snapshot-id", str(state.snapshot_id))
        # Any archive beside this one is in its way: a history takes a number far above.
        committed(
            lambda: writer.overwrite(F.expr(f"archive_seq >= {archive_version}L")),
            f"archive {archive_version}",
        )

    def _rows(self, topic_id: str, start: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        topic = self.source.topic
        options: dict[str, Any] = kafka_options(self.settings) | {
            "assign": json.dumps({topic: sorted(end)}),
            "startingOffsets": json.dumps({topic: {str(p): o for p, o in start.items()}}),
            "endingOffsets": json.dumps({topic: {str(p): o for p, o in end.items()}}),
            "failOnDataLoss": "true",
        }
        records = self.session.read.format("kafka").options(**options).load()
        return parsed(records, self.source, topic_id=topic_id, removed=self.source.removed_columns)

    def _offset_vectors(
        self, archive_version: int, offset_vector: OffsetVector, archive_time: str
    ) -> DataFrame:
        rows = ", ".join(
            f"('{t}', {p}, {offset}L)" for (t, p), offset in offset_vector.offsets.items()
        )
        return self.session.sql(
            f"SELECT {archive_version}L AS archive_seq, '{OFFSET_VECTOR}' AS kind, col1 AS "
            "topic_id, col2 AS partition, "
            f"col3 AS offset, {archive_time} AS archive_time FROM VALUES {rows}"
        )

    def _view(self) -> None:
        catalog = self.settings.catalog_name
        columns = ", ".join(f"`{name}`" for name, _ in self.source.columns)
        self.session.sql(
            f"CREATE OR REPLACE VIEW {catalog}.{EVENTS}.`{self.source.name}` AS SELECT "
            "archive_seq, "
            f"topic_id, partition, offset, kafka_time, archive_time, event_time, hour, {columns} "
            f"FROM {catalog}.{LOG}.`{self.source.name}` WHERE kind = '{GOOD}'"
        )
        repeated = f"{catalog}.{OPS}.`duplicates_{self.source.name}`"
        if self.source.dedupe is None:
            self.session.sql(f"DROP VIEW IF EXISTS {repeated}")  # of a rule that is no more
            return
        table = f"{catalog}.{LOG}.`{self.source.name}`"
        self.session.sql(
            f"CREATE OR REPLACE VIEW {repeated} AS "
            f"{duplicates_sql(table, self.source, self.source.dedupe)}"
        )


def duplicates_sql(table: str, source: Source, ids: EventIds) -> str:
    """The good events whose id came within the look-back time before them in their partition: which
    one that was, and whether this one is the same (reason 'duplicate') or says something else
    ('conflict')."""
    columns = ", ".join(f"`{name}`" for name, _ in source.columns)
    before = f"OVER (PARTITION BY topic_id, partition, `{ids.column}` ORDER BY offset)"
    # of the event itself: where its time is Kafka's, one that comes again has another
    content = f"struct({columns})"
    # no column of a source begins with _
    repeated = (
        f"SELECT archive_seq, topic_id, partition, offset, lag(offset) {before} AS "
        "_before_offset, kafka_time, "
        f"unix_micros(kafka_time) - unix_micros(lag(kafka_time) {before}) AS _later_us, "
        "event_time, hour, "
        f"CASE WHEN lag({content}) {before} <=> {content} THEN 'duplicate' ELSE 'conflict' END AS "
        f"reason, {columns} "
        f"FROM {table} WHERE kind = '{GOOD}' AND `{ids.column}` IS NOT NULL"
    )
    return (
        f"SELECT * FROM ({repeated}) WHERE _before_offset IS NOT NULL AND _later_us <= "
        f"{ids.within_us}"
    )


def committed(write: Any, what: str) -> None:
    """Runs a Spark write; CommitConflict where another commit came first."""
    try:
        write()
    except (Py4JJavaError, PySparkException) as error:
        if any(name in str(error) for name in _CONFLICTS):
            raise CommitConflict(
                "another commit came first", where=what, next_step="read the table again"
            ) from error
        raise


def _stored(name: str, kind: str) -> str:
    return (
        f"timestamp_micros(`c_{name}`) AS `{name}`"
        if kind == "timestamp_us"
        else f"`c_{name}` AS `{name}`"
    )
