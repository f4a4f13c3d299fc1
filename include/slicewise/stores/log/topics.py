"""A topic is known by its id, never by its name: a topic made anew under an old name is another.

Its log tells where it begins and ends, and which offsets lie so far back by Kafka's timestamps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from slicewise.errors import DataLoss, StoreUnavailable, TopicGone
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log import reading
from slicewise.stores.log.reading import Record, consumer_of

TIMEOUT_S = 15.0
_PAUSE_S = 0.1
_PASSING = frozenset(
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,  # a topic that was made a moment ago
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    ]
)


# A client has three threads and a connection of its own: all logs of one process share it. A
# process that was forked has none of its parent's threads, so it makes another.
_CLIENTS: WeakValueDictionary[tuple[int, str], AdminClient] = WeakValueDictionary()


def _client(bootstrap: str) -> AdminClient:
    """The process's client of these brokers, which lives as long as one who uses it."""
    key = os.getpid(), bootstrap
    client = _CLIENTS.get(key)
    if client is None:
        # what goes wrong is raised; the client's own lines (3: errors) would only repeat it
        made = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        client = _CLIENTS.setdefault(key, made)
    return client


class KafkaLog:
    """Identities and offsets of topics, for any number of threads."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._admin = _client(bootstrap)

    def __enter__(self) -> KafkaLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def topic_id(self, topic: str) -> str:
        """32 hex digits. StoreUnavailable when the broker does not answer, TopicGone when it lacks
        the topic."""
        return self._described(topic)[0]

    def partitions(self, topic: str) -> int:
        """The number of the topic's partitions."""
        return self._described(topic)[1]

    def check_topic(self, topic: str, expected_id: str) -> None:
        """DataLoss when another topic stands under the name."""
        topic_id = self.topic_id(topic)
        if topic_id != expected_id:
            raise DataLoss(
                f"topic {topic!r} was deleted and made anew",
                where=f"topic id {topic_id}",
                expected=f"topic id {expected_id}",
                next_step="its events are another log: deploy again, so that new committed offsets begin",
            )

    def earliest(self, topic: str) -> OffsetVector:
        """First offset that is still there, per partition."""
        return self._offsets(topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, topic: str) -> OffsetVector:
        """First offset that a committed read does not reach, per partition."""
        return self._offsets(topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def create(self, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
        """Makes the topic unless it stands; returns when the broker knows it."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
        future = self._admin.create_topics([new], request_timeout=self.timeout_s)[topic]
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise self._unavailable(topic, error) from error
        self._described(topic, exists=True)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Drops all records below these offsets, partition -> offset, as retention does."""
        wanted = [TopicPartition(topic, p, offset) for p, offset in before.items()]
        for future in self._admin.delete_records(wanted).values():
            self._answered(topic, lambda f=future: self._result(f))  # type: ignore[misc]

    def records_between(
        self, topic: str, start: OffsetVector, end: OffsetVector
    ) -> Iterator[Record]:
        """Committed records from `start` on, below `end`: of each partition in the order of their
        offsets. Raises StoreUnavailable."""
        return reading.records_between(self.bootstrap, topic, start, end)

    def offsets_since(self, topic: str, time_us: int) -> OffsetVector:
        """First offset of each partition whose Kafka time is not earlier; the log's end where there
        is none. Raises StoreUnavailable."""
        end = self.latest(topic)
        return reading.offsets_since(self.bootstrap, topic, end, time_us, self.timeout_s)

    def _described(self, topic: str, *, exists: bool = False) -> tuple[str, int]:
        def call() -> Any:
            topics = TopicCollection([topic])
            futures = self._admin.describe_topics(topics, request_timeout=self.timeout_s)
            return self._result(futures[topic])

        description = self._answered(topic, call, exists=exists)
        identity = description.topic_id
        high = identity.get_most_significant_bits() & (2**64 - 1)
        low = identity.get_least_significant_bits() & (2**64 - 1)
        return f"{high:016x}{low:016x}", len(description.partitions)

    def _offsets(self, topic: str, spec: OffsetSpec) -> OffsetVector:
        identity, partitions = self._described(topic)

        def call() -> dict[tuple[str, int], int]:
            futures = self._admin.list_offsets(
                {TopicPartition(topic, partition): spec for partition in range(partitions)},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self.timeout_s,
            )
            return {(identity, at.partition): self._result(f).offset for at, f in futures.items()}

        return OffsetVector(self._answered(topic, call, exists=True))

    def _result(self, future: Future[Any]) -> Any:
        return future.result(timeout=self.timeout_s + 5)

    def _answered(self, topic: str, call: Callable[[], Any], *, exists: bool = False) -> Any:
        """Asks again while a leader is being elected or metadata is on its way.

        exists: the topic is known to exist, so that a broker that does not know it yet will.
        """
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return call()
            except KafkaException as error:
                code = error.args[0].code()
                passing = code in _PASSING or error.args[0].retriable()
                passing = passing or (exists and code == KafkaError.UNKNOWN_TOPIC_OR_PART)
                if not passing or time.monotonic() > deadline:
                    raise self._unavailable(topic, error) from error
            time.sleep(_PAUSE_S)

    def _unavailable(self, topic: str, error: KafkaException) -> StoreUnavailable:
        gone = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        return (TopicGone if gone else StoreUnavailable)(
            f"Kafka did not answer about topic {topic!r}: {error.args[0].str()}",
            where=self.bootstrap,
            expected="a running broker that has the topic",
            next_step="slicewise status; slicewise load creates the topics of the example",
        )


def first_time_us(log: KafkaLog, topic: str) -> int | None:
    """The smallest Kafka timestamp among the first records of the partitions; None for an empty
    topic.

    Raises StoreUnavailable where the broker does not answer.
    """
    return min(first_times_us(log, topic).values(), default=None)


def first_times_us(log: KafkaLog, topic: str) -> dict[int, int]:
    """Partition -> Kafka timestamp of the first record that it still holds; partitions without any
    are left out, also those that hold nothing but markers and records of aborted transactions.

    Raises StoreUnavailable where the broker does not answer.
    """
    earliest, latest = log.earliest(topic), log.latest(topic)
    # an offset vector names no partition at 0, so the end says which partitions may hold anything
    filled = [
        topic_partition[1]
        for topic_partition, end in latest.offsets.items()
        if end > earliest.get(topic_partition)
    ]
    times: dict[int, int] = {}
    with consumer_of(log.bootstrap, topic) as consumer:
        for partition in filled:
            time_us = _time_at(consumer, log, topic, partition, OFFSET_BEGINNING)
            if time_us is not None:
                times[partition] = time_us
    return times


def offsets_before(
    log: KafkaLog, topic: str, ends: Mapping[int, int], back_us: int
) -> dict[int, int]:
    """Partition -> first offset from which to read the records that lie below an end. Of these
    every one is seen that by Kafka's time lies at most `back_us` before the last of them. ends:
    partition -> offset.

    Where the log begins later than that, or holds nothing below the end any more, it is where the
    log begins. Raises StoreUnavailable.
    """
    if not ends:
        return {}
    earliest = {
        topic_partition[1]: offset
        for topic_partition, offset in log.earliest(topic).offsets.items()
    }
    offsets: dict[int, int] = {}
    with consumer_of(log.bootstrap, topic) as consumer:
        for partition, end in ends.items():
            first = earliest.get(partition, 0)
            last_us = _time_before(consumer, log, topic, partition, end, first)
            if last_us is None:
                offsets[partition] = min(first, end)
                continue
            wanted = TopicPartition(topic, partition, max(0, (last_us - back_us) // 1000))
            (at,) = consumer.offsets_for_times([wanted], timeout=TIMEOUT_S)
            offsets[partition] = min(end, at.offset) if at.offset >= 0 else end
    return offsets


def _time_before(
    consumer: Consumer, log: KafkaLog, topic: str, partition: int, end: int, first: int
) -> int | None:
    """Kafka timestamp of a record near the last one below `end`; None where the log holds none
    below it."""
    back = 1
    while end > first:
        at = max(first, end - back)
        time_us = _time_at(consumer, log, topic, partition, at)
        if time_us is not None or at == first:
            return time_us
        back *= 16  # markers of transactions, and records that were aborted
    return None


def _time_at(
    consumer: Consumer, log: KafkaLog, topic: str, partition: int, offset: int
) -> int | None:
    """The Kafka time of the first record from there on; None without one."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(TIMEOUT_S)
    error = None if message is None else message.error()
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        return None
    if message is None or error is not None:
        why = "no answer" if error is None else error.str()
        raise StoreUnavailable(
            f"cannot read topic {topic!r} from offset {offset}: {why}",
            where=log.bootstrap,
            next_step=(
                "see that the broker answers and still has the offset: slicewise status; then run "
                "it again"
            ),
        )
    return int(message.timestamp()[1]) * 1000
