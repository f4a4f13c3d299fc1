"""Stores, events and plans of which answers are made, and what an answer says of them.

Each event's value is a power of two of its own, so that the exact sum names the events counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from slicewise import aggregates, codec
from slicewise.aggregates import Aggregate, Rows
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.scalar import Scalars
from slicewise.codec import Layout
from slicewise.features.plan.unit import PlannedFeature
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading import earlier_hours
from slicewise.reading import pending as reading_pending
from slicewise.reading import scalar as scalar_reading
from slicewise.reading.answer import BatchedPlan, Merged, NodeClaims, Stored, merge
from slicewise.reading.cache import PartialCache
from slicewise.reading.plan import ReadMode, ReadPlan, Total, days_of, plan_read
from slicewise.windows.bounds import floor
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.hopping import hopping
from slicewise.windows.kinds import as_window
from slicewise.windows.segments import FIVE_DAYS, FIVE_DAYS_US
from slicewise.windows.session import session
from slicewise.windows.sliding import sliding
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window
from tests.support.stores.stored import add_pending
from tests.support.stores.units import StoreUnit

TOPIC = "00112233445566778899aabbccddeeff"
SUM = aggregates.sum("v").bind({"v": pa.int64()})
OTHER = aggregates.sum("w").bind({"w": pa.int64()})
COUNT = aggregates.count().bind({})
SPAN = aggregates.span().bind({})
MONDAY = 15_706 * DAY_US  # 2013-01-01


@dataclass(frozen=True)
class Made:
    """One event: where it stands, when it happened, and the power of two that names it."""

    topic_partition: TopicPartition
    offset: int
    time: int
    bit: int


def unit_of(slice_us: int, kinds: Sequence[Aggregate] = (SUM, COUNT)) -> StoreUnit:
    levels = (MINUTE_US,) if slice_us < MINUTE_US else ()
    return StoreUnit(
        "00" * 8,
        slice_us=slice_us,
        layout=Layout.of((*kinds, SPAN)),
        levels=levels,
        five_day_totals=False,
    )


def features_of(unit: StoreUnit, windows: Sequence[Window]) -> list[PlannedFeature]:
    first = next(partial for partial in unit.layout.partials if partial.inputs)
    return [
        unit.feature(f"{name}_{i}", window, aggregate)
        for i, window in enumerate(windows)
        for name, aggregate in (("s", first), ("n", COUNT))
    ]


def plan_of(
    unit: StoreUnit,
    windows: Sequence[Window],
    mode: ReadMode,
    t: int,
    without: frozenset[Total] = frozenset(),
) -> ReadPlan:
    return plan_read(cast(Any, unit), features_of(unit, windows), mode, t, without)


@dataclass
class StoreUnderTest:
    """Stored fields of one entity, encoded as the store keeps them; it knows no window."""

    unit: StoreUnit
    committed: dict[TopicPartition, int]
    offset_vectors: dict[int, OffsetVector] = field(default_factory=dict)
    hot: dict[bytes, bytes] = field(default_factory=dict)
    days: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    pending: bool = False
    """Tells whether pending fields count."""

    def row(self, events: Sequence[Made]) -> bytes:
        return self.rows([events])

    def rows(self, groups: Sequence[Sequence[Made]]) -> bytes:
        owners = np.array([i for i, events in enumerate(groups) for _ in events], np.int64)
        columns = rows_of([e for events in groups for e in events])
        layout = self.unit.layout
        return layout.encode_block(
            [p.accumulate_columns(columns, owners, len(groups)) for p in layout.partials]
        )

    def write(self, events: Sequence[Made]) -> None:
        """Pending fields, whatever the applied offset is."""
        members = dict(zip(events, self.unit.members.encode(rows_of(events)), strict=True))
        add_pending(self.hot, [(e.topic_partition, member) for e, member in members.items()])

    def applied_offset(self, topic_partition: TopicPartition) -> int:
        return int(self.hot.get(b"l:%s:%d" % (topic_partition[0].encode(), topic_partition[1]), -1))

    def skip(self, topic_partition: TopicPartition, first: int, last: int) -> None:
        self.hot[b"x:%s:%d" % (topic_partition[0].encode(), topic_partition[1])] = b"%d:%d" % (
            first,
            last,
        )

    def apply(self, events: Sequence[Made]) -> None:
        grouped: dict[tuple[int, TopicPartition], list[Made]] = {}
        for e in events:
            grouped.setdefault((e.time // self.unit.slice_us, e.topic_partition), []).append(e)
            self.hot[b"l:%s:%d" % (e.topic_partition[0].encode(), e.topic_partition[1])] = (
                b"%d" % max(x.offset for x in events if x.topic_partition == e.topic_partition)
            )
        for (number, topic_partition), part in grouped.items():
            name = b"r:%d:%s:%d" % (number, topic_partition[0].encode(), topic_partition[1])
            offsets = [e.offset for e in part]
            self.hot[name] = codec.pack_running(min(offsets), max(offsets), self.row(part))

    def compact(self, hour: int, archive_version: int, events: Sequence[Made]) -> None:
        day = self.days.setdefault(hour // 24, {})
        if not events:
            return
        day[b"h:%d" % hour] = codec.pack_total(archive_version, self.row(events))
        levels = [(b"s", self.unit.slice_us), *((b"m", level) for level in self.unit.levels)]
        for letter, level in levels:
            numbers = sorted({e.time // level for e in events})
            block = self.rows([[e for e in events if e.time // level == n] for n in numbers])
            day[b"%s:%d" % (letter, hour)] = codec.pack_slices(archive_version, numbers, block)
        hours = codec.unpack_hours(day.get(b"c")) | {hour: archive_version}
        day[b"c"] = codec.pack_hours(hours)

    def total(self, number: int, events: Sequence[Made]) -> None:
        day = self.days.get(number, {})
        if b"c" in day:
            day[b"d"] = codec.pack_day(codec.day_digest(day[b"c"]), self.row(events))

    def total_five_days(self, number: int, events: Sequence[Made]) -> None:
        compacted = [self.days.get(day, {}).get(b"c") for day in days_of(number)]
        if any(compacted):
            last = self.days.setdefault(days_of(number)[-1], {})
            last[b"p"] = codec.pack_day(codec.five_day_digest(compacted), self.row(events))

    def claims(self) -> NodeClaims:
        return NodeClaims(
            OffsetVector(self.committed), OffsetVector(), self.offset_vectors, self.pending
        )

    def read(self, plan: ReadPlan, entity: int = 0) -> Stored:
        hot = [part for pair in self.hot.items() for part in pair]
        days = [[self.days.get(d.day, {}).get(name) for name in d.names] for d in plan.days]
        return Stored(entity, None, hot, days)


def rows_of(events: Sequence[Made]) -> Rows:
    return Rows(
        np.array([e.time for e in events], np.int64),
        np.full(len(events), int(TOPIC[:16], 16), np.uint64),
        np.full(len(events), int(TOPIC[16:], 16), np.uint64),
        np.array([e.topic_partition[1] for e in events], np.int32),
        np.array([e.offset for e in events], np.int64),
        dict.fromkeys("vw", pa.array([1 << e.bit for e in events], pa.int64())),
    )


def merge_one(
    plan: ReadPlan, stored: Sequence[Stored], entities: int, claims: NodeClaims
) -> Merged:
    return merge_all(BatchedPlan((plan,)), [[*stored]], entities, [claims])


def has_compacted(stored: Sequence[Stored]) -> bool:
    """Tells whether anything compacted was read."""
    return any(value for part in stored for day in part.days for value in day)


def merge_all(
    batched: BatchedPlan,
    stored: Sequence[Sequence[Stored]],
    entities: int,
    claims: Sequence[NodeClaims],
) -> Merged:
    """The answer, after all ways to it were seen to be one: row by row, with what is cached of the
    same compacted hours, and whole columns."""
    one = merge(batched, stored, entities, claims)
    cache = PartialCache()
    for _ in range(3):  # seen, combined and kept, cached
        again = merge(batched, stored, entities, claims, cache=cache)
        assert list(map(listed, again.finished)) == list(map(listed, one.finished))
        assert (again.base, again.compacted_beyond, again.stale) == (
            one.base,
            one.compacted_beyond,
            one.stale,
        )
        assert again.pending == one.pending
    if not any(map(has_compacted, stored)):
        assert cache.misses == 0, "there is nothing to be remembered"
    elif not batched.has_sessions:
        assert cache.hits >= 1
    columns = PartialCache()
    for remembered in (None, columns, columns, columns):
        other = merge(batched, stored, entities, claims, scalar_rows=-1, cache=remembered)
        assert all(isinstance(column, Finished) for column in other.finished)
        assert list(map(listed, one.finished)) == list(map(listed, other.finished))
        assert (one.base, one.compacted_beyond, one.stale) == (
            other.base,
            other.compacted_beyond,
            other.stale,
        )
        assert (one.begun, one.pending) == (other.begun, other.pending)
    # and of the pending events: row by row, or as columns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading_pending, "SCALAR_EVENTS", 0)
        patch.setattr(scalar_reading, "SCALAR_EVENTS", 0)
        at_once = merge(batched, stored, entities, claims)
    assert list(map(listed, at_once.finished)) == list(map(listed, one.finished))
    assert (at_once.base, at_once.pending, at_once.begun) == (one.base, one.pending, one.begun)
    # and hours that are over, combined once whatever the plan
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(earlier_hours, "LEAST_FIELDS", 1)
        whole_hours = PartialCache()
        for scalar_rows in (2_000, 2_000, -1):  # seen, combined and kept, cached
            other = merge(batched, stored, entities, claims, scalar_rows, cache=whole_hours)
            assert list(map(listed, other.finished)) == list(map(listed, one.finished))
            assert (other.base, other.compacted_beyond, other.stale, other.pending) == (
                one.base,
                one.compacted_beyond,
                one.stale,
                one.pending,
            )
    remembers = any(
        has_compacted(parts) and not plan.gaps
        for plan, parts in zip(batched.plans, stored, strict=True)
    )
    assert columns.hits >= (1 if remembers and all(stored) else 0)
    return one


def listed(finished: Finished | Scalars) -> list[Any]:
    return finished.values if isinstance(finished, Scalars) else finished.values.to_pylist()


def values(merged: Merged, entity: int = 0, number: int = 0) -> dict[str, Any]:
    """Column -> value of one entity, of one of the plans."""
    results = {}
    for i, feature in enumerate(merged.batched.plans[number].features):
        finished, where = merged.column(number, i)
        results[feature.column] = listed(finished)[where][entity]
    return results


def answer(store: StoreUnderTest, windows: Sequence[Window], mode: ReadMode, t: int) -> Merged:
    """Reads as a reader does: again with the hours of days, and the days of five-day totals,
    without a valid total."""
    without: frozenset[Total] = frozenset()
    for _ in range(3):  # a five-day total, then its days', may be out of date
        plan = plan_of(store.unit, windows, mode, t, without)
        merged = merge_one(plan, [store.read(plan)], 1, store.claims())
        if merged.complete:
            return merged
        without |= merged.stale[0]
    raise AssertionError(f"still without an answer: {without}")


def assert_token_true(merged: Merged, events: Sequence[Made]) -> None:
    """Every value is what the token says, and every session where it must be, by brute force over
    the events."""
    token = tokens.decode(merged.token(0, 0))
    plan, result = merged.batched.plans[0], values(merged)
    contained = [
        e for e in events if token.contains(e.time // HOUR_US, e.topic_partition, e.offset)
    ]
    windows = {feature.column: feature.window for feature in plan.features}
    for column, (start, end) in token.bounds.items():
        inside = [e for e in contained if start <= e.time < end]
        if gap_us := windows[column].session_gap_us:
            opened = open_session(contained, plan.bounds[column], gap_us)
            assert inside == [e for e in contained if e in opened], (column, start, end)
            first = min((e.time for e in opened), default=end)
            assert start == (floor(first, plan.unit.slice_us) if opened else end)
        exact = sum(1 << e.bit for e in inside) if inside else None
        assert result[column] == (exact if column.startswith("s") else len(inside)), (
            column,
            start,
            end,
        )


def open_session(events: Sequence[Made], searched: tuple[int, int], gap_us: int) -> list[Made]:
    """Back from the latest event, while the next one is less than the gap away."""
    start, end = searched
    left = sorted((e for e in events if start <= e.time < end), key=lambda e: e.time)
    result, after = [], end
    while left and after - left[-1].time < gap_us:
        result.append(left.pop())
        after = result[-1].time
    return result


WINDOWS = [
    as_window("10m"),
    as_window("1h"),
    as_window("6h"),
    as_window("1d"),
    as_window("7d"),
    as_window("12d"),
    as_window("30d"),
    tumbling("10d"),
    tumbling("1h"),
    tumbling("1d", open=True),
    hopping("2h", every="20m"),
    sliding("1h", offset="1d"),
    sliding("7d", offset="30m"),
    tumbling("1h", offset="90m"),
    session("30m", max_length="6h"),
    session("2h", max_length="1d"),
    session("2h", max_length="1d", offset="30m"),
]


@st.composite
def histories(draw: st.DrawFn) -> tuple[StoreUnderTest, list[Made], list[Window], ReadMode, int]:
    slice_us = draw(st.sampled_from([MINUTE_US, 10 * 1_000_000, HOUR_US // 12]))
    kinds = draw(st.sampled_from([(SUM, COUNT), (OTHER, COUNT), (SUM, OTHER, COUNT)]))
    unit = unit_of(slice_us, kinds)
    now = MONDAY + 9 * DAY_US + draw(st.integers(0, 2 * DAY_US))
    topic_partitions = [(TOPIC, p) for p in range(draw(st.integers(1, 2)))]
    hot_hours = st.sampled_from(
        [0, 0, 0, 1, 2, 3, 5, 23, 24, 25, 49, 150, 170, 200, 250, 300, 400, 700]
    )
    moments = st.builds(
        lambda h, us: now - h * HOUR_US - us, hot_hours, st.integers(0, HOUR_US + 3)
    )
    events: list[Made] = []
    for bit, (topic_partition, time) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(topic_partitions), moments), max_size=40))
    ):
        offset = sum(e.topic_partition == topic_partition for e in events) * 3 + draw(
            st.integers(0, 2)
        )
        events.append(Made(topic_partition, offset, time, bit))

    def end(topic_partition: TopicPartition) -> int:
        return max(
            (e.offset + 1 for e in events if e.topic_partition == topic_partition), default=0
        )

    # The stream has applied a prefix of each partition; its committed offsets lie anywhere at or
    # below that.
    applied = {p: draw(st.integers(0, end(p))) for p in topic_partitions}
    store = StoreUnderTest(unit, {p: draw(st.integers(0, applied[p])) for p in topic_partitions})
    # Two archives; hours were compacted by either, and may be ahead of the stream.
    for archive in (1, 2):
        low = store.offset_vectors.get(1, OffsetVector())
        store.offset_vectors[archive] = OffsetVector(
            {p: draw(st.integers(low.get(p), end(p))) for p in topic_partitions}
        )
    hours = sorted({e.time // HOUR_US for e in events})
    version_of = {h: draw(st.sampled_from([None, 1, 2])) for h in hours}

    def in_archive(e: Made) -> bool:
        archive_version = version_of[e.time // HOUR_US]
        return archive_version is not None and store.offset_vectors[archive_version].contains(
            e.topic_partition, e.offset
        )

    for hour, archive_version in version_of.items():
        if archive_version is not None:
            store.compact(
                hour,
                archive_version,
                [e for e in events if e.time // HOUR_US == hour and in_archive(e)],
            )
    store.apply([e for e in events if e.offset < applied[e.topic_partition] and not in_archive(e)])
    for day in sorted(store.days):
        if draw(st.booleans()):
            store.total(day, [e for e in events if e.time // DAY_US == day and in_archive(e)])
            if draw(st.booleans()) and b"c" in store.days[day]:  # a publish after the total
                stale = codec.pack_day(b"\0" * 8, store.row(events[:1]))
                store.days[day][b"d"] = stale
    for five_day in sorted({day // FIVE_DAYS for day in store.days}):
        if draw(st.booleans()):
            store.total_five_days(
                five_day,
                [e for e in events if e.time // FIVE_DAYS_US == five_day and in_archive(e)],
            )
            if draw(st.booleans()):  # a publish after the total
                last = store.days.setdefault(days_of(five_day)[-1], {})
                last[b"p"] = codec.pack_day(bytes(range(8)), store.row(events[:1]))
    if draw(st.booleans()):
        # A real-time lane that began at or below the committed offsets: all beyond the applied
        # offset stands in it, up to where it has come; what is applied or compacted may have been
        # left behind.
        store.pending = draw(st.booleans())
        for p in topic_partitions:
            come, applied_offset = (
                draw(st.integers(store.committed[p], end(p))),
                store.applied_offset(p),
            )
            beyond = [
                e for e in events if e.topic_partition == p and applied_offset < e.offset < come
            ]
            here = [e for e in beyond if not in_archive(e)]
            compacted = [
                e
                for e in events
                if e.topic_partition == p
                and e.offset < come
                and (e.offset <= applied_offset or in_archive(e))
            ]
            behind = [e for e in compacted if draw(st.booleans())]
            skipped = draw(st.sampled_from([None, None, "applied", "waiting"]))
            if skipped == "applied" and applied_offset >= 0:
                store.skip(p, draw(st.integers(0, applied_offset)), applied_offset)
            elif skipped == "waiting" and here:
                first = draw(st.sampled_from(here)).offset
                store.skip(p, first, here[-1].offset)
                here = [e for e in here if e.offset < first or draw(st.booleans())]
            store.write([*here, *behind])
    windows = draw(st.lists(st.sampled_from(WINDOWS), min_size=1, max_size=5, unique=True))
    mode: ReadMode = draw(st.sampled_from(["live", "at"]))
    t = now if mode == "live" else now - draw(st.integers(0, HOUR_US))
    return store, events, windows, mode, t
