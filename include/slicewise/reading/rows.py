"""Every event's row is taken once of all that was read: compacted, running beyond the offset
vector, or alone among the pending events.

Rows that count go to `Rows`, still encoded, with what it counts in: a key, `owner · masks + mask`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress
from operator import itemgetter, not_
from typing import NamedTuple, Protocol

import numpy as np

from slicewise.codec import (
    DAY_HEAD,
    DIGEST_BYTES,
    LIFETIME_HEAD,
    RUNNING_HEAD,
    TOTAL_HEAD,
    check_values,
    day_digest,
    five_day_digest,
    open_running,
    open_slices,
    unpack_hours,
    unpack_lifetime,
    unpack_pending,
    versions_of,
)
from slicewise.codec.store_fields import fields as f
from slicewise.errors import BeyondRetention, CodecError, DataLoss, StoreUnavailable
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading.exchange import NO_EVENTS, EarlierHours, NodeClaims, PendingSeen, Stored
from slicewise.reading.pending import (
    PendingField,
    opened,
    pending_of,
    pending_range,
)
from slicewise.reading.plan import NOWHERE, FiveDays, HotField, HourRows, Int64, ReadPlan, Total
from slicewise.windows.durations import HOUR_US

LEARNED_LIMIT = 50_000
"""Hot field names that a plan remembers."""

Compacted = tuple[Mapping[int, int], frozenset[Total]]
"""hour -> archive version of what is compacted, and what has a total that is out of date."""
Gathered = tuple[
    tuple[OffsetVector, ...], tuple[Mapping[int, OffsetVector], ...], frozenset[Total], PendingSeen
]
"""Base and compacted_beyond per entity, the days and five-day totals without a valid total, and
what there was of the pending events."""


class Rows(Protocol):
    """Takes the rows that count; values are whole, and their checksums hold."""

    def compacted(
        self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int
    ) -> Compacted:
        """Takes what `add_days` adds."""
        ...

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """Values of one row after `head` bytes, each in its mask; key: of mask 0."""
        ...

    def block(
        self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows
    ) -> None:
        """A value that holds, from `start`, a block of rows with these slice numbers."""
        ...

    def events(self, plan: ReadPlan, key: int, pending: PendingField) -> None:
        """Events of the pending events, each in its mask; key: of mask 0."""
        ...


def gather(
    plan: ReadPlan,
    stored: Sequence[Stored],
    entities: int,
    claims: NodeClaims,
    rows: Rows,
    masks: int,
    first: int,
    learned: dict[bytes, HotField],
) -> Gathered:
    """Adds one unit's rows; masks: of its layout, in which the unit's own are numbered from
    `first`; claims: of parts that bring none of their own; learned: what hot fields mean under this
    plan, parsed once, not once per entity.

    Raises CodecError for damaged values, DataLoss where stored values contradict each other.
    """
    stale: frozenset[Total] = frozenset()
    offset_vectors = [claims.committed] * entities
    beyond_by_entity: list[Mapping[int, OffsetVector]] = [_NOTHING] * entities
    seen = NO_EVENTS
    given = claims
    for part in stored:
        key = part.entity * masks + first
        if part.claims is not None:
            claims = part.claims
            offset_vectors[part.entity] = offset_vectors[part.entity].join(
                claims.committed_of(part.partition)
            )
        else:
            claims = given
        total = NO_TOTAL if plan.total_until is None else _add_total(plan, part, claims, rows, key)
        days = (
            part.days
            if plan.total_until is None or total.total_until <= plan.total_until
            else plan.days_after(part.days, total.total_until)
        )
        compacted, without = rows.compacted(plan, days, key)
        if without:
            stale |= without
        applied_offsets, events = _add_hot(plan, part, compacted, total, claims, rows, key, learned)
        if events is not NO_EVENTS:
            for _ in range(part.times):
                seen = seen.and_of(events)
        if applied_offsets:
            offset_vectors[part.entity] = _beyond(offset_vectors[part.entity], applied_offsets)
        if compacted:
            compacted_beyond = _compacted_beyond(compacted, plan.hours, claims, part.partition)
            if compacted_beyond:
                beyond_by_entity[part.entity] = _joined(
                    beyond_by_entity[part.entity], compacted_beyond
                )
    for entity, hours in enumerate(beyond_by_entity):
        if hours:
            contained = offset_vectors[entity]
            beyond_by_entity[entity] = {
                h: c for h, c in hours.items() if not contained.dominates(c)
            }
    return tuple(offset_vectors), tuple(beyond_by_entity), stale, seen


_NOTHING: Mapping[int, OffsetVector] = {}
_NONE: frozenset[Total] = frozenset()


def add_days(
    plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int, rows: Rows
) -> Compacted:
    """Adds what is compacted."""
    fetched = plan.fetched
    if list(map(len, days)) != fetched.widths:
        raise CodecError(
            f"{list(map(len, days))} values of {fetched.widths} fields",
            where=f"unit of {plan.hours}",
        )
    values = list(chain.from_iterable(days))
    compacted: dict[int, int] = {}
    stale = _NONE
    whole: list[bytes] = []
    of: list[int] = []
    for at, total in fetched.days:
        hours, value = values[at - 1], values[at]
        if hours is not None:  # else nothing of this day is compacted
            archive_versions, digest = _compacted_hours(hours)
            compacted.update(archive_versions)
            if value is not None and value[:DIGEST_BYTES] == digest:
                whole.append(value)
                of.append(total.mask)
            else:
                stale |= {total.day}
    for hours_at, at, five_day_total in fetched.five_day_totals:
        raws = [values[i] for i in hours_at]
        present_hours = [hour for hour in raws if hour is not None]
        if present_hours:
            for hour in present_hours:
                compacted.update(_compacted_hours(hour)[0])
            value = values[at]
            if value is not None and value[:DIGEST_BYTES] == _five_day_digest(tuple(raws)):
                whole.append(value)
                of.append(five_day_total.mask)
            else:
                stale |= {FiveDays(five_day_total.five_day)}
    if whole:
        check_values(whole, DAY_HEAD)
        rows.singles(key, DAY_HEAD, whole, of)
    totals, numbers, masks = [values[at] for at in fetched.totals], fetched.hours, fetched.masks
    if None in totals:
        there = [value is not None for value in totals]
        numbers, masks = tuple(compress(numbers, there)), tuple(compress(masks, there))
    stored_totals = [value for value in totals if value is not None]
    if stored_totals:
        check_values(stored_totals, TOTAL_HEAD)
        compacted.update(zip(numbers, versions_of(stored_totals), strict=True))
        if NOWHERE in masks:
            stored_totals, masks = (
                list(compress(stored_totals, masks)),
                tuple(compress(masks, masks)),
            )
        rows.singles(key, TOTAL_HEAD, stored_totals, masks)
    for at, part, name in fetched.rows:
        value = values[at]
        if value is not None:
            check_values([value], TOTAL_HEAD)
            archive_version, slices, start = open_slices(value)
            if compacted.get(part.hour) != archive_version:
                raise DataLoss(
                    (
                        f"rows of hour {part.hour} are of archive version {archive_version}, its "
                        "total is of another"
                    ),
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
def _compacted_hours(raw: bytes) -> tuple[Mapping[int, int], bytes]:
    """The hours of a `c`, and the digest by which a total names it."""
    return unpack_hours(raw), day_digest(raw)


@lru_cache(maxsize=4_096)
def _five_day_digest(hours: tuple[bytes | None, ...]) -> bytes:
    """The digest by which a total names a five-day total whose days say this."""
    return five_day_digest(hours)


class InTotal(NamedTuple):
    """Reach of an entity's total: all of its events of hours before the total-until hour are in it,
    or beyond the offset vector of the archive version."""

    total_until: int
    archive_version: int


NO_TOTAL = InTotal(-(1 << 62), 0)


def _add_total(plan: ReadPlan, part: Stored, claims: NodeClaims, rows: Rows, key: int) -> InTotal:
    """Adds the entity's total, if it has one."""
    at = next((i for i in range(0, len(part.hot), 2) if part.hot[i] == _LIFETIME), None)
    if at is None:
        return NO_TOTAL
    value = part.hot[at + 1]
    total_until, archive_version, _ = unpack_lifetime(value)
    if min(plan.start_us, plan.lifetime_end_us) < total_until * HOUR_US:
        shifts = (feature.window.offset_us for feature in plan.features if feature.window.unbounded)
        raise BeyondRetention(
            (
                f"view {plan.unit.view!r} keeps totals of what lies before hour {total_until}, "
                "and cannot cut them"
            ),
            where="at",
            earliest_at_us=total_until * HOUR_US + max(shifts, default=0),
            next_step="ask later times here, earlier ones of the archive (training sets)",
        )
    if claims.compacted_beyond(archive_version, part.partition) is not None:
        raise StoreUnavailable(
            "a total was brought after the committed offsets were read that bounds it",
            where=f"archive version {archive_version}",
            next_step="read again",
        )
    if plan.total_mask != NOWHERE:
        rows.singles(key, LIFETIME_HEAD, [value], (plan.total_mask,))
    return InTotal(total_until, archive_version)


_FIRST, _HOUR, _MASK = itemgetter(0), itemgetter(2), itemgetter(3)


def _add_hot(
    plan: ReadPlan,
    part: Stored,
    compacted: Mapping[int, int],
    total: InTotal,
    claims: NodeClaims,
    rows: Rows,
    key: int,
    learned: dict[bytes, HotField],
) -> tuple[dict[TopicPartition, int], PendingSeen]:
    """Adds the running partials and the pending events that count; gives the offsets beyond the
    committed offsets that they reach, and what there was of the pending events."""
    applied_offsets: dict[TopicPartition, int] = {}
    counted: list[bytes] = []
    masks: list[int] = []
    committed, names, values = claims.committed.offsets, part.hot[::2], part.hot[1::2]
    if part.earlier is not None:
        own_names, own_values = list(names), list(values)
        _add_earlier(
            plan, part.earlier, compacted, total, (counted, masks), (own_names, own_values)
        )
        names, values = own_names, own_values
    pending: list[bytes] = []
    left: dict[TopicPartition, int] = {}
    if claims.pending:
        letters = _letters(names)
        if _EVENT in letters:
            pending = list(compress(values, letters.translate(_EVENTS)))
            others = letters.translate(_OTHERS)
            names, values = list(compress(names, others)), list(compress(values, others))
    for (kind, topic_partition, hour, mask), value in _others(
        plan, names, values, compacted, total, learned, (counted, masks)
    ):
        if kind == "r":
            archive_version = (
                total.archive_version if hour < total.total_until else compacted.get(hour)
            )
            if mask != NOWHERE and (
                archive_version is None
                or _is_beyond(value, archive_version, topic_partition, hour, claims)
            ):
                counted.append(value)
                masks.append(mask)
        elif kind == "l":
            after = int(value) + 1
            if after > committed.get(topic_partition, 0):
                applied_offsets[topic_partition] = after
        elif kind == "q" and topic_partition[0] == claims.pending_left:
            left[topic_partition] = max(unpack_pending(value)[0] + 1, left.get(topic_partition, 0))
    if counted:
        check_values(counted, RUNNING_HEAD)
        rows.singles(key, RUNNING_HEAD, counted, masks)
    if left:
        return applied_offsets, _left(
            left, dict(zip(names, values, strict=True)), claims.committed, applied_offsets
        )
    if not pending:
        return applied_offsets, NO_EVENTS
    events = opened(plan, pending)
    fields = dict(zip(names, values, strict=True))

    def floor(topic_partition: TopicPartition, hour: int) -> int:
        archive_version = total.archive_version if hour < total.total_until else compacted.get(hour)
        return (
            claims.start.get(topic_partition)
            if archive_version is None
            else claims.floor(archive_version, topic_partition)
        )

    pending_field = pending_of(
        plan, events, lambda topic_partition: pending_range(fields, topic_partition), floor
    )
    if len(pending_field.masks):
        rows.events(plan, key, pending_field)
    for topic_partition, end in pending_field.ends.items():
        if end > committed.get(topic_partition, 0):
            applied_offsets[topic_partition] = max(end, applied_offsets.get(topic_partition, 0))
    return applied_offsets, PendingSeen(len(pending_field.masks), pending_field.newest_us)


def _others(
    plan: ReadPlan,
    names: Sequence[bytes],
    values: Sequence[bytes],
    compacted: Mapping[int, int],
    total: InTotal,
    learned: dict[bytes, HotField],
    counted: tuple[list[bytes], list[int]],
) -> Iterator[tuple[HotField, bytes]]:
    """Fields that are looked at one by one.

    Where no hour of the running partials is compacted, those of windows count whatever they hold:
    their values and masks are added to what is counted, and they are not among these.
    """
    fields = [
        hot_field or _learn(plan, learned, name)
        for hot_field, name in zip(map(learned.get, names), names, strict=True)
    ]
    is_running = [kind == "r" and mask != NOWHERE for kind, _, _, mask in fields]
    running = list(compress(fields, is_running))
    if total is not NO_TOTAL or not compacted.keys().isdisjoint(map(_HOUR, running)):
        return zip(fields, values, strict=True)
    counted[0].extend(compress(values, is_running))
    counted[1].extend(map(_MASK, running))
    is_other = list(map(not_, is_running))
    return zip(compress(fields, is_other), compress(values, is_other), strict=True)


def _add_earlier(
    plan: ReadPlan,
    earlier: EarlierHours,
    compacted: Mapping[int, int],
    total: InTotal,
    counted: tuple[list[bytes], list[int]],
    one_by_one: tuple[list[bytes], list[bytes]],
) -> None:
    """Adds whole hours to the values and masks that are counted. An hour that a window cuts, or
    that is compacted, goes to the names and values that are looked at one by one."""
    for hour, value in earlier.hours.values.items():
        mask = plan.mask_of_hour(hour)
        if mask is None or hour in compacted or hour < total.total_until:
            for given, more in zip(one_by_one, earlier.fields_of(hour), strict=True):
                given += more
        elif mask != NOWHERE:
            counted[0].append(value)
            counted[1].append(mask)


def _left(
    ends: Mapping[TopicPartition, int],
    fields: Mapping[bytes, bytes],
    committed: OffsetVector,
    applied_offsets: Mapping[TopicPartition, int],
) -> PendingSeen:
    """Finds what pending events of another server run brought beyond what is applied. ends: beyond
    the last event in its fields. One that was skipped, and what lies beyond it, counted in no
    answer."""
    lacking = 0
    for topic_partition, end in ends.items():
        _, skipped = pending_range(fields, topic_partition)
        lacking += max(
            0,
            min(end, skipped)
            - max(committed.get(topic_partition), applied_offsets.get(topic_partition, 0)),
        )
    return PendingSeen(0, NO_EVENTS.newest_us, lacking) if lacking else NO_EVENTS


_RUNNING, _APPLIED, _LIFETIME = (
    entry.letter.encode() for entry in (f.RUNNING, f.APPLIED, f.LIFETIME)
)
_EVENT = f.PENDING.letter.encode()
"""Beginning of the names of pending fields, and no others."""
_EVENTS = bytes(letter == _EVENT[0] for letter in range(256))
_OTHERS = bytes(letter != _EVENT[0] for letter in range(256))


def _letters(names: Sequence[bytes]) -> bytes:
    """The first letter of each hot field."""
    try:
        return bytes(map(_FIRST, names))
    except IndexError as error:
        raise CodecError("a hot field without a name") from error


def _is_beyond(
    value: bytes,
    archive_version: int,
    topic_partition: TopicPartition,
    hour: int,
    claims: NodeClaims,
) -> bool:
    """Tells whether a running partial holds what its compacted hour does not."""
    first, last, _ = open_running(value)
    floor = claims.floor(archive_version, topic_partition)
    if last < floor:
        return False
    if first < floor:
        raise DataLoss(
            f"a running partial [{first}, {last}] straddles the offset vector {floor}",
            where=f"hour {hour}, topic {topic_partition[0]}, partition {topic_partition[1]}",
            next_step="leave the hour dirty and compact it again",
        )
    return True


def _learn(plan: ReadPlan, learned: dict[bytes, HotField], name: bytes) -> HotField:
    if len(learned) >= LEARNED_LIMIT:
        learned.clear()
    hot_field = learned[name] = _hot_field(plan, name)
    return hot_field


def running_of(name: bytes) -> tuple[int, TopicPartition] | None:
    """The slice and partition of a running partial, by the name of its field; None of another
    field. Raises ValueError for one that is damaged."""
    parts = name.split(b":")
    if parts[0] != _RUNNING or len(parts) != 4:
        return None
    return int(parts[1]), (parts[2].decode("ascii"), int(parts[3]))


def _hot_field(plan: ReadPlan, name: bytes) -> HotField:
    parts = name.split(b":")
    try:
        running = running_of(name)
        if running is not None:
            number, topic_partition = running
            region = np.searchsorted(plan.hot.cuts, number, side="right")
            hour = number * plan.unit.slice_us // HOUR_US
            return HotField("r", topic_partition, hour, int(plan.hot.masks[region]))
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
"""Fields of pending events: the numbers of its fields, and what was skipped, which is asked for by
name. Beside them `m` says how many events there are. `e` and `n` are of the format before, and
nobody counts them."""
_UNCOUNTED = HotField("", ("", 0), 0, NOWHERE)


def _beyond(base: OffsetVector, applied_offsets: Mapping[TopicPartition, int]) -> OffsetVector:
    return base.join(_offset_vector_of(tuple(sorted(applied_offsets.items()))))


@lru_cache(maxsize=4_096)
def _offset_vector_of(offsets: tuple[tuple[TopicPartition, int], ...]) -> OffsetVector:
    return OffsetVector(dict(offsets))


def _compacted_beyond(
    compacted: Mapping[int, int], hours: tuple[int, int], claims: NodeClaims, partition: int | None
) -> dict[int, OffsetVector]:
    if claims.behind.issuperset(compacted.values()):
        return {}
    first, end = hours
    return {
        hour: compacted_beyond
        for hour, archive_version in compacted.items()
        if (compacted_beyond := claims.compacted_beyond(archive_version, partition)) is not None
        and first <= hour < end
    }


def _joined(
    one: Mapping[int, OffsetVector], other: Mapping[int, OffsetVector]
) -> dict[int, OffsetVector]:
    joined = dict(one)
    for hour, offset_vector in other.items():
        joined[hour] = joined[hour].join(offset_vector) if hour in joined else offset_vector
    return joined
