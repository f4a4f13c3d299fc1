"""Kafka's own times say where an instant is cut, never the end of a batch.

A partition has passed an instant when it holds a record whose Kafka time has reached it, or when
the log was read to its end later than that by the wall clock. Nothing beyond a cut is seen before
its instant is published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicewise.aggregates.kernel.events import Rows
from slicewise.emission.entities import Int64
from slicewise.emission.ticks import Correction, EmittedView, Tick, grid, next_instant
from slicewise.emission.unit import UnitEmission
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.bounds import floor

QUIET_US = 1_000_000
"""Wait after an instant for a partition without younger records."""


TRUSTED_US = 300_000_000
"""A record whose time lies further ahead of the wall clock says nothing of how far its partition
is."""


@dataclass(frozen=True)
class Progress:
    """Progress of a view's emission: all that a restart needs."""

    since_us: int
    """Windows that ended by then were never published."""
    instant_us: int
    """The last instant that stands in the topic."""
    offset_vector: OffsetVector


@dataclass(frozen=True, eq=False)
class Taken:
    """Rows of one unit, in offset order, and the entity of each."""

    rows: Rows
    entities: pa.Table

    def between(self, low: int, high: int) -> Taken:
        """The events with offsets in [low, high)."""
        first, beyond = np.searchsorted(self.rows.offset, (low, high))
        if not first and beyond == len(self.rows):
            return self
        return Taken(
            self.rows.take(np.arange(first, beyond)), self.entities.slice(first, beyond - first)
        )


@dataclass(frozen=True, eq=False)
class Records:
    """Consecutive records of one partition: of all their offsets and Kafka times, of each unit its
    rows."""

    partition: int
    offset: Int64
    kafka_time: Int64
    units: Mapping[str, Taken]
    end: int
    """First offset that they do not reach: behind the last there may be markers that no reader is
    given."""


@dataclass
class _Partition:
    position: int
    waiting: list[Records] = field(default_factory=list)
    cut: int = 0
    """First offset that no published instant contains."""
    read_us: int = 0
    """By the wall clock: up to when the log was read to its end."""

    def cut_at(self, time_us: int, wall_us: int) -> int | None:
        """The first offset of the instant's cut; None while the partition has not passed it."""
        for records in self.waiting:
            later = records.kafka_time >= time_us
            beyond = later & (records.offset >= self.cut)
            if beyond.any():
                return int(records.offset[int(np.argmax(beyond))])
        return self.position if wall_us <= self.read_us else None

    def before(self, offset: int, unit: str) -> list[Taken]:
        """The unit's rows from the last cut up to this one."""
        return [
            records.units[unit].between(self.cut, offset)
            for records in self.waiting
            if unit in records.units
        ]

    def advance(self, offset: int) -> None:
        self.cut = offset
        self.waiting = [records for records in self.waiting if records.end > offset]


@dataclass
class ViewEmission:
    """Emission of one view, with all its units that are emitted. start: per partition of the topic
    the first offset that is given: at or below the progress's, and before all events within
    `reach_us` of it."""

    emitted: EmittedView
    topic_id: str
    start: Mapping[int, int]
    progress: Progress
    emissions: tuple[UnitEmission, ...] = field(init=False)
    _steps: tuple[int, ...] = field(init=False)
    _parts: dict[int, _Partition] = field(init=False)
    _begun: bool = False

    def __post_init__(self) -> None:
        wanted = self.emitted
        self.emissions = tuple(
            UnitEmission(unit, wanted.columns, wanted.corrections_us) for unit in wanted.units
        )
        self._steps = grid(step for emission in self.emissions for step in emission.steps)
        emitted_until = self.progress.offset_vector
        self._parts = {
            p: _Partition(at, cut=max(at, emitted_until.get((self.topic_id, p))))
            for p, at in self.start.items()
        }

    @property
    def view(self) -> str:
        return self.emitted.view

    @property
    def reach_us(self) -> int:
        """The distance before the last instant, by event time, from which it must be given events
        again."""
        return max(emission.reach_us for emission in self.emissions)

    def take(self, records: Records) -> None:
        """The next records of a partition; what the last instant knew already is remembered
        alone."""
        part = self._parts[records.partition]
        part.position = max(part.position, records.end)
        first = int(records.offset[0]) if len(records.offset) else records.end
        if first < part.cut:
            for emission in self.emissions:
                taken = records.units.get(emission.unit.storage_fingerprint)
                if taken is not None:
                    old = taken.between(first, part.cut)
                    emission.remember(old.rows, old.entities)
        if records.end > part.cut and len(records.offset):
            part.waiting.append(records)

    def read_to(self, partition: int, end: int, wall_us: int) -> None:
        """The log ended at `end` at this time of the wall clock; it counts where that was read."""
        part = self._parts[partition]
        if part.position >= end:
            part.position = max(part.position, end)
            part.read_us = max(part.read_us, wall_us)

    def advance(self) -> Iterator[tuple[Progress, Sequence[Tick | Correction]]]:
        """The instants that every partition has passed, one after the other, and what each
        publishes."""
        if not self._begun:
            if any(part.position < part.cut for part in self._parts.values()):
                return
            for emission in self.emissions:
                emission.begin(self.progress.since_us, self.progress.instant_us)
            self._begun = True
        while (due := self._next()) is not None:
            instant_us, cuts = due
            offset_vector = OffsetVector({(self.topic_id, p): cut for p, cut in cuts.items()})
            published: list[Tick | Correction] = []
            for emission in self.emissions:
                name = emission.unit.storage_fingerprint
                taken = [
                    row_group
                    for p, cut in cuts.items()
                    for row_group in self._parts[p].before(cut, name)
                ]
                rows, entities = _joined(taken, emission.unit)
                published.extend(emission.advance(instant_us, rows, entities, offset_vector))
            for p, cut in cuts.items():
                self._parts[p].advance(cut)
            self.progress = Progress(self.progress.since_us, instant_us, offset_vector)
            yield self.progress, published

    def _next(self) -> tuple[int, dict[int, int]] | None:
        instant_us = next_instant(self.progress.instant_us, self._steps)
        if all(emission.idle for emission in self.emissions):
            # instants without any event and any active entity say nothing: on to the last before
            # the next record
            first = [
                int(batch.kafka_time.min())
                for part in self._parts.values()
                for batch in part.waiting[:1]
            ]
            limit = (
                min(first)
                if first
                else min(part.read_us for part in self._parts.values()) - QUIET_US
            )
            instant_us = max(instant_us, floor(limit - self.emitted.wait_us, self._steps[0]))
        time_us = instant_us + self.emitted.wait_us
        cuts = {p: part.cut_at(time_us, time_us + QUIET_US) for p, part in self._parts.items()}
        if any(cut is None for cut in cuts.values()):
            return None
        return instant_us, {p: cut for p, cut in cuts.items() if cut is not None}


def trusted(kafka_time: Int64, wall_us: int) -> Int64:
    """Kafka times to cut by. One that a clock far ahead wrote would let its partition pass all
    instants up to it, and whatever comes after would wait for them: it is taken as 0, which cuts
    nothing."""
    return np.where(kafka_time > wall_us + TRUSTED_US, 0, kafka_time)


def resumed(
    progress: Progress, emitted: EmittedView, max_ahead_us: int, log_begins_us: int
) -> Progress:
    """Progress from which publication goes on if events before the log's first record, of this
    Kafka time, are gone.

    An event that is gone lies at most `max_ahead_us` after that time: windows that start later are
    whole.
    """
    whole_us = log_begins_us + max_ahead_us + emitted.longest_us
    if whole_us <= progress.instant_us - emitted.corrections_us:
        return progress
    since_us = max(progress.instant_us, whole_us)
    return Progress(since_us, since_us, progress.offset_vector)


def _joined(taken: Sequence[Taken], unit: StorageUnit) -> tuple[Rows, pa.Table]:
    """Rows of several partitions, one after the other."""
    some = [batch for batch in taken if len(batch.rows)]
    if not some:
        return Rows.from_events([], {}), pa.table({})
    names = [name for name, _ in unit.input_types]
    rows = [batch.rows for batch in some]
    columns = {
        name: pa.concat_arrays([part.columns[name] for part in rows])
        if len(rows) > 1
        else rows[0].columns[name]
        for name in names
    }
    together = Rows(
        np.concatenate([part.time for part in rows]),
        np.concatenate([part.topic_hi for part in rows]),
        np.concatenate([part.topic_lo for part in rows]),
        np.concatenate([part.partition for part in rows]),
        np.concatenate([part.offset for part in rows]),
        columns,
    )
    return together, pa.concat_tables(
        [batch.entities for batch in some]
    ) if unit.entity else pa.table({})
