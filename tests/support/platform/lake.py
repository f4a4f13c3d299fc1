"""Kafka, Redis, Iceberg and one Spark session for tests of stream, archive, compaction and
backfill, run in process.

Every test deploys views over a source, topic and names of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise import codec
from slicewise.clock import SystemClock
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.lake.context import Context
from slicewise.spark.microbatch.figures import BatchFigures, SourceFigures
from slicewise.spark.microbatch.streaming import SourceQuery, plan_stream
from slicewise.spark.runtime.session import stream_session
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online import keys
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.operations.archive_versions import ReadArchiveVersions
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store
from slicewise.windows.durations import HOUR_US
from tests.support.platform.servers import KafkaBroker, RedisServer, running

COLUMNS = {"user_id": "string", "song_id": "string", "n": "int64", "played": "timestamp_us"}
Contents = dict[tuple[object, ...], Counter[int]]
"""Entity -> slice -> events."""


@dataclass
class Lake:
    """Running servers and a session."""

    settings: Settings
    session: SparkSession
    clock: SystemClock = field(default_factory=SystemClock)
    operator_url: str = ""
    """Address of the store, for who may empty it."""

    def topic(self, name: str, partitions: int = 2) -> KafkaLog:
        log = KafkaLog(self.settings.kafka_bootstrap)
        log.create(name, partitions)
        return log

    def source(self, name: str) -> sw.KafkaSource:
        return sw.KafkaSource(
            name, schema=COLUMNS, timestamp="played", max_lateness="7d", required=["user_id"]
        )

    def deploy(self, *views: sw.FeatureView) -> Deployment:
        """Deploys exactly these views."""
        return self.deploy_planned(plan(Project.of("lake", views)))

    def deploy_planned(self, deployment: Deployment) -> Deployment:
        """Deploys exactly this."""
        topics, earliest = {}, OffsetVector()
        for source in deployment.sources:
            log = self.topic(source.topic)
            topics[source.topic] = log.topic_id(source.topic)
            earliest = earliest.join(log.earliest(source.topic))
        with self.store() as store:
            metadata = store.run(Initialise())
            store.run(Deploy(deployment, metadata.deployment_version, topics, earliest))
        return deployment

    @contextmanager
    def store(self) -> Iterator[OnlineStore]:
        store = open_store(self.settings.redis_url)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def context(self) -> Iterator[Context]:
        """Opens a context as a job does."""
        context = Context.open(self.session, self.settings, open_catalog(self.settings), self.clock)
        try:
            yield context
        finally:
            context.store.close()

    def produce(
        self, topic: str, events: Sequence[Mapping[str, Any] | bytes], partition: int = 0
    ) -> None:
        """In this order; returns when all stand."""
        producer = Producer({"bootstrap.servers": self.settings.kafka_bootstrap, "log_level": 2})
        for event in events:
            value = event if isinstance(event, bytes) else json.dumps(event).encode()
            producer.produce(topic, value, partition=partition)
        assert producer.flush(30) == 0

    def query(self, deployment: Deployment, source: str) -> SourceQuery:
        """The stream of a source, begun at the committed offsets."""
        log = KafkaLog(self.settings.kafka_bootstrap)
        with self.store() as store:
            planned = plan_stream(
                deployment, deployment.source(source), store.run(ReadMetadata()), log
            )
        figures = BatchFigures(SourceFigures(source, self.clock))
        return SourceQuery(self.session, self.settings, planned, deployment.to_json(), figures)

    def apply(self, deployment: Deployment, source: str) -> Status:
        """Streams until all that stands in the topic is applied; what the stream said."""
        query = self.query(deployment, source)
        try:
            query.query.processAllAvailable()
        finally:
            query.drain()
        return query.figures.status()

    def contents(self, unit: StorageUnit, entities: Sequence[tuple[object, ...]]) -> Contents:
        """The store's content of the first partial, a count: compacted hours, and running partials
        beyond their offset vectors. Asserts that nothing is held twice."""
        tags = keys.entity_tags(
            unit.entity,
            [list(column) for column in zip(*entities, strict=True)],
            None,
            len(entities),
        )
        with self.store() as store:
            offset_vectors, contents = store.run(ReadArchiveVersions(unit.source)), {}
            metadata = store.run(ReadMetadata())
            stored_as, start = (
                metadata.name(unit.storage_fingerprint),
                metadata.starts[unit.storage_fingerprint],
            )
            for entity, tag in zip(entities, tags, strict=True):
                contents[entity] = self._entity(store, unit, stored_as, tag, offset_vectors, start)
        return contents

    def _entity(
        self,
        store: OnlineStore,
        unit: StorageUnit,
        stored_as: str,
        tag: bytes,
        offset_vectors: Mapping[int, OffsetVector],
        start: OffsetVector,
    ) -> Counter[int]:
        hot = keys.hot_key(store.store_id, tag, stored_as)
        now_hour = store.run(ReadTime()) // HOUR_US
        hours = range(now_hour - 60, now_hour + 3)
        days = sorted({hour // 24 for hour in hours})
        day_keys = [keys.day_key(store.store_id, tag, stored_as, day) for day in days]
        fields = [
            (keys.HOURS, *(keys.hour_fields(hour)[1] for hour in hours if hour // 24 == day))
            for day in days
        ]
        read = UnitRead(hot, tuple(zip(day_keys, fields, strict=True)))
        reply = store.run(Read([EntityRead((read,))])).entities[0][0]
        counted: Counter[int] = Counter()
        compacted: dict[int, OffsetVector] = {}
        for names, values in zip(fields, reply.days, strict=True):
            stored_hours = codec.unpack_hours(values[0]) if values[0] else {}
            for name, value in zip(names[1:], values[1:], strict=True):
                hour = int(name[2:])
                if hour not in stored_hours:
                    continue
                assert value is not None
                block = codec.unpack_slices(value)
                assert block.archive_version == stored_hours[hour]
                compacted[hour] = (
                    offset_vectors[block.archive_version] if block.archive_version else start
                )
                partials = unit.layout.decode_blocks([block.block], [len(block.numbers)])
                counts = unit.layout.partials[0].finish_columns(partials[0]).values.to_pylist()
                counted.update(dict(zip(block.numbers.tolist(), counts, strict=True)))
        for name, value in zip(reply.hot[::2], reply.hot[1::2], strict=True):
            if not name.startswith(b"r:"):
                continue
            _, number, topic, partition = name.split(b":")
            partial = codec.unpack_running(value)
            offset_vector = compacted.get(int(number) * unit.slice_us // HOUR_US)
            topic_partition = (topic.decode(), int(partition))
            assert (
                offset_vector is None
                or partial.first >= offset_vector.get(topic_partition)
                or partial.last < offset_vector.get(topic_partition)
            ), "straddles"
            if offset_vector is None or partial.first >= offset_vector.get(topic_partition):
                columns = unit.layout.decode_blocks([partial.row], [1])
                counted[int(number)] += (
                    unit.layout.partials[0].finish_columns(columns[0]).values[0].as_py()
                )
        return counted


def expected(events: Sequence[Mapping[str, Any]], entity: Sequence[str], slice_us: int) -> Contents:
    """By brute force: what a count over these good events is."""
    contents: Contents = {}
    for event in events:
        key = tuple(event[name] for name in entity)
        contents.setdefault(key, Counter())[event["played"] // slice_us] += 1
    return contents


@contextmanager
def lake(folder: Path) -> Iterator[Lake]:
    """Gone with all processes afterwards; data in the folder."""
    with running(RedisServer) as redis, running(KafkaBroker) as kafka:
        state = folder / "state"
        state.mkdir()
        settings = Settings.load(
            {
                "SLICEWISE_STATE": str(state),
                "SLICEWISE_REDIS_URL": redis.url,
                "SLICEWISE_KAFKA_BOOTSTRAP": kafka.bootstrap,
                "SLICEWISE_MICROBATCH_INTERVAL_MS": "10",
            }
        )
        session = stream_session(settings, cores=2)
        try:
            yield Lake(settings, session, operator_url=redis.operator_url)
        finally:
            session.stop()


__all__ = ["Lake", "expected", "lake"]
