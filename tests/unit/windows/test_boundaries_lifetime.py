"""Where a lifetime ends, to the microsecond, and that it begins nowhere. Slices of 1m."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.clock import END_OF_TIME_US
from slicewise.slices import DAY_US, Mode
from tests.unit.windows.edges import MODES, TEN, H, M, around, counted

S = 1_000_000
AT = TEN + 20 * S
ENDS: list[tuple[Mode, int]] = [("event_time", AT), ("at", TEN), ("live", TEN + M)]


@pytest.mark.parametrize(("mode", "end"), ENDS)
def test_a_lifetime_ends_as_a_sliding_window_does(mode: Mode, end: int) -> None:
    #   1970      10:00       t          10:01          t = 10:00:20
    #   [--- … ---|-----------|----------|
    #           x )x x                                  at
    #                       x )x x                      event_time
    #                                  x )x x           live
    assert around("lifetime", AT, end, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_lifetime_begins_before_all_events(mode: Mode) -> None:
    #   1970-01-01T00:00:00                 10:00       the first instant that an event can have, and long after
    #   [x----------- … --------------------|
    assert counted("lifetime", [TEN], [[0], [0, 1, TEN - 40 * 365 * DAY_US], [TEN - 1]], mode) == [1, 3, 1]


@pytest.mark.parametrize(("mode", "end"), ENDS)
def test_a_lifetime_of_a_day_ago_ends_where_it_ended_then(mode: Mode, end: int) -> None:
    #   1970           10:00   yesterday        10:00   t
    #   [------ … -----|--)-------- … ----------|-------|
    assert around(sw.lifetime(offset="1d"), AT, end - DAY_US, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_before_all_events_a_lifetime_is_empty_and_at_the_end_of_time_it_holds_all(mode: Mode) -> None:
    #   1970            2026          9999-12-31T23:00
    #   t---- … --------x------ … --x-t                 read at both ends
    #   )                     … )                       a day ago
    last = END_OF_TIME_US - H
    assert counted("lifetime", [0, last], [[TEN, last - H]], mode) == [0, 2]
    assert counted(sw.lifetime(offset="1d"), [0, last], [[TEN, last - H]], mode) == [0, 1]
