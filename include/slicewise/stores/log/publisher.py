"""Progress is said after what it claims stands, and in Kafka itself: no loss of another store moves
it.

It is a consumer group's offsets on the topic that is read, so that Kafka's own tools show how far
an emission is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from slicewise.errors import StoreUnavailable
from slicewise.offsets.vector import OffsetVector

TIMEOUT_S = 60.0
_AT_ONCE = 50_000
_PAUSE_S = 0.1
_PASSING = frozenset(
    [
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,  # the first group of a broker makes its topic
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    ]
)


class Publisher:
    """Appends keyed records to one topic; a key's partition is that of Kafka's own clients."""

    def __init__(self, bootstrap: str, topic: str, queue: int = 1_000_000) -> None:
        """queue: records that wait for the broker; beyond it `append` waits."""
        self.bootstrap, self.topic = bootstrap, topic
        self._refused: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "compression.type": "lz4",
                "batch.num.messages": 100_000,
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": queue,
                "queue.buffering.max.kbytes": 1 << 19,
                # a callback per record would cost more than the record
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                "log_level": 2,
            }
        )

    def append(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Hands records over; `flush` says whether they stand."""
        for first in range(0, len(keys), _AT_ONCE):
            pairs = zip(
                keys[first : first + _AT_ONCE], values[first : first + _AT_ONCE], strict=True
            )
            left: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in pairs]
            while left:
                self._producer.produce_batch(self.topic, left)  # marks what it did not take
                failed = [record for record in left if record.get("_error") is not None]
                self._refused += [
                    record["_error"]
                    for record in failed
                    if record["_error"].code() != KafkaError._QUEUE_FULL
                ]
                if self._refused:
                    self.flush()
                left = [{"key": record["key"], "value": record["value"]} for record in failed]
                self._producer.poll(0.05 if left else 0)

    def flush(self) -> None:
        """Returns when all that was handed over stands; StoreUnavailable where it does not."""
        left = self._producer.flush(TIMEOUT_S)
        if left or self._refused:
            why = self._refused[0].str() if self._refused else "no answer"
            raise StoreUnavailable(
                f"{left + len(self._refused)} records were not written to {self.topic!r}: {why}",
                where=f"Kafka at {self.bootstrap}",
                next_step=(
                    "see that the broker runs (slicewise status); the emission starts again by "
                    "itself"
                ),
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused.append(error)


@dataclass(frozen=True)
class Kept:
    """An emission's progress as the broker keeps it; times in microseconds."""

    since_us: int
    instant_us: int
    offset_vector: OffsetVector


class ProgressLog:
    """The progress of one view's emission over one topic. One client, closed after use."""

    def __init__(self, bootstrap: str, topic: str, view: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.group = f"slicewise-emit-{view}"
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 2,
            }
        )

    def load(self, topic_id: str, partitions: int) -> Kept | None:
        """The progress that was saved last of this very topic; None where nothing was."""
        requested = [TopicPartition(self.topic, p) for p in range(partitions)]
        committed: list[TopicPartition] = self._answered("read", lambda: self._committed(requested))
        stored = [
            json.loads(partition.metadata)
            for partition in committed
            if partition.offset >= 0 and partition.metadata
        ]
        own = [progress for progress in stored if progress.get("topic") == topic_id]
        if not own:
            return None
        newest = max(own, key=lambda progress: int(progress["instant"]))
        offsets = {
            (topic_id, partition.partition): partition.offset
            for partition in committed
            if partition.offset >= 0
        }
        return Kept(int(newest["since"]), int(newest["instant"]), OffsetVector(offsets))

    def save(self, kept: Kept, topic_id: str, partitions: int) -> None:
        """Returns when the broker has it."""
        metadata = json.dumps(
            {"topic": topic_id, "since": kept.since_us, "instant": kept.instant_us}
        )
        offsets = [
            TopicPartition(self.topic, p, kept.offset_vector.get((topic_id, p)), metadata)
            for p in range(partitions)
        ]
        self._answered("save", lambda: self._commit(offsets))

    def _commit(self, offsets: list[TopicPartition]) -> None:
        for partition in self._consumer.commit(offsets=offsets, asynchronous=False):
            if partition.error is not None:
                raise KafkaException(partition.error)

    def offsets_at(self, time_us: int, partitions: int) -> dict[int, int | None]:
        """Per partition the first offset whose Kafka time is not earlier; None where there is
        none."""
        requested = [
            TopicPartition(self.topic, p, max(0, time_us // 1000)) for p in range(partitions)
        ]
        try:
            offsets = self._consumer.offsets_for_times(requested, timeout=TIMEOUT_S)
        except KafkaException as error:
            raise self._failed("find", error) from error
        return {
            offset.partition: offset.offset if offset.offset >= 0 else None for offset in offsets
        }

    def close(self) -> None:
        self._consumer.close()

    def _committed(self, requested: list[TopicPartition]) -> list[TopicPartition]:
        committed = self._consumer.committed(requested, timeout=TIMEOUT_S)
        for partition in committed:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return list(committed)

    def _answered(self, what: str, call: Callable[[], Any]) -> Any:
        """Asks again while the group's coordinator is on its way."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return call()
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                    raise self._failed(what, error) from error
            time.sleep(_PAUSE_S)

    def _failed(self, what: str, error: KafkaException) -> StoreUnavailable:
        return StoreUnavailable(
            f"cannot {what} the progress of {self.group!r} on {self.topic!r}: {error}",
            where=f"Kafka at {self.bootstrap}",
            next_step="see that the broker runs (slicewise status); the emission starts again by itself",
        )


@dataclass(frozen=True)
class Keyed:
    """A record of a topic that is followed. time_us: its Kafka timestamp."""

    partition: int
    offset: int
    time_us: int
    key: bytes
    value: bytes


class Follower:
    """Reads a topic on from where its group was; one reader per group, of all partitions.

    A group that never was begins at the end of the topic, and holds that from then on.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        """Raises StoreUnavailable."""
        self.bootstrap, self.topic = bootstrap, topic
        self._next: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                # retention dropped what was to be read next: then it is where the log begins now
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        try:
            self._begin()
        except KafkaException as error:
            self._consumer.close()
            raise self._failed(error) from error
        except StoreUnavailable:
            self._consumer.close()
            raise

    def _begin(self) -> None:
        described = self._consumer.list_topics(self.topic, timeout=TIMEOUT_S).topics[self.topic]
        if described.error is not None or not described.partitions:
            raise self._failed(described.error or "it has no partitions")
        partitions = [TopicPartition(self.topic, p) for p in sorted(described.partitions)]
        stored = self._waited(lambda: self._committed(partitions))
        first = all(at.offset < 0 for at in stored)
        for at in stored:
            low, high = self._consumer.get_watermark_offsets(at, timeout=TIMEOUT_S)
            # a partition that was added since is read from its beginning
            self._next[at.partition] = at.offset if at.offset >= 0 else high if first else low
        self._consumer.assign(self._positions())
        if any(at.offset < 0 for at in stored):
            self.commit()

    def read(self, most: int, wait_s: float) -> list[Keyed]:
        """Records that come next, after at most so long. Raises StoreUnavailable."""
        records = []
        try:
            for message in self._consumer.consume(most, wait_s):
                if message.error() is not None:
                    raise KafkaException(message.error())
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                self._next[partition] = offset + 1
                time_us = int(message.timestamp()[1]) * 1000
                key, value = message.key() or b"", message.value() or b""
                records.append(Keyed(partition, offset, time_us, key, value))
        except KafkaException as error:
            raise self._failed(error) from error
        return records

    def commit(self) -> None:
        """Says that all that was read is done. Raises StoreUnavailable."""
        positions = self._positions()
        try:
            self._waited(lambda: self._consumer.commit(offsets=positions, asynchronous=False))
        except KafkaException as error:
            raise self._failed(error) from error

    def _committed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        stored = list(self._consumer.committed(partitions, timeout=TIMEOUT_S))
        for at in stored:
            if at.error is not None:
                raise KafkaException(at.error)
        return stored

    def _waited(self, call: Callable[[], Any]) -> Any:
        """Result of a call, made again while the group's coordinator is on its way."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return call()
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Ends it; what was not committed is read again."""
        self._consumer.close()

    def _positions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, p, offset) for p, offset in self._next.items()]

    def _failed(self, error: object) -> StoreUnavailable:
        return StoreUnavailable(
            f"cannot follow topic {self.topic!r}: {error}",
            where=f"Kafka at {self.bootstrap}",
            expected="a running broker that has the topic",
            next_step="see that it answers: slicewise status; it is tried again",
        )
