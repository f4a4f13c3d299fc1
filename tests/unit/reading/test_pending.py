"""The real-time lane's events that count are the same one by one, at once, and as events that are
alike."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.aggregates import Rows, count
from slicewise.codec import Members, OpenMembers
from slicewise.offsets.vector import TopicPartition
from slicewise.reading import pending as reading_pending
from slicewise.reading.pending import NEVER, PendingField
from slicewise.reading.plan import ReadPlan, plan_read
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.kinds import as_window
from slicewise.windows.window import Window
from tests.unit.reading.answers import unit_of

TOPIC = "00112233445566778899aabbccddeeff"
NOW = 15_706 * DAY_US + 12 * HOUR_US + 10 * MINUTE_US
UNIT = unit_of(MINUTE_US, (count().bind({}),))
FORM = Members((("v", pa.int64()),))


def plan_of(*windows: str) -> ReadPlan:
    chosen: list[Window] = [as_window(window) for window in windows]
    counted = UNIT.layout.partials[0]
    features = [UNIT.feature(f"n_{i}", window, counted) for i, window in enumerate(chosen)]
    return plan_read(cast(Any, UNIT), cast(Any, features), "live", NOW)


PLAN = plan_of("30m", "6h")


def opened(
    ages_us: list[int], offsets: list[int], partitions: list[int], other_topic: bool = False
) -> OpenMembers:
    n = len(ages_us)
    low = np.full(n, int(TOPIC[16:], 16), np.uint64)
    if other_topic:
        low[-1] += 1
    rows = Rows(
        NOW - np.array(ages_us, np.int64),
        np.full(n, int(TOPIC[:16], 16), np.uint64),
        low,
        np.array(partitions, np.int32),
        np.array(offsets, np.int64),
        {"v": pa.array(np.arange(n))},
    )
    return FORM.open(FORM.encode(rows))


def seen(pending: PendingField) -> tuple[Any, ...]:
    events = list(
        zip(
            pending.events.members,
            np.asarray(pending.masks).tolist(),
            np.asarray(pending.times).tolist(),
            strict=True,
        )
    )
    return events, dict(pending.ends), pending.newest_us


def some_of(strategy: st.SearchStrategy[int], n: int) -> st.SearchStrategy[list[int]]:
    return st.lists(strategy, min_size=n, max_size=n)


# Most of them alike: minutes old and in one partition; or of any age, on either side of a window, a
# slice and an hour.
young = st.integers(1, 9 * MINUTE_US)
ages = st.one_of(young, st.integers(1, 4 * HOUR_US), st.integers(-2 * MINUTE_US, 0))
drawn = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.one_of(some_of(young, n), some_of(ages, n)),
        st.lists(st.integers(0, 30), min_size=n, max_size=n, unique=True),
        st.one_of(st.just([3] * n), some_of(st.integers(3, 4), n)),
        st.booleans(),
    )
)
bounds = st.one_of(st.just(0), st.integers(0, 30))


@settings(max_examples=60, deadline=None)
@given(
    drawn,
    bounds,
    st.one_of(st.just(NEVER), st.integers(0, 30)),
    st.lists(bounds, min_size=7, max_size=7),
)
def test_what_counts_of_pending_events_is_told_alike_one_by_one_and_at_once(
    some: tuple[list[int], list[int], list[int], bool], low: int, high: int, floors: list[int]
) -> None:
    events = opened(*some)

    def floor(_: TopicPartition, hour: int) -> int:
        return floors[(hour - NOW // HOUR_US) % 7]

    arguments = PLAN, events, lambda _: (low, high), floor
    assert seen(reading_pending._at_once(*arguments)) == seen(
        reading_pending._one_by_one(*arguments)
    )


# 12:10 is now. Windows begin at 11:40 and at 06:10; offsets 5, 6 and 7.
@pytest.mark.parametrize(
    ("minutes_ago", "partitions", "range_", "floors"),
    [
        ((1, 5, 11), (3, 3, 3), (0, NEVER), {}),
        ((1, 5, 40), (3, 3, 3), (0, NEVER), {}),  # the last is in one window of two
        ((1, 5, 400), (3, 3, 3), (0, NEVER), {}),  # in none
        ((400, 401, 402), (3, 3, 3), (0, NEVER), {}),
        ((40, 100, 160), (3, 3, 3), (0, NEVER), {10: 30}),  # the middle one's hour is compacted
        ((40, 80, 100), (3, 3, 3), (0, NEVER), {11: 6}),  # those of the later hour
        ((40, 80, 100), (3, 3, 3), (0, NEVER), {10: 30}),  # of the earlier
        ((1, 5, 11), (3, 3, 3), (5, NEVER), {}),
        ((1, 5, 11), (3, 3, 3), (6, NEVER), {}),  # one is applied
        ((1, 5, 11), (3, 3, 3), (8, NEVER), {}),  # all are
        ((1, 5, 11), (3, 3, 3), (0, 7), {}),  # one lies at what was skipped
        ((1, 5, 11), (3, 3, 3), (0, 8), {}),
        ((1, 5, 11), (3, 3, 4), (0, NEVER), {}),
        ((11, 5, 1), (3, 3, 3), (0, NEVER), {}),
    ],
)
@pytest.mark.parametrize("other_topic", [False, True])
def test_at_the_edges_of_windows_hours_applied_offsets_and_skips_both_ways_take_the_same_events(
    minutes_ago: tuple[int, ...],
    partitions: tuple[int, ...],
    range_: tuple[int, int],
    floors: dict[int, int],
    other_topic: bool,
) -> None:
    events = opened([m * MINUTE_US for m in minutes_ago], [5, 6, 7], list(partitions), other_topic)

    def floor(_: TopicPartition, hour: int) -> int:
        return floors.get(hour % 24, 0)

    arguments = PLAN, events, lambda _: range_, floor
    assert seen(reading_pending._at_once(*arguments)) == seen(
        reading_pending._one_by_one(*arguments)
    )


def test_events_that_are_alike_are_taken_without_being_looked_at_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = opened([MINUTE_US, 2, 11 * MINUTE_US], [7, 5, 9], [3, 3, 3])
    monkeypatch.delattr(reading_pending, "distinct")
    pending = reading_pending._at_once(PLAN, events, lambda _: (5, NEVER), lambda *_: 0)
    assert seen(pending)[1:] == ({(TOPIC, 3): 10}, NOW - 2)
    with pytest.raises(NameError):  # one at or below the applied offset
        reading_pending._at_once(PLAN, events, lambda _: (6, NEVER), lambda *_: 0)
