"""A record handed over stands or is told, and progress is the broker's word about one very
topic."""

from __future__ import annotations

import pytest

from slicewise.errors import StoreUnavailable
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.producer import PlainWriter, Record
from slicewise.stores.log.publisher import Kept, ProgressLog, Publisher
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.servers import KafkaBroker

pytestmark = pytest.mark.timeout(300)
OTHER = "f" * 32


def test_more_records_than_the_producer_holds_at_once_stand_each_once(
    kafka_broker: KafkaBroker,
) -> None:
    topic, log = "published-many", KafkaLog(kafka_broker.bootstrap)
    log.create(topic, 2)
    publisher = Publisher(kafka_broker.bootstrap, topic, queue=700)
    n = 6_000
    keys = [b"%d" % i for i in range(n)]
    publisher.append(keys, keys)
    publisher.flush()
    assert sum(log.latest(topic).offsets.values()) == n


def test_a_record_that_the_broker_refuses_is_told(kafka_broker: KafkaBroker) -> None:
    topic, log = "published-large", KafkaLog(kafka_broker.bootstrap)
    log.create(topic, 1)
    publisher = Publisher(kafka_broker.bootstrap, topic)

    def publish() -> None:
        publisher.append([b"small", b"large"], [b"x", b"x" * (2 << 20)])
        publisher.flush()

    with pytest.raises(StoreUnavailable, match="not written"):
        publish()


def test_progress_is_kept_for_one_topic_id_also_where_a_partition_is_at_its_beginning(
    kafka_broker: KafkaBroker,
) -> None:
    topic, log = "followed", KafkaLog(kafka_broker.bootstrap)
    log.create(topic, 3, {"retention.ms": "-1"})
    topic_id = log.topic_id(topic)
    progress = ProgressLog(kafka_broker.bootstrap, topic, "v")
    assert progress.load(topic_id, 3) is None
    kept = Kept(5, 77, OffsetVector({(topic_id, 0): 12, (topic_id, 2): 3}))
    progress.save(kept, topic_id, 3)
    again = ProgressLog(kafka_broker.bootstrap, topic, "v")
    assert again.load(topic_id, 3) == kept
    assert again.load(OTHER, 3) is None, "a topic that was made anew is another log"
    assert ProgressLog(kafka_broker.bootstrap, topic, "w").load(topic_id, 3) is None


def test_where_an_instant_begins_is_told_by_kafka_times(kafka_broker: KafkaBroker) -> None:
    topic, log = "followed-times", KafkaLog(kafka_broker.bootstrap)
    log.create(topic, 2, {"retention.ms": "-1"})
    writer = PlainWriter(kafka_broker.bootstrap, topic)
    writer.append(Record(0, None, b"x", at) for at in (1_000, 2_000, 3_000))
    writer.flush()
    progress = ProgressLog(kafka_broker.bootstrap, topic, "v")
    assert progress.offsets_at(2_000_000, 2) == {0: 1, 1: None}
    assert progress.offsets_at(3_000_001, 2)[0] == 2, "whole milliseconds, rather too early"
    assert progress.offsets_at(-5, 2)[0] == 0
    progress.close()
