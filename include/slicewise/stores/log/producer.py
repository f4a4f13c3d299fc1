"""A topic's content decides where its producer goes on: a batch stands in it whole or not at all.

Batches are transactions under one id per topic, so that a second producer of the same id fences
the first, and what a killed producer left half written is aborted before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from slicewise.errors import ServerError, StoreUnavailable

TIMEOUT_S = 30.0
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


@dataclass(frozen=True)
class Record:
    """A record to append, or one that stands. time_ms: its Kafka timestamp (CreateTime)."""

    partition: int
    key: bytes | None
    value: bytes
    time_ms: int


class TransactionalWriter:
    """Appends batches to one topic, each whole or not at all; only the newest writer of a topic
    writes."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        """name: the transactional id. Raises StoreUnavailable where the broker does not answer."""
        self.bootstrap, self.topic = bootstrap, topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "linger.ms": 2,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
                "transaction.timeout.ms": 60_000,
            }
        )
        try:
            self._producer.init_transactions(TIMEOUT_S)
        except KafkaException as error:
            raise self._failed("begin", error) from error

    def append(self, records: Iterable[Record]) -> None:
        """One transaction. Raises StoreUnavailable; then none of the records stands."""
        try:
            self._producer.begin_transaction()
            for record in records:
                self._producer.produce(
                    self.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp=record.time_ms,
                )
            self._producer.commit_transaction(TIMEOUT_S)
        except (KafkaException, BufferError) as error:
            raise self._failed("append", error) from error

    def _failed(self, what: str, error: Exception) -> ServerError | StoreUnavailable:
        code = (
            error.args[0].code() if error.args and isinstance(error.args[0], KafkaError) else None
        )
        if code in _FENCED:
            return ServerError(
                f"another producer of topic {self.topic!r} took over",
                next_step="let that one go on, or stop it and start this one again",
            )
        return StoreUnavailable(
            f"cannot {what} to topic {self.topic!r}: {error}",
            where=f"Kafka at {self.bootstrap}",
            next_step="see that the broker runs (slicewise status), then start again",
        )


class PlainWriter:
    """Appends as fast as the broker takes, each record once; no order between partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self._refused: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
            }
        )

    def append(self, records: Iterable[Record]) -> None:
        """Hands records over; `flush` says whether they stand."""
        for record in records:
            while True:
                try:
                    self._producer.produce(
                        self.topic,
                        value=record.value,
                        key=record.key,
                        partition=record.partition,
                        timestamp=record.time_ms,
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    self._producer.poll(0.05)
        self._producer.poll(0)

    def flush(self) -> None:
        """Returns when all that was handed over stands; StoreUnavailable where it does not."""
        left = self._producer.flush(TIMEOUT_S)
        if left or self._refused:
            raise StoreUnavailable(
                f"{left + len(self._refused)} records were not written to {self.topic!r}: "
                + (self._refused[0].str() if self._refused else "no answer"),
                where=f"Kafka at {self.bootstrap}",
                next_step="see that the broker runs (slicewise status)",
            )

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._refused.append(error)


def last_records(bootstrap: str, topic: str, partitions: Sequence[int]) -> dict[int, Record]:
    """The newest committed record of each partition; partitions without one are left out."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "slicewise-last-records",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        records = {p: _last(consumer, topic, p) for p in partitions}
    except KafkaException as error:
        raise StoreUnavailable(
            f"cannot read the end of topic {topic!r}: {error}",
            where=f"Kafka at {bootstrap}",
            next_step="see that the broker runs (slicewise status), then start again",
        ) from error
    finally:
        consumer.close()
    return {partition: record for partition, record in records.items() if record is not None}


def _last(consumer: Consumer, topic: str, partition: int) -> Record | None:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
    back = 16
    while True:  # the end may be commit markers only, which no consumer is given
        start = max(low, high - back)
        newest = _newest_from(consumer, topic, partition, start)
        if newest is not None or start == low:
            return newest
        back *= 16


def _newest_from(consumer: Consumer, topic: str, partition: int, start: int) -> Record | None:
    consumer.assign([TopicPartition(topic, partition, start)])
    newest: Record | None = None
    while True:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                return newest
            raise KafkaException(error)
        newest = Record(
            partition, message.key(), message.value() or b"", int(message.timestamp()[1])
        )


class PromptWriter:
    """Appends single records at once; one that the broker did not take in time is dropped, and
    nobody is told."""

    def __init__(self, bootstrap: str, topic: str, patience_s: float) -> None:
        self.topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 0,
                "message.timeout.ms": int(patience_s * 1000),
                "queue.buffering.max.messages": 1_000,
                "log_level": 2,
            }
        )

    def append(self, partition: int, value: bytes) -> None:
        """Hands it over."""
        self._producer.poll(0)
        try:
            self._producer.produce(self.topic, value=value, partition=partition)
        except BufferError:
            return  # a broker that is away for long


Delivered = Callable[[str | None], None]
"""Called once per event: with None when it stands, else with the reason why it does not."""


class EventWriter:
    """Appends keyed events to any topics, each once. Its callbacks run within `poll`."""

    def __init__(
        self,
        bootstrap: str,
        patience_s: float,
        most: int,
        linger_ms: int = 5,
        failures_only: bool = False,
    ) -> None:
        """patience_s: after which an event that the broker has not taken is given up. most: events
        that wait for the broker. linger_ms: that an event waits for others to go with.
        failures_only: nothing is called back for an event that stands."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": linger_ms,
                "delivery.report.only.error": failures_only,
                "compression.type": "lz4",
                "message.timeout.ms": int(patience_s * 1000),
                "queue.buffering.max.messages": most,
                "log_level": 2,
            }
        )

    def append(self, topic: str, key: bytes, value: bytes, delivered: Delivered) -> bool:
        """Hands an event over. False where too many wait already; then nothing is called. One that
        can never be written is called back for at once."""

        def done(error: KafkaError | None, _: Message) -> None:
            delivered(None if error is None else error.str())

        try:
            self._producer.produce(topic, value=value, key=key, on_delivery=done)
        except BufferError:
            return False
        except KafkaException as error:  # larger than a message may be
            delivered(str(error.args[0].str() if error.args else error))
        return True

    @property
    def waiting(self) -> int:
        """Number of events of which nothing has been said yet."""
        return len(self._producer)

    def poll(self) -> None:
        """Calls back for what the broker has said since."""
        self._producer.poll(0)

    def close(self, patience_s: float) -> int:
        """Waits for the broker, and calls back. Gives the number of events that still wait."""
        return self._producer.flush(patience_s)
