"""A read's segments are those that the reader itself counts: it gathers the same bytes once more,
and each stored value that it takes is noted.

Nothing here decides what counts. `rows.gather` and `event_list` do, as they do for an answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from slicewise.client.answers import OffsetRanges, Segment
from slicewise.codec import (
    IDENTITY_BYTES,
    TOPIC_PARTITION,
    identity_time,
    open_running,
    unpack_hours,
    unpack_lifetime,
)
from slicewise.codec.store_fields import fields as f
from slicewise.offsets.vector import TopicPartition
from slicewise.reading.event_list import ListPlan
from slicewise.reading.exchange import NodeClaims, Stored
from slicewise.reading.pending import PendingField, topic_partition_of
from slicewise.reading.plan import (
    NOWHERE,
    DayTotal,
    FiveDayTotal,
    HourRows,
    HourTotal,
    Int64,
    Part,
    ReadPlan,
    days_of,
)
from slicewise.reading.rows import Compacted, add_days, gather, running_of
from slicewise.windows.bounds import EARLIEST_US, floor
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US

COUNTED, EMPTY, CONTAINED = "counted", "empty", "contained"
_OFFSET = slice(TOPIC_PARTITION.stop, IDENTITY_BYTES)


class Placed(NamedTuple):
    """A segment, and the windows of the plan that it counts in."""

    mask: int
    segment: Segment


@dataclass
class Noted:
    """Takes the rows that count, as `rows.Rows`, and notes which stored values they are of."""

    singles_of: dict[int, int] = field(default_factory=dict)
    """Identity of a value's object -> its mask."""
    blocks: dict[int, list[int]] = field(default_factory=dict)
    """Identity of a value's object -> the numbers of its rows."""
    days: Sequence[Sequence[bytes | None]] = ()
    hours: Mapping[int, int] = field(default_factory=dict)
    """Compacted hour -> archive version."""
    pending: PendingField | None = None

    def compacted(
        self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int
    ) -> Compacted:
        """Takes compacted hours."""
        self.days = days
        compacted = add_days(plan, days, key, self)
        self.hours = compacted[0]
        return compacted

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:  # noqa: ARG002
        """Takes single rows."""
        self.singles_of |= zip(map(id, values), masks, strict=True)

    def block(
        self,
        key: int,  # noqa: ARG002
        value: bytes,
        start: int,  # noqa: ARG002
        numbers: Sequence[int] | Int64,
        part: HourRows,  # noqa: ARG002
    ) -> None:
        """Takes a block of rows."""
        self.blocks[id(value)] = [int(number) for number in numbers]

    def events(self, plan: ReadPlan, key: int, pending: PendingField) -> None:  # noqa: ARG002
        """Takes pending events."""
        self.pending = pending


def slice_segments(plan: ReadPlan, stored: Sequence[Stored], claims: NodeClaims) -> list[Placed]:
    """Segments of a unit of slices, in the order of time. stored: of one entity, per partition."""
    placed: list[Placed] = []
    for part in stored:
        noted = Noted()
        gather(plan, [part], 1, claims, noted, len(plan.masks), 0, {})
        segments = chain(
            _of_total(plan, part, noted),
            _of_days(plan, part, noted),
            _live(plan, part, noted),
            _pending(plan, part, noted),
        )
        placed += (
            Placed(mask, replace(segment, partition=part.partition)) for mask, segment in segments
        )
    return sorted(placed, key=_start)


def _start(placed: Placed) -> tuple[int, int]:
    segment = placed.segment
    return EARLIEST_US if segment.start_us is None else segment.start_us, segment.end_us


# ------------------------------------------------------------------ what is compacted
def _total(part: Stored) -> tuple[bytes, int, int] | None:
    """The lifetime total of an entity: its value, the hour of its end, its archive version."""
    fields = dict(zip(part.hot[::2], part.hot[1::2], strict=True))
    value = fields.get(f.LIFETIME.letter.encode())
    if value is None:
        return None
    total_until, archive_version, _ = unpack_lifetime(value)
    return value, total_until, archive_version


def _of_total(plan: ReadPlan, part: Stored, noted: Noted) -> Iterator[Placed]:
    if plan.total_until is None or plan.total_mask == NOWHERE:
        return
    total = _total(part)
    if total is None:
        end_us = plan.total_until * HOUR_US
        yield Placed(plan.total_mask, Segment(None, end_us, "lifetime_total", EMPTY))
    elif id(total[0]) in noted.singles_of:
        segment = Segment(
            None, total[1] * HOUR_US, "lifetime_total", COUNTED, archive_versions=(total[2],)
        )
        yield Placed(plan.total_mask, segment)


def _of_days(plan: ReadPlan, part: Stored, noted: Noted) -> Iterator[Placed]:
    hours = {  # `c` stands first among a day's names
        day.day: unpack_hours(values[0])
        for day, values in zip(plan.days, part.days, strict=True)
        if day.parts[0] is None
    }
    for day, given, taken in zip(plan.days, part.days, noted.days, strict=True):
        for name, meaning, value, counted in zip(day.names, day.parts, given, taken, strict=True):
            if isinstance(meaning, HourRows):
                is_slices = name == f.SLICES.form % meaning.hour
                level_us = plan.unit.slice_us if is_slices else MINUTE_US
                where = "slices" if is_slices else "minutes"
                yield from _of_rows(meaning, level_us, where, value, noted)
            elif meaning is not None and meaning.mask != NOWHERE:
                yield Placed(meaning.mask, _whole(meaning, value, counted, noted, hours))


def _whole(
    meaning: Part,
    value: bytes | None,
    counted: bytes | None,
    noted: Noted,
    hours: Mapping[int, Mapping[int, int]],
) -> Segment:
    """The segment of a total of five days, a day or an hour."""
    if isinstance(meaning, FiveDayTotal):
        days = days_of(meaning.five_day)
        span, where = (days.start * DAY_US, days.stop * DAY_US), "five_day_total"
        versions = set(chain.from_iterable(hours[day].values() for day in days))
    elif isinstance(meaning, DayTotal):
        span, where = (meaning.day * DAY_US, (meaning.day + 1) * DAY_US), "day_total"
        versions = set(hours[meaning.day].values())
    else:
        assert isinstance(meaning, HourTotal)
        span, where = (meaning.hour * HOUR_US, (meaning.hour + 1) * HOUR_US), "hour"
        versions = {noted.hours[meaning.hour]} if meaning.hour in noted.hours else set()
    if counted is not None and id(counted) in noted.singles_of:
        return Segment(*span, where, COUNTED, archive_versions=tuple(sorted(versions)))
    # the total of a lifetime has it already, where the day is kept beside it
    contained = value is not None and counted is None
    return Segment(*span, where, CONTAINED if contained else EMPTY)


def _of_rows(
    rows: HourRows, level_us: int, where: str, value: bytes | None, noted: Noted
) -> Iterator[Placed]:
    """Segments of an hour's rows: one for each run of them that counts in the same windows."""
    cuts, masks = rows.regions
    numbers = None if value is None else noted.blocks.get(id(value))
    for first, end, mask in zip(cuts, cuts[1:], masks[1:], strict=False):
        if mask == NOWHERE:
            continue
        span = first * level_us, end * level_us
        if numbers is None:
            yield Placed(mask, Segment(*span, where, EMPTY))
            continue
        count = sum(first <= number < end for number in numbers)
        segment = Segment(
            *span,
            where,
            COUNTED if count else EMPTY,
            slices=count,
            archive_versions=(noted.hours[rows.hour],),
        )
        yield Placed(mask, segment)


# ------------------------------------------------------------------ what is not
def _version_of(plan: ReadPlan, part: Stored, noted: Noted, hour: int) -> tuple[int, ...]:
    """The archive version that an hour is compacted by; none where it is not."""
    total = None if plan.total_until is None else _total(part)
    if total is not None and hour < total[1]:
        return (total[2],)
    return (noted.hours[hour],) if hour in noted.hours else ()


def _live(plan: ReadPlan, part: Stored, noted: Noted) -> Iterator[Placed]:
    """Segments of running partials: per hour those that count alike."""
    cuts, masks = plan.hot.regions
    groups: dict[tuple[int, int, bool], list[tuple[int, TopicPartition, bytes]]] = {}
    for name, value in zip(part.hot[::2], part.hot[1::2], strict=True):
        running = running_of(name)
        if running is None:
            continue
        number, topic_partition = running
        mask = masks[bisect_right(cuts, number)]
        if mask != NOWHERE:
            hour = number * plan.unit.slice_us // HOUR_US
            group = hour, mask, id(value) in noted.singles_of
            groups.setdefault(group, []).append((number, topic_partition, value))
    for (hour, mask, counts), members in groups.items():
        numbers = {number for number, _, _ in members}
        versions = _version_of(plan, part, noted, hour)
        spans = ((at, open_running(value)[:2]) for _, at, value in members)
        segment = Segment(
            min(numbers) * plan.unit.slice_us,
            (max(numbers) + 1) * plan.unit.slice_us,
            "live",
            COUNTED if counts else CONTAINED,
            slices=len(numbers),
            archive_versions=versions,
            offsets=_ranges(spans),
            late=counts and bool(versions),
        )
        yield Placed(mask, segment)


def _pending(plan: ReadPlan, part: Stored, noted: Noted) -> Iterator[Placed]:
    """Segments of pending events that count: per hour those that count alike."""
    pending = noted.pending
    if pending is None:
        return
    groups: dict[tuple[int, int], list[bytes]] = {}
    for mask, member in zip(pending.masks, pending.events.members, strict=True):
        groups.setdefault((identity_time(member) // HOUR_US, int(mask)), []).append(member)
    slice_us = plan.unit.slice_us
    for (hour, mask), members in groups.items():
        times = [identity_time(member) for member in members]
        versions = _version_of(plan, part, noted, hour)
        segment = Segment(
            floor(min(times), slice_us),
            floor(max(times), slice_us) + slice_us,
            "pending",
            COUNTED,
            events=len(members),
            archive_versions=versions,
            offsets=_ranges(map(_identity, members)),
            late=bool(versions),
        )
        yield Placed(mask, segment)


def _identity(member: bytes) -> tuple[TopicPartition, tuple[int, int]]:
    offset = int.from_bytes(member[_OFFSET], "big")
    return topic_partition_of(member[TOPIC_PARTITION]), (offset, offset)


def _ranges(spans: Iterable[tuple[TopicPartition, tuple[int, int]]]) -> OffsetRanges:
    """Per partition the first and the last offset of these spans."""
    ranges: dict[str, dict[int, tuple[int, int]]] = {}
    for (topic, partition), (first, last) in spans:
        of_topic = ranges.setdefault(topic, {})
        before = of_topic.get(partition, (first, last))
        of_topic[partition] = min(first, before[0]), max(last, before[1])
    return ranges


# ------------------------------------------------------------------ event lists
def list_segments(plan: ListPlan, stored: Sequence[Stored]) -> list[Segment]:
    """Per span of an event list what it holds of one entity."""
    times = sorted(
        identity_time(member)
        for part in stored
        for member in dict.fromkeys(chain.from_iterable(part.days))
        if member is not None
    )
    segments = []
    for span in plan.spans:
        inside = [at for at in times if span.start_us <= at < span.end_us]
        taken = inside[-span.rows :] if span.rows else inside
        start_us = None if span.start_us == EARLIEST_US else span.start_us
        state = COUNTED if taken else EMPTY
        segments.append(Segment(start_us, span.end_us, "events", state, events=len(taken)))
    return segments
