"""A lifetime is its total, the days from the total-until hour on and what runs: each event once,
under a token that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from slicewise import codec
from slicewise.errors import BeyondRetention, StoreUnavailable
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.plan import FiveDays, ReadMode, ReadPlan, plan_read
from slicewise.windows.bounds import EARLIEST_US, ceil
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.kinds import as_window
from slicewise.windows.lifetime import lifetime
from slicewise.windows.segments import FIVE_DAYS_US
from tests.unit.reading.answers import (
    MONDAY,
    TOPIC,
    Made,
    StoreUnderTest,
    assert_token_true,
    features_of,
    merge_one,
    unit_of,
    values,
)

TOPIC_PARTITION = (TOPIC, 0)
DAY0 = MONDAY // HOUR_US
NOW = MONDAY + 3 * DAY_US + 90 * MINUTE_US
WINDOWS = [as_window("1h"), as_window("lifetime"), lifetime(offset="1d")]


def plan(
    store: StoreUnderTest, total_until: int, mode: ReadMode = "live", t: int = NOW
) -> ReadPlan:
    features = features_of(store.unit, WINDOWS)
    return plan_read(cast(Any, store.unit), cast(Any, features), mode, t, frozenset(), total_until)


def made(*at: tuple[int, int]) -> list[Made]:
    """(hour since DAY0, minute) of events at offsets 0, 1, …"""
    return [
        Made(TOPIC_PARTITION, i, (DAY0 + h) * HOUR_US + m * MINUTE_US, i)
        for i, (h, m) in enumerate(at)
    ]


def lived(
    events: Sequence[Made], total: Sequence[Made], total_until: int, ends: int
) -> StoreUnderTest:
    """A store whose total is of archive version 1, the offset vector of which ends at offset 6; the
    rest is compacted or runs."""
    store = StoreUnderTest(
        unit_of(MINUTE_US), {TOPIC_PARTITION: ends}, {1: OffsetVector({TOPIC_PARTITION: 6})}
    )
    later = [e for e in events if e not in total]
    for hour in sorted({e.time // HOUR_US for e in later if e.offset < 6}):
        store.compact(hour, 1, [e for e in later if e.time // HOUR_US == hour and e.offset < 6])
    store.apply([e for e in later if e.offset >= 6])
    store.hot[b"t"] = codec.pack_lifetime(total_until, 1, store.row(total))
    return store


#   day 0        | day 1    | day 2     | day 3, now at 01:30
#   -9000 h, 3 h | 30 h     | 49 h 71 h | 72 h 73 h          late for the total: offsets 6 (3 h) and 7 (-9000 h)
EVENTS = made((-9000, 5), (3, 0), (30, 0), (49, 59), (71, 1), (72, 3), (3, 7), (-9000, 5), (73, 20))


@pytest.mark.parametrize("mode", ["live", "at"])
def test_what_the_total_holds_and_what_is_beyond_its_offset_vector_count_once(
    mode: ReadMode,
) -> None:
    # total-until hour: day 1's first hour; offsets 0 and 1 are in the total, 6 and 7 run beside it
    store = lived(EVENTS, EVENTS[:2], DAY0 + 24, 9)
    read = plan(store, DAY0 + 24, mode, NOW)
    merged = merge_one(read, [store.read(read)], 1, store.claims())
    if not merged.complete:
        features = features_of(store.unit, WINDOWS)
        read = plan_read(
            cast(Any, store.unit),
            cast(Any, features),
            mode,
            NOW,
            merged.stale[0],
            total_until=DAY0 + 24,
        )
        merged = merge_one(read, [store.read(read)], 1, store.claims())
    assert_token_true(merged, EVENTS)
    assert values(merged)["n_1"] == len(EVENTS)
    assert values(merged)["n_2"] == len([e for e in EVENTS if e.time < NOW - DAY_US])
    token = tokens.decode(merged.token(0, 0))
    assert token.bounds["n_1"] == (EARLIEST_US, ceil(NOW, MINUTE_US))
    assert token.compacted_beyond == {}


def test_an_entity_that_is_ahead_of_the_metadata_is_answered_alike_whatever_its_days_still_hold() -> (
    None
):
    # the plan is of day 1; the entity's total is of day 2 already, and an unfinished publish left
    # an hour behind
    store = lived(EVENTS, EVENTS[:3], DAY0 + 48, 9)
    store.compact(DAY0 + 30, 1, EVENTS[2:3])
    for without in (frozenset[int](), frozenset({DAY0 // 24 + 1, DAY0 // 24 + 2})):
        features = features_of(store.unit, WINDOWS)
        read = plan_read(
            cast(Any, store.unit), cast(Any, features), "live", NOW, without, DAY0 + 24
        )
        merged = merge_one(read, [store.read(read)], 1, store.claims())
        assert merged.complete or merged.stale == (frozenset({DAY0 // 24 + 2}),)
    assert_token_true(merged, EVENTS)


def test_a_read_costs_the_days_since_the_total_until_hour_however_old_the_entity_is() -> None:
    store = lived(EVENTS, EVENTS[:2], DAY0 + 24, 9)
    days = [(day.day - DAY0 // 24, day.names) for day in plan(store, DAY0 + 24).days]
    edge = (
        b"h:%d" % (DAY0 + 72),
        b"h:%d" % (DAY0 + 73),
        b"s:%d" % (DAY0 + 72),
        b"s:%d" % (DAY0 + 73),
    )
    # two whole days; of the last the hour that is over, and the one that fills, also as the hour's
    # window needs it; of the day before, the hours that the lifetime of a day ago ends in
    assert [day for day, _ in days] == [1, 2, 3]
    assert set(edge) == set(days[2][1])
    assert {b"c", b"d"} <= set(days[0][1])
    assert len(days[1][1]) <= 5


def test_a_reading_that_would_cut_the_total_is_refused() -> None:
    store = lived(EVENTS, EVENTS[:2], DAY0 + 24, 9)
    read = plan(store, DAY0 + 24, "at", MONDAY + 30 * HOUR_US)  # the offset's end lies in day 0
    with pytest.raises(BeyondRetention) as refused:
        merge_one(read, [store.read(read)], 1, store.claims())
    earliest = (DAY0 + 24) * HOUR_US + DAY_US  # at which the offset's end no longer cuts it
    assert refused.value.earliest_at_us == earliest
    read = plan(store, DAY0 + 24, "at", earliest)
    merge_one(read, [store.read(read)], 1, store.claims())


def test_a_total_that_is_ahead_of_the_committed_offsets_that_were_read_is_read_again() -> None:
    store = lived(EVENTS, EVENTS[:2], DAY0 + 24, 9)
    store = replace(store, committed={TOPIC_PARTITION: 5})
    read = plan(store, DAY0 + 24)
    with pytest.raises(StoreUnavailable, match="after the committed offsets were read"):
        merge_one(read, [store.read(read)], 1, store.claims())


def test_an_entity_without_a_total_has_what_runs_and_what_its_days_hold() -> None:
    store = StoreUnderTest(unit_of(MINUTE_US), {TOPIC_PARTITION: 9})
    store.apply(EVENTS)
    read = plan(store, DAY0 + 24)
    merged = merge_one(read, [store.read(read)], 1, store.claims())
    assert_token_true(merged, EVENTS)
    assert values(merged)["n_1"] == len(EVENTS)


def test_where_the_unit_keeps_five_day_totals_a_lifetime_is_read_by_them_and_by_days_while_one_is_in_the_total() -> (
    None
):
    #  five-day total   | 0 1 2 3 4 | 0 …        the total is of what lies before the second day; events on days 0, 2 and 3
    begin = (MONDAY // FIVE_DAYS_US + 1) * FIVE_DAYS_US
    five_day, t = begin // FIVE_DAYS_US, begin + FIVE_DAYS_US + 90 * MINUTE_US
    events = [
        Made(TOPIC_PARTITION, i, begin + day * DAY_US + HOUR_US, i)
        for i, day in enumerate((0, 2, 3))
    ]
    store = StoreUnderTest(
        replace(unit_of(MINUTE_US), five_day_totals=True),
        {TOPIC_PARTITION: 6},
        {1: OffsetVector({TOPIC_PARTITION: 6})},
    )
    for event in events[1:]:
        store.compact(event.time // HOUR_US, 1, [event])
        store.total(event.time // DAY_US, [event])
    store.hot[b"t"] = codec.pack_lifetime(begin // HOUR_US + 24, 1, store.row(events[:1]))
    total_until = begin // HOUR_US
    for whole in (True, False):
        features = features_of(store.unit, WINDOWS[:2])
        read = plan_read(
            cast(Any, store.unit), cast(Any, features), "live", t, frozenset(), total_until
        )
        if whole:  # made since the first day was brought
            store.total_five_days(five_day, events[1:])
            assert any(b"p" in day.names for day in read.days)
        else:  # made before that: it names a day that has gone since
            store.compact(begin // HOUR_US, 1, events[:1])
            store.total_five_days(five_day, events)
            del store.days[begin // DAY_US]
        merged = merge_one(read, [store.read(read)], 1, store.claims())
        assert merged.stale == (frozenset() if whole else frozenset({FiveDays(five_day)}),)
        if not whole:
            read = plan_read(
                cast(Any, store.unit), cast(Any, features), "live", t, merged.stale[0], total_until
            )
            merged = merge_one(read, [store.read(read)], 1, store.claims())
        assert merged.complete
        assert values(merged)["n_1"] == len(events)
