"""A replay goes on where the topic ends, whatever became of the process that wrote it.

An event's partition follows from its carrier; a batch of events is one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slicewise.clock import Clock
from slicewise.errors import DataLoss
from slicewise.replay.flights import year
from slicewise.replay.schedule import Event, Pace, Schedule, partition_of
from slicewise.stores.log.producer import Record

BATCH = 10_000
LONGEST_WAIT_S = 0.5


class Sink(Protocol):
    """Receiver of events: all of a batch, or none."""

    def append(self, events: Sequence[Event]) -> None: ...


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


@dataclass(frozen=True)
class NewestEvent:
    """The newest event of a partition, as the topic has it."""

    value: bytes
    time_ms: int


def resume(
    pace: Pace, newest_events: Mapping[int, NewestEvent], now_us: int
) -> tuple[Schedule, int]:
    """The schedule that the topic follows, and the number of the next event.

    An empty topic starts a schedule now. Raises DataLoss where the topic holds something else than
    this replay: other events, or the same at another pace.
    """
    numbers = [
        _number(partition, newest_event) for partition, newest_event in newest_events.items()
    ]
    if not numbers:
        return Schedule(year(), pace, pace.base_us(now_us)), 0
    newest, last = max(numbers, key=lambda pair: pair[0])
    at_zero = Schedule(year(), pace, 0)
    base_us = _scheduled(last) - at_zero.event(newest).event_us
    schedule = Schedule(year(), pace, base_us)
    for number, record in numbers:
        expected = schedule.event(number)
        if record.value != expected.value or record.time_ms != expected.arrival_us // 1000:
            raise DataLoss(
                f"event {number} of the topic is not that of this replay",
                expected="a topic that this replay wrote, with the same --speed, --share, --offset",
                next_step="give the same options, or another --topic",
            )
    return schedule, newest + 1


def _number(partition: int, newest: NewestEvent) -> tuple[int, NewestEvent]:
    try:
        return int(json.loads(newest.value)["number"]), newest
    except (ValueError, KeyError, TypeError) as error:
        raise DataLoss(
            f"partition {partition} ends with a record that no replay wrote",
            expected="a topic of the replay's own",
            next_step="give another --topic",
        ) from error


def _scheduled(newest: NewestEvent) -> int:
    return int(json.loads(newest.value)["scheduled"])


def run(
    schedule: Schedule,
    first: int,
    sink: Sink,
    clock: Clock,
    wait: Callable[[float], bool],
    *,
    history_only: bool,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Appends events from `first` on, each when it is due; the number of the next one.

    What is overdue goes as fast as the log takes it. Ends when `wait` (seconds, and whether to
    stop) says so or, with history_only, at the last event that arrived before the start.
    """
    next_number = first
    while True:
        limit = schedule.live_from_us if history_only else clock.now_us()
        due = schedule.due(limit)
        if next_number < due:
            end = min(due, next_number + BATCH)
            sink.append([schedule.event(number) for number in range(next_number, end)])
            next_number = end
            if progress is not None:
                progress(next_number, due)
        elif history_only:
            return next_number
        pause_us = 0 if next_number < due else schedule.arrival_us(next_number) - clock.now_us()
        if wait(min(max(pause_us, 0) / 1e6, LONGEST_WAIT_S)):
            return next_number
