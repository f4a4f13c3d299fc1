"""Of all that was read, each event's row is taken once: compacted, or running beyond the cover.

The rows of all entities of a layout stand one after the other, still encoded, with what each counts
in: a key per run of rows, `owner · masks + mask`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, groupby, repeat

import numpy as np

from slicewise.codec import (
    Raw,
    day_digest,
    open_running,
    open_runnings,
    open_slices,
    open_totals,
    unpack_day,
    unpack_hours,
)
from slicewise.cover import Cover, Place
from slicewise.errors import CodecError, DataLoss
from slicewise.merge_base import Base, Stored
from slicewise.merge_plan import NOWHERE, DayFields, HotField, HourRows, Int64, ReadPlan
from slicewise.slices import HOUR_US

LEARNED_LIMIT = 50_000
"""Hot field names that a plan remembers."""

Gathered = tuple[tuple[Cover, ...], tuple[Mapping[int, Cover], ...], frozenset[int]]
"""Base and ahead per entity, and the days without a valid total."""


@dataclass
class Gathering:
    """Encoded rows of one layout, in blocks."""

    masks: int
    """Of all plans of the layout."""
    blocks: list[Raw] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """Per block its rows."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """(key, rows) of consecutive rows that count alike."""
    rows: int = 0

    def ones(self, key: int, rows: Sequence[Raw], masks: Sequence[int]) -> None:
        """Single rows, each in its mask; key: of mask 0."""
        self.blocks += rows
        self.counts += repeat(1, len(rows))
        self.rows += len(rows)
        self.runs += [(key + mask, len(list(same))) for mask, same in groupby(masks)]

    def block(self, key: int, block: Raw, numbers: Sequence[int] | Int64, part: HourRows) -> None:
        """A block of rows with these slice numbers."""
        self.blocks.append(block)
        self.counts.append(len(numbers))
        self.rows += len(numbers)
        self.runs += [(key + mask, n) for mask, n in part.runs(numbers)]

    def keys(self) -> Int64:
        """Per row its key."""
        keys, lengths = np.array(self.runs, np.int64).reshape(-1, 2).T
        return np.repeat(keys, lengths)


def gather(
    plan: ReadPlan, stored: Sequence[Stored], entities: int, base: Base, rows: Gathering, first: int
) -> Gathered:
    """Adds one unit's rows, whose masks are numbered from `first` in their layout.

    Raises CodecError for damaged values, DataLoss where stored values contradict each other.
    """
    stale: set[int] = set()
    covers = [base.ledger] * entities
    aheads: list[Mapping[int, Cover]] = [_NOTHING] * entities
    for part in stored:
        key = part.entity * rows.masks + first
        compacted: dict[int, int] = {}
        for fields, values in zip(plan.days, part.days, strict=True):
            _add_day(fields, values, key, rows, compacted, stale)
        guards = _add_hot(plan, part, compacted, base, rows, key)
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


_NOTHING: Mapping[int, Cover] = {}


def _add_day(
    fields: DayFields,
    values: Sequence[bytes | None],
    key: int,
    rows: Gathering,
    compacted: dict[int, int],
    stale: set[int],
) -> None:
    if len(values) != len(fields.names):
        raise CodecError(f"{len(values)} values of {len(fields.names)} fields", where=f"day {fields.day}")
    if fields.total is not None:
        at, total = fields.total
        hours, value = values[at - 1], values[at]
        if hours is not None:  # else nothing of this day is compacted
            compacted.update(_hours(hours))
            digest, row = (None, b"") if value is None else unpack_day(value)
            if digest == _digest(hours):
                rows.ones(key, [row], [total.mask])
            else:
                stale.add(total.day)
    first, end, numbers, masks = fields.totals
    found = [value for value in values[first:end] if value is not None]
    if found:
        if len(found) < end - first:
            there = [value is not None for value in values[first:end]]
            numbers, masks = tuple(compress(numbers, there)), tuple(compress(masks, there))
        seqs, encoded = open_totals(found)
        compacted.update(zip(numbers, seqs, strict=True))
        if NOWHERE in masks:
            encoded, masks = list(compress(encoded, masks)), tuple(compress(masks, masks))
        rows.ones(key, encoded, masks)
    for at, part in fields.rows:
        value = values[at]
        if value is not None:
            seq, slices, block = open_slices(value)
            if compacted.get(part.hour) != seq:
                raise DataLoss(
                    f"rows of hour {part.hour} are of seq {seq}, its total is of another",
                    next_step="compact the hour again",
                )
            rows.block(key, block, slices, part)
        elif part.hour in compacted:
            raise DataLoss(
                f"hour {part.hour} is compacted, but its rows {fields.names[at].decode()} are not kept",
                expected="windows whose edges the stored hours can be cut at",
                next_step="compact the hour again, or ask for windows that end on the hour",
            )


@lru_cache(maxsize=16_384)
def _hours(raw: bytes) -> Mapping[int, int]:
    return unpack_hours(raw)


@lru_cache(maxsize=16_384)
def _digest(raw: bytes) -> bytes:
    return day_digest(raw)


def _add_hot(
    plan: ReadPlan, part: Stored, compacted: Mapping[int, int], base: Base, rows: Gathering, key: int
) -> dict[Place, int]:
    """Adds the running partials that count; gives the guards that are beyond the ledger."""
    guards: dict[Place, int] = {}
    counted: list[bytes] = []
    masks: list[int] = []
    ledger, learned, hot = base.ledger.offsets, plan.learned, part.hot
    for name, value in zip(hot[::2], hot[1::2], strict=True):
        kind, place, hour, mask = learned.get(name) or _learn(plan, name)
        if kind == "r":
            if mask != NOWHERE and (hour not in compacted or _is_beyond(value, compacted[hour], place, hour, base)):
                counted.append(value)
                masks.append(mask)
        elif kind == "l":
            after = int(value) + 1
            if after > ledger.get(place, 0):
                guards[place] = after
    if counted:
        rows.ones(key, open_runnings(counted), masks)
    return guards


def _is_beyond(value: bytes, seq: int, place: Place, hour: int, base: Base) -> bool:
    """Whether a running partial holds what its compacted hour does not."""
    first, last, _ = open_running(value)
    floor = base.floor(seq, place)
    if last < floor:
        return False
    if first < floor:
        raise DataLoss(
            f"a running partial [{first}, {last}] straddles the cover {floor}",
            where=f"hour {hour}, topic {place[0]}, partition {place[1]}",
            next_step="leave the hour dirty and compact it again",
        )
    return True


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
    if base.behind.issuperset(compacted.values()):
        return {}
    first, end = hours
    return {
        hour: ahead
        for hour, seq in compacted.items()
        if (ahead := base.ahead(seq, partition)) is not None and first <= hour < end
    }


def _joined(one: Mapping[int, Cover], other: Mapping[int, Cover]) -> dict[int, Cover]:
    joined = dict(one)
    for hour, cover in other.items():
        joined[hour] = joined[hour].join(cover) if hour in joined else cover
    return joined
