"""A shifted window has the edges that it had then; `[` is in the window, `)` is not. Slices of
1m."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.windows.bounds import Mode
from tests.unit.windows.edges import MODES, TEN, H, M, around, counted

S = 1_000_000
DAY = 24 * H
AT = TEN + 17 * M + 20 * S


@pytest.mark.parametrize(
    ("mode", "end"),
    [("event_time", AT - DAY), ("at", AT - DAY - 20 * S), ("live", AT - DAY + 40 * S)],
)
def test_a_shifted_sliding_window(mode: Mode, end: int) -> None:
    #   yesterday                                       today
    #   10:07    10:08          10:17  10:17:20  10:18  10:17:20
    #   |--------|---- … -------|------|---------|- … --t        10m, offset 1d
    # x [x x                  x )x x                             at
    #                                x )x x                      event_time
    #                                          x )x x            live
    window = sw.sliding("10m", offset="1d")
    assert around(window, AT, TEN + 7 * M - DAY, mode) == [0, 1, 1]
    assert around(window, AT, end, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_shifted_tumbling_window(mode: Mode) -> None:
    #   07:00     08:00     09:00     10:00
    #   |---------|---------|----:----|----t---         1h, offset 80m: at 10:17:20 that of 08:57:20
    # x [x x    x )x x        08:57:20
    window = sw.tumbling("1h", offset="80m")
    assert around(window, AT, TEN - 3 * H, mode) == [0, 1, 1]
    assert around(window, AT, TEN - 2 * H, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_shifted_hopping_window(mode: Mode) -> None:
    #   08:50 09:00     09:50 10:00                     1h every 10m, offset 15m: at 10:17:20 that of 10:02:20
    #   |-----|--- … ---|-----|--:--- … -t
    #       x [x x          x )x x
    window = sw.hopping("1h", every="10m", offset="15m")
    assert around(window, AT, TEN - H, mode) == [0, 1, 1]
    assert around(window, AT, TEN, mode) == [1, 0, 0]


@pytest.mark.parametrize(
    ("mode", "end"),
    [("event_time", AT - DAY), ("at", AT - DAY - 20 * S), ("live", AT - DAY + 40 * S)],
)
def test_a_shifted_open_window_ends_where_it_was_filled_then(mode: Mode, end: int) -> None:
    #   yesterday                                       today
    #   10:00            10:17  10:17:20  10:18  11:00  10:17:20
    #   |------- … ------|------|---------|------|- … --t        tumbling 1h open, offset 1d
    # x [x x           x )x x                                    at
    #                         x )x x                             event_time
    #                                   x )x x                   live
    window = sw.tumbling("1h", open=True, offset="1d")
    assert around(window, AT, TEN - DAY, mode) == [0, 1, 1]
    assert around(window, AT, end, mode) == [1, 0, 0]


def test_a_shifted_session_goes_on_until_its_gap_has_passed_then() -> None:
    #   10:00          10:10                            yesterday's 10:00 to 10:10, read a day later; gap 10m
    #   x--------------)                                an event at 10:00 lasts to before 10:10
    window = sw.session("10m", max_length="1h", offset="1d")
    at = [TEN + 10 * M + DAY + by for by in (-1, 0, 1)]
    assert counted(window, at, [[TEN]]) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_shifted_exact_window_has_both_its_ends(mode: Mode) -> None:
    #   yesterday                           today
    #   09:17:20        10:17:20            10:17:20    1h, offset 1d
    # x [x------ … -----x]x- … -------------t
    window = sw.exact_range("1h", offset="1d")
    assert around(window, AT, AT - DAY - H, mode) == [0, 1, 1]
    assert around(window, AT, AT - DAY, mode) == [1, 1, 0]


@pytest.mark.parametrize("mode", MODES)
def test_shifted_rows_are_the_last_ones_then(mode: Mode) -> None:
    #   yesterday              today
    #       10:17:20           10:17:20                 rows(2), offset 1d
    #   a b x]x---- … ---------t
    window = sw.rows(2, offset="1d")
    then = AT - DAY
    assert around(window, AT, then, mode) == [1, 1, 0]
    assert counted(
        window, [AT], [[then - 9, then - 8, then], [then - 9, then, then + 1], [then + 1]], mode
    ) == [
        2,
        2,
        0,
    ]
