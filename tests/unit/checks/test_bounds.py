"""The check accepts exactly the bounds that the table of the design gives for some instant of the
read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.checks.bounds import may_be, searched_from
from slicewise.windows.durations import MINUTE_US
from slicewise.windows.exact_range import exact_range
from slicewise.windows.hopping import hopping
from slicewise.windows.lifetime import lifetime
from slicewise.windows.rows import rows
from slicewise.windows.session import session
from slicewise.windows.sliding import sliding
from slicewise.windows.tumbling import tumbling
from slicewise.windows.window import Window

WINDOWS = [
    sliding("10m"),
    sliding("1d"),
    sliding("7d"),
    tumbling("1h"),
    tumbling("1h", open=True),
    hopping("1h", every="10m"),
    hopping("1h", every="10m", open=True),
    sliding("10m", offset="1d"),
    sliding("7d", offset="90m"),
    tumbling("1h", offset="90m"),
    hopping("1h", every="10m", open=True, offset="2h"),
    lifetime(),
    lifetime(offset="90m"),
]
EXACT = [
    exact_range("10m"),
    exact_range("10m", closed="left"),
    exact_range("10m", closed="right"),
    exact_range("10m", closed="neither"),
    rows(5),
]
instants = st.integers(1_700_000_000_000_000, 1_700_500_000_000_000)


@given(instants, st.sampled_from(WINDOWS), st.sampled_from(["live", "at"]))
def test_the_bounds_of_a_read_are_accepted(t: int, window: Window, mode: str) -> None:
    start, end = window.bounds(mode, t, MINUTE_US)  # type: ignore[arg-type]
    assert may_be(window, MINUTE_US, start, end, t if mode == "at" else None)


@given(
    st.integers(28_000_000, 28_400_000), st.sampled_from(WINDOWS), st.sampled_from(["live", "at"])
)
def test_an_instant_on_a_slice_is_accepted(minute: int, window: Window, mode: str) -> None:
    t = minute * MINUTE_US
    start, end = window.bounds(mode, t, MINUTE_US)  # type: ignore[arg-type]
    assert may_be(window, MINUTE_US, start, end, t if mode == "at" else None)


@given(
    instants, st.integers(0, 120), st.sampled_from(["live", "at"]), st.sampled_from([None, "30m"])
)
def test_a_session_may_start_at_any_slice_of_its_longest_length_and_ends_at_the_reading(
    t: int, minutes: int, mode: str, offset: str | None
) -> None:
    window = session("10m", max_length="2h", offset=offset)
    start, end = window.bounds(mode, t, MINUTE_US)  # type: ignore[arg-type]
    assert searched_from(window, MINUTE_US, end) == start == end - 120 * MINUTE_US
    at = t if mode == "at" else None
    assert may_be(window, MINUTE_US, start + minutes * MINUTE_US, end, at)
    for wrong in (
        (start - MINUTE_US, end),
        (start + 1, end),
        (end + MINUTE_US, end),
        (start, end + 1),
    ):
        assert not may_be(window, MINUTE_US, *wrong, at)
    if mode == "at":
        assert not may_be(window, MINUTE_US, start + MINUTE_US, end + MINUTE_US, at)


@given(instants, st.sampled_from(WINDOWS))
def test_moved_bounds_are_refused(t: int, window: Window) -> None:
    start, end = window.bounds("at", t, MINUTE_US)
    for moved in (
        (start - MINUTE_US, end),
        (start, end - MINUTE_US),
        (start + 1, end),
        (start, end + MINUTE_US),
    ):
        assert not may_be(window, MINUTE_US, *moved, t)


@pytest.mark.parametrize(
    "window", [sliding("10m"), sliding("7d"), tumbling("1h"), sliding("10m", offset="1d")]
)
def test_moved_live_bounds_are_refused(window: Window) -> None:
    start, end = window.bounds("live", 1_700_000_123_456_789, MINUTE_US)
    assert not may_be(window, MINUTE_US, start - MINUTE_US, end, None)
    assert not may_be(window, MINUTE_US, start, end + 1, None)


@given(instants, st.sampled_from(EXACT), st.sampled_from(["live", "at"]))
def test_exact_bounds_are_accepted_at_their_microsecond_alone(
    t: int, window: Window, mode: str
) -> None:
    start, end = window.bounds(mode, t, 1)  # type: ignore[arg-type]
    at = t if mode == "at" else None
    assert may_be(window, 1, start, end, at)
    moved = [(start - 1, end), (start + 1, end)]
    if at is not None or not window.most_rows:  # of live rows only the start is known
        moved += [(start, end - 1), (start, end + 1)]
    for interval in moved:
        assert not may_be(window, 1, *interval, at)
