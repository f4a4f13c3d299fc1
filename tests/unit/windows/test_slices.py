"""Windows stand where the drawings say; segments tile them exactly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import DefinitionError
from slicewise.windows import slices as sl
from slicewise.windows.slices import DAY_US, HOUR_US, MINUTE_US, SECOND_US, SLICES, Mode, Window

M, H, D = MINUTE_US, HOUR_US, DAY_US
T0 = 19_000 * D  # some midnight


# ---------------------------------------------------------------- durations
@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("100ms", 100_000),
        ("1s", 10**6),
        ("10m", 10 * M),
        ("1h30m", 90 * M),
        ("2w", 14 * D),
        ("7us", 7),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, us: int) -> None:
    assert sl.parse_duration(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "m",
        "10 m",
        "-1m",
        "1.5h",
        "0s",
        "1m1h",
        "1h1h",
        "10M",
        "10min",
        "٣m",
        "10m\n",
        "99999d",
        5,
        None,
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(DefinitionError, match="10m, 7d"):
        sl.parse_duration(text)  # type: ignore[arg-type]  # the mistake


@given(st.integers(1, 10_000 * D))
def test_a_formatted_duration_reads_back(us: int) -> None:
    assert sl.parse_duration(sl.format_duration(us)) == us


@given(st.integers(1, 10_000 * D))
def test_a_span_for_reading_is_the_same_duration(us: int) -> None:
    assert sl.parse_duration(sl.format_span(us)) == us


def test_a_column_is_named_by_the_authors_own_text() -> None:
    assert sl.sliding("24h").column_suffix() == "24h"
    assert sl.tumbling("1h").column_suffix() == "tumbling_1h"
    assert sl.hopping("1h", every="10m").column_suffix() == "hopping_1h_10m"
    assert sl.tumbling("1h", open=True).column_suffix() == "tumbling_1h_open"
    assert Window("hopping", H, 10 * M).column_suffix() == "hopping_1h_10m"


def test_a_lifetime_holds_all_events_up_to_its_end() -> None:
    #  0001-01-01 ... all events ...   10:20:30
    #  [-----------------------------)         at: up to the slice's begin
    #  [-------------------------------)       event_time: up to t
    #  [---------------------------------)     live: up to the slice's end
    t = T0 + 10 * H + 20 * M + 30 * SECOND_US
    ends = [sl.bounds(sl.lifetime(), mode, t, M) for mode in ("at", "event_time", "live")]
    assert ends == [(sl.EARLIEST_US, end) for end in (t - 30 * SECOND_US, t, t + 30 * SECOND_US)]
    assert sl.bounds(sl.lifetime(offset="1d"), "at", t, M) == (sl.EARLIEST_US, t - 30 * SECOND_US - D)
    assert sl.as_window("lifetime") == sl.lifetime()
    assert sl.lifetime(offset="1d").column_suffix() == "lifetime_offset_1d"
    # it takes whatever slice the others have; alone, a minute
    assert sl.default_slice([sl.lifetime()]) == M
    assert sl.default_slice([sl.lifetime(), sl.sliding("7d")]) == H
    assert sl.default_slice([sl.lifetime(), sl.sliding("1s")]) == 100_000


def test_an_offset_stands_in_the_columns_name() -> None:
    assert sl.sliding("1h", offset="1d").column_suffix() == "1h_offset_1d"
    assert sl.tumbling("1h", offset="24h").column_suffix() == "tumbling_1h_offset_24h"
    assert sl.tumbling("1h", open=True, offset="1w").column_suffix() == "tumbling_1h_offset_1w_open"
    assert sl.hopping("1h", every="10m", offset="1d").column_suffix() == "hopping_1h_10m_offset_1d"
    assert Window("sliding", H, offset_us=D).column_suffix() == "1h_offset_1d"


@pytest.mark.parametrize("offset", ["0s", "-1h", "", "1 day"])
def test_an_offset_is_a_positive_duration(offset: str) -> None:
    with pytest.raises(DefinitionError, match="no duration"):
        sl.sliding("1h", offset=offset)


def test_a_hop_beyond_the_length_is_refused() -> None:
    with pytest.raises(DefinitionError, match="no window"):
        sl.hopping("10m", every="1h")


# ------------------------------------------------------------------- slices
@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (["10m"], M),
        (["1h"], 5 * M),
        (["1d"], H),
        (["10m", "1d"], M),
        (["1s"], 100_000),
        (["90s"], 5 * SECOND_US),  # a tenth is 9 s; 5 s divides 90 s
        (["7m"], 30 * SECOND_US),
    ],
)
def test_the_default_slice_is_the_largest_that_fits(windows: list[str], expected: int) -> None:
    assert sl.default_slice([sl.sliding(w) for w in windows]) == expected


def test_a_hop_must_be_a_multiple_of_the_slice_but_does_not_shorten_it_to_a_tenth() -> None:
    assert sl.default_slice([sl.hopping("1d", every="15m")]) == 15 * M
    assert sl.default_slice([sl.hopping("1d", every="20m")]) == 5 * M


def test_windows_that_no_slice_fits_are_refused() -> None:
    with pytest.raises(DefinitionError, match="no slice fits"):
        sl.default_slice([sl.sliding("500ms")])
    with pytest.raises(DefinitionError, match="no slice fits"):
        sl.default_slice([sl.sliding("1001ms")])


def test_a_declared_slice_divides_the_hour_and_every_window() -> None:
    sl.check_slice(90 * SECOND_US, [sl.sliding("3m")])
    with pytest.raises(DefinitionError, match="does not divide the hour"):
        sl.check_slice(7 * M, [sl.sliding("7m")])
    with pytest.raises(DefinitionError, match="not divisible by the slice 5m"):
        sl.check_slice(5 * M, [sl.sliding("1h"), sl.sliding("12m")])
    with pytest.raises(DefinitionError, match="hopping_1h_12m is not divisible"):
        sl.check_slice(5 * M, [sl.hopping("1h", every="12m")])
    with pytest.raises(DefinitionError, match="1h_offset_7m is not divisible by the slice 5m: 7m is no"):
        sl.check_slice(5 * M, [sl.sliding("1h", offset="7m")])


def test_an_offset_is_a_multiple_of_the_slice_but_does_not_shorten_it_to_a_tenth() -> None:
    assert sl.default_slice([sl.sliding("1h", offset="15m")]) == 5 * M
    assert sl.default_slice([sl.sliding("1d", offset="15m")]) == 15 * M
    assert sl.default_slice([sl.sliding("1d", offset="90s")]) == 30 * SECOND_US
    with pytest.raises(DefinitionError, match="offsets that are multiples of 100ms"):
        sl.default_slice([sl.sliding("1h", offset="1001ms")])


# --------------------------------------------------------------- resolution
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
def test_the_resolution_is_the_finest_level_with_at_most_1500_steps(window: str, slice_us: int, expected: int) -> None:
    assert sl.resolution(sl.sliding(window), slice_us) == expected


def test_the_resolution_of_a_hopping_window_is_the_coarsest_that_cuts_it_exactly() -> None:
    assert sl.resolution(sl.tumbling("1d"), M) == D
    assert sl.resolution(sl.tumbling("3h"), M) == H
    assert sl.resolution(sl.hopping("7d", every="90m"), M) == M
    assert sl.resolution(sl.hopping("7d", every="5m"), 5 * M) == 5 * M


# ------------------------------------------------------------------- bounds
def test_a_live_sliding_window_includes_the_slice_that_is_filling() -> None:
    # slices of 1m:  |09:50|09:51| … |09:59|10:00|
    # t = 10:00:20         [---------- 10m --------)   start floor(09:50:20), end ceil(10:00:20)
    t = T0 + 10 * H + 20 * SECOND_US
    assert sl.bounds(sl.sliding("10m"), "live", t, M) == (T0 + 9 * H + 50 * M, T0 + 10 * H + M)


def test_a_live_sliding_window_on_a_boundary_ends_there() -> None:
    # t = 10:00:00: [09:50, 10:00): an event stamped exactly t is not in it yet
    t = T0 + 10 * H
    assert sl.bounds(sl.sliding("10m"), "live", t, M) == (t - 10 * M, t)


def test_an_at_window_ends_before_the_slice_of_at() -> None:
    # at = 10:00:20: whole slices only, [09:50, 10:00)
    t = T0 + 10 * H + 20 * SECOND_US
    assert sl.bounds(sl.sliding("10m"), "at", t, M) == (T0 + 9 * H + 50 * M, T0 + 10 * H)


def test_a_training_window_is_cut_at_the_microsecond_and_excludes_the_event_itself() -> None:
    # at = 10:00:20.000001: [09:50, 10:00:20.000001): the label's own event, stamped at, is out
    t = T0 + 10 * H + 20 * SECOND_US + 1
    assert sl.bounds(sl.sliding("10m"), "event_time", t, M) == (T0 + 9 * H + 50 * M, t)


@pytest.mark.parametrize("mode", ["live", "at", "event_time"])
def test_a_tumbling_window_is_the_last_complete_one_in_every_mode(mode: Mode) -> None:
    # hours:   |--09--|--10--|   t = 10:17 -> [09:00, 10:00)
    assert sl.bounds(sl.tumbling("1h"), mode, T0 + 10 * H + 17 * M, 5 * M) == (
        T0 + 9 * H,
        T0 + 10 * H,
    )
    # on the boundary the window that ends there is complete
    assert sl.bounds(sl.tumbling("1h"), mode, T0 + 10 * H, 5 * M) == (T0 + 9 * H, T0 + 10 * H)


def test_a_hopping_window_ends_at_the_last_hop() -> None:
    # hops of 10m, t = 10:17 -> ends 10:10, starts 09:10
    assert sl.bounds(sl.hopping("1h", every="10m"), "live", T0 + 10 * H + 17 * M, M) == (
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
    assert sl.bounds(sl.tumbling("1h", open=True), mode, t, M) == (T0 + 10 * H, T0 + end)


def test_an_open_hopping_window_starts_its_length_before_its_next_end() -> None:
    # hops of 10m, t = 10:17: the window being filled is [09:20, 10:20)
    t = T0 + 10 * H + 17 * M
    assert sl.bounds(sl.hopping("1h", every="10m", open=True), "at", t, M) == (
        T0 + 9 * H + 20 * M,
        t,
    )


# ---- offset: at t, the window of t - offset. All with slices of 1m.
@pytest.mark.parametrize(
    ("mode", "end"),
    [("live", 8 * H + M), ("at", 8 * H), ("event_time", 8 * H + 20 * SECOND_US)],
)
def test_an_offset_window_ends_where_it_would_have_ended_then(mode: Mode, end: int) -> None:
    #  |07:50|07:51| … |07:59|08:00|              |10:00|
    #  [-------- 10m --------)  <---- offset 2h ----  t = 10:00:20
    t = T0 + 10 * H + 20 * SECOND_US
    assert sl.bounds(sl.sliding("10m", offset="2h"), mode, t, M) == (T0 + 7 * H + 50 * M, T0 + end)


def test_an_offset_window_on_a_boundary_does_not_hold_the_event_stamped_there() -> None:
    #  [07:50 ---- 10m ---- 08:00)  <---- offset 2h ----  t = 10:00:00
    #                        x      an event stamped 08:00:00 is the next window's
    t = T0 + 10 * H
    assert sl.bounds(sl.sliding("10m", offset="2h"), "live", t, M) == (T0 + 7 * H + 50 * M, T0 + 8 * H)
    assert sl.bounds(sl.sliding("10m", offset="2h"), "live", t + 1, M)[1] == T0 + 8 * H + M


def test_an_offset_shorter_than_the_window_overlaps_the_present_one() -> None:
    #  09:30 [------ 1h ------) 10:30            offset 30m, t = 11:00
    #           10:00 [------ 1h ------) 11:00   offset 0
    t = T0 + 11 * H
    assert sl.bounds(sl.sliding("1h", offset="30m"), "at", t, M) == (t - 90 * M, t - 30 * M)


@pytest.mark.parametrize("mode", ["live", "at", "event_time"])
def test_an_offset_tumbling_window_is_the_one_that_was_complete_then(mode: Mode) -> None:
    # hours:   |--07--|--08--|--09--|--10--|
    #                           ^      ^ t = 10:17
    #          [07:00, 08:00)   09:47 - 1h = 08:47: offset 90m, not the 1h30m before [09:00, 10:00)
    window = sl.tumbling("1h", offset="90m")
    assert sl.bounds(window, mode, T0 + 10 * H + 17 * M, M) == (T0 + 7 * H, T0 + 8 * H)
    # it moves when t - offset crosses the hour: at 10:30, and only then
    assert sl.bounds(window, mode, T0 + 10 * H + 30 * M - 1, M) == (T0 + 7 * H, T0 + 8 * H)
    assert sl.bounds(window, mode, T0 + 10 * H + 30 * M, M) == (T0 + 8 * H, T0 + 9 * H)


def test_an_open_offset_window_was_still_filling_then() -> None:
    #  |--------- 08 ---------|            open tumbling hour, offset 2h
    #  [08:00 ---- 08:17)                  t = 10:17: what lies after 08:17 was not there yet
    t = T0 + 10 * H + 17 * M
    assert sl.bounds(sl.tumbling("1h", open=True, offset="2h"), "at", t, M) == (T0 + 8 * H, T0 + 8 * H + 17 * M)


def test_an_offset_hopping_window_ends_at_the_last_hop_then() -> None:
    # hops of 10m, t = 10:17, offset 5m: 10:12 -> ends 10:10, starts 09:10
    assert sl.bounds(sl.hopping("1h", every="10m", offset="5m"), "live", T0 + 10 * H + 17 * M, M) == (
        T0 + 9 * H + 10 * M,
        T0 + 10 * H + 10 * M,
    )


def test_an_offset_bears_on_no_resolution() -> None:
    # 7d of minutes is read by hours: the start is the hour at or before, whatever the offset
    assert sl.resolution(sl.sliding("7d", offset="1m"), M) == H
    assert sl.resolution(sl.tumbling("3h", offset="1m"), M) == H
    start, end = sl.bounds(sl.sliding("7d", offset="1m"), "at", T0 + 7 * D + 90 * M, M)
    assert (start, end) == (T0 + H, T0 + 7 * D + 89 * M)


def test_times_before_the_epoch_round_down_too() -> None:
    assert sl.floor(-1, M) == -M
    assert sl.ceil(-1, M) == 0
    assert sl.bounds(sl.tumbling("1h"), "at", -1, M) == (-2 * H, -H)


some_windows = st.sampled_from(
    [
        sl.sliding("10m"),
        sl.sliding("7d"),
        sl.sliding("90m"),
        sl.tumbling("1h"),
        sl.tumbling("1d", open=True),
        sl.hopping("2h", every="10m"),
        sl.hopping("1d", every="5m", open=True),
        sl.sliding("10m", offset="1d"),
        sl.sliding("7d", offset="35m"),
        sl.tumbling("1h", offset="90m"),
        sl.hopping("1d", every="5m", open=True, offset="7d"),
    ]
)
modes: st.SearchStrategy[Mode] = st.sampled_from(["live", "at", "event_time"])
times = st.integers(-(10**15), 4 * 10**15) | st.integers(-5, 5).map(lambda n: T0 + n * 5 * M)


@given(some_windows, modes, times)
def test_no_window_reaches_further_back_than_its_reach(window: Window, mode: Mode, t: int) -> None:
    for slice_us in (SECOND_US, M, 5 * M):
        start, end = sl.bounds(window, mode, t, slice_us)
        assert start <= end
        assert t - start <= sl.reach_us(window, slice_us)
        assert end <= sl.ceil(t, slice_us)
        assert start % slice_us == 0
        if mode != "event_time" and not window.open:
            assert end % slice_us == 0


@given(some_windows, st.integers(1, 30 * 24 * 12), modes, times)
def test_an_offset_window_answers_what_the_window_answered_then(window: Window, steps: int, mode: Mode, t: int) -> None:
    shifted = replace(window, offset_us=window.offset_us + steps * 5 * M)
    for slice_us in (SECOND_US, M, 5 * M):
        assert sl.bounds(shifted, mode, t, slice_us) == sl.bounds(window, mode, t - steps * 5 * M, slice_us)


@given(some_windows, modes, st.lists(times, min_size=1))
def test_bounds_of_a_column_are_the_bounds_of_its_rows(window: Window, mode: Mode, ts: list[int]) -> None:
    starts, ends = sl.bounds_columns(window, mode, np.array(ts, dtype=np.int64), M)
    rows = [sl.bounds(window, mode, t, M) for t in ts]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == rows


# ----------------------------------------------------------------- segments
def test_segments_are_days_then_hours_then_slices() -> None:
    # [22:59 of day 0, 01:02 of day 3) = 22:59 | 23h | days 1, 2 | 0h | 01:00 01:01
    day = T0 // D
    found = sl.segments(T0 + 23 * H - M, T0 + 3 * D + H + 2 * M, M, M)
    assert found.days == range(day + 1, day + 3)
    assert found.hours == (day * 24 + 23, (day + 3) * 24)
    assert found.ranges == (
        sl.SliceRange(T0 + 23 * H - M, T0 + 23 * H, M),
        sl.SliceRange(T0 + 3 * D + H, T0 + 3 * D + H + 2 * M, M),
    )


def test_an_interval_inside_one_hour_is_one_range() -> None:
    found = sl.segments(T0 + M, T0 + 2 * M, M, M)
    assert (list(found.days), found.hours) == ([], ())
    assert found.ranges == (sl.SliceRange(T0 + M, T0 + 2 * M, M),)


def test_an_edge_is_read_by_minutes_only_where_it_is_cut_at_minutes() -> None:
    # slice 10s, resolution 1m: the start is cut at minutes, the end at slices
    start, end = T0 + H - 2 * M, T0 + H + M + 10 * SECOND_US
    assert [r.level_us for r in sl.segments(start, end, 10 * SECOND_US, M).ranges] == [
        M,
        10 * SECOND_US,
    ]


def test_an_empty_interval_has_no_segments() -> None:
    assert sl.segments(T0, T0, M, M) == sl.Segments(range(0), (), ())


def test_segments_refuse_bounds_inside_a_slice() -> None:
    with pytest.raises(ValueError, match="not cut at slices"):
        sl.segments(T0, T0 + 1, M, M)


@given(
    st.sampled_from(SLICES[1:]),
    st.integers(-3000, 3000),
    st.integers(0, 4000),
    st.sampled_from([0, M, H]),
)
def test_segments_tile_the_interval_exactly_once(slice_us: int, first: int, n: int, level: int) -> None:
    start = T0 + first * slice_us
    end = start + n * slice_us
    r = max(level, slice_us)
    found = sl.segments(start, end, slice_us, r)
    pieces = [(d * D, d * D + D) for d in found.days]
    pieces += [(h * H, h * H + H) for h in found.hours]
    for piece in found.ranges:
        assert piece.start_us // H == (piece.end_us - 1) // H, "a range stays in one hour"
        assert piece.start_us % piece.level_us == piece.end_us % piece.level_us == 0
        pieces.append((piece.start_us, piece.end_us))
    at = start
    for piece_start, piece_end in sorted(pieces):
        assert piece_start == at
        at = piece_end
    assert at == end
    assert len(found.ranges) <= 2
    assert len(found.hours) <= 46
