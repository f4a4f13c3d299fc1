"""Beginnings of topics' logs, and the offsets that lie so far back, by the Kafka timestamps of
their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from slicewise.errors import StoreUnavailable
from slicewise.stores.log.topics import KafkaLog

TIMEOUT_S = 15.0


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
    with _consumer(log, topic) as consumer:
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
    with _consumer(log, topic) as consumer:
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


@contextmanager
def _consumer(log: KafkaLog, topic: str) -> Iterator[Consumer]:
    """A consumer of no group that anyone keeps. Raises StoreUnavailable for what Kafka answers
    meanwhile."""
    consumer = Consumer(
        {
            "bootstrap.servers": log.bootstrap,
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
            where=log.bootstrap,
            next_step="see that the broker answers: slicewise status; then run it again",
        ) from error
    finally:
        consumer.close()
