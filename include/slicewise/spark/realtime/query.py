"""The real-time lane begins at the committed offsets, near the log's end, after its start entry in
the metadata.


One query per source, in Spark's real-time mode: the frame of the micro-batch lane goes row by row
to a writer in the JVM, which needs no batch to make an event visible (docs/adr/0050). Before a
query's batch ends another begins beside it, so that nothing waits for the next batch to be planned
(docs/adr/0056). What goes wrong ends both; another is planned from the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.realtime import behind, relieved, speaks, waits_for
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.microbatch.streaming import StreamPlan, frame_of, stream_options
from slicewise.spark.realtime.figures import WriterFigures, WriterStatus
from slicewise.spark.realtime.run import RealtimeRun
from slicewise.spark.realtime.spec import spec_of, status_part
from slicewise.spark.runtime.log import event
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.operations.pending import BeginRealtime
from slicewise.stores.online.operations.status import ReadStatus
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store

_WAITS = {"kafka.fetch.max.wait.ms": "500"}
"""Longest that the broker holds a fetch back where there is no record; the first one that comes
ends it at once (docs/adr/0089)."""


class RealtimeQuery:
    """The real-time lane of one source, from the wait for the micro-batch lane to its end.

    relieves: whether there are slots for two queries at a time, so that batches change without a
    pause.
    """

    def __init__(
        self,
        session: SparkSession,
        settings: Settings,
        plan: StreamPlan,
        units: Sequence[StorageUnit],
        figures: WriterFigures,
        *,
        relieves: bool,
    ) -> None:
        self.plan = plan
        self.figures = figures
        self._session = session
        self._settings = settings
        self._units = units
        self._relieves = relieves
        self._log = KafkaLog(settings.kafka_bootstrap)
        self._outgrown = False
        self._bound_to: tuple[StoreMetadata, ServerRun] | None = None
        self._runs: list[RealtimeRun] = []
        """The one that brings events, and the one that takes over from it."""
        self._latest = OffsetVector({})
        self._committed = OffsetVector({})

    def look(self, store: OnlineStore, metadata: StoreMetadata) -> None:
        """Once a tick: begins when it may, and hears what its writers say. DataLoss where the topic
        is another."""
        source = self.plan.source
        self._latest, self._committed = self._log.latest(source.topic), metadata.committed
        if {topic_id for topic_id, _ in self._latest} != {self.plan.topic_id}:
            self._log.check_topic(source.topic, self.plan.topic_id)  # another one, or nothing in it
        if not self._outgrown and any(
            partition not in self.plan.start for _, partition in self._latest
        ):
            event("partitions_added", source=source.name)
            self._outgrown = True  # another query begins with all of them
        if self._runs:
            self._read_writers(store)
            self._relieve()
            return
        status_text = store.run(ReadStatus(f"stream:{source.name}"))
        microbatch = Status.parse(source.name, status_text) if status_text else None
        limit = self._settings.realtime_start_lag
        figures = self.figures.source
        figures.waiting = waits_for(
            self._latest, metadata.committed, microbatch, limit, figures.clock.now_us()
        )
        if figures.waiting is None:
            self._begin(metadata)

    def _begin(self, metadata: StoreMetadata) -> None:
        """The start entry stands before the first row does; and the writers' server run is the
        entry's."""
        start = {p: metadata.committed.get((self.plan.topic_id, p)) for p in self.plan.start}
        offset_vector = OffsetVector(
            {(self.plan.topic_id, p): offset for p, offset in start.items()}
        )
        own = open_store(self._settings.redis_url)
        try:
            metadata = own.run(
                BeginRealtime(
                    self.plan.source.name,
                    offset_vector,
                    self.plan.deployment_version,
                    self.plan.deployment.digest,
                )
            )
            self._bound_to = metadata, own.server_run
        finally:
            own.close()
        self._runs = [self._run(start)]
        event(
            "realtime_begun",
            source=self.plan.source.name,
            start=start,
            behind=behind(self._latest, offset_vector),
        )

    def _run(self, start: Mapping[int, int], after: RealtimeRun | None = None) -> RealtimeRun:
        """A query from there on, bound to the server run of the entry. after: the one that it takes
        over from."""
        assert self._bound_to is not None
        settings, plan = self._settings, replace(self.plan, start=start)
        records = (
            self._session.readStream.format("kafka")
            .options(**{**stream_options(settings, plan), **_WAITS})
            .load()
        )
        frame, placed = frame_of(records, plan, self._units)
        jvm: Any = self._session._jvm
        spec = spec_of(settings, plan, *self._bound_to, placed, after.name if after else None)
        name, checkpoint = (
            json.loads(spec)["run"],
            settings.state_dir / "tail" / "checkpoints" / uuid4().hex,
        )
        # one that is relieved must not end before
        batch_s = settings.realtime_batch_s * (2 if self._relieves else 1)
        begun_us = self.figures.source.clock.now_us()
        query = (
            frame._jdf.writeStream()
            .foreach(jvm.io.slicewise.realtime.RealtimeWriter.of(spec))
            .queryName(f"realtime-{plan.source.name}-{name}")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .trigger(jvm.org.apache.spark.sql.streaming.Trigger.RealTime(f"{batch_s} seconds"))
            .start()
        )
        return RealtimeRun(self._session, name, start, begun_us, query, checkpoint)

    def _relieve(self) -> None:
        """Before a batch ends the next query begins where the one that runs has acknowledged all;
        that one ends once the next has caught up with it."""
        *_, last = self._runs
        age_s = (self.figures.source.clock.now_us() - last.begun_us) / 1e6
        applied = {p: self._committed.get((self.plan.topic_id, p)) for p in last.start}
        judged = speaks(bool(last.acknowledged), age_s)
        if len(self._runs) == 1:
            if self._relieves and age_s >= self._settings.realtime_batch_s and judged:
                start = {p: max(offset, applied[p]) for p, offset in last.at.items()}
                self._runs.append(self._run(start, last))
            return
        if last.ends is None and judged:
            last.ends = {p: end for (_, p), end in self._latest.offsets.items()}
        if last.ends is not None and relieved(last.ends, last.at, applied):
            self._runs[0].stop()
            self._runs = [last]
            event(
                "realtime_relieved", source=self.plan.source.name, start=dict(last.start), s=age_s
            )

    def _read_writers(self, store: OnlineStore) -> None:
        received = []
        for partition in self.plan.start:
            text = store.run(ReadStatus(status_part(self.plan.source.name, partition)))
            writer_status = WriterStatus.parse(text) if text else None
            for number, run in enumerate(self._runs):
                if writer_status is not None and writer_status.run == run.name:
                    run.acknowledged[partition] = writer_status.acked + 1
                    if not any(
                        partition in later.acknowledged for later in self._runs[number + 1 :]
                    ):
                        received.append(writer_status)
        self.figures.take_in(received)

    @property
    def active(self) -> bool:
        """Tells whether it goes on; one that lacks a partition is to be planned anew."""
        return not self._outgrown and all(run.active for run in self._runs)

    def lag(self) -> dict[int, int]:
        """Events in the log that are neither acknowledged nor applied yet, per partition."""
        return {
            p: max(
                0,
                end
                - max(
                    self._committed.get((topic, p)),
                    # one that has taken over has acknowledged nothing where nothing came since
                    *(run.at.get(p, 0) for run in self._runs),
                    0,
                ),
            )
            for (topic, p), end in self._latest.offsets.items()
        }

    def error(self) -> BaseException | None:
        """The reason why it ended, if it ended by itself."""
        return next((why for run in self._runs if (why := run.error()) is not None), None)

    def begin_drain(self) -> None:
        """Does nothing: it ends at once."""

    def drain(self) -> None:
        """Ends it at once: what was not acknowledged is the micro-batch lane's, and the next
        real-time lane's."""
        for run in self._runs:
            run.stop()
        del self._log
