"""Rows of a source go through the JVM's real-time writer into a real store, without Kafka, parsed
as streamed.

frame, placed = bench.frame(records)
writer = Writer(session, bench.spec(placed)); writer.write(frame); writer.close()
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.microbatch.apply import Placed, SourceRows, taken
from slicewise.spark.microbatch.streaming import StreamPlan, frame_of
from slicewise.spark.realtime.spec import spec_of
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.pending import BeginRealtime, PendingBatch, WritePending
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store

TOPIC = "0123456789abcdef0123456789abcdef"
PARTITIONS = 2
_RECORDS = StructType(
    [
        StructField("value", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("stamp", LongType()),
    ]
)


@dataclass
class Records:
    """Events with their partitions: what a topic would hold."""

    values: list[tuple[bytes, int, int, int]] = field(default_factory=list)
    """(value, partition, offset, Kafka's time in microseconds)"""

    def add(
        self, event: Mapping[str, Any] | bytes, partition: int, kafka_time: int, skip: int = 0
    ) -> None:
        """The next of its partition, beyond so many that no event has."""
        value = event if isinstance(event, bytes) else json.dumps(event).encode()
        ends = [offset for _, p, offset, _ in self.values if p == partition]
        self.values.append((value, partition, (ends[-1] + 1 if ends else 0) + skip, kafka_time))


@dataclass
class Bench:
    """One store with a deployment of these views, and the session."""

    session: SparkSession
    settings: Settings
    deployment: Deployment

    @staticmethod
    def deploy(
        session: SparkSession,
        settings: Settings,
        views: Sequence[sw.FeatureView],
        start: OffsetVector,
    ) -> Bench:
        """start: where the log began, and with it the units."""
        deployment = plan(Project.of("tail", views))
        bench = Bench(session, settings, deployment)
        with bench.store() as store:
            metadata = store.run(Initialise())
            store.run(
                Deploy(
                    deployment,
                    metadata.deployment_version,
                    {deployment.sources[0].topic: TOPIC},
                    start,
                )
            )
            everywhere = OffsetVector({(TOPIC, partition): 0 for partition in range(PARTITIONS)})
            metadata = store.run(ReadMetadata())
            store.run(
                BeginRealtime(
                    deployment.sources[0].name,
                    everywhere,
                    metadata.deployment_version,
                    metadata.units,
                )
            )
        return bench

    @contextmanager
    def store(self) -> Iterator[OnlineStore]:
        store = open_store(self.settings.redis_url)
        try:
            yield store
        finally:
            store.close()

    def plan(self) -> StreamPlan:
        with self.store() as store:
            metadata = store.run(ReadMetadata())
        start = dict.fromkeys(range(PARTITIONS), 0)
        return StreamPlan(
            self.deployment.sources[0],
            self.deployment,
            metadata.deployment_version,
            TOPIC,
            start,
            metadata.builds,
        )

    def frame(self, records: Records) -> tuple[DataFrame, tuple[Placed, ...]]:
        """The rows as a query's writers get them."""
        raw = self.session.createDataFrame(records.values, _RECORDS).coalesce(1)
        stamped = raw.selectExpr(
            "value", "partition", "offset", "timestamp_micros(stamp) AS timestamp"
        )
        plan = self.plan()
        return frame_of(stamped, plan, [self.deployment.unit(name) for name in plan.units])

    def spec(
        self, placed: Sequence[Placed], server_run: ServerRun | None = None, **changed: Any
    ) -> str:
        """The text that the writer is made of; changed: members of the JSON."""
        with self.store() as store:
            metadata, here = store.run(ReadMetadata()), store.server_run
        text = spec_of(self.settings, self.plan(), metadata, server_run or here, placed)
        return json.dumps(json.loads(text) | changed)

    def write_python(self, records: Records, bound: int) -> None:
        """The same by the store's own operation."""
        frame, placed = self.frame(records)
        table = frame.toArrow()
        with self.store() as store:
            for partition in range(PARTITIONS):
                part = table.filter(pa.compute.equal(table["partition"], partition))
                for placed_unit in placed:
                    batch = self._batch(placed_unit, SourceRows.of(part, TOPIC, partition))
                    if batch is not None:
                        store.run(WritePending(batch, bound))

    def _batch(self, placed: Placed, source: SourceRows) -> PendingBatch | None:
        unit = self.deployment.unit(placed.unit)
        some = taken(unit, placed, source)
        if some is None:
            return None
        return PendingBatch(
            unit=unit,
            topic_partition=(TOPIC, source.partition),
            tags=some.tags,
            entity=some.entity,
            offset=some.rows.offset,
            time=some.rows.time,
            members=unit.members.encode(some.rows),
        )


class Writer:
    """A `RealtimeWriter` of the JVM, opened."""

    def __init__(self, session: SparkSession, spec: str) -> None:
        jvm: Any = session._jvm
        self._writer = jvm.io.slicewise.realtime.RealtimeWriter.of(spec)
        self._writer.open(0, 0)

    def write(self, frame: DataFrame) -> None:
        """All rows of a frame, in its order."""
        rows = frame._jdf.collectAsList()
        for at in range(rows.size()):
            self._writer.process(rows.get(at))

    def close(self) -> None:
        """Once all was acknowledged; raises Py4JJavaError with why it failed."""
        self._writer.close(None)
