"""Records that a committed read sees tell where a log begins; a partition without any is left
out."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.topics import KafkaLog, first_time_us, first_times_us
from tests.support.platform.servers import KafkaBroker

pytestmark = pytest.mark.timeout(300)


def test_a_partition_of_markers_and_aborted_records_has_no_first_time(
    kafka_broker: KafkaBroker,
) -> None:
    topic, log = "first-times", KafkaLog(kafka_broker.bootstrap)
    # these times lie decades back: retention by time would drop the records whenever the broker
    # looks
    log.create(topic, 4, {"retention.ms": "-1"})
    producer = Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": topic, "log_level": 2}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in (0, 1, 2):
        producer.produce(topic, b"aborted", partition=partition, timestamp=1_000)
    producer.flush(30)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=2, timestamp=7_000)
    producer.produce(topic, b"deleted", partition=1, timestamp=3_000)
    producer.commit_transaction(30)
    log.delete_records(topic, {1: 3})  # what is left of partition 1 is the marker of the commit
    assert {
        topic_partition[1]: end for topic_partition, end in log.latest(topic).offsets.items()
    } == {0: 2, 1: 4, 2: 4}
    assert first_times_us(log, topic) == {2: 7_000_000}
    assert first_time_us(log, topic) == 7_000_000
    producer.begin_transaction()
    producer.produce(topic, b"late", partition=0, timestamp=2_000)
    producer.commit_transaction(30)
    assert first_times_us(log, topic) == {0: 2_000_000, 2: 7_000_000}


class Shrinking(KafkaLog):
    """A log that retention shortens between the question where it begins and the read of what
    stands there."""

    def latest(self, topic: str) -> OffsetVector:
        ends = super().latest(topic)
        self.delete_records(topic, {0: 2})
        return ends


def test_where_the_log_begins_is_read_also_while_retention_moves_it(
    kafka_broker: KafkaBroker,
) -> None:
    topic, log = "shrinking-times", Shrinking(kafka_broker.bootstrap)
    log.create(topic, 1, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    for time_ms in (1_000, 2_000, 3_000):
        producer.produce(topic, b"x", partition=0, timestamp=time_ms)
    assert producer.flush(30) == 0
    assert first_times_us(log, topic) == {0: 3_000_000}


def test_committed_records_between_two_offsets_are_read_once(kafka_broker: KafkaBroker) -> None:
    topic, log = "records-between", KafkaLog(kafka_broker.bootstrap)
    log.create(topic, 3, {"retention.ms": "-1"})
    producer = Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": topic, "log_level": 2}
    )
    producer.init_transactions(30)
    for text, ends in ((b"a", True), (b"aborted", False), (b"b", True)):
        producer.begin_transaction()
        for time_ms in (1_000, 2_000):
            producer.produce(topic, text, partition=0, timestamp=time_ms)
        producer.produce(topic, None, partition=1, timestamp=3_000)
        producer.flush(30)
        if ends:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    topic_id = log.topic_id(topic)
    # markers are written after a commit's answer: three records and three of them in partition 1
    whole = OffsetVector({(topic_id, 0): 9, (topic_id, 1): 6})
    deadline = time.monotonic() + 30
    while not (end := log.latest(topic)).dominates(whole):
        assert time.monotonic() < deadline, f"{end}, and {whole} is due"
        time.sleep(0.05)
    start = OffsetVector({(topic_id, 0): 1})
    records = sorted(log.records_between(topic, start, end))
    # each transaction leaves a marker behind its records
    assert [(r.partition, r.offset, r.time_us, r.value) for r in records] == [
        (0, 1, 2_000_000, b"a"),
        (0, 6, 1_000_000, b"b"),
        (0, 7, 2_000_000, b"b"),
        (1, 0, 3_000_000, None),
        (1, 4, 3_000_000, None),
    ]
    assert list(log.records_between(topic, end, end)) == []
    cut = OffsetVector({(topic_id, 0): 2})
    assert [r.offset for r in log.records_between(topic, start, cut)] == [1]
    # the marker behind the first two has the time of its transaction
    assert log.offsets_since(topic, 3_000_000) == OffsetVector({(topic_id, 0): 2})
