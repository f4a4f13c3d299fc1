"""A tail begins at the ledger, once the fold is near the end of the log, and after the store has its start mark.

One query per source, in Spark's real-time mode: the frame of the fold goes row by row to a writer in the JVM, which
needs no batch to make an event visible (docs/adr/0050). What goes wrong ends the query; another is planned from the
marks.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from slicewise.cover import Cover
from slicewise.features.unit import Unit
from slicewise.lifecycle.health import StreamStatus
from slicewise.lifecycle.tail import behind, waits_for
from slicewise.settings import Settings
from slicewise.spark.log import event
from slicewise.spark.streaming import StreamPlan, frame_of, stream_options
from slicewise.spark.tail_spec import spec_of, status_part
from slicewise.spark.tail_status import Said, TailStatus
from slicewise.stores.kafka.log import KafkaLog
from slicewise.stores.ports import Marks, OnlineStore
from slicewise.stores.redis import open_store


class TailQuery:
    """The tail of one source, from the wait for the fold to its end."""

    def __init__(
        self, session: SparkSession, settings: Settings, plan: StreamPlan, units: Sequence[Unit], status: TailStatus
    ) -> None:
        self.plan = plan
        self.status = status
        self._session = session
        self._settings = settings
        self._units = units
        self._log = KafkaLog(settings.kafka_bootstrap)
        self._run = ""
        self._outgrown = False
        self._checkpoint = settings.state_dir / "tail" / "checkpoints" / uuid4().hex
        self._query: Any = None
        self._acked: dict[int, int] = {}
        self._latest = Cover({})
        self._ledger = Cover({})

    def look(self, store: OnlineStore, marks: Marks) -> None:
        """Once a tick: begins when it may, and hears what its writers say. DataLoss where the topic is another."""
        source = self.plan.source
        self._log.check_topic(source.topic, self.plan.topic_id)
        self._latest, self._ledger = self._log.latest(source.topic), marks.ledger
        if not self._outgrown and any(partition not in self.plan.start for _, partition in self._latest):
            event("partitions_added", source=source.name)
            self._outgrown = True  # another query begins with all of them
        if self._query is not None:
            self._hear(store)
            return
        said = store.status(f"stream:{source.name}")
        fold = StreamStatus.parse(source.name, said) if said else None
        limit = self._settings.tail_start_lag
        self.status.waiting = waits_for(self._latest, marks.ledger, fold, limit, self.status.clock.now_us())
        if self.status.waiting is None:
            self._begin(marks)

    def _begin(self, marks: Marks) -> None:
        """The start mark stands before the first row does; and the writers' life of the store is the mark's."""
        settings, topic_id = self._settings, self.plan.topic_id
        plan = replace(self.plan, start={p: marks.ledger.get((topic_id, p)) for p in self.plan.start})
        start = Cover({(topic_id, p): offset for p, offset in plan.start.items()})
        own = open_store(settings.redis_url)
        try:
            marks = own.begin_tail(plan.source.name, start, plan.epoch, plan.deployment.digest)
            incarnation = own.incarnation
        finally:
            own.close()
        records = self._session.readStream.format("kafka").options(**stream_options(settings, plan)).load()
        frame, placed = frame_of(records, plan.source, self._units)
        jvm: Any = self._session._jvm
        spec = spec_of(settings, plan, marks, incarnation, placed)
        self._run = json.loads(spec)["run"]
        self._query = (
            frame._jdf.writeStream()
            .foreach(jvm.io.slicewise.spark.TailWriter.of(spec))
            .queryName(f"tail-{plan.source.name}")
            .outputMode("update")
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(jvm.org.apache.spark.sql.streaming.Trigger.RealTime(f"{settings.tail_batch_s} seconds"))
            .start()
        )
        event("tail_begun", source=plan.source.name, start=dict(plan.start), behind=behind(self._latest, start))

    def _hear(self, store: OnlineStore) -> None:
        said = []
        for partition in self.plan.start:
            text = store.status(status_part(self.plan.source.name, partition))
            each = Said.parse(text) if text else None
            if each is not None and each.run == self._run:
                said.append(each)
                self._acked[partition] = each.acked + 1
        self.status.heard(said)

    @property
    def active(self) -> bool:
        """Whether it goes on; one that lacks a partition is to be planned anew."""
        return not self._outgrown and (self._query is None or bool(self._query.isActive()))

    def lag(self) -> dict[int, int]:
        """Events in the log that are neither acknowledged nor folded yet, per partition."""
        return {
            p: max(0, end - max(self._acked.get(p, 0), self._ledger.get((topic, p))))
            for (topic, p), end in self._latest.offsets.items()
        }

    def error(self) -> BaseException | None:
        """Why it ended, if it ended by itself."""
        if self._query is None or not self._query.exception().isDefined():
            return None
        cause = self._query.exception().get()
        while cause.getCause() is not None:  # Spark's own text is its plan
            cause = cause.getCause()
        return RuntimeError(str(cause.toString()))

    def drain(self) -> None:
        """Ends it at once: what was not acknowledged is the fold's, and the next tail's."""
        if self._query is not None:
            self._query.stop()
        del self._log
        shutil.rmtree(self._checkpoint, ignore_errors=True)
