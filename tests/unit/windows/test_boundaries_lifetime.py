"""A lifetime has one edge, its end: `)` is not in it. Slices of 1m."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.clock import END_OF_TIME_US
from slicewise.windows.bounds import Mode
from tests.unit.windows.edges import MODES, TEN, H, M, around, counted

S = 1_000_000
AT = TEN + 20 * S


@pytest.mark.parametrize(("mode", "end"), [("event_time", AT), ("at", TEN), ("live", TEN + M)])
def test_a_lifetime_ends_where_a_sliding_window_does(mode: Mode, end: int) -> None:
    #   1970           10:00     t         10:01        t = 10:00:20
    #   |----- … ------|---------|---------|
    #                x )x x                             at
    #                          x )x x                   event_time
    #                                    x )x x         live
    assert around("lifetime", AT, end, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_lifetime_has_no_edge_in_the_past(mode: Mode) -> None:
    #   1970           t
    #   x----- … ------|
    assert counted("lifetime", [AT], [[0], [1], [TEN - M]], mode) == [1, 1, 1]


@pytest.mark.parametrize(
    ("mode", "end"), [("event_time", AT - 24 * H), ("at", TEN - 24 * H), ("live", TEN + M - 24 * H)]
)
def test_a_shifted_lifetime_ends_where_it_ended_then(mode: Mode, end: int) -> None:
    #   1970           yesterday           t            t = 10:00:20, offset 1d
    #   |----- … ------|--|--|---- … ------|
    #                x )x x                             at
    #                   x )x x                          event_time
    #                      x )x x                       live
    assert around(sw.lifetime(offset="1d"), AT, end, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_before_all_events_a_lifetime_is_empty_and_at_the_end_of_time_it_holds_all(
    mode: Mode,
) -> None:
    #   1970            2026          9999-12-31T23:00
    #   t---- … --------x------ … --x-t                 read at both ends
    #   )                     … )                       a day ago
    last = END_OF_TIME_US - H
    assert counted("lifetime", [0, last], [[TEN, last - H]], mode) == [0, 2]
    assert counted(sw.lifetime(offset="1d"), [0, last], [[TEN, last - H]], mode) == [0, 1]
