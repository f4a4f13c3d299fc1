"""An emission follows the log from its own progress: what it publishes stands before the progress says so.

It reads as the fold does, by the same parse and row logic, and asks no store for values (docs/adr/0043): its state is
made again from the log, from before all that its last instant could still need.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from slicewise.clock import Clock
from slicewise.cover import Cover
from slicewise.errors import SlicewiseError
from slicewise.features.plan import Deployment
from slicewise.features.types import arrow_type
from slicewise.features.unit import Source, Unit
from slicewise.lifecycle.boards import BoardSink
from slicewise.lifecycle.emission import EmittedView, Sink, Tick, emitted_views
from slicewise.lifecycle.view_emission import Progress, Records, Taken, ViewEmission, resumed, trusted
from slicewise.settings import Settings
from slicewise.spark.emit_boards import board_sinks
from slicewise.spark.emit_sinks import KafkaSink
from slicewise.spark.emit_status import EmissionStatus
from slicewise.spark.fold import rows_of
from slicewise.spark.log import event, warning
from slicewise.spark.parse import parsed
from slicewise.spark.rows import KEPT, UnitColumns, with_units
from slicewise.spark.streaming import StreamPlan, kafka_stream
from slicewise.stores.kafka.log import KafkaLog
from slicewise.stores.kafka.publisher import Kept, ProgressLog

SinksOf = Callable[[Settings, EmittedView, Clock], Sequence[Sink]]
"""Makes the sinks of one view."""
_SAVE_S = 5.0
"""How long publication goes on, while it catches up, before its progress is saved."""


def kafka_sinks(settings: Settings, emitted: EmittedView, clock: Clock) -> Sequence[Sink]:  # noqa: ARG001
    """To the topic that the view names."""
    if emitted.topic is None:
        return []
    with KafkaLog(settings.kafka_bootstrap) as log:
        log.create(emitted.topic, settings.kafka_partitions)
    return [KafkaSink(settings.kafka_bootstrap, emitted.topic, emitted.units)]


SINKS: list[SinksOf] = [board_sinks, kafka_sinks]
"""Whoever wants ticks is asked here, for each emitted view."""


@dataclass
class _View:
    emission: ViewEmission
    sinks: Sequence[Sink]
    log: ProgressLog
    partitions: int
    saved: Progress
    begun_s: float = field(default_factory=time.monotonic)

    def save(self, topic_id: str) -> None:
        progress = self.emission.progress
        if progress is not self.saved:
            for sink in self.sinks:
                sink.flush()
            kept = Kept(progress.since_us, progress.instant_us, progress.cover)
            self.log.save(kept, topic_id, self.partitions)
            self.saved, self.begun_s = progress, time.monotonic()


_BUSY_S = 1.0


class EmissionQuery:
    """The emissions over one source: one query, one state per view."""

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        deployment: Deployment,
        source: Source,
        status: EmissionStatus,
        clock: Clock,
    ) -> None:
        self.failure: SlicewiseError | None = None
        self.status, self.source = status, source
        self._clock, self._settings = clock, settings
        self._log = KafkaLog(settings.kafka_bootstrap)
        self._reading, self._between = threading.Lock(), threading.Lock()
        self._draining = False
        # the next batch is read and parsed, by the JVM, while this one is counted and published
        self._publisher = ThreadPoolExecutor(1, f"emit-{source.name}")
        self._taking: Future[None] | None = None
        self._topic_id, partitions = self._log.topic_id(source.topic), self._log.partitions(source.topic)
        earliest = self._log.earliest(source.topic)
        emitted = emitted_views(deployment, source.name)
        self._views = [self._begun(each, partitions, earliest) for each in emitted]
        start = {p: min(view.emission.start[p] for view in self._views) for p in range(partitions)}
        units = [unit for each in emitted for unit in each.units]
        plan = StreamPlan(source, deployment, 0, self._topic_id, start, {})
        frame, self._columns = _frame(session, settings, plan, units)
        self._units = dict(zip((unit.storage_fingerprint for unit in units), units, strict=True))
        self._checkpoint = settings.state_dir / "emit" / "checkpoints" / uuid4().hex
        self._at = dict(start)
        self.query = (
            frame.writeStream.queryName(f"emit-{source.name}")
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{settings.fold_interval_ms} milliseconds")
            .foreachBatch(self._batch)
            .start()
        )

    def _begun(self, emitted: EmittedView, partitions: int, earliest: Cover) -> _View:
        """Where a view's emission goes on, or begins: now."""
        topic_id, log = self._topic_id, ProgressLog(self._settings.kafka_bootstrap, self.source.topic, emitted.view)
        kept = log.load(topic_id, partitions)
        if kept is None:
            now = self._clock.now_us()
            kept = Kept(now, now, self._log.latest(self.source.topic))
            log.save(kept, topic_id, partitions)  # so that it begins here however often it is started
            event("emission_begins", view=emitted.view, since_us=now)
        progress = Progress(kept.since_us, kept.instant_us, kept.cover)
        reach_us = ViewEmission(emitted, topic_id, {}, progress).reach_us
        first = log.offsets_at(kept.instant_us - reach_us - self.source.max_ahead_us, partitions)
        known = {p: kept.cover.get((topic_id, p)) for p in range(partitions)}
        start = {p: known[p] if found is None else min(known[p], found) for p, found in first.items()}
        gone = {p: earliest.get((topic_id, p)) for p in start if 0 < earliest.get((topic_id, p)) >= start[p]}
        if gone:
            whole = resumed(progress, emitted, self.source.max_ahead_us, self._log_begins_us(gone))
            if whole is not progress:
                warning("emission_skips", view=emitted.view, from_us=progress.instant_us, to_us=whole.instant_us)
            progress = whole
            start = {p: max(at, gone.get(p, 0)) for p, at in start.items()}
        emission = ViewEmission(emitted, topic_id, start, progress)
        sinks = [sink for make in SINKS for sink in make(self._settings, emitted, self._clock)]
        self.status.begun(emitted.view, progress.instant_us)
        event("emission_started", view=emitted.view, instant_us=progress.instant_us, start=start)
        return _View(emission, sinks, log, partitions, progress)

    def _log_begins_us(self, gone: Mapping[int, int]) -> int:
        from slicewise.stores.kafka.times import first_times_us

        times = first_times_us(self._log, self.source.topic)
        return max((times[p] for p in gone if p in times), default=self._clock.now_us())

    # ------------------------------------------------------------ batches
    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        with self._reading:
            if self._draining:
                return
            table, ends = frame.toArrow(), self._ends(batch_id)
            if self._taking is not None:
                self._taking.result()  # what it raised ends the query
            self._taking = self._publisher.submit(self._take, table, ends)

    def _take(self, table: pa.Table, ends: Mapping[int, int]) -> None:
        with self._between:
            if self._draining:
                return
            begun = time.monotonic()
            try:
                self._log.check_topic(self.source.topic, self._topic_id)
                for records in self._records(table, ends):
                    for view in self._views:
                        view.emission.take(records)
                self._publish()
                self.status.read(table.num_rows, time.monotonic() - begun)
            except SlicewiseError as error:
                self.failure = error
                raise

    def _records(self, table: pa.Table, ends: Mapping[int, int]) -> Sequence[Records]:
        table = table.combine_chunks()
        found = []
        for partition, end in ends.items():
            part = table.filter(pc.equal(table["partition"], partition))
            offsets = part["offset"].to_numpy()
            if len(offsets) > 1 and not bool(np.all(offsets[1:] > offsets[:-1])):
                part = part.take(pc.sort_indices(part["offset"]))
            units = {
                name: _taken(self._units[name], part, columns, self._topic_id)
                for name, columns in zip(self._units, self._columns, strict=True)
            }
            times = trusted(part["kafka_time"].to_numpy(), self._clock.now_us())
            found.append(Records(partition, part["offset"].to_numpy(), times, units, end))
            self._at[partition] = end
        return found

    def _ends(self, batch_id: int) -> dict[int, int]:
        """End of a batch, from the offset log that Spark wrote before it began the batch."""
        lines = (self._checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
        ends = json.loads(lines[-1])[self.source.topic]
        return {int(partition): offset for partition, offset in ends.items()}

    def _publish(self) -> None:
        for view in self._views:
            for progress, published in view.emission.advance():
                for each in published:
                    for sink in view.sinks:
                        if isinstance(each, Tick):
                            sink.publish(each)
                        else:
                            sink.correct(each)
                self.status.published(view.emission, progress, published)
                if time.monotonic() - view.begun_s > _SAVE_S:
                    view.save(self._topic_id)
            view.save(self._topic_id)
            for sink in view.sinks:
                if isinstance(sink, BoardSink):
                    self.status.skipped(view.emission.view, sink.take_skipped())

    # ------------------------------------------------------------ what the driver asks
    @property
    def active(self) -> bool:
        return bool(self.query.isActive) and self._raised() is None

    def lag(self) -> dict[int, int]:
        """Events in the log that were not read yet, per partition; publishes what a quiet log has let pass."""
        asked_us = self._clock.now_us()  # before the end: a later record has a later Kafka time
        latest = self._log.latest(self.source.topic)
        # while a batch publishes much, the driver's heart beats on
        if self._between.acquire(timeout=_BUSY_S):
            try:
                if not self._draining:
                    for partition in self._at:
                        for view in self._views:
                            view.emission.read_to(partition, latest.get((self._topic_id, partition)), asked_us)
                    self._publish()
            finally:
                self._between.release()
        return {p: max(0, latest.get((self._topic_id, p)) - at) for p, at in self._at.items()}

    def error(self) -> BaseException | None:
        """Why it ended, if it ended by itself."""
        return self.failure or self._raised() or self.query.exception()

    def _raised(self) -> BaseException | None:
        taking = self._taking
        return taking.exception() if taking is not None and taking.done() else None

    def drain(self) -> None:
        """Ends it between two batches; all that it published stands, and its progress with it."""
        self._draining = True
        with self._reading, self._between:
            self.query.stop()
        self._publisher.shutdown()
        for view in self._views:
            view.log.close()
        del self._log
        shutil.rmtree(self._checkpoint, ignore_errors=True)


def _frame(
    session: SparkSession, settings: Settings, plan: StreamPlan, units: Sequence[Unit]
) -> tuple[DataFrame, tuple[UnitColumns, ...]]:
    read = {column for unit in units for column in unit.reads}
    frame, columns = with_units(parsed(kafka_stream(session, settings, plan), plan.source, read), units)
    always = ("partition", "offset", "kafka_time", "event_time")
    needed = dict.fromkeys((*always, *(name for each in columns for name in each.needed())))
    return frame.select(*needed), columns


def _taken(unit: Unit, table: pa.Table, columns: UnitColumns, topic_id: str) -> Taken:
    kept = table.filter(pc.equal(table[columns.keep], KEPT))
    entities = {
        name: kept[column].cast(arrow_type(kind))
        for (name, kind), column in zip(unit.entity, columns.entity, strict=True)
    }
    return Taken(rows_of(unit, kept, columns.inputs, topic_id), pa.table(entities))
