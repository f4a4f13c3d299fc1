"""Windows of slices begin and end by these rules, to the microsecond; `[` is in the window, `)` is
not. Slices of 1m."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.windows.bounds import Mode
from tests.unit.windows.edges import MODES, TEN, H, M, around, counted, read_around

S = 1_000_000
AT = TEN + 20 * S


@pytest.mark.parametrize("mode", MODES)
def test_a_sliding_window_begins_with_the_slice_that_its_length_reaches_into(mode: Mode) -> None:
    #   09:49    09:50    09:51        10:00
    #   |--------|--------|---- … -----|---t            t = 10:00:20, t - 10m = 09:50:20
    #          x [x x
    assert around("10m", AT, TEN - 10 * M, mode) == [0, 1, 1]


def test_a_sliding_window_of_a_training_row_ends_at_the_microsecond() -> None:
    #            10:00        t           10:01
    #   |--------|------------|-----------|             event_time: events before t
    #                       x )x x
    assert around("10m", AT, AT, "event_time") == [1, 0, 0]


def test_a_sliding_window_of_at_ends_with_the_last_whole_slice() -> None:
    #            10:00        t           10:01
    #   |--------|------------|-----------|             at: whole slices before t
    #          x )x x
    assert around("10m", AT, TEN, "at") == [1, 0, 0]


def test_a_live_sliding_window_ends_with_the_slice_that_is_filling() -> None:
    #            10:00        t           10:01
    #   |--------|------------|-----------|             live: the slice of t too
    #                                   x )x x
    assert around("10m", AT, TEN + M, "live") == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_sliding_window_moves_with_the_slice_in_which_it_is_read(mode: Mode) -> None:
    #   09:50             10:00
    #   x---- … ----------|-                            an event at 09:50:00, read around 10:01:00:
    #   [-------- … ---------)   10:00:59.999999        its slice is still reached into,
    #            [-------- … ----)   10:01:00           and no more from the next slice on
    assert read_around("10m", TEN + M, [TEN - 10 * M], mode) == [1, 0, 0]


def test_a_window_of_seconds_is_cut_at_seconds() -> None:
    #   09:59:50   …   10:00:00                         10s over slices of 1s, read at 10:00:00.5
    #   |-|-|-|-|-|-|-|-|-|-|--t
    # x [x x
    assert around("10s", TEN + S // 2, TEN - 10 * S, cut="1s") == [0, 1, 1]
    assert around("10s", TEN + S // 2, TEN + S // 2, cut="1s") == [1, 0, 0]


def test_a_long_sliding_window_begins_with_a_whole_hour() -> None:
    #   two days of minutes are more than 1,500: it is read by hours
    #   10:00           11:00    two days ago        10:17
    #   |---------------|---- … ----------------------t
    # x [x x
    assert around("2d", TEN + 17 * M, TEN - 48 * H) == [0, 1, 1]
    assert around("2d", TEN + 17 * M, TEN + 17 * M) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_tumbling_window_is_the_last_whole_one(mode: Mode) -> None:
    #   08:00     09:00     10:00     11:00
    #   |---------|---------|--t------|                 t = 10:17
    #           x [x x    x )x x
    t = TEN + 17 * M
    assert around(sw.tumbling("1h"), t, TEN - H, mode) == [0, 1, 1]
    assert around(sw.tumbling("1h"), t, TEN, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_tumbling_window_is_whole_from_its_last_instant_on(mode: Mode) -> None:
    #   08:00     09:00     10:00
    #   |----a----|----b----|
    #   [---------)        t         read before 10:00: a
    #             [---------)t       read at 10:00 and after: b
    a, b = TEN - 90 * M, TEN - 30 * M
    assert read_around(sw.tumbling("1h"), TEN, [a, a, b], mode) == [2, 1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_a_hopping_window_ends_at_the_last_hop(mode: Mode) -> None:
    #   09:00 09:10                   10:00 10:10 10:20
    #   |-----|-----|---- … ----|-----|-----|--t--|     1h every 10m, t = 10:17
    #       x [x x                        x )x x
    t = TEN + 17 * M
    assert around(sw.hopping("1h", every="10m"), t, TEN - 50 * M, mode) == [0, 1, 1]
    assert around(sw.hopping("1h", every="10m"), t, TEN + 10 * M, mode) == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_hopping_window_moves_at_the_hop(mode: Mode) -> None:
    #   09:00 09:10                   10:00 10:10
    #   |--a--|---- … ----------------|--b--|           1h every 10m
    #   [---- … ----------------------)    t            read before 10:10: a
    #         [---- … ----------------------)t          read at 10:10 and after: b
    a, b = TEN - 55 * M, TEN + 5 * M
    assert read_around(sw.hopping("1h", every="10m"), TEN + 10 * M, [a, a, b], mode) == [2, 1, 1]


@pytest.mark.parametrize(
    ("mode", "end"),
    [("event_time", TEN + 17 * M + 20 * S), ("at", TEN + 17 * M), ("live", TEN + 18 * M)],
)
def test_an_open_tumbling_window_is_the_one_that_fills(mode: Mode, end: int) -> None:
    #   09:00     10:00          10:17  t  10:18    11:00
    #   |---------|--------------|------|--|--------|   t = 10:17:20
    #           x [x x
    #                          x )x x                   at
    #                                 x )x x            event_time
    #                                    x )x x         live
    t = TEN + 17 * M + 20 * S
    assert around(sw.tumbling("1h", open=True), t, TEN, mode) == [0, 1, 1]
    assert around(sw.tumbling("1h", open=True), t, end, mode) == [1, 0, 0]


@pytest.mark.parametrize(
    ("mode", "counts"), [("event_time", [3, 0, 1]), ("at", [2, 0, 0]), ("live", [3, 0, 1])]
)
def test_an_open_tumbling_window_begins_anew_with_its_first_instant(
    mode: Mode, counts: list[int]
) -> None:
    #   09:00           09:59    10:00
    #   |--a--a--- … ---|----b---|c---                  c at 10:00:00
    #   [--------- … -----------)t                      read before 10:00: a a, and b but not at
    #                            )t [                   read at 10:00: nothing is before it
    #                            [t)                    a microsecond later: c, but not by whole slices before t
    a, b = TEN - 55 * M, TEN - 20 * S
    window = sw.tumbling("1h", open=True)
    assert read_around(window, TEN, [a, a, b, TEN], mode) == counts


@pytest.mark.parametrize(
    ("mode", "end"),
    [("event_time", TEN + 17 * M + 20 * S), ("at", TEN + 17 * M), ("live", TEN + 18 * M)],
)
def test_an_open_hopping_window_is_the_one_that_ends_next(mode: Mode, end: int) -> None:
    #   09:10 09:20                   10:10    t   10:20
    #   |-----|---- … ----------------|--------|---|    1h every 10m, t = 10:17:20
    #       x [x x                          x )x x
    t = TEN + 17 * M + 20 * S
    assert around(sw.hopping("1h", every="10m", open=True), t, TEN - 40 * M, mode) == [0, 1, 1]
    assert around(sw.hopping("1h", every="10m", open=True), t, end, mode) == [1, 0, 0]


def test_the_end_of_a_day_is_an_edge_like_any_other() -> None:
    #   00:00               00:00               00:00
    #   |---- 31 Dec -------|----- 1 Jan --t----|       read on 1 January at 10:00
    # x [x x              x )x x
    midnight = TEN - 10 * H
    assert around(sw.tumbling("1d"), TEN, midnight - 24 * H) == [0, 1, 1]
    assert around(sw.tumbling("1d"), TEN, midnight) == [1, 0, 0]
    assert counted(sw.tumbling("1d"), [TEN], [[midnight - 24 * H, midnight - 1]]) == [2]
