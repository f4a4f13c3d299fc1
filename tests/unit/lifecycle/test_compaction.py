"""Dirty hours follow from archive, slices and store alone; a clean hour is never compacted
again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.lifecycle.compaction import (
    NOTHING,
    Compacted,
    DirtyHour,
    Fill,
    Filling,
    UnitHours,
    Why,
    days_to_total,
    dirty_hours,
    hours_to_compact,
)
from slicewise.lifecycle.hours import HourState, states_of
from tests.support.stores.stored import offset_vector


def unit(
    newest: dict[int, int],
    compacted: dict[int, tuple[int, int]],
    published: dict[int, int],
    kept: int = 0,
) -> UnitHours:
    return UnitHours(
        newest, {hour: Compacted(*times) for hour, times in compacted.items()}, published, kept
    )


def test_an_hour_with_events_that_were_never_compacted_is_dirty() -> None:
    assert dirty_hours(unit({7: 1}, {}, {}), now_hour=9) == [DirtyHour(7, Why.EVENTS)]


def test_an_hour_is_dirty_while_an_archive_is_newer_than_what_it_holds() -> None:
    assert dirty_hours(unit({7: 3}, {7: (2, 2)}, {7: 2}), 9) == [DirtyHour(7, Why.EVENTS)]
    assert dirty_hours(unit({7: 3}, {7: (3, 3)}, {7: 3}), 9) == []


def test_an_hour_is_dirty_until_its_compacted_rows_are_published() -> None:
    assert dirty_hours(unit({7: 3}, {7: (3, 3)}, {}), 9) == [DirtyHour(7, Why.PUBLISH)]
    assert dirty_hours(unit({7: 3}, {7: (3, 3)}, {7: 2}), 9) == [DirtyHour(7, Why.PUBLISH)]


def test_an_hour_that_is_not_over_is_left_alone() -> None:
    # now lies in hour 9: 9 is open, 10 is stamped ahead
    assert dirty_hours(unit({8: 1, 9: 1, 10: 1}, {}, {}), 9) == [DirtyHour(8, Why.EVENTS)]


def test_a_backfilled_hour_is_clean_while_its_start_offsets_contain_its_newest_archive() -> None:
    # backfilled (archive version 0) under start offsets that contains archives 1 to 4
    assert dirty_hours(unit({7: 4}, {7: (0, 4)}, {7: 0}), 9) == []
    assert dirty_hours(unit({7: 5}, {7: (0, 4)}, {7: 0}), 9) == [DirtyHour(7, Why.EVENTS)]


def test_an_hour_made_for_other_start_offsets_holds_nothing() -> None:
    assert dirty_hours(unit({7: 1}, {7: (0, NOTHING)}, {7: 0}), 9) == [DirtyHour(7, Why.EVENTS)]


def test_an_hour_that_the_store_keeps_no_more_is_compacted_and_not_published() -> None:
    assert dirty_hours(unit({7: 1}, {}, {}, kept=8), 9) == [DirtyHour(7, Why.EVENTS)]
    assert dirty_hours(unit({7: 1}, {7: (1, 1)}, {}, kept=8), 9) == []


def test_a_run_takes_its_key_first_then_the_oldest_and_no_more_than_it_may() -> None:
    units = [unit({3: 1, 5: 1, 7: 1}, {}, {}), unit({4: 1}, {}, {})]
    assert hours_to_compact(units, 7, False, 3, 9) == [7, 3, 4]
    assert hours_to_compact(units, 7, True, 3, 9) == [7]
    assert hours_to_compact(units, None, False, 2, 9) == [3, 4]


@pytest.mark.parametrize("key", [6, 9, 12])
def test_a_clean_key_or_one_that_is_not_over_is_no_hour_of_the_run(key: int) -> None:
    units = [unit({7: 1, 9: 1, 12: 1}, {}, {})]
    assert hours_to_compact(units, key, True, 24, 9) == []


maps = st.dictionaries(st.integers(0, 9), st.integers(1, 5))


@given(maps, maps, maps, st.integers(0, 10))
def test_a_run_that_does_all_it_chose_leaves_nothing_dirty(
    newest: dict[int, int], compacted: dict[int, int], published: dict[int, int], now: int
) -> None:
    before = unit(
        newest,
        {h: (archive_version, archive_version) for h, archive_version in compacted.items()},
        published,
    )
    chosen = hours_to_compact([before], None, False, 100, now)
    compacted_after = {
        h: (max(5, compacted.get(h, 0)),) * 2 if h in chosen else (compacted[h],) * 2
        for h in {*compacted, *chosen}
    }
    after = unit(newest, compacted_after, published | {h: compacted_after[h][0] for h in chosen})
    assert dirty_hours(after, now) == []


@pytest.mark.parametrize(
    ("archive_version", "compacted", "newest", "fill"),
    [
        (0, None, 4, Fill.COMPUTE),
        # made for this start offsets: what was archived since is the micro-batch lane's
        (0, (20, 8), 9, Fill.START),
        (4, (30, 8), 4, Fill.PUBLISH),
        (4, (20, 8), 5, Fill.PUBLISH),
        (3, (12, 8), 3, Fill.START),  # no event of the hour was archived since
        (3, (12, 8), 4, Fill.EXTEND),
        (0, (12, 8), 3, Fill.START),  # made for an older start offsets, which contains archive 3
        (0, (12, 8), 4, Fill.EXTEND),
        (0, (30, 8), 3, Fill.RECOMPACT),  # made for a newer one: it holds what is applied
        (3, (30, 4), 3, Fill.RECOMPACT),
    ],
)
def test_a_backfill_reads_what_holds_no_more_than_its_start_and_computes_what_is_missing(
    archive_version: int, compacted: tuple[int, int] | None, newest: int, fill: Fill
) -> None:
    offset_vectors = {2: offset_vector(9, 5), 3: offset_vector(12, 7), 4: offset_vector(18, 8)}
    filling = Filling(
        offset_vector(20, 8),
        {7: newest},
        lambda contained: max(
            n for n, archived in offset_vectors.items() if contained.dominates(archived)
        ),
    )
    assert (
        filling.of(7, archive_version, None if compacted is None else offset_vector(*compacted))
        is fill
    )


def test_days_are_totalled_once_they_are_over() -> None:
    # hours 23 (day 0), 24 and 47 (day 1); now is hour 48: both days are over; at 47 day 1 is not
    assert days_to_total([23, 24, 47], None, 48) == [0, 1]
    assert days_to_total([23, 24], None, 47) == [0]


def test_the_first_hour_of_a_day_totals_the_day_before_whose_last_hour_may_be_empty() -> None:
    assert days_to_total([24], 24, 25) == [0]
    assert days_to_total([25], 25, 26) == []


def test_an_hour_names_the_archive_versions_from_its_published_entry_to_its_rows() -> None:
    # 10: published whole; 11: compacted since; 12: never published whole; 13: of a backfill; 9: not
    # kept
    rows = {9: (1, 1), 10: (4, 4), 11: (7, 7), 12: (6, 6), 13: (0, 3)}
    hours = unit({}, rows, {10: 4, 11: 5, 13: 0}, kept=10)
    assert sorted(hours.named()) == [(0, 0), (0, 6), (4, 4), (5, 7)]


def test_an_hour_that_a_run_published_since_the_rows_were_read_names_its_mark() -> None:
    assert unit({}, {10: (4, 4)}, {10: 6}).named() == [(6, 6)]


def test_states_of_hours_name_what_is_over_and_what_a_compaction_would_do() -> None:
    hours = unit({3: 1, 5: 2, 6: 3}, {3: (1, 1), 5: (2, 2), 6: (2, 2)}, {3: 1, 5: 2, 6: 2})
    assert states_of(hours, first=4, now_hour=9, archived_until=9) == {
        5: HourState.COMPACTED,
        6: HourState.DIRTY,
        9: HourState.OPEN,
    }


@pytest.mark.parametrize(("newest", "expected"), [({}, HourState.OPEN), ({8: 1}, HourState.DIRTY)])
def test_an_hour_that_ended_after_the_last_archive_is_open(
    newest: dict[int, int], expected: HourState
) -> None:
    states = states_of(unit(newest, {}, {}), first=0, now_hour=9, archived_until=8)
    assert states == {8: expected, 9: HourState.OPEN}
