"""One reader for slices and event lists: what a selection reads at one time, and what the replies
answer.

    plan(selection, mode, t_us, current)      what is fetched of each unit, and for which windows
    Plan.requests(targets, tags)              one request per tag
    Plan.answer(replies, claims, cache)       Answered, or Stale, or NeedsClaims

Parts of slices are answered together, in whole columns; parts of event lists each by itself. Both
are a `Reader`, and nobody else needs to know which part is of which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol

from slicewise.aggregates import Finished
from slicewise.aggregates.scalar import Scalars
from slicewise.features.plan.unit import ListUnit, PlannedFeature, StorageUnit
from slicewise.offsets.token import SEPARATOR
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.answer import Merged, merge
from slicewise.reading.batched import BatchedPlan
from slicewise.reading.cache import PartialCache as PartialCache
from slicewise.reading.cache import PlanCache as PlanCache
from slicewise.reading.event_list import ListMerged, ListPlan, merge_list, plan_list
from slicewise.reading.exchange import (
    ListShape,
    NodeClaims,
    PendingSeen,
    ReadShape,
    Stored,
    TagRead,
    Target,
    UnitShape,
)
from slicewise.reading.plan import Interval, ReadMode, Total, plan_read
from slicewise.reading.shared import shared_tags as shared_tags

Claims = Sequence[Mapping[int, NodeClaims]]
"""Per part what each node claims that replied."""


# ------------------------------------------------------------------ what is asked, of which store
class Part(Protocol):
    """The features of one unit in a selection."""

    @property
    def unit(self) -> StorageUnit: ...
    @property
    def features(self) -> Sequence[PlannedFeature]: ...
    @property
    def group(self) -> int:
        """Units of one group have one tag, and are read in one transaction."""
        ...

    @property
    def position(self) -> int:
        """Number of the unit in its group."""
        ...


class Selection(Protocol):
    """Parts that a request reads: those of slices first, then those of event lists."""

    @property
    def parts(self) -> Sequence[Part]: ...
    @property
    def sliced(self) -> Sequence[Part]: ...
    @property
    def listed(self) -> Sequence[Part]: ...
    @property
    def groups(self) -> Sequence[object]: ...


class Until(Protocol):
    """End of a unit's lifetime totals."""

    @property
    def hour(self) -> int: ...


class CurrentUnits(Protocol):
    """Names in keys that a store or one of its nodes gives its units, and the ends of their
    totals."""

    @property
    def store_id(self) -> int: ...
    @property
    def names(self) -> Mapping[str, str]: ...
    @property
    def totals_until(self) -> Mapping[str, Until]: ...
    @property
    def nodes(self) -> Mapping[int, CurrentUnits]:
        """Nodes of a store of several, by number; empty: the store has one."""
        ...


# ------------------------------------------------------------------ what came back
class UnitReply(Protocol):
    """Stored bytes of one unit under one tag."""

    @property
    def hot(self) -> Sequence[bytes]: ...
    @property
    def days(self) -> Sequence[Sequence[bytes | None]]: ...


class Replies(NamedTuple):
    """Stored bytes under each tag."""

    entities: int
    """Number of entities of the request."""
    targets: Sequence[Target]
    units: Sequence[Sequence[UnitReply]]
    """Per target the units of its group."""
    nodes: Sequence[int] | None = None
    """Per target the node that has it; None: all are of the store's only one."""
    alike: Mapping[int, Sequence[int]] = {}
    """Group -> per entity the first one that has its tag, where some share theirs."""

    def once(self, part: Part, claims: Mapping[int, NodeClaims]) -> tuple[list[Stored], NodeClaims]:
        """The same as `of`, each tag once."""
        stored, of_node = self.of(part, claims)
        alike = self.alike.get(part.group)
        if alike is None:
            return stored, of_node
        times = Counter(alike)
        return [
            one._replace(times=times[one.entity]) for one in stored if times[one.entity]
        ], of_node

    def of(self, part: Part, claims: Mapping[int, NodeClaims]) -> tuple[list[Stored], NodeClaims]:
        """Stored bytes of a part under each of its tags, and the claims of the only node.

        Of several nodes each reply has the claims of its own node.
        """
        position, of_group = part.position, part.group
        if self.nodes is None:
            stored = [
                Stored(entity, partition, units[position].hot, units[position].days)
                for (group, entity, partition), units in zip(self.targets, self.units, strict=True)
                if group == of_group
            ]
            return stored, claims[0]
        stored = [
            Stored(entity, partition, units[position].hot, units[position].days, claims[number])
            for (group, entity, partition), units, number in zip(
                self.targets, self.units, self.nodes, strict=True
            )
            if group == of_group
        ]
        return stored, NO_CLAIMS


_NOTHING: Mapping[int, Interval] = {}
NO_CLAIMS = NodeClaims(OffsetVector(), OffsetVector(), {})


# ------------------------------------------------------------------ the two implementations
class Results(Protocol):
    """Answers of a reader's parts, by their numbers."""

    @property
    def stale(self) -> Sequence[frozenset[Total]]:
        """Per part the totals that are out of date; where not all are empty, this is no answer
        yet."""
        ...

    def column(self, part: int, feature: int) -> tuple[Finished | Scalars, slice]:
        """Column and slice that hold a feature's values: one per entity."""
        ...

    def token(self, part: int, entity: int) -> str:
        """Token of a part's answer for an entity: the events that it contains."""
        ...

    def contained(self, part: int) -> Iterable[tuple[OffsetVector, Mapping[int, OffsetVector]]]:
        """The same as offsets, per entity: the base, and per hour what is ahead of it."""
        ...


class Reader(Protocol):
    """Plans of units that are answered in one way."""

    def interval(self, part: int, feature: int) -> Interval:
        """Effective bounds of a feature; of a session those within which it is looked for."""
        ...

    def shape(self, part: int, name: str) -> UnitShape | ListShape:
        """Keys and fields that are fetched of a unit, by its name in keys."""
        ...

    def hours(self, part: int) -> tuple[int, int]:
        """Half-open range of the hours that its windows reach, where hours are compacted."""
        ...

    def answer(
        self,
        stored: Sequence[Sequence[Stored]],
        entities: int,
        claims: Sequence[NodeClaims],
        cache: PlanCache,
    ) -> Results:
        """Combines the stored bytes and finishes. KeyError for an archive version that the claims
        do not know."""
        ...


@dataclass(frozen=True, eq=False)
class SliceReader:
    """Slices: all units in one batch, by whole columns or by scalars."""

    batch: BatchedPlan

    def interval(self, part: int, feature: int) -> Interval:
        plan = self.batch.plans[part]
        return plan.intervals[plan.interval_of[feature]]

    def shape(self, part: int, name: str) -> UnitShape:
        return UnitShape(name, tuple((day.day, day.names) for day in self.batch.plans[part].days))

    def hours(self, part: int) -> tuple[int, int]:
        return self.batch.plans[part].hours

    def answer(
        self,
        stored: Sequence[Sequence[Stored]],
        entities: int,
        claims: Sequence[NodeClaims],
        cache: PlanCache,
    ) -> Merged:
        return merge(
            self.batch, stored, entities, claims, cache=cache.partials, memories=cache.plans
        )

    @cached_property
    def has_sessions(self) -> bool:
        """Tells whether a window is a session, whose bounds depend on its events."""
        return any(plan.gaps for plan in self.batch.plans)


@dataclass(frozen=True, eq=False)
class ListReader:
    """Event lists: each by itself, from its very events."""

    plans: tuple[ListPlan, ...] = ()

    def interval(self, part: int, feature: int) -> Interval:
        return self.plans[part].bounds_of(feature)

    def shape(self, part: int, name: str) -> ListShape:
        return ListShape(name, self.plans[part].ranges)

    def hours(self, part: int) -> tuple[int, int]:  # noqa: ARG002
        return 0, 0

    def answer(
        self,
        stored: Sequence[Sequence[Stored]],
        entities: int,
        claims: Sequence[NodeClaims],
        cache: PlanCache,  # noqa: ARG002
    ) -> ListResults:
        per_plan = zip(self.plans, stored, claims, strict=True)
        return ListResults(
            tuple(merge_list(plan, some, entities, base.committed) for plan, some, base in per_plan)
        )


@dataclass(frozen=True, eq=False)
class ListResults:
    """Answers of event lists."""

    lists: tuple[ListMerged, ...]
    stale: Sequence[frozenset[Total]] = ()

    def column(self, part: int, feature: int) -> tuple[Finished, slice]:
        return self.lists[part].column(feature)

    def token(self, part: int, entity: int) -> str:
        return self.lists[part].token(entity)

    def contained(self, part: int) -> Iterable[tuple[OffsetVector, Mapping[int, OffsetVector]]]:
        return ((base, {}) for base in self.lists[part].base)


# ------------------------------------------------------------------ the door
@dataclass(frozen=True, eq=False)
class Answered:
    """The answer of a plan, by the numbers of the selection's parts."""

    plan: Plan
    entities: int
    slices: Merged
    events: ListResults

    def _of(self, part: int) -> tuple[Results, int]:
        first = len(self.plan.slices.batch.plans)
        return (self.slices, part) if part < first else (self.events, part - first)

    def column(self, part: int, feature: int) -> tuple[Finished | Scalars, slice]:
        """Column and slice that hold a feature's values: one per entity."""
        results, number = self._of(part)
        return results.column(number, feature)

    def alike(self, part: int) -> Sequence[int] | None:
        """Per entity the one whose value of a column is its own too; None: its own."""
        alike = self.slices.alike
        return alike[part] if part < len(alike) else None

    def token(self, entity: int) -> str:
        """The token of the answer for an entity: those of its parts, joined."""
        slices, plans = self.slices, self.plan.slices.batch.plans
        parts = [slices.token(part, entity) for part in range(len(plans))]
        if self.events.lists:
            parts += [merged.token(entity) for merged in self.events.lists]
        return SEPARATOR.join(parts)

    def contained(self, part: int) -> Iterable[tuple[OffsetVector, Mapping[int, OffsetVector]]]:
        """The same as offsets, per entity: the base, and per hour what is ahead of it."""
        results, number = self._of(part)
        return results.contained(number)

    @property
    def bases(self) -> list[tuple[OffsetVector, ...]]:
        """Per part and entity the base."""
        return [*self.slices.base, *(merged.base for merged in self.events.lists)]

    @property
    def pending(self) -> Sequence[PendingSeen]:
        """Per part of slices what the answer contains of pending events."""
        return self.slices.pending

    def sessions(self, part: int, entity: int) -> Mapping[int, Interval]:
        """Feature of a part -> what its session came to for an entity; of other features
        nothing."""
        plans = self.plan.slices.batch.plans
        if part >= len(plans) or not plans[part].gaps:
            return _NOTHING
        intervals, own_plan = self.slices.intervals(part, entity), plans[part]
        return {i: intervals[at] for i, at in enumerate(own_plan.interval_of) if own_plan.gaps[at]}

    @property
    def values_of_one(self) -> list[object] | None:
        """Values of one entity side by side, at the positions of `BatchedPlan.of_one`; None where
        that is not all."""
        finished = self.slices.finished
        if self.entities != 1 or self.events.lists:
            return None
        if not all(type(scalars) is Scalars and not scalars.errors for scalars in finished):
            return None
        return list(chain.from_iterable([scalars.values for scalars in finished]))


@dataclass(frozen=True, eq=False)
class Stale:
    """No answer: these totals are out of date, and what they are of is to be read instead."""

    totals: tuple[tuple[str, Total], ...]
    """(unit, day or five days)."""


@dataclass(frozen=True, eq=False)
class NeedsClaims:
    """No answer yet: the claims do not say what this archive version stands for."""

    version: KeyError


@dataclass(frozen=True, eq=False)
class Plan:
    """A selection at one time: what is read of each part, and how it is answered."""

    parts: tuple[Part, ...]
    """Parts of slices, then parts of event lists."""
    slices: SliceReader
    events: ListReader
    shapes: tuple[ReadShape, ...]
    """Per group what is read of its units under a tag."""
    by_node: Mapping[int, tuple[ReadShape, ...]] = field(default_factory=dict)
    """Shapes under the names of each node, in a store of several."""
    slices_only: Plan | None = None
    """The same without event lists, where there are any: it serves until a bound of its slices
    moves."""

    def of(self, part: int) -> tuple[Reader, int]:
        """The reader of a part, and the part's number among the reader's."""
        first = len(self.slices.batch.plans)
        return (self.slices, part) if part < first else (self.events, part - first)

    def interval(self, part: int, feature: int) -> Interval:
        """Effective bounds of a feature."""
        reader, number = self.of(part)
        return reader.interval(number, feature)

    def hours(self, part: int) -> tuple[int, int]:
        """Half-open range of the hours that a part's windows reach."""
        reader, number = self.of(part)
        return reader.hours(number)

    def requests(
        self, targets: Sequence[Target], tags: Sequence[bytes], nodes: Sequence[int] = ()
    ) -> list[TagRead]:
        """One request per tag. nodes: per tag the node that has it; empty: of a store of one."""
        if nodes:
            shapes = self.by_node
            return [
                TagRead(shapes[node][group], tag)
                for (group, _, _), tag, node in zip(targets, tags, nodes, strict=True)
            ]
        one = self.shapes
        return [TagRead(one[group], tag) for (group, _, _), tag in zip(targets, tags, strict=True)]

    def answer(
        self, replies: Replies, claims: Claims, cache: PlanCache
    ) -> Answered | Stale | NeedsClaims:
        """Answers the plan from the replies, under the claims that came with them.

        Raises CodecError for damaged values, DataLoss where stored values contradict each other.
        """
        first = len(self.slices.batch.plans)
        # the bounds of a session are each entity's own; event lists are answered one by one
        once = 0 if self.slices.has_sessions or not replies.alike else first
        given = [
            (replies.once if number < once else replies.of)(part, of_part)
            for number, (part, of_part) in enumerate(zip(self.parts, claims, strict=True))
        ]
        stored, bases = [values for values, _ in given], [base for _, base in given]
        try:
            slices = self.slices.answer(stored[:first], replies.entities, bases[:first], cache)
        except KeyError as version:
            return NeedsClaims(version)
        if any(slices.stale):
            units = [part.unit.storage_fingerprint for part in self.parts[:first]]
            return Stale(
                tuple(
                    (u, total)
                    for u, totals in zip(units, slices.stale, strict=True)
                    for total in totals
                )
            )
        if once:
            slices = slices.shared([replies.alike.get(part.group) for part in self.parts[:first]])
        events = self.events.answer(stored[first:], replies.entities, bases[first:], cache)
        return Answered(self, replies.entities, slices, events)


def tick_of(t_us: int, slices_us: Sequence[int]) -> tuple[tuple[int, bool], ...]:
    """Equal for times between which no bound of windows of these slices moves.

    Bounds are made by floor and ceil to multiples of the slice (all lengths, hops and resolutions
    are such multiples), so they move only at a multiple of the slice and just after it.
    """
    return tuple([(t_us // slice_us, t_us % slice_us > 0) for slice_us in slices_us])


def plan(
    selection: Selection,
    mode: ReadMode,
    t_us: int,
    current: CurrentUnits,
    without_total: Collection[tuple[str, Total]] = (),
    kept: Plan | None = None,
) -> Plan:
    """Plan of what a selection reads at t (microseconds UTC; `live`: the serving clock).

    without_total: (unit, day or five days) of what is read by its hours or days. kept: the
    selection's plan of another instant, between which and this one no bound of its slices moved:
    they are read as it says.
    """
    of_slices = (
        _of_slices(selection, mode, t_us, current, without_total)
        if kept is None
        else kept.slices_only or kept
    )
    return _with_lists(of_slices, selection, mode, t_us, current) if selection.listed else of_slices


def _of_slices(
    selection: Selection,
    mode: ReadMode,
    t_us: int,
    current: CurrentUnits,
    without_total: Collection[tuple[str, Total]],
) -> Plan:
    plans = []
    for part in selection.sliced:
        name = part.unit.storage_fingerprint
        missing = frozenset(total for unit, total in without_total if unit == name)
        total_until = current.totals_until.get(name)
        total_hour = None if total_until is None else total_until.hour
        plans.append(plan_read(part.unit, part.features, mode, t_us, missing, total_hour))
    slices, parts = SliceReader(BatchedPlan(tuple(plans))), tuple(selection.sliced)

    def shapes(of: CurrentUnits) -> tuple[ReadShape, ...]:
        return _shapes(parts, slices, of, [ReadShape(of.store_id, ()) for _ in selection.groups])

    return Plan(
        parts,
        slices,
        ListReader(),
        shapes(current),
        {n: shapes(node) for n, node in current.nodes.items()},
    )


def _with_lists(
    of_slices: Plan, selection: Selection, mode: ReadMode, t_us: int, current: CurrentUnits
) -> Plan:
    """A plan of slices, and the event lists beside them: those at this very instant."""
    parts = tuple(selection.listed)
    units = [(part.unit, part.features) for part in parts]
    events = ListReader(
        tuple(plan_list(u, some, mode, t_us) for u, some in units if isinstance(u, ListUnit))
    )
    return replace(
        of_slices,
        parts=(*selection.sliced, *parts),
        events=events,
        shapes=_shapes(parts, events, current, of_slices.shapes),
        by_node={
            number: _shapes(parts, events, current.nodes[number], s)
            for number, s in of_slices.by_node.items()
        },
        slices_only=of_slices,
    )


def _shapes(
    parts: Sequence[Part], reader: Reader, current: CurrentUnits, before: Sequence[ReadShape]
) -> tuple[ReadShape, ...]:
    """Shapes per group: those before, then the units of these parts, by their names in keys."""
    shapes = [
        (part.group, reader.shape(i, current.names[part.unit.storage_fingerprint]))
        for i, part in enumerate(parts)
    ]
    return tuple(
        ReadShape(
            shape.store_id,
            (*shape.units, *(unit_shape for of, unit_shape in shapes if of == group)),
        )
        for group, shape in enumerate(before)
    )
