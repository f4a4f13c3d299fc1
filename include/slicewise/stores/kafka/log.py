"""A topic is known by its id, never by its name: a topic made anew under an old name is another."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from slicewise.cover import Cover
from slicewise.errors import DataLoss, StoreUnavailable

TIMEOUT_S = 15.0


class KafkaLog:
    """Identities and offsets of topics. One client, kept for the life of its process."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

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
        """32 hex digits. StoreUnavailable when the broker does not answer or lacks the topic."""
        return self._described(topic)[0]

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self._described(topic)[1]

    def check_topic(self, topic: str, expected_id: str) -> None:
        """DataLoss when another topic stands under the name."""
        found = self.topic_id(topic)
        if found != expected_id:
            raise DataLoss(
                f"topic {topic!r} was deleted and made anew",
                where=f"topic id {found}",
                expected=f"topic id {expected_id}",
                next_step="its events are another log: deploy again, so that a new ledger begins",
            )

    def earliest(self, topic: str) -> Cover:
        """First offset that is still there, per partition."""
        return self._offsets(topic, OffsetSpec.earliest())

    def latest(self, topic: str) -> Cover:
        """First offset that a committed read does not reach, per partition."""
        return self._offsets(topic, OffsetSpec.latest())

    def create(self, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
        """Makes the topic unless it stands."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
        future = self._admin.create_topics([new], request_timeout=self.timeout_s)[topic]
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise self._unavailable(topic, error) from error

    def _described(self, topic: str) -> tuple[str, int]:
        futures = self._admin.describe_topics(
            TopicCollection([topic]), request_timeout=self.timeout_s
        )
        found = self._result(topic, futures.values())
        identity = found.topic_id
        high = identity.get_most_significant_bits() & (2**64 - 1)
        low = identity.get_least_significant_bits() & (2**64 - 1)
        return f"{high:016x}{low:016x}", len(found.partitions)

    def _offsets(self, topic: str, spec: OffsetSpec) -> Cover:
        identity, partitions = self._described(topic)
        asked = {TopicPartition(topic, each): spec for each in range(partitions)}
        futures = self._admin.list_offsets(
            asked,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self.timeout_s,
        )
        return Cover(
            {
                (identity, place.partition): self._result(topic, [future]).offset
                for place, future in futures.items()
            }
        )

    def _result(self, topic: str, futures: Iterable[Future[Any]]) -> Any:
        try:
            (future,) = futures
            return future.result(timeout=self.timeout_s + 5)
        except KafkaException as error:
            raise self._unavailable(topic, error) from error

    def _unavailable(self, topic: str, error: KafkaException) -> StoreUnavailable:
        return StoreUnavailable(
            f"Kafka did not answer about topic {topic!r}: {error.args[0].str()}",
            where=self.bootstrap,
            expected="a running broker that has the topic",
            next_step="slicewise status; slicewise load creates the topics of the example",
        )
