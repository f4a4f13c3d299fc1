"""Records of a topic are read once, between two offset vectors, by nobody's group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from slicewise.errors import StoreUnavailable
from slicewise.offsets.vector import OffsetVector

_AT_ONCE = 2_000
_POLL_S = 1.0


class Record(NamedTuple):
    """A record as the broker keeps it. time_us: Kafka's timestamp."""

    partition: int
    offset: int
    time_us: int
    value: bytes | None


def records_between(
    bootstrap: str, topic: str, start: OffsetVector, end: OffsetVector, timeout_s: float = 60.0
) -> Iterator[Record]:
    """Committed records from `start` on, below `end`: partition by partition in order of their
    offsets, partitions mixed. Raises StoreUnavailable, also after timeout_s without an end."""
    wanted = {
        partition: (start.get((topic_id, partition)), last)
        for (topic_id, partition), last in end.offsets.items()
        if last > start.get((topic_id, partition))
    }
    if not wanted:
        return
    deadline = time.monotonic() + timeout_s
    with consumer_of(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, p, first) for p, (first, _) in wanted.items()])
        left = {partition: last for partition, (_, last) in wanted.items()}
        while left:
            if time.monotonic() > deadline:
                raise _unavailable(bootstrap, topic, f"no end after {timeout_s:g} s")
            for message in consumer.consume(_AT_ONCE, _POLL_S):
                partition = int(message.partition() or 0)
                error = message.error()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise _unavailable(bootstrap, topic, error.str())
                    left.pop(partition, None)
                    continue
                offset = int(message.offset() or 0)
                last = left.get(partition)
                if last is None or offset >= last:
                    left.pop(partition, None)
                    continue
                time_us = int(message.timestamp()[1]) * 1000
                value = message.value()
                yield Record(partition, offset, time_us, value)
                if offset + 1 >= last:
                    left.pop(partition)


def offsets_since(
    bootstrap: str, topic: str, end: OffsetVector, time_us: int, timeout_s: float
) -> OffsetVector:
    """First offset of each partition whose Kafka time is not earlier; that of `end` where there is
    none. Raises StoreUnavailable."""
    partitions = [TopicPartition(topic, p, max(0, time_us // 1000)) for _, p in end.offsets]
    if not partitions:
        return end
    with consumer_of(bootstrap, topic) as consumer:
        given = consumer.offsets_for_times(partitions, timeout=timeout_s)
    first = {at.partition: at.offset for at in given if at.offset >= 0}
    return OffsetVector(
        {key: min(last, first.get(key[1], last)) for key, last in end.offsets.items()}
    )


@contextmanager
def consumer_of(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """A consumer of no group that anyone keeps. Raises StoreUnavailable for what Kafka answers
    meanwhile."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "slicewise-first-records",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # retention may drop the beginning between any two of these requests: then it is where
            # the log begins now
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        raise StoreUnavailable(
            f"cannot read topic {topic!r}: {error}",
            where=bootstrap,
            next_step="see that the broker answers: slicewise status; then run it again",
        ) from error
    finally:
        consumer.close()


def _unavailable(bootstrap: str, topic: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot read topic {topic!r}: {why}",
        where=bootstrap,
        next_step="see that the broker answers: slicewise status; then run it again",
    )
