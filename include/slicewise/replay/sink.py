"""An event's partition follows from its carrier; a batch of events is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slicewise.replay.schedule import Event, partition_of
from slicewise.stores.log.producer import Record


class Writer(Protocol):
    """Appends records, all or none."""

    def append(self, records: Iterable[Record]) -> None: ...


@dataclass(frozen=True)
class KafkaSink:
    """Events as records: key carrier, timestamp the arrival."""

    writer: Writer
    partitions: int

    def append(self, events: Sequence[Event]) -> None:
        self.writer.append(
            Record(
                partition_of(event.carrier, self.partitions),
                event.carrier.encode(),
                event.value,
                event.arrival_us // 1000,
            )
            for event in events
        )
