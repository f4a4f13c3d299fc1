"""A pending event stands beyond the applied offset of its partition, with nothing skipped before
it; it counts where the offset vector of its hour does not hold it already.

Which events the fields hold is told by their values, where each begins with its identity; names are
not parsed.
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
from slicewise.codec import (
    IDENTITY_BYTES,
    TOPIC_PARTITION,
    Layout,
    Members,
    OpenMembers,
    unpack_skip,
)
from slicewise.codec.store_fields import fields as f
from slicewise.errors import CodecError
from slicewise.offsets.vector import TopicPartition
from slicewise.reading.plan import NOWHERE, Int64, ReadPlan
from slicewise.windows.durations import HOUR_US

SCALAR_EVENTS = 32
"""Up to about so many events Python's own numbers are faster than whole columns."""
ROW_EVENTS = 8
"""The same of events by the row form of an aggregate."""
NEVER = 1 << 62
"""Beyond every offset."""

PendingRangeOf = Callable[[TopicPartition], tuple[int, int]]
"""Partition -> half-open range of the offsets whose events stand."""
Floor = Callable[[TopicPartition, int], int]
"""(partition, hour) -> the first offset that is not compacted."""


@dataclass(frozen=True, eq=False)
class PendingField:
    """The events of one entity's and unit's pending events that count."""

    events: OpenMembers
    """Events within a window that count."""
    masks: Sequence[int] | Int64
    times: Sequence[int] | Int64
    """Per event of them its mask and its time in microseconds."""
    ends: Mapping[TopicPartition, int]
    """Beyond the newest of each partition that stands, wherever it counts."""
    newest_us: int
    """Time of the latest event within a window."""
    mask: int = NOWHERE
    """Mask of all of them, where they are known to have one."""


class PendingEvents(NamedTuple):
    """Pending events under a plan; key: of mask 0."""

    plan: ReadPlan
    key: int
    pending: PendingField


def accumulated(
    layout: Layout, pending: Sequence[PendingEvents]
) -> Iterator[tuple[list[Columns], Int64]]:
    """Per partial of the layout one row per key (of a session's plan per key and slice), and the
    keys; partials that no plan asks for are empty."""
    forms: dict[Members, list[PendingEvents]] = {}
    for pending_events in pending:
        forms.setdefault(pending_events.pending.events.form, []).append(pending_events)
    for form, alike in forms.items():
        events = joined(form, [pending_read.pending.events for pending_read in alike])
        keys = np.concatenate(
            [
                np.asarray(pending_read.pending.masks, np.int64) + pending_read.key
                for pending_read in alike
            ]
        )
        wanted = frozenset().union(*(pending_read.plan.partials for pending_read in alike))
        # a session looks at each slice by itself
        if any(pending_read.plan.gaps for pending_read in alike):
            slices = [
                np.asarray(pending_read.pending.times, np.int64) // pending_read.plan.unit.slice_us
                for pending_read in alike
            ]
            numbers = np.concatenate(slices)
            _, first, groups = np.unique(
                np.stack([keys, numbers]), axis=1, return_index=True, return_inverse=True
            )
            keys, groups = keys[first], groups.reshape(-1)
            wanted |= {i for i, partial in enumerate(layout.partials) if isinstance(partial, Span)}
        else:
            keys, groups = distinct(keys)
        inputs = {column for i in wanted for column in layout.partials[i].inputs}
        rows, n = events.rows(inputs), len(keys)
        single = (
            list(zip(groups.tolist(), rows.events(), strict=True))
            if len(rows) <= ROW_EVENTS
            else None
        )
        yield (
            [
                Columns.empty(partial.fields, n)
                if i not in wanted
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
    return OpenMembers(
        form, records, lambda: list(chain.from_iterable(part.members for part in parts))
    )


def distinct(values: Int64) -> tuple[Int64, Int64]:
    """The distinct values, ascending, and per value its number; those of pending events are one,
    mostly."""
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), np.int64)
    distinct_values, numbers = np.unique(values, return_inverse=True)
    return distinct_values, numbers


def opened(plan: ReadPlan, values: Sequence[bytes]) -> OpenMembers:
    """The events of pending fields. Raises CodecError for a damaged one."""
    try:
        return plan.unit.members.open_fields(values)
    except CodecError as error:
        raise CodecError(
            "a pending field is damaged, or not of this unit",
            where=f"view {plan.unit.view!r}, unit {plan.unit.storage_fingerprint}",
            expected=error.expected,
            next_step="ask again in some seconds: the micro-batch lane counts its events from the log and takes the field; where "
            "it stops at the field too (slicewise status), slicewise rebuild the view",
        ) from error


def pending_range(
    fields: Mapping[bytes, bytes], topic_partition: TopicPartition
) -> tuple[int, int]:
    """Half-open range of a partition's offsets whose pending events stand, by the hash's other
    fields."""
    at = b"%s:%d" % (topic_partition[0].encode(), topic_partition[1])
    applied_offset, skipped = (
        int(fields.get(f.APPLIED.prefix + at, -1)),
        fields.get(f.SKIPPED.prefix + at),
    )
    if skipped is not None:
        first, last = unpack_skip(skipped)
        # what was left out is not applied yet: nothing from there on is all there is
        if applied_offset < last:
            return applied_offset + 1, first
    return applied_offset + 1, NEVER


def pending_of(
    plan: ReadPlan, events: OpenMembers, range_of: PendingRangeOf, floor: Floor
) -> PendingField:
    """The events that count."""
    way = _one_by_one if len(events) <= SCALAR_EVENTS else _at_once
    return way(plan, events, range_of, floor)


def _one_by_one(
    plan: ReadPlan, events: OpenMembers, range_of: PendingRangeOf, floor: Floor
) -> PendingField:
    cuts, regions = plan.hot.regions
    slice_us, whole = plan.unit.slice_us, int.from_bytes
    ranges: dict[bytes, tuple[int, int]] = {}
    floors: dict[tuple[bytes, int], int] = {}
    ends: dict[bytes, int] = {}
    taken, masks, times, newest = [], [], [], -NEVER
    for i, member in enumerate(events.members):
        time, at = whole(member[:8], "big") - SIGN_BIT, member[TOPIC_PARTITION]
        span = ranges.get(at)
        if span is None:
            span = ranges[at] = range_of(topic_partition_of(at))
        offset = whole(member[28:IDENTITY_BYTES], "big")
        if span[0] <= offset < span[1]:
            if offset >= ends.get(at, 0):
                ends[at] = offset + 1
            mask = regions[bisect_right(cuts, time // slice_us)]
            if mask == NOWHERE:
                continue
            key = at, time // HOUR_US
            first = floors.get(key)
            if first is None:
                first = floors[key] = floor(topic_partition_of(at), key[1])
            if offset >= first:
                taken.append(i)
                masks.append(mask)
                times.append(time)
                newest = max(newest, time)
    if len(taken) < len(events):
        events = events.take(taken)
    return PendingField(
        events, masks, times, {topic_partition_of(at): end for at, end in ends.items()}, newest
    )


def _at_once(
    plan: ReadPlan, events: OpenMembers, range_of: PendingRangeOf, floor: Floor
) -> PendingField:
    identity = events.records["identity"]
    offset = identity["offset"].astype(np.int64)
    time = (identity["time"].astype(np.uint64) ^ np.uint64(SIGN_BIT)).view(np.int64)
    topic_partition, firsts = (
        _topic_partitions(identity)
        if events.topic_partition is None
        else (np.zeros(len(identity), np.int64), [0])
    )
    if len(firsts) == 1:
        alike = _alike(plan, events, offset, time, range_of, floor)
        if alike is not None:
            return alike
    hours, hour = distinct(time // HOUR_US)
    group = topic_partition * len(hours) + hour
    topic_partitions = [
        topic_partition_of(identity[first].tobytes()[TOPIC_PARTITION]) for first in firsts
    ]
    low, high = np.array([*map(range_of, topic_partitions)], np.int64).T
    pending = (offset >= low[topic_partition]) & (offset < high[topic_partition])
    ends = np.zeros(len(topic_partitions), np.int64)
    np.maximum.at(ends, topic_partition[pending], offset[pending] + 1)
    mask = plan.hot.masks[np.searchsorted(plan.hot.cuts, time // plan.unit.slice_us, side="right")]
    within = pending & (mask != NOWHERE)
    floors = np.zeros(len(firsts) * len(hours), np.int64)
    for pair in distinct(group[within])[0].tolist():
        floors[pair] = floor(topic_partitions[pair // len(hours)], int(hours[pair % len(hours)]))
    taken = np.flatnonzero(within & (offset >= floors[group]))
    if len(taken) < len(time):
        events = events.take(taken)
        mask, time = mask[taken], time[taken]
    newest = int(time.max(initial=-NEVER))
    pending_ends = {at: end for at, end in zip(topic_partitions, ends.tolist(), strict=True) if end}
    return PendingField(events, mask, time, pending_ends, newest)


def _alike(
    plan: ReadPlan,
    events: OpenMembers,
    offset: Int64,
    time: Int64,
    range_of: PendingRangeOf,
    floor: Floor,
) -> PendingField | None:
    """The common case: events of one partition, all of which count alike. None of others."""
    cuts, regions = plan.hot.regions
    slice_us, (earliest, latest) = plan.unit.slice_us, (int(time.min()), int(time.max()))
    region = bisect_right(cuts, latest // slice_us)
    mask = regions[region]
    if mask == NOWHERE or bisect_right(cuts, earliest // slice_us) != region:
        return None
    if latest // HOUR_US - earliest // HOUR_US > 1:
        return None
    topic_partition = topic_partition_of(events.records[0].tobytes()[TOPIC_PARTITION])
    (low, high), (first, last) = range_of(topic_partition), (int(offset.min()), int(offset.max()))
    low = max(
        low, floor(topic_partition, earliest // HOUR_US), floor(topic_partition, latest // HOUR_US)
    )
    if not low <= first <= last < high:
        return None
    return PendingField(
        events, np.full(len(time), mask), time, {topic_partition: last + 1}, latest, mask
    )


def _topic_partitions(identity: npt.NDArray[Any]) -> tuple[Int64, list[int]]:
    """Per event the number of its partition, and per partition an event of it."""
    if all((identity[name] == identity[name][0]).all() for name in ("topic_hi", "topic_lo")):
        if (identity["partition"] == identity["partition"][0]).all():
            return np.zeros(len(identity), np.int64), [0]
        _, first, topic_partition = np.unique(
            identity["partition"], return_index=True, return_inverse=True
        )
    else:
        sources = np.stack(
            [identity[name].astype(np.uint64) for name in ("topic_hi", "topic_lo", "partition")],
            axis=1,
        )
        _, first, topic_partition = np.unique(
            sources, axis=0, return_index=True, return_inverse=True
        )
    return topic_partition.reshape(-1), first.tolist()


def topic_partition_of(at: bytes) -> TopicPartition:
    """The partition in an identity: topic id and partition."""
    return at[:16].hex(), int.from_bytes(at[16:], "big")
