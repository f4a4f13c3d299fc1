"""A total-until hour moves when nothing before it is dirty, never goes back, and what came late is
written anew."""

from __future__ import annotations

from slicewise.lifecycle.compaction import Compacted, UnitHours
from slicewise.lifecycle.lifetime import Move, TotalsClaim, days_of, late_hours, next_move

D1, D2, D3 = 24, 48, 72
#   day 0      day 1      day 2
#   5    23  | 30       | 50
CLEAN = UnitHours(
    {5: 1, 23: 2, 30: 2, 50: 4},
    {h: Compacted(s, s) for h, s in ((5, 1), (23, 2), (30, 3), (50, 3))},
    {},
)


def test_the_first_move_takes_all_that_lies_before() -> None:
    assert next_move(CLEAN, None, D2, 4) == Move(D2, None)
    assert Move(D2, None).hours(CLEAN) == [5, 23, 30]


def test_a_further_move_takes_the_hours_since() -> None:
    assert next_move(CLEAN, TotalsClaim(D1, 2), D2, 4) == Move(D2, D1)
    assert Move(D2, D1).hours(CLEAN) == [30]


def test_an_hour_that_is_dirty_holds_the_total_until_hour_back() -> None:
    assert next_move(CLEAN, TotalsClaim(D1, 2), D3, 4) is None  # hour 50 lacks what archive 4 has
    assert next_move(CLEAN, TotalsClaim(D1, 2), D2, 4) is not None  # it lies beyond
    missing = UnitHours(
        CLEAN.newest, {h: compacted for h, compacted in CLEAN.compacted.items() if h != 23}, {}
    )
    assert next_move(missing, None, D2, 4) is None


def test_an_hour_that_was_compacted_from_a_newer_archive_holds_it_back() -> None:
    assert (
        next_move(CLEAN, TotalsClaim(D1, 2), D2, 2) is None
    )  # hour 30 stands at archive version 3


def test_what_came_late_is_written_anew_once_it_is_compacted() -> None:
    late = UnitHours({**CLEAN.newest, 5: 4}, CLEAN.compacted, {})
    claim = TotalsClaim(D1, 2)
    assert late_hours(late, claim) == [5]
    assert next_move(late, claim, D1, 4) is None
    compacted = UnitHours(late.newest, {**CLEAN.compacted, 5: Compacted(4, 4)}, {})
    assert next_move(compacted, claim, D1, 4) == Move(D1, None)
    assert next_move(compacted, claim, D2, 4) == Move(D2, None)
    assert late_hours(compacted, TotalsClaim(D1, 4)) == []


def test_an_hour_that_was_recomputed_from_its_events_is_in_totals_that_are_written_anew() -> None:
    assert next_move(CLEAN, TotalsClaim(D2, 3), D2, 4, raw=23) == Move(D2, None)
    assert next_move(CLEAN, TotalsClaim(D2, 3), D2, 4, raw=50) is None  # its day holds it
    assert next_move(CLEAN, TotalsClaim(D2, 3), D3, 4, raw=23) is None  # hour 50 is dirty


def test_a_total_until_hour_never_goes_back_and_stays_where_nothing_is_due() -> None:
    assert next_move(CLEAN, TotalsClaim(D2, 3), D1, 4) is None
    assert next_move(CLEAN, TotalsClaim(D2, 3), D2, 4) is None


def test_days_that_are_emptied_are_those_since_the_total_until_hour_and_at_first_the_last_fortnight() -> (
    None
):
    assert days_of(Move(D3, D1), TotalsClaim(D1, 2)) == (1, 2)
    assert days_of(Move(D2, None), TotalsClaim(D1, 2)) == (1,)
    assert days_of(Move(100 * D1, None), None) == tuple(range(86, 100))


def test_archive_versions_that_totals_name_are_named() -> None:
    assert (7, 7) in UnitHours({}, {}, {}, totals=(7,)).named()
