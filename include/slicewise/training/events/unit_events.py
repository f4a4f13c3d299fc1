"""Events of a unit stand by entity, and within an entity in the total order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from slicewise.aggregates import Rows
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import TopicPartition
from slicewise.training.events.entities import Entities
from slicewise.training.ranges import Ints


@dataclass(frozen=True)
class SortedRows:
    """Events of one unit after row logic, sorted by (entity, total order).

    entity: dense entity numbers, ascending. rows: the events, in the same order.
    """

    entity: Ints
    rows: Rows

    def __len__(self) -> int:
        return len(self.entity)

    @cached_property
    def _first_us(self) -> int:
        return int(self.rows.time.min(initial=2**62))

    @cached_property
    def _span(self) -> int | None:
        """Microseconds from the first event to beyond the last; None where (entity, time) is no
        integer of 64 bits."""
        span = int(self.rows.time.max(initial=self._first_us)) - self._first_us + 1
        most = int(self.entity.max(initial=0)) + 2
        return span if most * (span + 1) < 2**63 else None

    @cached_property
    def _times(self) -> Ints:
        return np.unique(self.rows.time)

    @cached_property
    def _keys(self) -> Ints:
        if self._span is not None:
            return self.entity * (self._span + 1) + (self.rows.time - self._first_us)
        return self.entity * (len(self._times) + 1) + np.searchsorted(self._times, self.rows.time)

    def first_at(self, entity: Ints, time_us: Ints) -> Ints:
        """Per query the position of the entity's first event that is not before the time.

        Requires entities that have numbers up to that of the last event's entity, or one more.
        """
        if self._span is not None:
            within = np.clip(time_us, self._first_us, self._first_us + self._span)
            wanted = entity * (self._span + 1) + (within - self._first_us)
        else:  # ranks instead of times
            wanted = entity * (len(self._times) + 1) + np.searchsorted(self._times, time_us)
        return np.searchsorted(self._keys, wanted).astype(np.int64)

    def between(self, entity: Ints, start_us: Ints, end_us: Ints) -> tuple[Ints, Ints]:
        """Per query the range of positions of the entity's events in `[start_us, end_us)`; entity <
        0 has none."""
        most = int(self.entity[-1]) if len(self.entity) else -1
        valid = (entity >= 0) & (entity <= most) & (start_us < end_us)
        number = np.where(valid, entity, 0)
        first, beyond = self.first_at(number, start_us), self.first_at(number, end_us)
        return np.where(valid, first, 0), np.where(valid, beyond, 0)

    def slice(self, first: int, beyond: int) -> SortedRows:
        """The events from one position to another."""
        return SortedRows(self.entity[first:beyond], self.rows.slice(first, beyond))

    def take(self, positions: npt.NDArray[np.int64]) -> SortedRows:
        """These events alone; the positions ascend."""
        return SortedRows(self.entity[positions], self.rows.take(positions))


@dataclass(frozen=True)
class UnitEvents:
    """The events of one unit after its row logic, sorted by (entity, total order).

    topic_partition: per event the position of its (topic id, partition) in `topic_partitions`.
    refused: events that row logic left out of this view, counted by reason.
    """

    unit: StorageUnit
    entities: Entities
    source: SortedRows
    topic_partition: npt.NDArray[np.integer[Any]]
    topic_partitions: tuple[TopicPartition, ...]
    refused: Mapping[str, int]

    def slice(self, first: int, beyond: int) -> UnitEvents:
        """The events from one position to another."""
        return replace(
            self,
            source=self.source.slice(first, beyond),
            topic_partition=self.topic_partition[first:beyond],
        )
