"""A session begins and ends by these rules, to the microsecond. Gap 10m, at most 1h, slices of
1m."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.windows.bounds import Mode
from tests.unit.windows.edges import MODES, TEN, M, around, counted

SESSION = sw.session("10m", max_length="1h")
GAP, S = 10 * M, 1_000_000


@pytest.mark.parametrize("mode", MODES)
def test_events_are_of_one_session_less_than_the_gap_apart(mode: Mode) -> None:
    #   a           b
    #   x-----------x)          9:59.999999 apart: both
    #   x------------)x         10m apart and more: b alone
    t = TEN + M
    assert counted(SESSION, [t], [[TEN - by, TEN] for by in (GAP - 1, GAP, GAP + 1)], mode) == [
        2,
        1,
        1,
    ]


def test_a_session_lasts_until_the_gap_has_passed_since_its_last_event() -> None:
    #   10:00        10:10
    #   x------------)          read before 10:10: the session; from then on nothing
    assert counted(SESSION, [TEN + GAP - 1, TEN + GAP, TEN + GAP + 1], [[TEN - 5 * M, TEN]]) == [
        2,
        0,
        0,
    ]


@pytest.mark.parametrize(("mode", "over"), [("at", TEN + GAP), ("live", TEN + GAP - M + 1)])
def test_by_whole_slices_a_session_lasts_until_their_end_has_passed_the_gap(
    mode: Mode, over: int
) -> None:
    #   10:00       10:09  10:10
    #   x-----------|------)------|
    #                      t              at: the last whole slice before t ends at 10:10
    #               :t                    live: the slice of t ends at 10:10, once t is past 10:09
    assert counted(SESSION, [over - 1, over, over + 1], [[TEN - 5 * M, TEN]], mode) == [2, 0, 0]


@pytest.mark.parametrize(
    ("mode", "end"), [("event_time", TEN + 20 * S), ("at", TEN), ("live", TEN + M)]
)
def test_a_session_holds_what_lies_before_the_end(mode: Mode, end: int) -> None:
    #   10:00     t         10:01                       t = 10:00:20
    #   |---------|---------|
    # x )x x                                            at
    #           x )x x                                  event_time
    #                     x )x x                        live
    assert around(SESSION, TEN + 20 * S, end, mode) == [1, 0, 0]


def test_of_a_long_session_counts_what_lies_within_its_longest_length() -> None:
    #   09:00                             10:00:20
    #   |x--x--x--x--x--x--x--x--x--x--x--t             an event every 5m: one session of more than 1h
    # x [x x                                            back to the slice of 09:00:20
    t = TEN + 20 * S
    steps = [TEN - by * 5 * M for by in range(12)]  # 10:00, 09:55 … 09:05
    edge = TEN - 60 * M
    assert counted(SESSION, [t], [[*steps, edge - 1], [*steps, edge], [*steps, edge + 1]]) == [
        12,
        13,
        13,
    ]


def test_an_older_session_is_not_answered_for() -> None:
    #   09:30 09:35      09:50  10:00
    #   x-----x          x------t                       two sessions: the latest alone
    assert counted(SESSION, [TEN - 1], [[TEN - 30 * M, TEN - 25 * M, TEN - 10 * M]]) == [1]
