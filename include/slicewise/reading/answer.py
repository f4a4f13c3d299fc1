"""One path for every answer: compacted ⊕ running beyond the offset vector ⊕ pending events beyond
the applied offset, each event once, and the base and offset vectors that say so.

All entities and all windows of a read at once: stored bytes are decoded together, and each partial
is combined and finished once. Few rows are combined as Python's own numbers, more as whole columns,
to the same bits (docs/adr/0016).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from slicewise.aggregates import Finished
from slicewise.aggregates.scalar import Scalars
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.reading import earlier_hours
from slicewise.reading.batched import BatchedPlan, combine
from slicewise.reading.cache import PartialCache, PlanMemory
from slicewise.reading.exchange import NodeClaims, PendingSeen, Stored
from slicewise.reading.gathering import Gathering
from slicewise.reading.plan import TOKENS_LIMIT, Interval, Total, plan_read
from slicewise.reading.rows import Rows, gather
from slicewise.reading.scalar import ScalarGathering, finish_scalars, rows_of
from slicewise.windows.bounds import floor

__all__ = ["BatchedPlan", "Merged", "NodeClaims", "Stored", "merge", "plan_read"]

T = TypeVar("T")

SCALAR_ROWS = 2_000
"""Up to about so many rows Python's own numbers are faster than whole columns."""
CACHED_ENTITIES = 128
"""Most entities of a read whose compacted hours are remembered: more would make the cache forget
those that are read every second."""
SCALAR_GROUPS = 400
"""Most results: entities times windows of a layout."""


@dataclass(frozen=True, eq=False)
class Merged:
    """The answer of several units for the same entities."""

    batched: BatchedPlan
    entities: int
    finished: tuple[Finished | Scalars, ...]
    """Per finish of the batched plan, as a column or as Python's own values; the plan's slots say
    where a feature's values stand."""
    base: tuple[tuple[OffsetVector, ...], ...]
    """Per plan and entity."""
    compacted_beyond: tuple[tuple[Mapping[int, OffsetVector], ...], ...]
    """Per plan and entity: hour -> offset vector, where it exceeds the base somewhere."""
    stale: tuple[frozenset[Total], ...]
    """Per plan the days and five-day totals whose total is out of date, so that their hours, or
    days, must be read: where not all are empty, this is no answer yet."""

    pending: tuple[PendingSeen, ...] = ()
    """Per plan what the answer contains of the pending events."""
    begun: Mapping[tuple[int, int], Mapping[int, int]] = field(default_factory=dict)
    """(plan, entity) -> interval -> when the first event of the open session in it was."""
    memories: Sequence[PlanMemory] = ()
    """Per plan, as the reader's cache has it."""
    alike: Sequence[Sequence[int] | None] = ()
    """Per plan and entity the one as which it is answered, where some share their tag. Columns have
    values of those alone."""

    @property
    def complete(self) -> bool:
        """Tells whether this is an answer."""
        return not any(self.stale)

    def shared(self, alike: Sequence[Sequence[int] | None]) -> Merged:
        """The answer for all entities. alike: per plan and entity the one that was read."""
        if not any(alike):
            return self
        return replace(
            self,
            base=tuple(map(_alike, self.base, alike)),
            compacted_beyond=tuple(map(_alike, self.compacted_beyond, alike)),
            alike=alike,
        )

    def token(self, plan: int, entity: int) -> str:
        """The token of a unit's answer for an entity: what it contains. Most entities have the
        committed offsets for their base, whose token is remembered."""
        of, base = self.batched.plans[plan], self.base[plan][entity]
        beyond = self.compacted_beyond[plan][entity]
        if of.gaps:
            own = tokens.bounds_bytes(of.bounds_of(self.intervals(plan, entity)))
            return tokens.seal(of.token_head, base, beyond, own)
        if beyond:
            return tokens.seal(of.token_head, base, beyond, of.token_end)
        remembered = self.memories[plan].tokens
        token = remembered.get(base.packed)
        if token is None:
            if len(remembered) >= TOKENS_LIMIT:
                remembered.clear()
            token = remembered[base.packed] = tokens.seal(of.token_head, base, {}, of.token_end)
        return token

    def column(self, plan: int, feature: int) -> tuple[Finished | Scalars, slice]:
        """Column and slice that hold a feature's values: one per entity."""
        slot = self.batched.slots[plan][feature]
        return self.finished[slot.finish], slot.rows(self.entities)

    def contained(self, plan: int) -> Iterable[tuple[OffsetVector, Mapping[int, OffsetVector]]]:
        """Per entity what the answer of a unit contains: the base, and what is ahead of it."""
        return zip(self.base[plan], self.compacted_beyond[plan], strict=True)

    def intervals(self, plan: int, entity: int) -> tuple[Interval, ...]:
        """The plan's intervals, of sessions what they came to: from the slice of the first event;
        empty at the end where none is open."""
        read_plan = self.batched.plans[plan]
        if not read_plan.gaps:
            return read_plan.intervals
        begun, slice_us = self.begun.get((plan, entity), {}), read_plan.unit.slice_us
        return tuple(
            (floor(begun[i], slice_us) if i in begun else end, end) if gap else (start, end)
            for i, ((start, end), gap) in enumerate(
                zip(read_plan.intervals, read_plan.gaps, strict=True)
            )
        )


def _alike(values: tuple[T, ...], alike: Sequence[int] | None) -> tuple[T, ...]:
    return values if alike is None else tuple([values[entity] for entity in alike])


def merge(
    batched: BatchedPlan,
    stored: Sequence[Sequence[Stored]],
    entities: int,
    claims: Sequence[NodeClaims],
    scalar_rows: int = SCALAR_ROWS,
    cache: PartialCache | None = None,
    memories: Sequence[PlanMemory] | None = None,
) -> Merged:
    """The answer for `entities` entities; one that nothing is stored of is empty.

    stored, claims: per plan. scalar_rows: up to so many rows are combined one by one; cache,
    memories: what the reader remembers of compacted hours, and of each plan. All change the time
    that it takes, and no bit. Raises CodecError for damaged values, DataLoss where stored values
    contradict each other or rows that a window needs are no longer kept, KeyError for an archive
    version that the claims do not know.
    """
    if not batched.plans:  # of event lists alone
        return Merged(batched, entities, (), (), (), ())
    if memories is None:
        memories = [PlanMemory({}, {}) for _ in batched.plans]
    if cache is not None and entities <= CACHED_ENTITIES and _has_many_fields(stored):
        stored = [
            [earlier_hours.with_earlier_hours(plan, part, cache) for part in parts]
            for plan, parts in zip(batched.plans, stored, strict=True)
        ]
    scalar = not batched.has_sessions and entities * sum(batched.windows) <= SCALAR_GROUPS
    uncached = 1.0 if cache is None else cache.uncached
    if scalar and (
        sum([rows_of(*of, uncached) for of in zip(batched.plans, stored, strict=True)])
        <= scalar_rows
    ):
        numbers = [ScalarGathering(*layout, cache) for layout in batched.scalar_layouts]
        offset_vectors, beyond_by_entity, stale, pending = _gathered(
            batched, stored, entities, claims, numbers, memories
        )
        finished: Sequence[Finished | Scalars] = (
            () if any(stale) else finish_scalars(batched, numbers, entities)
        )
    else:
        remembered = cache if entities <= CACHED_ENTITIES else None
        columns = [Gathering(*layout, remembered) for layout in batched.gathered]
        offset_vectors, beyond_by_entity, stale, pending = _gathered(
            batched, stored, entities, claims, columns, memories
        )
        if not any(stale):
            finished, begun = _finish(batched, columns, entities)
            return Merged(
                batched,
                entities,
                finished,
                offset_vectors,
                beyond_by_entity,
                stale,
                pending,
                begun,
                memories,
            )
        finished = ()
    return Merged(
        batched,
        entities,
        tuple(finished),
        offset_vectors,
        beyond_by_entity,
        stale,
        pending,
        memories=memories,
    )


def _has_many_fields(stored: Sequence[Sequence[Stored]]) -> bool:
    """Tells whether running partials of an entity's unit may be worth a digest."""
    fields = max((len(part.hot) for parts in stored for part in parts), default=0)
    return fields >= 2 * earlier_hours.LEAST_FIELDS


def _gathered(
    batched: BatchedPlan,
    stored: Sequence[Sequence[Stored]],
    entities: int,
    claims: Sequence[NodeClaims],
    rows: Sequence[Rows],
    memories: Sequence[PlanMemory],
) -> tuple[Any, Any, Any, Any]:
    """Per plan base and compacted_beyond of each entity, stale days, and what there was of the
    pending events; the rows are added to those of their layout."""
    per_plan = zip(
        batched.plans, stored, claims, batched.positions, batched.mask_bases, memories, strict=True
    )
    gathers = [
        gather(
            plan,
            parts,
            entities,
            own_claims,
            rows[layout],
            batched.tables[layout].index.masks,
            first,
            memory.learned,
        )
        for plan, parts, own_claims, (layout, _), first, memory in per_plan
    ]
    offset_vectors, beyond_by_entity, stale, pending = zip(*gathers, strict=True)
    return offset_vectors, beyond_by_entity, stale, pending


Begun = dict[tuple[int, int], dict[int, int]]


def _finish(
    batched: BatchedPlan, rows: Sequence[Gathering], entities: int
) -> tuple[tuple[Finished, ...], Begun]:
    decoded, taken, groups = [], [], []
    begun: Begun = {}
    for row, members, table in zip(rows, batched.layouts, batched.tables, strict=True):
        columns, keys = row.columns()
        decoded.append(columns)
        owners, masks = table.index.split(keys)
        rows_taken, their_groups, sessions = table.counted(masks, owners, entities, decoded[-1])
        taken.append(rows_taken)
        groups.append(their_groups)
        for (window, entity), at in sessions.items():
            plan, interval = batched.window_of(members, window)
            begun.setdefault((plan, entity), {})[interval] = at
    return combine(batched, decoded, taken, groups, entities), begun
