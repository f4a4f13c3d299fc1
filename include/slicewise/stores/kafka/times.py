"""When a topic's log begins, by the Kafka timestamps of its records."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from slicewise.errors import StoreUnavailable
from slicewise.stores.kafka.log import KafkaLog

TIMEOUT_S = 15.0


def first_time_us(log: KafkaLog, topic: str) -> int | None:
    """The smallest Kafka timestamp among the first records of the partitions; None for an empty topic.

    Raises StoreUnavailable where the broker does not answer.
    """
    return min(first_times_us(log, topic).values(), default=None)


def first_times_us(log: KafkaLog, topic: str) -> dict[int, int]:
    """Partition -> Kafka timestamp of the first record that it still holds; partitions without any are left out, also
    those that hold nothing but markers and records of aborted transactions.

    Raises StoreUnavailable where the broker does not answer.
    """
    earliest, latest = log.earliest(topic), log.latest(topic)
    # a cover names no place at 0, so the end says which partitions may hold anything
    filled = [place[1] for place, end in latest.offsets.items() if end > earliest.get(place)]
    consumer = Consumer(
        {
            "bootstrap.servers": log.bootstrap,
            "group.id": "slicewise-first-records",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # retention may drop the beginning between any two of these requests: then it is where the log begins now
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    found: dict[int, int] = {}
    try:
        for partition in filled:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            message = consumer.poll(TIMEOUT_S)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                continue
            if message is None or error is not None:
                why = "no answer" if error is None else error.str()
                raise StoreUnavailable(f"cannot read the beginning of topic {topic!r}: {why}", where=log.bootstrap)
            found[partition] = int(message.timestamp()[1]) * 1000
    except KafkaException as error:
        raise StoreUnavailable(f"cannot read the beginning of topic {topic!r}: {error}", where=log.bootstrap) from error
    finally:
        consumer.close()
    return found
