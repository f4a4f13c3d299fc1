"""A question, and the events that it is asked of, as whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import TopicPartition
from slicewise.training.answering.entities import Entities
from slicewise.training.answering.knowledge import Covers
from slicewise.training.answering.tree import SortedRows
from slicewise.training.ranges import Ints
from slicewise.windows.bounds import Mode

Bounds = tuple[Ints, Ints]


@dataclass(frozen=True)
class UnitEvents:
    """The events of one unit after its row logic, sorted by (entity, total order).

    place: per event the position of its (topic id, partition) in `places`. refused: events that
    row logic left out of this view, counted by reason.
    """

    unit: StorageUnit
    entities: Entities
    source: SortedRows
    place: Ints
    places: tuple[TopicPartition, ...]
    refused: Mapping[str, int]


@dataclass(frozen=True)
class Question:
    """Question about features: per row the entity's number (negative: unknown), and bounds per feature column.

    covers: each row's knowledge; None where all events at hand are known. mode: by which the bounds were made; those
    of exact windows are the same in every mode.
    """

    entity: Ints
    bounds: Mapping[str, Bounds]
    covers: Covers | None = None
    mode: Mode = "event_time"

    def take(self, rows: Ints) -> Question:
        """These rows, in this order."""
        return Question(
            self.entity[rows],
            {name: (start[rows], end[rows]) for name, (start, end) in self.bounds.items()},
            None if self.covers is None else self.covers.take(rows),
            self.mode,
        )
