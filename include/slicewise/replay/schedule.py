"""Event n of a replay and its times are a pure function of n, the settings and the base."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slicewise.errors import DefinitionError
from slicewise.replay.flights import YEAR_US, Int64, Year


@dataclass(frozen=True)
class Pace:
    """Rule by which a year becomes a cycle. speed: real microseconds per compressed one. share: the
    part of the first cycle that lies before the start. offset_us: how far into the real year it
    begins."""

    speed: int = 365
    share: float = 0.8
    offset_us: int = 0

    def __post_init__(self) -> None:
        if self.speed < 1 or not 0 <= self.share <= 1 or not 0 <= self.offset_us < YEAR_US:
            raise DefinitionError(
                f"a replay at speed {self.speed}, share {self.share}, offset {self.offset_us} us",
                expected="a whole speed of at least 1, a share from 0 to 1, an offset below 365d",
                next_step="correct the options of slicewise replay",
            )

    @property
    def cycle_us(self) -> int:
        """Length of the compressed year: a day at speed 365."""
        return YEAR_US // self.speed

    def base_us(self, now_us: int) -> int:
        """Start of the first cycle for a replay that starts now; a whole millisecond."""
        return (now_us - round(self.share * self.cycle_us)) // 1000 * 1000


@dataclass(frozen=True)
class Event:
    """One event to produce. number: its position in the replay, from 0; times in microseconds."""

    number: int
    event_us: int
    arrival_us: int
    carrier: str
    value: bytes


@dataclass(frozen=True)
class Schedule:
    """The endless sequence of events from a base on, in the order of their arrival."""

    year: Year
    pace: Pace
    base_us: int

    @cached_property
    def _first(self) -> int:
        return int(np.searchsorted(self.year.arrival, self.pace.offset_us, side="left"))

    @cached_property
    def _arrivals(self) -> Int64:
        return self._compressed(self.year.arrival)

    @cached_property
    def _scheduled(self) -> Int64:
        return self._compressed(self.year.scheduled)

    def _compressed(self, times: Int64) -> Int64:
        # relative to the start of a cycle, which begins at the offset
        rolled = np.roll(times, -self._first) - self.pace.offset_us
        rolled[len(rolled) - self._first :] += YEAR_US
        return rolled // self.pace.speed

    @property
    def live_from_us(self) -> int:
        """The time at which the replay was started: what arrives before is history."""
        return self.base_us + round(self.pace.share * self.pace.cycle_us)

    def arrival_us(self, number: int) -> int:
        """The arrival of event `number`; its Kafka timestamp is this, in milliseconds."""
        cycle, i = divmod(number, len(self.year))
        return self.base_us + cycle * self.pace.cycle_us + int(self._arrivals[i])

    def due(self, now_us: int) -> int:
        """The number of events that have arrived by now: events 0 … due-1."""
        if now_us < self.base_us:
            return 0
        cycle, into = divmod(now_us - self.base_us, self.pace.cycle_us)
        return cycle * len(self.year) + int(np.searchsorted(self._arrivals, into, side="right"))

    def event(self, number: int) -> Event:
        """Event `number`."""
        cycle, i = divmod(number, len(self.year))
        j = (i + self._first) % len(self.year)
        start_us = self.base_us + cycle * self.pace.cycle_us
        arrival_us, event_us = start_us + int(self._arrivals[i]), start_us + int(self._scheduled[i])
        value = f'{{"number":{number},"scheduled":{event_us},{self.year.text(j)}}}'
        return Event(number, event_us, arrival_us, self.year.carrier(j), value.encode())


def partition_of(carrier: str, partitions: int) -> int:
    """The partition of a carrier, the same in every process."""
    return zlib.crc32(carrier.encode()) % partitions
