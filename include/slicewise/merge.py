"""One path for every answer: compacted ⊕ running beyond the cover, each event once, and the base
and covers that say so.

Whole columns over all entities and all windows of a read: stored bytes are decoded at once, and
each partial is combined and finished once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from slicewise import token as tokens
from slicewise.aggregates.base import Finished
from slicewise.codec import (
    Raw,
    day_digest,
    open_running,
    open_total,
    unpack_day,
    unpack_hours,
    unpack_slices,
)
from slicewise.cover import Cover, Place
from slicewise.errors import CodecError, DataLoss
from slicewise.merge_joint import JointPlan, combine
from slicewise.merge_plan import (
    COVERED_HOURS,
    NOWHERE,
    DayFields,
    DayTotal,
    HotField,
    HourRows,
    HourTotal,
    Int64,
    ReadPlan,
    plan_key,
    plan_read,
)
from slicewise.slices import HOUR_US

__all__ = ["Base", "JointPlan", "Merged", "Stored", "merge", "plan_key", "plan_read"]

START_SEQ = 0
"""Seq of a backfilled hour: its cover is the unit's start cover."""
LEARNED_LIMIT = 50_000
"""Hot field names that a plan remembers."""


@dataclass(frozen=True)
class Stored:
    """What the store gave for one entity, or for one partition's part of it in a spread unit."""

    entity: int
    """Which entity of the read."""
    partition: int | None
    """Of a spread unit: whose part this is; its hours are compacted for this partition alone."""
    hot: Sequence[bytes]
    """Field, value, field, value, ..."""
    days: Sequence[Sequence[bytes | None]]
    """Values in the order of the plan's `days` and their `names`."""


@dataclass(frozen=True, eq=False)
class Base:
    """What the store claims for a unit, read with the data: never from another reply.

    It may be kept for as long as replies bring equal marks; what follows from it is remembered.
    """

    ledger: Cover
    """Of the source's places."""
    start: Cover
    covers: Mapping[int, Cover]
    """Archive seq -> cover. A seq that is not there raises KeyError: load the map again."""
    _floors: dict[tuple[int, Place], int] = field(default_factory=dict)
    _ahead: dict[tuple[int, int | None], Cover | None] = field(default_factory=dict)

    def cover(self, seq: int) -> Cover:
        """What an hour compacted by `seq` contains."""
        return self.start if seq == START_SEQ else self.covers[seq]

    def floor(self, seq: int, place: Place) -> int:
        """First offset at `place` that an hour compacted by `seq` may still have running."""
        key = (seq, place)
        found = self._floors.get(key)
        if found is None:
            found = self._floors[key] = max(self.cover(seq).get(place), self.start.get(place))
        return found

    def ahead(self, seq: int, partition: int | None) -> Cover | None:
        """The cover of `seq` (of one partition alone, if given) where the ledger does not contain
        all of it."""
        key = (seq, partition)
        if key not in self._ahead:
            cover = self.cover(seq)
            ahead = None if self.ledger.dominates(cover) else _only(cover, partition)
            self._ahead[key] = ahead
        return self._ahead[key]


@dataclass(frozen=True, eq=False)
class Merged:
    """The answer of several units for the same entities."""

    joint: JointPlan
    entities: int
    finished: tuple[Finished, ...]
    """Per finish of the joint plan; its slots say where a feature's values stand."""
    base: tuple[tuple[Cover, ...], ...]
    """Per plan and entity."""
    ahead: tuple[tuple[Mapping[int, Cover], ...], ...]
    """Per plan and entity: hour -> cover, where it exceeds the base somewhere."""
    stale_days: tuple[frozenset[int], ...]
    """Per plan the days whose total is out of date, so that their hours must be read: where not
    all are empty, this is no answer yet."""

    @property
    def complete(self) -> bool:
        """Whether this is an answer."""
        return not any(self.stale_days)

    def token(self, plan: int, entity: int) -> str:
        """What the answer of a unit for an entity contains."""
        one = self.joint.plans[plan]
        base, ahead = self.base[plan][entity], self.ahead[plan][entity]
        return tokens.seal(one.token_head, base, ahead, one.token_tail)


@dataclass
class _Rows:
    """Encoded rows of all entities with what each counts in: single rows, then blocks of rows."""

    ones: list[Raw] = field(default_factory=list)
    one_entities: list[int] = field(default_factory=list)
    one_masks: list[int] = field(default_factory=list)
    blocks: list[Raw] = field(default_factory=list)
    block_entities: list[int] = field(default_factory=list)
    block_masks: list[Int64] = field(default_factory=list)

    def one(self, entity: int, row: Raw, mask: int) -> None:
        self.ones.append(row)
        self.one_entities.append(entity)
        self.one_masks.append(mask)

    def block(self, entity: int, block: Raw, masks: Int64) -> None:
        self.blocks.append(block)
        self.block_entities.append(entity)
        self.block_masks.append(masks)

    def counts(self) -> list[int]:
        return [1] * len(self.ones) + [len(masks) for masks in self.block_masks]

    def masks(self) -> Int64:
        ones = np.array(self.one_masks, np.int64)
        return np.concatenate([ones, *self.block_masks]) if self.blocks else ones

    def entities(self) -> Int64:
        ones = np.array(self.one_entities, np.int64)
        if not self.blocks:
            return ones
        lengths = [len(masks) for masks in self.block_masks]
        return np.concatenate([ones, np.repeat(self.block_entities, lengths)])


def merge(joint: JointPlan, stored: Sequence[Sequence[Stored]], entities: int, bases: Sequence[Base]) -> Merged:
    """The answer for `entities` entities; one that nothing is stored of is empty.

    stored, bases: per plan. Raises CodecError for damaged values, DataLoss where stored values
    contradict each other or rows that a window needs are no longer kept, KeyError for a seq that
    a base does not know.
    """
    rows = [_Rows() for _ in joint.layouts]
    found = [
        _gather(plan, parts, entities, base, rows[joint.layout_of(i)], joint.mask_bases[i])
        for i, (plan, parts, base) in enumerate(zip(joint.plans, stored, bases, strict=True))
    ]
    covers, aheads, stale = zip(*found, strict=True)
    finished: tuple[Finished, ...] = ()
    if not any(stale):
        finished = _finish(joint, rows, entities)
    return Merged(joint, entities, finished, covers, aheads, stale)


def _gather(
    plan: ReadPlan,
    stored: Sequence[Stored],
    entities: int,
    base: Base,
    rows: _Rows,
    masks: int,
) -> tuple[tuple[Cover, ...], tuple[Mapping[int, Cover], ...], frozenset[int]]:
    """Adds one unit's rows; gives base and ahead per entity, and the days without a valid total."""
    stale: set[int] = set()
    covers = [base.ledger] * entities
    aheads: list[Mapping[int, Cover]] = [{}] * entities
    for part in stored:
        compacted: dict[int, int] = {}
        for fields, values in zip(plan.days, part.days, strict=True):
            _add_day(fields, values, part.entity, rows, masks, compacted, stale)
        guards = _add_hot(plan, part, compacted, base, rows, masks)
        if guards:
            covers[part.entity] = _beyond(covers[part.entity], guards)
        if compacted:
            ahead = _ahead(compacted, plan.hours, base, part.partition)
            if ahead:
                aheads[part.entity] = _joined(aheads[part.entity], ahead)
    for entity, hours in enumerate(aheads):
        if hours:
            held = covers[entity]
            aheads[entity] = {h: c for h, c in hours.items() if not held.dominates(c)}
    return tuple(covers), tuple(aheads), frozenset(stale)


def _add_day(
    fields: DayFields,
    values: Sequence[bytes | None],
    entity: int,
    rows: _Rows,
    masks: int,
    compacted: dict[int, int],
    stale: set[int],
) -> None:
    hours: bytes | None = None
    for name, part, value in zip(fields.names, fields.parts, values, strict=True):
        if type(part) is HourTotal:
            if value is not None:
                seq, row = open_total(value)
                compacted[part.hour] = seq
                if part.mask:
                    rows.one(entity, row, masks + part.mask)
        elif type(part) is HourRows:
            if value is not None:
                _add_hour_rows(part, value, entity, rows, masks, compacted)
            elif part.hour in compacted:
                raise DataLoss(
                    f"hour {part.hour} is compacted, but its rows {name.decode()} are not kept",
                    expected="windows whose edges the stored hours can be cut at",
                    next_step="compact the hour again, or ask for windows that end on the hour",
                )
        elif type(part) is DayTotal:
            if hours is None:
                continue  # nothing of this day is compacted
            compacted.update(_hours(hours))
            if value is not None:
                digest, total = unpack_day(value)
                if digest == day_digest(hours):
                    rows.one(entity, total, masks + part.mask)
                    continue
            stale.add(part.day)
        elif name == COVERED_HOURS:
            hours = value


@lru_cache(maxsize=16_384)
def _hours(raw: bytes) -> Mapping[int, int]:
    return unpack_hours(raw)


def _add_hour_rows(
    part: HourRows,
    value: bytes,
    entity: int,
    rows: _Rows,
    masks: int,
    compacted: Mapping[int, int],
) -> None:
    seq, numbers, block = unpack_slices(value)
    if compacted.get(part.hour) != seq:
        raise DataLoss(
            f"rows of hour {part.hour} are of seq {seq}, its total is of another",
            next_step="compact the hour again",
        )
    rows.block(entity, block, masks + part.masks[part.cuts.searchsorted(numbers, side="right")])


def _add_hot(
    plan: ReadPlan,
    part: Stored,
    compacted: Mapping[int, int],
    base: Base,
    rows: _Rows,
    masks: int,
) -> dict[Place, int]:
    """Adds the running partials that count; gives the guards that are beyond the ledger."""
    guards: dict[Place, int] = {}
    ledger, learned, entity = base.ledger.offsets, plan.learned, part.entity
    pairs = iter(part.hot)
    for name in pairs:
        value = next(pairs)
        known = learned.get(name)
        kind, place, hour, mask = known if known is not None else _learn(plan, name)
        if kind == "r":
            if mask == NOWHERE:
                continue
            first, last, row = open_running(value)
            if hour in compacted:
                floor = base.floor(compacted[hour], place)
                if last < floor:
                    continue
                if first < floor:
                    raise DataLoss(
                        f"a running partial [{first}, {last}] straddles the cover {floor}",
                        where=f"hour {hour}, topic {place[0]}, partition {place[1]}",
                        next_step="leave the hour dirty and compact it again",
                    )
            rows.one(entity, row, masks + mask)
        elif kind == "l":
            after = int(value) + 1
            if after > ledger.get(place, 0):
                guards[place] = after
    return guards


def _learn(plan: ReadPlan, name: bytes) -> HotField:
    if len(plan.learned) >= LEARNED_LIMIT:
        plan.learned.clear()
    found = plan.learned[name] = _hot_field(plan, name)
    return found


def _hot_field(plan: ReadPlan, name: bytes) -> HotField:
    parts = name.split(b":")
    try:
        if parts[0] == b"r" and len(parts) == 4:
            number, place = int(parts[1]), (parts[2].decode("ascii"), int(parts[3]))
            region = np.searchsorted(plan.hot.cuts, number, side="right")
            hour = number * plan.unit.slice_us // HOUR_US
            return HotField("r", place, hour, int(plan.hot.masks[region]))
        if parts[0] == b"l" and len(parts) == 3:
            return HotField("l", (parts[1].decode("ascii"), int(parts[2])), 0, NOWHERE)
    except ValueError as error:
        raise CodecError(f"a hot field that is none: {name[:80]!r}") from error
    if parts[0] in (b"e", b"x"):
        # Tail fields: beyond the base that this read claims, hence not counted by it.
        return HotField("e", ("", 0), 0, NOWHERE)
    raise CodecError(f"a hot field that is none: {name[:80]!r}")


def _beyond(base: Cover, guards: Mapping[Place, int]) -> Cover:
    return base.join(_cover_of(tuple(sorted(guards.items()))))


@lru_cache(maxsize=4_096)
def _cover_of(offsets: tuple[tuple[Place, int], ...]) -> Cover:
    return Cover(dict(offsets))


def _ahead(compacted: Mapping[int, int], hours: tuple[int, int], base: Base, partition: int | None) -> dict[int, Cover]:
    first, end = hours
    found: dict[int, Cover] = {}
    for hour, seq in compacted.items():
        ahead = base.ahead(seq, partition)
        if ahead is not None and first <= hour < end:
            found[hour] = ahead
    return found


def _only(cover: Cover, partition: int | None) -> Cover:
    if partition is None:
        return cover
    return Cover({place: o for place, o in cover.offsets.items() if place[1] == partition})


def _joined(one: Mapping[int, Cover], other: Mapping[int, Cover]) -> dict[int, Cover]:
    joined = dict(one)
    for hour, cover in other.items():
        joined[hour] = joined[hour].join(cover) if hour in joined else cover
    return joined


def _finish(joint: JointPlan, rows: Sequence[_Rows], entities: int) -> tuple[Finished, ...]:
    decoded, taken, groups = [], [], []
    for found, members, table in zip(rows, joint.layouts, joint.tables, strict=True):
        layout = joint.plans[members[0]].unit.layout
        decoded.append(layout.decode_blocks(found.ones + found.blocks, found.counts()))
        rows_taken, their_groups = table.counted(found.masks(), found.entities(), entities)
        taken.append(rows_taken)
        groups.append(their_groups)
    return combine(joint, decoded, taken, groups, entities)
