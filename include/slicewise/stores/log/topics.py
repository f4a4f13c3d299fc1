"""A topic is known by its id, never by its name: a topic made anew under an old name is another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from slicewise.errors import DataLoss, StoreUnavailable, TopicGone
from slicewise.offsets.vector import OffsetVector

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


class KafkaLog:
    """Identities and offsets of topics. One client, kept for the life of its process."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._admin = AdminClient(
            # what goes wrong is raised; the client's own lines (3: errors) would only repeat it
            {"bootstrap.servers": bootstrap, "log_level": 2}
        )

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
