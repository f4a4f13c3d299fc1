"""Windows stand where the drawings say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.windows.bounds import EARLIEST_US, Mode, ceil, floor
from slicewise.windows.durations import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
)
from slicewise.windows.hopping import hopping
from slicewise.windows.kinds import as_window
from slicewise.windows.lifetime import lifetime
from slicewise.windows.periodic import Periodic
from slicewise.windows.slices import default_slice
from slicewise.windows.sliding import sliding
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window

M, H, D = MINUTE_US, HOUR_US, DAY_US
T0 = 19_000 * D  # some midnight


def test_a_lifetime_holds_all_events_up_to_its_end() -> None:
    #  0001-01-01 ... all events ...   10:20:30
    #  [-----------------------------)         at: up to the slice's begin
    #  [-------------------------------)       event_time: up to t
    #  [---------------------------------)     live: up to the slice's end
    t = T0 + 10 * H + 20 * M + 30 * SECOND_US
    ends = [lifetime().bounds(mode, t, M) for mode in ("at", "event_time", "live")]
    assert ends == [(EARLIEST_US, end) for end in (t - 30 * SECOND_US, t, t + 30 * SECOND_US)]
    assert lifetime(offset="1d").bounds("at", t, M) == (EARLIEST_US, t - 30 * SECOND_US - D)
    assert as_window("lifetime") == lifetime()
    assert lifetime(offset="1d").column_suffix() == "lifetime_offset_1d"
    # it takes whatever slice the others have; alone, a minute
    assert default_slice([lifetime()]) == M
    assert default_slice([lifetime(), sliding("7d")]) == H
    assert default_slice([lifetime(), sliding("1s")]) == 100_000


@pytest.mark.parametrize(
    ("window", "slice_us", "expected"),
    [
        ("25h", M, M),  # 1,500 minutes: just in
        ("1501m", M, H),  # one more: the hour
        ("7d", M, H),
        ("1d", 30 * SECOND_US, M),
        ("100d", 5 * M, D),
        ("5000d", H, D),  # no level is enough: the coarsest
        ("1d", 90 * SECOND_US, 90 * SECOND_US),
        ("2d", 90 * SECOND_US, H),  # the minute is no multiple of 90 s
    ],
)
def test_the_resolution_is_the_finest_level_with_at_most_1500_steps(
    window: str, slice_us: int, expected: int
) -> None:
    assert sliding(window).resolution(slice_us) == expected


def test_the_resolution_of_a_hopping_window_is_the_coarsest_that_cuts_it_exactly() -> None:
    assert tumbling("1d").resolution(M) == D
    assert tumbling("3h").resolution(M) == H
    assert hopping("7d", every="90m").resolution(M) == M
    assert hopping("7d", every="5m").resolution(5 * M) == 5 * M


def test_a_live_sliding_window_includes_the_slice_that_is_filling() -> None:
    # slices of 1m:  |09:50|09:51| … |09:59|10:00|
    # t = 10:00:20         [---------- 10m --------)   start floor(09:50:20), end ceil(10:00:20)
    t = T0 + 10 * H + 20 * SECOND_US
    assert sliding("10m").bounds("live", t, M) == (T0 + 9 * H + 50 * M, T0 + 10 * H + M)


def test_a_live_sliding_window_on_a_boundary_ends_there() -> None:
    # t = 10:00:00: [09:50, 10:00): an event stamped exactly t is not in it yet
    t = T0 + 10 * H
    assert sliding("10m").bounds("live", t, M) == (t - 10 * M, t)


def test_an_at_window_ends_before_the_slice_of_at() -> None:
    # at = 10:00:20: whole slices only, [09:50, 10:00)
    t = T0 + 10 * H + 20 * SECOND_US
    assert sliding("10m").bounds("at", t, M) == (T0 + 9 * H + 50 * M, T0 + 10 * H)


def test_a_training_window_is_cut_at_the_microsecond_and_excludes_the_event_itself() -> None:
    # at = 10:00:20.000001: [09:50, 10:00:20.000001): the label's own event, stamped at, is out
    t = T0 + 10 * H + 20 * SECOND_US + 1
    assert sliding("10m").bounds("event_time", t, M) == (T0 + 9 * H + 50 * M, t)


@pytest.mark.parametrize("mode", ["live", "at", "event_time"])
def test_a_tumbling_window_is_the_last_complete_one_in_every_mode(mode: Mode) -> None:
    # hours:   |--09--|--10--|   t = 10:17 -> [09:00, 10:00)
    assert tumbling("1h").bounds(mode, T0 + 10 * H + 17 * M, 5 * M) == (
        T0 + 9 * H,
        T0 + 10 * H,
    )
    # on the boundary the window that ends there is complete
    assert tumbling("1h").bounds(mode, T0 + 10 * H, 5 * M) == (T0 + 9 * H, T0 + 10 * H)


def test_a_hopping_window_ends_at_the_last_hop() -> None:
    # hops of 10m, t = 10:17 -> ends 10:10, starts 09:10
    assert hopping("1h", every="10m").bounds("live", T0 + 10 * H + 17 * M, M) == (
        T0 + 9 * H + 10 * M,
        T0 + 10 * H + 10 * M,
    )


@pytest.mark.parametrize(
    ("mode", "end"),
    [("live", 10 * H + 18 * M), ("at", 10 * H + 17 * M), ("event_time", 10 * H + 17 * M + 1)],
)
def test_an_open_window_never_contains_what_lies_after_t(mode: Mode, end: int) -> None:
    # t = 10:17:00.000001, open tumbling hour: [10:00, …) up to where a sliding window would end.
    # Were it [10:00, 11:00), a training row at 10:17 would see the events of 10:50.
    t = T0 + 10 * H + 17 * M + 1
    assert tumbling("1h", open=True).bounds(mode, t, M) == (T0 + 10 * H, T0 + end)


def test_an_open_hopping_window_starts_its_length_before_its_next_end() -> None:
    # hops of 10m, t = 10:17: the window being filled is [09:20, 10:20)
    t = T0 + 10 * H + 17 * M
    assert hopping("1h", every="10m", open=True).bounds("at", t, M) == (
        T0 + 9 * H + 20 * M,
        t,
    )


@pytest.mark.parametrize(
    ("mode", "end"),
    [("live", 8 * H + M), ("at", 8 * H), ("event_time", 8 * H + 20 * SECOND_US)],
)
def test_an_offset_window_ends_where_it_would_have_ended_then(mode: Mode, end: int) -> None:
    #  |07:50|07:51| … |07:59|08:00|              |10:00|
    #  [-------- 10m --------)  <---- offset 2h ----  t = 10:00:20
    t = T0 + 10 * H + 20 * SECOND_US
    assert sliding("10m", offset="2h").bounds(mode, t, M) == (T0 + 7 * H + 50 * M, T0 + end)


def test_an_offset_window_on_a_boundary_does_not_hold_the_event_stamped_there() -> None:
    #  [07:50 ---- 10m ---- 08:00)  <---- offset 2h ----  t = 10:00:00
    #                        x      an event stamped 08:00:00 is the next window's
    t = T0 + 10 * H
    assert sliding("10m", offset="2h").bounds("live", t, M) == (T0 + 7 * H + 50 * M, T0 + 8 * H)
    assert sliding("10m", offset="2h").bounds("live", t + 1, M)[1] == T0 + 8 * H + M


def test_an_offset_shorter_than_the_window_overlaps_the_present_one() -> None:
    #  09:30 [------ 1h ------) 10:30            offset 30m, t = 11:00
    #           10:00 [------ 1h ------) 11:00   offset 0
    t = T0 + 11 * H
    assert sliding("1h", offset="30m").bounds("at", t, M) == (t - 90 * M, t - 30 * M)


@pytest.mark.parametrize("mode", ["live", "at", "event_time"])
def test_an_offset_tumbling_window_is_the_one_that_was_complete_then(mode: Mode) -> None:
    # hours:   |--07--|--08--|--09--|--10--|
    #                           ^      ^ t = 10:17
    #          [07:00, 08:00)   09:47 - 1h = 08:47: offset 90m, not the 1h30m before [09:00, 10:00)
    window = tumbling("1h", offset="90m")
    assert window.bounds(mode, T0 + 10 * H + 17 * M, M) == (T0 + 7 * H, T0 + 8 * H)
    # it moves when t - offset crosses the hour: at 10:30, and only then
    assert window.bounds(mode, T0 + 10 * H + 30 * M - 1, M) == (T0 + 7 * H, T0 + 8 * H)
    assert window.bounds(mode, T0 + 10 * H + 30 * M, M) == (T0 + 8 * H, T0 + 9 * H)


def test_an_open_offset_window_was_still_filling_then() -> None:
    #  |--------- 08 ---------|            open tumbling hour, offset 2h
    #  [08:00 ---- 08:17)                  t = 10:17: what lies after 08:17 was not there yet
    t = T0 + 10 * H + 17 * M
    assert tumbling("1h", open=True, offset="2h").bounds("at", t, M) == (
        T0 + 8 * H,
        T0 + 8 * H + 17 * M,
    )


def test_an_offset_hopping_window_ends_at_the_last_hop_then() -> None:
    # hops of 10m, t = 10:17, offset 5m: 10:12 -> ends 10:10, starts 09:10
    assert hopping("1h", every="10m", offset="5m").bounds("live", T0 + 10 * H + 17 * M, M) == (
        T0 + 9 * H + 10 * M,
        T0 + 10 * H + 10 * M,
    )


def test_an_offset_bears_on_no_resolution() -> None:
    # 7d of minutes is read by hours: the start is the hour at or before, whatever the offset
    assert sliding("7d", offset="1m").resolution(M) == H
    assert tumbling("3h", offset="1m").resolution(M) == H
    start, end = sliding("7d", offset="1m").bounds("at", T0 + 7 * D + 90 * M, M)
    assert (start, end) == (T0 + H, T0 + 7 * D + 89 * M)


def test_times_before_the_epoch_round_down_too() -> None:
    assert floor(-1, M) == -M
    assert ceil(-1, M) == 0
    assert tumbling("1h").bounds("at", -1, M) == (-2 * H, -H)


some_windows = st.sampled_from(
    [
        sliding("10m"),
        sliding("7d"),
        sliding("90m"),
        tumbling("1h"),
        tumbling("1d", open=True),
        hopping("2h", every="10m"),
        hopping("1d", every="5m", open=True),
        sliding("10m", offset="1d"),
        sliding("7d", offset="35m"),
        tumbling("1h", offset="90m"),
        hopping("1d", every="5m", open=True, offset="7d"),
    ]
)


modes: st.SearchStrategy[Mode] = st.sampled_from(["live", "at", "event_time"])


times = st.integers(-(10**15), 4 * 10**15) | st.integers(-5, 5).map(lambda n: T0 + n * 5 * M)


@given(some_windows, modes, times)
def test_no_window_reaches_further_back_than_its_reach(window: Window, mode: Mode, t: int) -> None:
    for slice_us in (SECOND_US, M, 5 * M):
        start, end = window.bounds(mode, t, slice_us)
        assert start <= end
        assert t - start <= window.reach_us(slice_us)
        assert end <= ceil(t, slice_us)
        assert start % slice_us == 0
        if mode != "event_time" and not (isinstance(window, Periodic) and window.open):
            assert end % slice_us == 0


@given(some_windows, st.integers(1, 30 * 24 * 12), modes, times)
def test_an_offset_window_answers_what_the_window_answered_then(
    window: Window, steps: int, mode: Mode, t: int
) -> None:
    shifted = replace(window, offset_us=window.offset_us + steps * 5 * M)
    for slice_us in (SECOND_US, M, 5 * M):
        assert shifted.bounds(mode, t, slice_us) == window.bounds(mode, t - steps * 5 * M, slice_us)


@given(some_windows, modes, st.lists(times, min_size=1))
def test_bounds_of_a_column_are_the_bounds_of_its_rows(
    window: Window, mode: Mode, ts: list[int]
) -> None:
    starts, ends = window.bounds_columns(mode, np.array(ts, dtype=np.int64), M)
    rows = [window.bounds(mode, t, M) for t in ts]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == rows
