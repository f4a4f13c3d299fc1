"""Segments tile an interval exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.windows.durations import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
)
from slicewise.windows.segments import Segments, SliceRange, segments
from slicewise.windows.slices import SLICES

M, H, D = MINUTE_US, HOUR_US, DAY_US
T0 = 19_000 * D  # some midnight


def test_segments_are_days_then_hours_then_slices() -> None:
    # [22:59 of day 0, 01:02 of day 3) = 22:59 | 23h | days 1, 2 | 0h | 01:00 01:01
    day = T0 // D
    result = segments(T0 + 23 * H - M, T0 + 3 * D + H + 2 * M, M, M)
    assert result.days == range(day + 1, day + 3)
    assert result.hours == (day * 24 + 23, (day + 3) * 24)
    assert result.ranges == (
        SliceRange(T0 + 23 * H - M, T0 + 23 * H, M),
        SliceRange(T0 + 3 * D + H, T0 + 3 * D + H + 2 * M, M),
    )


def test_an_interval_inside_one_hour_is_one_range() -> None:
    result = segments(T0 + M, T0 + 2 * M, M, M)
    assert (list(result.days), result.hours) == ([], ())
    assert result.ranges == (SliceRange(T0 + M, T0 + 2 * M, M),)


def test_an_edge_is_read_by_minutes_only_where_it_is_cut_at_minutes() -> None:
    # slice 10s, resolution 1m: the start is cut at minutes, the end at slices
    start, end = T0 + H - 2 * M, T0 + H + M + 10 * SECOND_US
    assert [r.level_us for r in segments(start, end, 10 * SECOND_US, M).ranges] == [
        M,
        10 * SECOND_US,
    ]


def test_an_empty_interval_has_no_segments() -> None:
    assert segments(T0, T0, M, M) == Segments(range(0), (), ())


def test_segments_refuse_bounds_inside_a_slice() -> None:
    with pytest.raises(ValueError, match="not cut at slices"):
        segments(T0, T0 + 1, M, M)


@given(
    st.sampled_from(SLICES[1:]),
    st.integers(-3000, 3000),
    st.integers(0, 4000),
    st.sampled_from([0, M, H]),
)
def test_segments_tile_the_interval_exactly_once(
    slice_us: int, first: int, n: int, level: int
) -> None:
    start = T0 + first * slice_us
    end = start + n * slice_us
    r = max(level, slice_us)
    result = segments(start, end, slice_us, r)
    pieces = [(d * D, d * D + D) for d in result.days]
    pieces += [(h * H, h * H + H) for h in result.hours]
    for piece in result.ranges:
        assert piece.start_us // H == (piece.end_us - 1) // H, "a range stays in one hour"
        assert piece.start_us % piece.level_us == piece.end_us % piece.level_us == 0
        pieces.append((piece.start_us, piece.end_us))
    at = start
    for piece_start, piece_end in sorted(pieces):
        assert piece_start == at
        at = piece_end
    assert at == end
    assert len(result.ranges) <= 2
    assert len(result.hours) <= 46
