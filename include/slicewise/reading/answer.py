"""One path for every answer: compacted ⊕ running beyond the cover ⊕ tail beyond the guard, each event once, and the
base and covers that say so.

All entities and all windows of a read at once: stored bytes are decoded together, and each partial
is combined and finished once. Few rows are combined as Python's own numbers, more as whole columns,
to the same bits (docs/adr/0016).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewise.aggregates.operations import Finished
from slicewise.aggregates.scalar import Scalars
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.batched import BatchedPlan, combine
from slicewise.reading.cache import PartialCache, PlanMemory
from slicewise.reading.claims import NodeClaims, Stored
from slicewise.reading.pending import PendingSeen
from slicewise.reading.plan import Interval, Total, plan_key, plan_read
from slicewise.reading.rows import Gathering, Rows, gather
from slicewise.reading.scalar import ScalarGathering, finish_few, rows_of
from slicewise.windows.bounds import floor

__all__ = ["BatchedPlan", "Merged", "NodeClaims", "Stored", "merge", "plan_key", "plan_read"]

FEW_ROWS = 2_000
"""Up to about so many rows Python's own numbers are faster than whole columns."""
FEW_ENTITIES = 16
"""Of more, whole columns of all are faster than what is remembered of each."""
FEW_GROUPS = 200
"""So many results at most: entities times windows of a layout."""


@dataclass(frozen=True, eq=False)
class Merged:
    """The answer of several units for the same entities."""

    joint: BatchedPlan
    entities: int
    finished: tuple[Finished | Scalars, ...]
    """Per finish of the joint plan, as a column or as Python's own values; the plan's slots say where
    a feature's values stand."""
    base: tuple[tuple[OffsetVector, ...], ...]
    """Per plan and entity."""
    ahead: tuple[tuple[Mapping[int, OffsetVector], ...], ...]
    """Per plan and entity: hour -> cover, where it exceeds the base somewhere."""
    stale: tuple[frozenset[Total], ...]
    """Per plan the days and pentads whose total is out of date, so that their hours, or days, must be read: where
    not all are empty, this is no answer yet."""

    tail: tuple[PendingSeen, ...] = ()
    """Per plan what the answer contains of the tail."""
    begun: Mapping[tuple[int, int], Mapping[int, int]] = field(default_factory=dict)
    """(plan, entity) -> interval -> when the first event of the open session in it was."""
    memories: Sequence[PlanMemory] = ()
    """Per plan, as the reader's cache has it."""

    @property
    def complete(self) -> bool:
        """Tells whether this is an answer."""
        return not any(self.stale)

    def token(self, plan: int, entity: int) -> str:
        """The token of a unit's answer for an entity: what it contains."""
        asked = self.joint.plans[plan]
        found = self.intervals(plan, entity) if asked.gaps else None
        return asked.sealed(self.base[plan][entity], self.ahead[plan][entity], found, self.memories[plan].tokens)

    def column(self, plan: int, feature: int) -> tuple[Finished | Scalars, slice]:
        """What a feature's values stand in, and where: one per entity."""
        slot = self.joint.slots[plan][feature]
        return self.finished[slot.finish], slot.rows(self.entities)

    def contained(self, plan: int) -> Iterable[tuple[OffsetVector, Mapping[int, OffsetVector]]]:
        """Per entity what the answer of a unit contains: the base, and what is ahead of it."""
        return zip(self.base[plan], self.ahead[plan], strict=True)

    def intervals(self, plan: int, entity: int) -> tuple[Interval, ...]:
        """The plan's intervals, of sessions what they came to: from the slice of the first event; empty at
        the end where none is open."""
        asked = self.joint.plans[plan]
        if not asked.gaps:
            return asked.intervals
        begun, slice_us = self.begun.get((plan, entity), {}), asked.unit.slice_us
        return tuple(
            (floor(begun[i], slice_us) if i in begun else end, end) if gap else (start, end)
            for i, ((start, end), gap) in enumerate(zip(asked.intervals, asked.gaps, strict=True))
        )


def merge(
    joint: BatchedPlan,
    stored: Sequence[Sequence[Stored]],
    entities: int,
    bases: Sequence[NodeClaims],
    few_rows: int = FEW_ROWS,
    known: PartialCache | None = None,
    memories: Sequence[PlanMemory] | None = None,
) -> Merged:
    """The answer for `entities` entities; one that nothing is stored of is empty.

    stored, bases: per plan. few_rows: up to so many rows are combined one by one; known, memories: what the
    reader remembers of compacted hours, and of each plan. All change the time that it takes, and no bit. Raises
    CodecError for damaged values, DataLoss where stored values contradict each other or rows that a
    window needs are no longer kept, KeyError for a seq that a base does not know.
    """
    if not joint.plans:  # of event lists alone
        return Merged(joint, entities, (), (), (), ())
    if memories is None:
        memories = [PlanMemory({}, {}) for _ in joint.plans]
    few = joint.by_few and entities * sum(joint.windows) <= FEW_GROUPS
    if few and sum([rows_of(plan, parts) for plan, parts in zip(joint.plans, stored, strict=True)]) <= few_rows:
        numbers = [ScalarGathering(layout, few_rows_of, known) for layout, few_rows_of in joint.few_layouts]
        covers, aheads, stale, tail = _gathered(joint, stored, entities, bases, numbers, memories)
        finished: Sequence[Finished | Scalars] = () if any(stale) else finish_few(joint, numbers, entities)
    else:
        remembered = known if entities <= FEW_ENTITIES else None
        columns = [Gathering(*each, remembered) for each in joint.gathered]
        covers, aheads, stale, tail = _gathered(joint, stored, entities, bases, columns, memories)
        if not any(stale):
            finished, begun = _finish(joint, columns, entities)
            return Merged(joint, entities, finished, covers, aheads, stale, tail, begun, memories)
        finished = ()
    return Merged(joint, entities, tuple(finished), covers, aheads, stale, tail, memories=memories)


def _gathered(
    joint: BatchedPlan,
    stored: Sequence[Sequence[Stored]],
    entities: int,
    bases: Sequence[NodeClaims],
    rows: Sequence[Rows],
    memories: Sequence[PlanMemory],
) -> tuple[Any, Any, Any, Any]:
    """Per plan base and ahead of each entity, stale days, and what there was of the tail; the rows are added to those
    of their layout."""
    each = zip(joint.plans, stored, bases, joint.place, joint.mask_bases, memories, strict=True)
    found = [
        gather(plan, parts, entities, base, rows[layout], joint.tables[layout].index.masks, first, memory.learned)
        for plan, parts, base, (layout, _), first, memory in each
    ]
    covers, aheads, stale, tail = zip(*found, strict=True)
    return covers, aheads, stale, tail


Begun = dict[tuple[int, int], dict[int, int]]


def _finish(joint: BatchedPlan, rows: Sequence[Gathering], entities: int) -> tuple[tuple[Finished, ...], Begun]:
    decoded, taken, groups = [], [], []
    begun: Begun = {}
    for found, members, table in zip(rows, joint.layouts, joint.tables, strict=True):
        columns, keys = found.columns()
        decoded.append(columns)
        owners, masks = table.index.split(keys)
        rows_taken, their_groups, sessions = table.counted(masks, owners, entities, decoded[-1])
        taken.append(rows_taken)
        groups.append(their_groups)
        for (window, entity), at in sessions.items():
            plan, interval = joint.window_of(members, window)
            begun.setdefault((plan, entity), {})[interval] = at
    return combine(joint, decoded, taken, groups, entities), begun
