"""An event of the tail stands beyond the guard of its place, with nothing skipped before it; it counts where the cover
of its hour does not hold it already.

Which events the fields hold is told by their values, where each begins with its identity; names are not parsed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.exact.spans import Span
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event
from slicewise.aggregates.kernel.fields import SIGN_BIT
from slicewise.codec import IDENTITY_BYTES, PLACE_OF, Layout, Members, OpenMembers, unpack_skip
from slicewise.codec.store_fields import fields as f
from slicewise.errors import CodecError
from slicewise.offsets.vector import TopicPartition
from slicewise.reading.plan import NOWHERE, Int64, ReadPlan
from slicewise.windows.durations import HOUR_US

FEW_EVENTS = 32
"""Up to about so many events Python's own numbers are faster than whole columns."""
ROW_EVENTS = 8
"""The same of events by the row form of an aggregate."""
NEVER = 1 << 62
"""Beyond every offset."""

Standing = Callable[[TopicPartition], tuple[int, int]]
"""Place -> half-open range of the offsets whose events stand."""
Floor = Callable[[TopicPartition, int], int]
"""(place, hour) -> the first offset that is not compacted."""


@dataclass(frozen=True, eq=False)
class PendingField:
    """The events of one entity's and unit's tail that count."""

    events: OpenMembers
    """Those within a window that count."""
    masks: Sequence[int] | Int64
    times: Sequence[int] | Int64
    """Per event of them its mask and its time in microseconds."""
    ends: Mapping[TopicPartition, int]
    """Beyond the newest of each place that stands, wherever it counts."""
    newest_us: int
    """Time of the latest event within a window."""
    mask: int = NOWHERE
    """Of all of them, where they are known to have one."""


class PendingEvents(NamedTuple):
    """A tail under a plan; key: of mask 0."""

    plan: ReadPlan
    key: int
    tail: PendingField


class PendingSeen(NamedTuple):
    """Events of the tail in an answer: how many, and the time of the latest."""

    events: int
    newest_us: int
    left: int = 0
    """Offsets up to which a tail of another life of the store brought events that this answer does not contain."""

    def and_of(self, other: PendingSeen) -> PendingSeen:
        """The events of both."""
        newest_us = max(self.newest_us, other.newest_us)
        return PendingSeen(self.events + other.events, newest_us, self.left + other.left)


NO_EVENTS = PendingSeen(0, -NEVER)


def accumulated(layout: Layout, tails: Sequence[PendingEvents]) -> Iterator[tuple[list[Columns], Int64]]:
    """Per partial of the layout one row per key (of a session's plan per key and slice), and the keys; partials that
    no plan asks for are empty."""
    forms: dict[Members, list[PendingEvents]] = {}
    for each in tails:
        forms.setdefault(each.tail.events.form, []).append(each)
    for form, alike in forms.items():
        events = joined(form, [each.tail.events for each in alike])
        keys = np.concatenate([np.asarray(each.tail.masks, np.int64) + each.key for each in alike])
        asked = frozenset().union(*(each.plan.partials for each in alike))
        if any(each.plan.gaps for each in alike):  # a session looks at each slice by itself
            slices = [np.asarray(each.tail.times, np.int64) // each.plan.unit.slice_us for each in alike]
            numbers = np.concatenate(slices)
            _, first, groups = np.unique(np.stack([keys, numbers]), axis=1, return_index=True, return_inverse=True)
            keys, groups = keys[first], groups.reshape(-1)
            asked |= {i for i, partial in enumerate(layout.partials) if isinstance(partial, Span)}
        else:
            keys, groups = distinct(keys)
        inputs = {column for i in asked for column in layout.partials[i].inputs}
        rows, n = events.rows(inputs), len(keys)
        single = list(zip(groups.tolist(), rows.events(), strict=True)) if len(rows) <= ROW_EVENTS else None
        yield (
            [
                Columns.empty(partial.fields, n)
                if i not in asked
                else partial.accumulate_columns(rows, groups, n)
                if single is None
                else _by_rows(partial, single, n)
                for i, partial in enumerate(layout.partials)
            ],
            keys,
        )


def _by_rows(partial: Aggregate, events: Sequence[tuple[int, Event]], n: int) -> Columns:
    """`accumulate_columns` of a few events by the row form, to the same bits."""
    states = [partial.empty()] * n
    for group, event in events:
        states[group] = partial.accumulate(states[group], event)
    return partial.to_columns(states)


def joined(form: Members, parts: Sequence[OpenMembers]) -> OpenMembers:
    """All of them."""
    if len(parts) == 1:
        return parts[0]
    records = np.concatenate([part.records for part in parts])
    return OpenMembers(form, records, lambda: list(chain.from_iterable(part.members for part in parts)))


def distinct(values: Int64) -> tuple[Int64, Int64]:
    """The distinct values, ascending, and per value its number; a tail's are one, mostly."""
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), np.int64)
    found, numbers = np.unique(values, return_inverse=True)
    return found, numbers


def opened(plan: ReadPlan, values: Sequence[bytes]) -> OpenMembers:
    """The events of tail fields. Raises CodecError for a damaged one."""
    try:
        return plan.unit.members.open_fields(values)
    except CodecError as error:
        raise CodecError(
            "a tail field is damaged, or not of this unit",
            where=f"view {plan.unit.view!r}, unit {plan.unit.storage_fingerprint}",
            expected=error.expected,
            next_step="ask again in some seconds: the fold counts its events from the log and takes the field; where "
            "it stops at the field too (slicewise status), slicewise rebuild the view",
        ) from error


def standing(fields: Mapping[bytes, bytes], place: TopicPartition) -> tuple[int, int]:
    """Half-open range of a place's offsets whose events of the tail stand, by the hash's other fields."""
    at = b"%s:%d" % (place[0].encode(), place[1])
    guard, skipped = int(fields.get(f.APPLIED.prefix + at, -1)), fields.get(f.SKIPPED.prefix + at)
    if skipped is not None:
        first, last = unpack_skip(skipped)
        if guard < last:  # what was left out is not folded yet: nothing from there on is all there is
            return guard + 1, first
    return guard + 1, NEVER


def tail_of(plan: ReadPlan, events: OpenMembers, stands: Standing, floor: Floor) -> PendingField:
    """The events that count."""
    way = _one_by_one if len(events) <= FEW_EVENTS else _at_once
    return way(plan, events, stands, floor)


def _one_by_one(plan: ReadPlan, events: OpenMembers, stands: Standing, floor: Floor) -> PendingField:
    cuts, regions = plan.hot.regions
    slice_us, whole = plan.unit.slice_us, int.from_bytes
    ranges: dict[bytes, tuple[int, int]] = {}
    floors: dict[tuple[bytes, int], int] = {}
    ends: dict[bytes, int] = {}
    taken, masks, times, newest = [], [], [], -NEVER
    for i, member in enumerate(events.members):
        time, at = whole(member[:8], "big") - SIGN_BIT, member[PLACE_OF]
        found = ranges.get(at)
        if found is None:
            found = ranges[at] = stands(place_of(at))
        offset = whole(member[28:IDENTITY_BYTES], "big")
        if found[0] <= offset < found[1]:
            if offset >= ends.get(at, 0):
                ends[at] = offset + 1
            mask = regions[bisect_right(cuts, time // slice_us)]
            if mask == NOWHERE:
                continue
            key = at, time // HOUR_US
            first = floors.get(key)
            if first is None:
                first = floors[key] = floor(place_of(at), key[1])
            if offset >= first:
                taken.append(i)
                masks.append(mask)
                times.append(time)
                newest = max(newest, time)
    if len(taken) < len(events):
        events = events.take(taken)
    return PendingField(events, masks, times, {place_of(at): end for at, end in ends.items()}, newest)


def _at_once(plan: ReadPlan, events: OpenMembers, stands: Standing, floor: Floor) -> PendingField:
    identity = events.records["identity"]
    offset = identity["offset"].astype(np.int64)
    time = (identity["time"].astype(np.uint64) ^ np.uint64(SIGN_BIT)).view(np.int64)
    place, firsts = _places(identity) if events.place is None else (np.zeros(len(identity), np.int64), [0])
    if len(firsts) == 1:
        alike = _alike(plan, events, offset, time, stands, floor)
        if alike is not None:
            return alike
    hours, hour = distinct(time // HOUR_US)
    group = place * len(hours) + hour
    places = [place_of(identity[first].tobytes()[PLACE_OF]) for first in firsts]
    low, high = np.array([stands(each) for each in places], np.int64).T
    stood = (offset >= low[place]) & (offset < high[place])
    ends = np.zeros(len(places), np.int64)
    np.maximum.at(ends, place[stood], offset[stood] + 1)
    mask = plan.hot.masks[np.searchsorted(plan.hot.cuts, time // plan.unit.slice_us, side="right")]
    within = stood & (mask != NOWHERE)
    floors = np.zeros(len(firsts) * len(hours), np.int64)
    for each in distinct(group[within])[0].tolist():
        floors[each] = floor(places[each // len(hours)], int(hours[each % len(hours)]))
    taken = np.flatnonzero(within & (offset >= floors[group]))
    if len(taken) < len(time):
        events = events.take(taken)
        mask, time = mask[taken], time[taken]
    newest = int(time.max(initial=-NEVER))
    found = {at: end for at, end in zip(places, ends.tolist(), strict=True) if end}
    return PendingField(events, mask, time, found, newest)


def _alike(
    plan: ReadPlan, events: OpenMembers, offset: Int64, time: Int64, stands: Standing, floor: Floor
) -> PendingField | None:
    """The common case: events of one place, all of which count alike. None of others."""
    cuts, regions = plan.hot.regions
    slice_us, (earliest, latest) = plan.unit.slice_us, (int(time.min()), int(time.max()))
    region = bisect_right(cuts, latest // slice_us)
    mask = regions[region]
    if mask == NOWHERE or bisect_right(cuts, earliest // slice_us) != region:
        return None
    if latest // HOUR_US - earliest // HOUR_US > 1:
        return None
    place = place_of(events.records[0].tobytes()[PLACE_OF])
    (low, high), (first, last) = stands(place), (int(offset.min()), int(offset.max()))
    low = max(low, floor(place, earliest // HOUR_US), floor(place, latest // HOUR_US))
    if not low <= first <= last < high:
        return None
    return PendingField(events, np.full(len(time), mask), time, {place: last + 1}, latest, mask)


def _places(identity: npt.NDArray[Any]) -> tuple[Int64, list[int]]:
    """Per event the number of its place, and per place an event of it."""
    if all((identity[name] == identity[name][0]).all() for name in ("topic_hi", "topic_lo")):
        if (identity["partition"] == identity["partition"][0]).all():
            return np.zeros(len(identity), np.int64), [0]
        _, first, place = np.unique(identity["partition"], return_index=True, return_inverse=True)
    else:
        alone = np.stack([identity[name].astype(np.uint64) for name in ("topic_hi", "topic_lo", "partition")], axis=1)
        _, first, place = np.unique(alone, axis=0, return_index=True, return_inverse=True)
    return place.reshape(-1), first.tolist()


def place_of(at: bytes) -> TopicPartition:
    """The place in an identity: topic id and partition."""
    return at[:16].hex(), int.from_bytes(at[16:], "big")
