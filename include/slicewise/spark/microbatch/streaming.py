"""The committed offsets are the only position: every start begins there, with a checkpoint that
nobody kept.

A query is bound to one deployment (deployment version, units), one server run and one topic id;
when one of them changes, the query ends and another is planned from the metadata. A batch is parsed
and selected in the JVM, applied by a task per Kafka partition, and only then does the committed
offsets advance.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from slicewise.errors import DataLoss, SlicewiseError
from slicewise.features import own
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.dedupe import STEP_BACK_US
from slicewise.lifecycle.realtime import Pace, behind, microbatch_wait_s
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.settings import Settings
from slicewise.spark.microbatch.apply import MicroBatchTask, Placed
from slicewise.spark.microbatch.batch_bound import first_bound, next_bound
from slicewise.spark.microbatch.figures import BatchFigures
from slicewise.spark.records.parse import parsed
from slicewise.spark.records.rows import REASONS, UnitColumns, with_units
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.log.topics import KafkaLog, offsets_before
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.committed import (
    AdvanceCommitted,
    BeginBatch,
    EnterCommitted,
    committed_of,
)
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.stores.online.operations.ids import unremembered
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store

_PROBES_WAIT = 10
"""The micro-batch lane of the platform's own probes waits so many times longer beside the real-time
lane: it is nobody's but its cost."""
_WAITING = "io.slicewise.log.WaitingLog"
ENTERED_EVERY_S = 1.0
"""Committed offsets are entered for instants this far apart at least."""
ALWAYS = ("partition", "offset", "kafka_time", "event_time", "reason")


@dataclass(frozen=True)
class StreamPlan:
    """Plan that a query is bound to."""

    source: Source
    deployment: Deployment
    deployment_version: int
    topic_id: str
    start: Mapping[int, int]
    """Partition -> first offset."""
    builds: Mapping[str, int]
    """Unit -> its build (`StoreMetadata.builds`)."""
    realtime: bool = False
    """Tells whether micro-batches remove what the real-time lane wrote: where one is on, or has
    left its entry."""

    @property
    def units(self) -> tuple[str, ...]:
        """The units, without repeats: views may share an event list."""
        own = (
            unit.storage_fingerprint
            for unit in self.deployment.units
            if unit.source == self.source.name
        )
        return tuple(dict.fromkeys(own))


def plan_stream(
    deployment: Deployment,
    source: Source,
    metadata: StoreMetadata,
    log: KafkaLog,
    *,
    realtime: bool = False,
) -> StreamPlan:
    """Plans where the source's query begins: at the committed offsets, or, where a unit has yet to
    learn the ids of the events before it, so much earlier (docs/adr/0064). DataLoss when the log
    has lost what the committed offsets lack, or stands for another topic than the one that was
    deployed."""
    deployed = metadata.topics.get(source.topic)
    topic_id = log.topic_id(source.topic)
    if deployed is not None and deployed != topic_id:
        log.check_topic(source.topic, deployed)
    earliest, latest = log.earliest(source.topic), log.latest(source.topic)
    start = {}
    for partition in range(log.partitions(source.topic)):
        topic_partition: TopicPartition = (topic_id, partition)
        start[partition] = metadata.committed.get(topic_partition)
        _check_log(
            topic_partition,
            start[partition],
            earliest.get(topic_partition),
            latest.get(topic_partition),
        )
    names = [unit.storage_fingerprint for unit in deployment.units if unit.source == source.name]
    if source.dedupe is not None:
        begun = metadata.starts_of(names)
        committed = OffsetVector(
            {(topic_id, partition): offset for partition, offset in start.items()}
        )
        behind = {
            topic_partition[1]: offset
            for topic_partition, offset in unremembered(committed, begun).items()
        }
        earlier = offsets_before(
            log, source.topic, behind, source.dedupe.look_back_us + STEP_BACK_US
        )
        start |= earlier
        for partition, offset in earlier.items():
            if offset and offset == earliest.get((topic_id, partition)):
                # what was there before may have had the id of an event that comes again; the check
                # would find it
                warning(
                    "ids_before_the_log", source=source.name, partition=partition, log_begins=offset
                )
    builds = {name: metadata.builds.get(name, 0) for name in names}
    has_realtime = realtime or source.name in metadata.realtime_starts
    return StreamPlan(
        source, deployment, metadata.deployment_version, topic_id, start, builds, has_realtime
    )


def _check_log(topic_partition: TopicPartition, committed: int, earliest: int, latest: int) -> None:
    where = f"topic {topic_partition[0]} partition {topic_partition[1]}"
    if earliest > committed:
        raise DataLoss(
            f"{earliest - committed} offsets are gone from the log before they were applied",
            where=f"{where}: committed offsets {committed}, log begins at {earliest}",
            expected="a retention longer than the stream's longest stop",
            next_step="docs/runbook.md, 'The log no longer holds what the stream needs'",
        )
    if committed > latest:
        raise DataLoss(
            f"the log ends at {latest}, the committed offsets stand at {committed}",
            where=where,
            expected="a log that holds what was applied",
            next_step="the broker lost acknowledged records: compare with the archive",
        )


class SourceQuery:
    """One running query of one source."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        plan: StreamPlan,
        manifest: str,
        figures: BatchFigures,
    ) -> None:
        self.plan = plan
        self.failure: SlicewiseError | None = None
        self._session = session
        self._settings = settings
        self.figures = figures
        self._log = KafkaLog(settings.kafka_bootstrap)
        self._store: OnlineStore = open_store(settings.redis_url)
        self._end = self._offset_vector(plan.start)
        self._between = threading.Lock()
        self._draining = threading.Event()
        self._latest = self._end
        """The log's end when it was last looked at."""
        self._entered: tuple[OffsetVector | None, float] = None, float("-inf")
        """The committed offsets that were entered last, and when by the monotonic clock."""
        self.paced = False
        """Tells whether the real-time lane lives, so that nobody waits for the micro-batch lane."""
        self._longest_s = (
            settings.realtime_microbatch_interval_ms
            / 1000
            * (_PROBES_WAIT if plan.source.name == own.SOURCE else 1)
        )
        self.bound = self._wanted = first_bound(settings.max_events_per_batch)
        """Most events of a batch. `_wanted`: that which the last batch suggests."""
        self._begun = time.monotonic()
        self._task = MicroBatchTask(
            redis_url=settings.redis_url,
            kafka_bootstrap=settings.kafka_bootstrap,
            server_run=self._store.server_run,
            store_id=self._store.store_id,
            builds=plan.builds,
            manifest=manifest,
            topic=plan.source.topic,
            topic_id=plan.topic_id,
            placed=(),
            realtime=plan.realtime,
        )
        self._start()

    def _start(self) -> None:
        """Begins where the plan does, with a checkpoint of its own."""
        plan, settings = self.plan, self._settings
        units = [plan.deployment.unit(unit) for unit in plan.units]
        records = kafka_stream(self._session, settings, plan, self.bound)
        frame, placed = frame_of(records, plan, units)
        applied = frame.mapInArrow(replace(self._task, placed=placed), "outcome string")
        self._checkpoint = settings.state_dir / "stream" / "checkpoints" / uuid4().hex
        self.query: StreamingQuery = (
            applied.writeStream.queryName(f"microbatch-{plan.source.name}")
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{settings.microbatch_interval_ms} milliseconds")
            .foreachBatch(self._batch)
            .start()
        )

    def fit(self) -> None:
        """Goes on with batches of the size that the last one suggests, once no batch runs.

        Until then it returns: whoever calls has more to look after. Batches that begin meanwhile
        do nothing, and are read again by the next query."""
        if not self.active or self._wanted == self.bound:
            return
        self.begin_drain()
        if self._between.locked():
            return
        self._end_query()
        if self.error() is not None:
            return
        self.bound = self._wanted
        topic = self.plan.topic_id
        # Spark wants all partitions, those with nothing in them too
        partitions = range(self._log.partitions(self.plan.source.topic))
        self.plan = replace(self.plan, start={p: self._end.get((topic, p)) for p in partitions})
        event("batches_fitted", source=self.plan.source.name, events=self.bound)
        self._draining.clear()
        self._start()

    def enter(self, store: OnlineStore, metadata: StoreMetadata) -> None:
        """Enters how far the source is applied, at first and where it moved: by that training knows
        what was known then (docs/adr/0122). metadata: read before."""
        if self.plan.source.name == own.SOURCE:
            return  # nobody trains on the platform's own probes
        committed = committed_of(metadata, self.plan.source.topic)
        before, entered_s = self._entered
        now_s = time.monotonic()
        if committed != before and now_s - entered_s >= ENTERED_EVERY_S:
            store.run(EnterCommitted(self.plan.source.name, committed, store.run(ReadTime())))
            self._entered = committed, now_s

    def begin_drain(self) -> None:
        """Lets a batch that has not begun yet do nothing."""
        self._draining.set()

    def _end_query(self) -> None:
        self.begin_drain()
        with self._between:
            pass  # the batch that runs is finished
        self.query.stop()  # which waits for a batch that begins meanwhile: the lock must be free
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _batch(self, outcomes: DataFrame, batch_id: int) -> None:
        over_s, self._begun = time.monotonic() - self._begun, time.monotonic()
        with self._between:
            if self._draining.is_set():
                return
            start = self._end
            try:
                results = self._apply(outcomes, batch_id)
            except SlicewiseError as error:
                self.failure = error
                raise
        took_s = time.monotonic() - self._begun
        records = sum(result["records"] for result in results)
        if not self._draining.is_set():
            offsets, lag = behind(self._end, start), behind(self._latest, self._end)
            most = self._settings.max_events_per_batch
            self._wanted = next_bound(self.bound, offsets, took_s, lag, most)
        pace = Pace(self._longest_s, self._settings.realtime_fields, self.bound)
        wait_s = microbatch_wait_s(hottest(results), records, took_s, over_s, pace)
        if self.paced:
            self.figures.source.pausing = True
            self._draining.wait(wait_s)
            self.figures.source.pausing = False

    def _apply(self, outcomes: DataFrame, batch_id: int) -> Sequence[Mapping[str, Any]]:
        plan, begun = self.plan, self._begun
        start, end = self._end, self._offset_vector(self._offsets(batch_id))
        bound = (plan.deployment_version, plan.deployment.digest)
        self._log.check_topic(plan.source.topic, plan.topic_id)
        self._store.run(BeginBatch(start, *bound))
        results = [json.loads(row.outcome) for row in outcomes.collect()]
        self._log.check_topic(plan.source.topic, plan.topic_id)
        self._store.run(AdvanceCommitted(start, end, *bound))
        self._end = end
        seconds = time.monotonic() - begun
        records = self.figures.applied(results, seconds, REASONS)
        event("batch_applied", source=plan.source.name, batch=batch_id, records=records, s=seconds)
        return results

    def _offset_vector(self, offsets: Mapping[int, int]) -> OffsetVector:
        return OffsetVector({(self.plan.topic_id, p): offset for p, offset in offsets.items()})

    def _offsets(self, batch_id: int) -> dict[int, int]:
        """End of a batch, from the offset log that Spark wrote before it began the batch."""
        lines = (self._checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
        ends = json.loads(lines[-1])[self.plan.source.topic]
        return {int(partition): offset for partition, offset in ends.items()}

    @property
    def active(self) -> bool:
        return bool(self.query.isActive)

    def lag(self) -> dict[int, int]:
        """Events in the log that are not applied yet, per partition."""
        latest = self._latest = self._log.latest(self.plan.source.topic)
        return {p: latest.get((t, p)) - self._end.get((t, p)) for t, p in latest}

    def error(self) -> BaseException | None:
        """The reason why it ended, if it ended by itself."""
        return self.failure or self.query.exception()

    def drain(self) -> None:
        """Ends it between two batches: one that runs is finished and its committed offsets
        advanced."""
        self._end_query()
        self._store.close()
        del self._log  # the JVM holds this object, and with it the connection, until it collects


def hottest(outcomes: Sequence[Mapping[str, Any]]) -> int:
    """At least how many rows of a batch were of one entity: over all of its partitions, as if it
    were in each."""
    rows = Counter[str]()
    for outcome in outcomes:
        rows.update({unit: figures["most"] for unit, figures in outcome["units"].items()})
    return max(rows.values(), default=0)


def frame_of(
    records: DataFrame, plan: StreamPlan, units: Sequence[StorageUnit]
) -> tuple[DataFrame, tuple[Placed, ...]]:
    """Kafka's records, parsed, with the columns of the units beside `ALWAYS`; and where those
    stand."""
    read = {column for unit in units for column in unit.reads}
    frame, columns = with_units(parsed(records, plan.source, read, topic_id=plan.topic_id), units)
    needed = dict.fromkeys((*ALWAYS, *(name for column in columns for name in column.needed())))
    names = [unit.storage_fingerprint for unit in units]
    return frame.select(*needed), tuple(map(_placed, names, columns))


def kafka_stream(
    session: SparkSession, settings: Settings, plan: StreamPlan, bound: int
) -> DataFrame:
    """The source's records from where the plan begins, committed ones only, so many a batch. Where
    there are none its trigger waits for the next one (docs/adr/0089)."""
    bounded = {"maxOffsetsPerTrigger": str(bound)}
    return (
        session.readStream.format(_WAITING)
        .options(**stream_options(settings, plan), **bounded)
        .load()
    )


def stream_options(settings: Settings, plan: StreamPlan) -> dict[str, str]:
    """Options of every stream over the source's topic, from where the plan begins."""
    start = {plan.source.topic: {str(p): offset for p, offset in plan.start.items()}}
    return kafka_options(settings) | {
        "subscribe": plan.source.topic,
        "startingOffsets": json.dumps(start),
        "failOnDataLoss": "true",
    }


def kafka_options(settings: Settings) -> dict[str, str]:
    """Options of every read of a topic by Spark."""
    return {
        "kafka.bootstrap.servers": settings.kafka_bootstrap,
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": str(8 << 20),
        "kafka.fetch.max.wait.ms": "50",
    }


def _placed(unit: str, columns: UnitColumns) -> Placed:
    return Placed(unit, columns.keep, columns.entity, dict(columns.inputs), columns.event_id)


def forget_checkpoints(state_dir: Path, part: str = "stream") -> None:
    """Nothing is ever read from a checkpoint of another start."""
    shutil.rmtree(state_dir / part / "checkpoints", ignore_errors=True)
