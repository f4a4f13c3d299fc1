"""An answer holds exactly the events that its token says, whatever was compacted, totalled or late.

Each event's value is a power of two of its own, so that the exact sum names the events counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.errors import CodecError, DataLoss
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.answer import BatchedPlan, Merged, NodeClaims, Stored
from slicewise.reading.plan import FiveDays, ReadMode, Total
from slicewise.reading.reader import tick_of
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.kinds import as_window
from slicewise.windows.segments import FIVE_DAYS, FIVE_DAYS_US
from slicewise.windows.window import Window
from tests.unit.reading.answers import (
    MONDAY,
    TOPIC,
    WINDOWS,
    Made,
    StoreUnderTest,
    answer,
    assert_token_true,
    histories,
    merge_all,
    merge_one,
    plan_of,
    unit_of,
    values,
)


@settings(max_examples=80, deadline=None)
@given(histories())
def test_an_answer_holds_exactly_the_events_that_its_token_says(
    history: tuple[StoreUnderTest, list[Made], list[Window], ReadMode, int],
) -> None:
    store, events, windows, mode, t = history
    assert_token_true(answer(store, windows, mode, t), events)


@settings(max_examples=20, deadline=None)
@given(st.lists(histories(), min_size=2, max_size=4), st.data())
def test_a_batch_answers_each_entity_as_if_it_were_asked_alone(
    drawn: list[tuple[StoreUnderTest, list[Made], list[Window], ReadMode, int]], data: st.DataObject
) -> None:
    _, _, windows, mode, t = data.draw(st.sampled_from(drawn))
    first = drawn[0][0].unit
    stores = [store for store, *_ in drawn if store.unit == first]
    alone = [answer(store, windows, mode, t) for store in stores]
    unit = stores[0].unit
    plan = plan_of(unit, windows, mode, t, every_total(t))
    for store, one in zip(stores, alone, strict=True):
        # one node's claims serve a batch: each store stands here for an entity under the same
        # committed offsets
        together = merge_one(plan, [store.read(plan, 1)], 3, store.claims())
        assert values(together, 1) == values(one)
        assert together.token(0, 1) == one.token(0, 0)
        empty = values(together, 0)
        assert all(v is None if c.startswith("s") else v == 0 for c, v in empty.items())


@settings(max_examples=30, deadline=None)
@given(st.lists(histories(), min_size=2, max_size=4))
def test_units_that_are_merged_together_answer_as_if_each_were_merged_alone(
    drawn: list[tuple[StoreUnderTest, list[Made], list[Window], ReadMode, int]],
) -> None:
    # Units of one layout, and of layouts that share forms under other names of columns.
    plans, stored, claims, alone = [], [], [], []
    for store, _, windows, mode, t in drawn:
        plan = plan_of(store.unit, windows, mode, t, every_total(t))
        plans.append(plan)
        stored.append([store.read(plan)])
        claims.append(store.claims())
        alone.append(merge_one(plan, stored[-1], 1, claims[-1]))
    together = merge_all(BatchedPlan(tuple(plans)), stored, 1, claims)
    assert len(together.finished) <= sum(len(one.finished) for one in alone)
    for number, one in enumerate(alone):
        assert values(together, 0, number) == values(one)
        assert together.token(number, 0) == one.token(0, 0)


def every_total(t: int) -> frozenset[Total]:
    """The totals of all days and five-day totals that a window at t reaches."""
    days = range(t // DAY_US - 41, t // DAY_US + 1)
    return frozenset([*days, *(FiveDays(day // FIVE_DAYS) for day in days)])


def simple() -> tuple[StoreUnderTest, int]:
    store = StoreUnderTest(
        unit_of(MINUTE_US), {(TOPIC, 0): 10}, {1: OffsetVector({(TOPIC, 0): 10})}
    )
    return store, MONDAY + 12 * HOUR_US + 30 * MINUTE_US


def test_without_the_rule_of_archive_versions_a_running_partial_of_a_compacted_hour_would_count_twice() -> (
    None
):
    store, t = simple()
    early = Made((TOPIC, 0), 4, t - HOUR_US, 0)
    late = Made((TOPIC, 0), 12, t - HOUR_US, 1)
    store.compact(early.time // HOUR_US, 1, [early])
    store.apply([early])  # left behind by a publish that died: wholly below the offset vector
    assert values(answer(store, [as_window("6h")], "live", t))["s_0"] == 1
    store.apply([late])
    assert values(answer(store, [as_window("6h")], "live", t))["s_0"] == 3


def test_a_running_partial_that_straddles_an_offset_vector_is_refused() -> None:
    store, t = simple()
    events = [Made((TOPIC, 0), 4, t - HOUR_US, 0), Made((TOPIC, 0), 12, t - HOUR_US, 1)]
    store.compact(events[0].time // HOUR_US, 1, events[:1])
    store.apply(events)
    with pytest.raises(DataLoss, match="straddles"):
        answer(store, [as_window("6h")], "live", t)


def test_a_day_total_counts_only_while_it_names_the_days_hours() -> None:
    store, t = simple()
    first, second = (Made((TOPIC, 0), i, t - 2 * DAY_US + i * HOUR_US, i) for i in (0, 1))
    store.compact(first.time // HOUR_US, 1, [first])
    store.total(first.time // DAY_US, [first])
    plan = plan_of(store.unit, [as_window("7d")], "live", t)
    assert merge_one(plan, [store.read(plan)], 1, store.claims()).stale == (frozenset(),)
    store.compact(second.time // HOUR_US, 1, [second])
    assert merge_one(plan, [store.read(plan)], 1, store.claims()).stale == (
        frozenset({first.time // DAY_US}),
    )
    assert values(answer(store, [as_window("7d")], "live", t))["s_0"] == 3


def test_a_five_day_total_counts_only_while_it_names_the_hours_of_all_its_days() -> None:
    #  day   0    1    2    3    4  |  now, beyond the five-day total
    #        e0             e1
    store, t = simple()
    five_day = t // FIVE_DAYS_US - 1
    begin = five_day * FIVE_DAYS_US
    first, second = (Made((TOPIC, 0), i, begin + 3 * i * DAY_US + HOUR_US, i) for i in (0, 1))
    windows = [as_window("20d")]
    store.compact(first.time // HOUR_US, 1, [first])
    store.total(first.time // DAY_US, [first])
    plan = plan_of(store.unit, windows, "live", t)
    assert merge_one(plan, [store.read(plan)], 1, store.claims()).stale == (
        frozenset({FiveDays(five_day)}),
    )
    assert values(answer(store, windows, "live", t))["s_0"] == 1, (
        "by its days, as in stores written before"
    )
    store.total_five_days(five_day, [first])
    store.days[first.time // DAY_US][b"d"] = b"damaged"  # not read
    merged = merge_one(plan, [store.read(plan)], 1, store.claims())
    assert merged.complete
    assert values(merged)["s_0"] == 1
    store.compact(second.time // HOUR_US, 1, [second])  # of another day, which had none
    assert merge_one(plan, [store.read(plan)], 1, store.claims()).stale == (
        frozenset({FiveDays(five_day)}),
    )
    store.total(first.time // DAY_US, [first])
    store.total(second.time // DAY_US, [second])
    assert values(answer(store, windows, "live", t))["s_0"] == 3


def test_rows_of_a_compacted_hour_that_are_gone_are_noticed() -> None:
    store, t = simple()
    event = Made((TOPIC, 0), 0, t - HOUR_US, 0)
    hour = event.time // HOUR_US
    store.compact(hour, 1, [event])
    del store.days[hour // 24][b"s:%d" % hour]
    with pytest.raises(DataLoss, match="not kept"):
        answer(store, [as_window("1h")], "live", t)


def test_damaged_bytes_are_refused() -> None:
    store, t = simple()
    store.apply([Made((TOPIC, 0), 0, t - MINUTE_US, 0)])
    name = next(name for name in store.hot if name.startswith(b"r:"))
    raw = bytearray(store.hot[name])
    raw[20] ^= 1
    store.hot[name] = bytes(raw)
    with pytest.raises(CodecError, match="checksum"):
        answer(store, [as_window("1h")], "live", t)
    store.hot = {b"r:x:y": b""}
    with pytest.raises(CodecError, match="hot field"):
        answer(store, [as_window("1h")], "live", t)


def test_an_archive_version_that_the_reader_does_not_know_is_not_guessed() -> None:
    store, t = simple()
    store.compact(t // HOUR_US - 1, 7, [Made((TOPIC, 0), 0, t - HOUR_US, 0)])
    with pytest.raises(KeyError):
        answer(store, [as_window("6h")], "live", t)


def test_the_hours_of_a_per_partition_units_part_claim_that_partition_alone() -> None:
    # Partition 0's part was published at an offset vector ahead of the stream; partition 1's was
    # not yet.
    offset_vector = OffsetVector({(TOPIC, 0): 10, (TOPIC, 1): 10})
    store, t = simple()
    store.committed, store.offset_vectors = {}, {1: offset_vector}
    event = Made((TOPIC, 0), 4, t - HOUR_US, 0)
    store.compact(event.time // HOUR_US, 1, [event])
    plan = plan_of(store.unit, [as_window("6h")], "live", t)
    part = store.read(plan)
    parts = [
        Stored(0, 0, part.hot, part.days),
        Stored(0, 1, [], [[None] * len(d.names) for d in plan.days]),
    ]
    merged = merge_one(plan, parts, 1, store.claims())
    assert merged.compacted_beyond[0][0] == {event.time // HOUR_US: OffsetVector({(TOPIC, 0): 10})}


def test_what_several_nodes_gave_is_merged_under_the_claims_of_each() -> None:
    # Entity 0 is on a node whose committed offsets and archive are far, entity 1 on one that lost
    # both.
    store, t = simple()
    event = Made((TOPIC, 0), 4, t - HOUR_US, 0)
    store.committed, store.offset_vectors = {(TOPIC, 0): 50}, {1: OffsetVector({(TOPIC, 0): 60})}
    far = store.claims()
    store.committed = {(TOPIC, 0): 3}
    behind = store.claims()
    store.compact(event.time // HOUR_US, 1, [event])
    plan = plan_of(store.unit, [as_window("6h")], "live", t)
    one, other = store.read(plan), store.read(plan, 1)
    parts = [one._replace(claims=far), other._replace(claims=behind)]
    merged = merge_one(plan, parts, 2, NodeClaims(OffsetVector(), OffsetVector(), {}))
    assert merged.base[0] == (OffsetVector({(TOPIC, 0): 50}), OffsetVector({(TOPIC, 0): 3}))
    hour = {event.time // HOUR_US: OffsetVector({(TOPIC, 0): 60})}
    assert merged.compacted_beyond[0] == (hour, hour)


def test_each_partition_of_a_per_partition_unit_has_the_committed_offset_of_the_node_that_has_its_keys() -> (
    None
):
    store, t = simple()
    plan = plan_of(store.unit, [as_window("6h")], "live", t)
    claims = [
        NodeClaims(OffsetVector({(TOPIC, 0): a, (TOPIC, 1): b}), OffsetVector(), {})
        for a, b in ((9, 2), (3, 8))
    ]
    nothing = [[None] * len(d.names) for d in plan.days]
    parts = [Stored(0, p, [], nothing, own) for p, own in enumerate(claims)]
    merged = merge_one(plan, parts, 1, NodeClaims(OffsetVector(), OffsetVector(), {}))
    assert merged.base[0][0] == OffsetVector({(TOPIC, 0): 9, (TOPIC, 1): 8}), (
        "of the other node's partitions it says nothing"
    )


@settings(deadline=None)
@given(st.integers(0, 40 * DAY_US), st.integers(0, 3 * MINUTE_US), st.sampled_from(WINDOWS))
def test_times_of_one_tick_have_equal_bounds(t: int, step: int, window: Window) -> None:
    unit = unit_of(MINUTE_US)
    t += 30 * DAY_US
    if tick_of(t, [unit.slice_us]) == tick_of(t + step, [unit.slice_us]):
        for mode in ("live", "at"):
            one = window.bounds(mode, t, unit.slice_us)
            assert one == window.bounds(mode, t + step, unit.slice_us)


@pytest.mark.parametrize(
    ("length", "most"), [("10m", 6), ("1h", 6), ("1d", 32), ("7d", 62), ("30d", 110)]
)
def test_the_fields_of_a_read_are_bounded_whatever_the_length(length: str, most: int) -> None:
    unit = unit_of(MINUTE_US)
    for step in range(0, DAY_US, 17 * MINUTE_US):
        plan = plan_of(unit, [as_window(length)], "live", MONDAY + 60 * DAY_US + step)
        assert sum(len(day.names) for day in plan.days) <= most


def token_of(merged: Merged) -> Mapping[int, OffsetVector]:
    return tokens.decode(merged.token(0, 0)).compacted_beyond


def test_offset_vectors_that_the_committed_offsets_have_passed_are_not_in_the_token() -> None:
    store, t = simple()
    store.compact(t // HOUR_US - 1, 1, [Made((TOPIC, 0), 4, t - HOUR_US, 0)])
    assert token_of(answer(store, [as_window("6h")], "live", t)) == {}
    store.committed = {(TOPIC, 0): 9}
    assert token_of(answer(store, [as_window("6h")], "live", t)) == {
        t // HOUR_US - 1: store.offset_vectors[1]
    }
