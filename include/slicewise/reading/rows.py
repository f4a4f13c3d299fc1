"""Every event's row is taken once of all that was read: compacted, running beyond the cover, or alone in the tail.

Rows that count go to `Rows`, still encoded, with what it counts in: a key, `owner · masks + mask`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, compress, groupby, repeat
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np

from slicewise.aggregates.kernel.columns import Columns
from slicewise.codec import (
    DAY_HEAD,
    DIGEST_BYTES,
    LIFETIME_HEAD,
    RUNNING_HEAD,
    SEAL_BYTES,
    TOTAL_HEAD,
    Layout,
    Raw,
    check_values,
    day_digest,
    open_running,
    open_slices,
    pentad_digest,
    seqs_of,
    unpack_hours,
    unpack_lifetime,
    unpack_tail,
)
from slicewise.codec.store_fields import fields as f
from slicewise.errors import BeyondRetention, CodecError, DataLoss, StoreUnavailable
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading.cache import CachedColumns, PartialCache
from slicewise.reading.claims import NodeClaims, Stored
from slicewise.reading.pending import (
    NO_EVENTS,
    PendingEvents,
    PendingField,
    PendingSeen,
    accumulated,
    opened,
    standing,
    tail_of,
)
from slicewise.reading.plan import NOWHERE, FiveDays, HotField, HourRows, Int64, ReadPlan, Total
from slicewise.windows.durations import HOUR_US

LEARNED_LIMIT = 50_000
"""Hot field names that a plan remembers."""

Compacted = tuple[Mapping[int, int], frozenset[Total]]
"""hour -> seq of what is compacted, and what has a total that is out of date."""
Gathered = tuple[tuple[OffsetVector, ...], tuple[Mapping[int, OffsetVector], ...], frozenset[Total], PendingSeen]
"""Base and ahead per entity, the days and pentads without a valid total, and what there was of the tail."""


class Rows(Protocol):
    """Takes the rows that count; values are whole, and their checksums hold."""

    def compacted(self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int) -> Compacted:
        """Takes what `add_days` adds."""
        ...

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """Values of one row after `head` bytes, each in its mask; key: of mask 0."""
        ...

    def block(self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows) -> None:
        """A value that holds, from `start`, a block of rows with these slice numbers."""
        ...

    def events(self, plan: ReadPlan, key: int, tail: PendingField) -> None:
        """Events of the tail, each in its mask; key: of mask 0."""
        ...


@dataclass
class Gathering:
    """Encoded rows of one layout, in blocks; and what is known of compacted hours, combined already."""

    layout: Layout
    masks: int
    """Of all plans of the layout."""
    known: PartialCache | None = None
    blocks: list[Raw] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """Per block its rows."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """(key, rows) of consecutive rows that count alike."""
    known_keys: list[int] = field(default_factory=list)
    known_partials: list[Sequence[Columns]] = field(default_factory=list)
    tails: list[PendingEvents] = field(default_factory=list)

    def compacted(self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int) -> Compacted:
        """Takes compacted hours, as `Rows`."""
        known = self.known
        if known is None or not days or plan.gaps:  # a session looks at each slice by itself
            return add_days(plan, days, key, self)
        name = known.key(~plan.number, days)
        found = known.get(name)
        if not isinstance(found, CachedColumns):
            if not known.is_asked_again(name):
                return add_days(plan, days, key, self)
            alone = Gathering(self.layout, self.masks)
            found = CachedColumns(*add_days(plan, days, 0, alone), *alone.combined(plan.partials))
            known.put(name, found)
        if found.masks:
            self.known_keys += [key + mask for mask in found.masks]
            self.known_partials.append(found.partials)
        return found.hours, found.stale

    def combined(self, asked: frozenset[int]) -> tuple[Sequence[int], list[Columns]]:
        """Keys, and per partial of the layout one row per key; empty ones of what is not asked for."""
        keys, groups = np.unique(self.keys(), return_inverse=True)
        n = len(keys)
        decoded = self.layout.decode_blocks(self.blocks, self.counts)
        partials = [
            partial.combine_columns(rows, groups, n) if i in asked else Columns.empty(partial.fields, n)
            for i, (partial, rows) in enumerate(zip(self.layout.partials, decoded, strict=True))
        ]
        return keys.tolist(), partials

    def columns(self) -> tuple[list[Columns], Int64]:
        """Per partial of the layout its rows, and per row its key."""
        decoded = self.layout.decode_blocks(self.blocks, self.counts)
        partials, keys = [*self.known_partials], [self.keys(), np.array(self.known_keys, np.int64)]
        for found, their_keys in accumulated(self.layout, self.tails):
            partials.append(found)
            keys.append(their_keys)
        if not partials:
            return decoded, keys[0]
        parts = zip(decoded, *partials, strict=True)
        return [Columns.concat(each) for each in parts], np.concatenate(keys)

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """Takes single rows, as `Rows`."""
        self.blocks += [value[head:-SEAL_BYTES] for value in values]
        self.counts += repeat(1, len(values))
        self.runs += [(key + mask, len(list(same))) for mask, same in groupby(masks)]

    def block(self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows) -> None:
        """Takes a block of rows, as `Rows`."""
        self.blocks.append(value[start:-SEAL_BYTES])
        self.counts.append(len(numbers))
        self.runs += [(key + mask, n) for mask, n in part.runs(numbers)]

    def events(self, plan: ReadPlan, key: int, tail: PendingField) -> None:
        """Takes events of the tail, as `Rows`."""
        self.tails.append(PendingEvents(plan, key, tail))

    def keys(self) -> Int64:
        """Per row its key."""
        keys, lengths = np.array(self.runs, np.int64).reshape(-1, 2).T
        return np.repeat(keys, lengths)


def gather(
    plan: ReadPlan,
    stored: Sequence[Stored],
    entities: int,
    base: NodeClaims,
    rows: Rows,
    masks: int,
    first: int,
    learned: dict[bytes, HotField],
) -> Gathered:
    """Adds one unit's rows; masks: of its layout, in which the unit's own are numbered from `first`; base: of parts
    that bring none of their own; learned: what hot fields mean under this plan, parsed once, not once per entity.

    Raises CodecError for damaged values, DataLoss where stored values contradict each other.
    """
    stale: frozenset[Total] = frozenset()
    covers = [base.ledger] * entities
    aheads: list[Mapping[int, OffsetVector]] = [_NOTHING] * entities
    seen = NO_EVENTS
    given = base
    for part in stored:
        key = part.entity * masks + first
        if part.base is not None:
            base = part.base
            covers[part.entity] = covers[part.entity].join(base.held(part.partition))
        else:
            base = given
        total = NO_TOTAL if plan.horizon is None else _add_total(plan, part, base, rows, key)
        days = (
            part.days
            if plan.horizon is None or total.horizon <= plan.horizon
            else plan.days_after(part.days, total.horizon)
        )
        compacted, without = rows.compacted(plan, days, key)
        if without:
            stale |= without
        guards, events = _add_hot(plan, part, compacted, total, base, rows, key, learned)
        if events is not NO_EVENTS:
            seen = seen.and_of(events)
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
    return tuple(covers), tuple(aheads), stale, seen


_NOTHING: Mapping[int, OffsetVector] = {}
_NONE: frozenset[Total] = frozenset()


def add_days(plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int, rows: Rows) -> Compacted:
    """Adds what is compacted."""
    fetched = plan.fetched
    if list(map(len, days)) != fetched.widths:
        raise CodecError(f"{list(map(len, days))} values of {fetched.widths} fields", where=f"unit of {plan.hours}")
    values = list(chain.from_iterable(days))
    compacted: dict[int, int] = {}
    stale = _NONE
    whole: list[bytes] = []
    of: list[int] = []
    for at, total in fetched.days:
        hours, value = values[at - 1], values[at]
        if hours is not None:  # else nothing of this day is compacted
            seqs, digest = _covered(hours)
            compacted.update(seqs)
            if value is not None and value[:DIGEST_BYTES] == digest:
                whole.append(value)
                of.append(total.mask)
            else:
                stale |= {total.day}
    for covered_at, at, pentad in fetched.pentads:
        raws = [values[i] for i in covered_at]
        found_hours = [each for each in raws if each is not None]
        if found_hours:
            for each in found_hours:
                compacted.update(_covered(each)[0])
            value = values[at]
            if value is not None and value[:DIGEST_BYTES] == _pentad(tuple(raws)):
                whole.append(value)
                of.append(pentad.mask)
            else:
                stale |= {FiveDays(pentad.pentad)}
    if whole:
        check_values(whole, DAY_HEAD)
        rows.singles(key, DAY_HEAD, whole, of)
    totals, numbers, masks = [values[at] for at in fetched.totals], fetched.hours, fetched.masks
    if None in totals:
        there = [value is not None for value in totals]
        numbers, masks = tuple(compress(numbers, there)), tuple(compress(masks, there))
    found = [value for value in totals if value is not None]
    if found:
        check_values(found, TOTAL_HEAD)
        compacted.update(zip(numbers, seqs_of(found), strict=True))
        if NOWHERE in masks:
            found, masks = list(compress(found, masks)), tuple(compress(masks, masks))
        rows.singles(key, TOTAL_HEAD, found, masks)
    for at, part, name in fetched.rows:
        value = values[at]
        if value is not None:
            check_values([value], TOTAL_HEAD)
            seq, slices, start = open_slices(value)
            if compacted.get(part.hour) != seq:
                raise DataLoss(
                    f"rows of hour {part.hour} are of seq {seq}, its total is of another",
                    next_step="compact the hour again",
                )
            rows.block(key, value, start, slices, part)
        elif part.hour in compacted:
            raise DataLoss(
                f"hour {part.hour} is compacted, but its rows {name.decode()} are not kept",
                expected="windows whose edges the stored hours can be cut at",
                next_step="compact the hour again, or ask for windows that end on the hour",
            )
    return compacted, stale


@lru_cache(maxsize=16_384)
def _covered(raw: bytes) -> tuple[Mapping[int, int], bytes]:
    """The hours of a `c`, and the digest by which a total names it."""
    return unpack_hours(raw), day_digest(raw)


@lru_cache(maxsize=4_096)
def _pentad(covered: tuple[bytes | None, ...]) -> bytes:
    """The digest by which a total names a pentad whose days say this."""
    return pentad_digest(covered)


class Brought(NamedTuple):
    """Reach of an entity's total: all of its events of hours before the horizon are in it, or beyond the cover of the seq."""

    horizon: int
    seq: int


NO_TOTAL = Brought(-(1 << 62), 0)


def _add_total(plan: ReadPlan, part: Stored, base: NodeClaims, rows: Rows, key: int) -> Brought:
    """Adds the entity's total, if it has one."""
    at = next((i for i in range(0, len(part.hot), 2) if part.hot[i] == _LIFETIME), None)
    if at is None:
        return NO_TOTAL
    value = part.hot[at + 1]
    horizon, seq, _ = unpack_lifetime(value)
    if min(plan.start_us, plan.lifetime_end_us) < horizon * HOUR_US:
        shifts = (feature.window.offset_us for feature in plan.features if feature.window.unbounded)
        raise BeyondRetention(
            f"view {plan.unit.view!r} keeps totals of what lies before hour {horizon}, and cannot cut them",
            where="at",
            earliest_at_us=horizon * HOUR_US + max(shifts, default=0),
            next_step="ask later times here, earlier ones of the archive (training sets)",
        )
    if base.ahead(seq, part.partition) is not None:
        raise StoreUnavailable(
            "a total was brought after the ledger was read that bounds it",
            where=f"archive seq {seq}",
            next_step="read again",
        )
    if plan.total_mask != NOWHERE:
        rows.singles(key, LIFETIME_HEAD, [value], (plan.total_mask,))
    return Brought(horizon, seq)


_FIRST = itemgetter(0)


def _add_hot(
    plan: ReadPlan,
    part: Stored,
    compacted: Mapping[int, int],
    total: Brought,
    base: NodeClaims,
    rows: Rows,
    key: int,
    learned: dict[bytes, HotField],
) -> tuple[dict[TopicPartition, int], PendingSeen]:
    """Adds the running partials and the events of the tail that count; gives the offsets beyond the ledger that they
    reach, and what there was of the tail."""
    guards: dict[TopicPartition, int] = {}
    counted: list[bytes] = []
    masks: list[int] = []
    ledger, names, values = base.ledger.offsets, part.hot[::2], part.hot[1::2]
    tail: list[bytes] = []
    left: dict[TopicPartition, int] = {}
    if base.tail:
        letters = _letters(names)
        if _EVENT in letters:
            tail = list(compress(values, letters.translate(_EVENTS)))
            others = letters.translate(_OTHERS)
            names, values = list(compress(names, others)), list(compress(values, others))
    for what, name, value in zip(map(learned.get, names), names, values, strict=True):
        kind, place, hour, mask = what or _learn(plan, learned, name)
        if kind == "r":
            seq = total.seq if hour < total.horizon else compacted.get(hour)
            if mask != NOWHERE and (seq is None or _is_beyond(value, seq, place, hour, base)):
                counted.append(value)
                masks.append(mask)
        elif kind == "l":
            after = int(value) + 1
            if after > ledger.get(place, 0):
                guards[place] = after
        elif kind == "q" and place[0] == base.tail_left:
            left[place] = max(unpack_tail(value)[0] + 1, left.get(place, 0))
    if counted:
        check_values(counted, RUNNING_HEAD)
        rows.singles(key, RUNNING_HEAD, counted, masks)
    if left:
        return guards, _left(left, dict(zip(names, values, strict=True)), base.ledger, guards)
    if not tail:
        return guards, NO_EVENTS
    events = opened(plan, tail)
    fields = dict(zip(names, values, strict=True))

    def floor(place: TopicPartition, hour: int) -> int:
        seq = total.seq if hour < total.horizon else compacted.get(hour)
        return base.start.get(place) if seq is None else base.floor(seq, place)

    found = tail_of(plan, events, lambda place: standing(fields, place), floor)
    if len(found.masks):
        rows.events(plan, key, found)
    for place, end in found.ends.items():
        if end > ledger.get(place, 0):
            guards[place] = max(end, guards.get(place, 0))
    return guards, PendingSeen(len(found.masks), found.newest_us)


def _left(
    ends: Mapping[TopicPartition, int],
    fields: Mapping[bytes, bytes],
    ledger: OffsetVector,
    guards: Mapping[TopicPartition, int],
) -> PendingSeen:
    """Finds what a tail of another life brought beyond what is folded. ends: beyond the last event in its fields. One that
    was skipped, and what lies beyond it, counted in no answer."""
    lacking = 0
    for place, end in ends.items():
        _, skipped = standing(fields, place)
        lacking += max(0, min(end, skipped) - max(ledger.get(place), guards.get(place, 0)))
    return PendingSeen(0, NO_EVENTS.newest_us, lacking) if lacking else NO_EVENTS


_RUNNING, _APPLIED, _LIFETIME = (entry.letter.encode() for entry in (f.RUNNING, f.APPLIED, f.LIFETIME))
_EVENT = f.PENDING.letter.encode()
"""What names of tail fields begin with, and no others."""
_EVENTS = bytes(letter == _EVENT[0] for letter in range(256))
_OTHERS = bytes(letter != _EVENT[0] for letter in range(256))


def _letters(names: Sequence[bytes]) -> bytes:
    """The first letter of each hot field."""
    try:
        return bytes(map(_FIRST, names))
    except IndexError as error:
        raise CodecError("a hot field without a name") from error


def _is_beyond(value: bytes, seq: int, place: TopicPartition, hour: int, base: NodeClaims) -> bool:
    """Tells whether a running partial holds what its compacted hour does not."""
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


def _learn(plan: ReadPlan, learned: dict[bytes, HotField], name: bytes) -> HotField:
    if len(learned) >= LEARNED_LIMIT:
        learned.clear()
    found = learned[name] = _hot_field(plan, name)
    return found


def _hot_field(plan: ReadPlan, name: bytes) -> HotField:
    parts = name.split(b":")
    try:
        if parts[0] == _RUNNING and len(parts) == 4:
            number, place = int(parts[1]), (parts[2].decode("ascii"), int(parts[3]))
            region = np.searchsorted(plan.hot.cuts, number, side="right")
            hour = number * plan.unit.slice_us // HOUR_US
            return HotField("r", place, hour, int(plan.hot.masks[region]))
        if parts[0] == _APPLIED and len(parts) == 3:
            return HotField("l", (parts[1].decode("ascii"), int(parts[2])), 0, NOWHERE)
        if parts[0] == _EVENT and len(parts) == 4:
            return HotField("q", (parts[1].decode("ascii"), int(parts[2])), 0, NOWHERE)
    except ValueError as error:
        raise CodecError(f"a hot field that is none: {name[:80]!r}") from error
    if name == _LIFETIME:
        return HotField("t", ("", 0), 0, NOWHERE)  # added before the others
    if parts[0] in _PASSED_OVER or name in _COUNTS:
        return _UNCOUNTED
    raise CodecError(f"a hot field that is none: {name[:80]!r}")


_PASSED_OVER = (*(entry.letter.encode() for entry in (f.PENDING_NUMBERS, f.SKIPPED)), b"e")
_COUNTS = (f.PENDING_COUNT.form, b"n")
"""Of a tail: the numbers of its fields, and what was skipped, which is asked for by name.
Beside them `m` says how many events there are. `e` and `n` are of the format before, and nobody counts them."""
_UNCOUNTED = HotField("", ("", 0), 0, NOWHERE)


def _beyond(base: OffsetVector, guards: Mapping[TopicPartition, int]) -> OffsetVector:
    return base.join(_cover_of(tuple(sorted(guards.items()))))


@lru_cache(maxsize=4_096)
def _cover_of(offsets: tuple[tuple[TopicPartition, int], ...]) -> OffsetVector:
    return OffsetVector(dict(offsets))


def _ahead(
    compacted: Mapping[int, int], hours: tuple[int, int], base: NodeClaims, partition: int | None
) -> dict[int, OffsetVector]:
    if base.behind.issuperset(compacted.values()):
        return {}
    first, end = hours
    return {
        hour: ahead
        for hour, seq in compacted.items()
        if (ahead := base.ahead(seq, partition)) is not None and first <= hour < end
    }


def _joined(one: Mapping[int, OffsetVector], other: Mapping[int, OffsetVector]) -> dict[int, OffsetVector]:
    joined = dict(one)
    for hour, cover in other.items():
        joined[hour] = joined[hour].join(cover) if hour in joined else cover
    return joined
