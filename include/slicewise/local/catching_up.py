"""The stream has caught up when its committed offsets hold all that the logs held once the past was
loaded; not before it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slicewise.clock import Clock
from slicewise.features.plan.deployment import Deployment
from slicewise.log import Progress
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.log.producer import last_records
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.port import OnlineStore

LOADED_WITHIN_MS = 120_000
"""A replay is at its live part when its newest event arrived so lately. The example's longest night
without a flight lasts a minute of the compressed year."""


def is_loaded(newest_ms: int | None, now_ms: int) -> bool:
    """Tells whether a replay whose newest event arrived at newest_ms (None: there is none) has
    loaded the past."""
    return newest_ms is not None and now_ms - newest_ms <= LOADED_WITHIN_MS


@dataclass
class CatchingUp:
    """Work that is left for the stream. replayed: topics that a replay fills, from the past to
    now."""

    settings: Settings
    deployment: Deployment
    replayed: frozenset[str]
    clock: Clock
    on_event: Callable[[], None]
    """Called at each look that finds any event applied."""
    _end: OffsetVector | None = field(default=None)

    def reason(self, store: OnlineStore, log: KafkaLog) -> str | None:
        """Tells why the stream has not caught up; None where it has."""
        committed = store.run(ReadMetadata()).committed
        if committed:
            self.on_event()
        if self._end is None and any(
            not self._is_loaded(topic, log) for topic in sorted(self.replayed)
        ):
            return f"the past is being loaded, {sum(committed.offsets.values()):,} events applied"
        if self._end is None:
            ends = (log.latest(source.topic).offsets for source in self.deployment.declared.sources)
            self._end = OffsetVector(
                {topic_partition: offset for end in ends for topic_partition, offset in end.items()}
            )
        left = sum(
            max(0, offset - committed.get(topic_partition))
            for topic_partition, offset in self._end.offsets.items()
        )
        total = sum(self._end.offsets.values())
        line = f"{left:,} of {total:,} events to go"
        return Progress(line, "events applied", total - left, total) if left else None

    def _is_loaded(self, topic: str, log: KafkaLog) -> bool:
        ends = last_records(self.settings.kafka_bootstrap, topic, range(log.partitions(topic)))
        newest = max((end.time_ms for end in ends.values()), default=None)
        return is_loaded(newest, self.clock.now_us() // 1000)
