"""A micro-batch's bound grows while the lane is behind and batches are short; it never falls below
the first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.spark.microbatch.batch_bound import FIRST, WANTED_S, first_bound, next_bound

MOST = 2_000_000
FULL = FIRST - 1
"""Spark divides a bound among partitions and loses an event or two."""


def test_a_lane_that_is_behind_takes_as_many_events_as_fit_into_the_time_wanted() -> None:
    assert next_bound(FIRST, FULL, 2.0, lag=10 * FIRST, most=MOST) == int(FULL / 2.0 * WANTED_S)


@pytest.mark.parametrize(
    ("offsets", "took_s", "lag"),
    [
        pytest.param(FULL // 2, 0.5, 10 * FIRST, id="the batch was not full"),
        pytest.param(FULL, 0.5, FIRST, id="the rest fits into one batch"),
        pytest.param(FULL, WANTED_S / 1.4, 10 * FIRST, id="the growth is not worth a query"),
        pytest.param(FULL, 19.0, 10 * FIRST, id="the batch is long but not too long"),
        pytest.param(FULL, 0.0, 10 * FIRST, id="no time was measured"),
    ],
)
def test_a_bound_stays_where_another_would_not_help(offsets: int, took_s: float, lag: int) -> None:
    assert next_bound(FIRST, offsets, took_s, lag, MOST) == FIRST


def test_a_bound_whose_batches_are_too_long_falls_to_what_fits() -> None:
    assert next_bound(MOST, MOST, 40.0, lag=0, most=MOST) == int(MOST / 40.0 * WANTED_S)
    assert next_bound(MOST, MOST, 4_000.0, lag=0, most=MOST) == FIRST


def test_a_batch_that_is_too_long_shrinks_the_bound_though_it_was_not_full() -> None:
    assert next_bound(MOST, 1_700_000, 100.0, lag=0, most=MOST) == FIRST


def test_a_setting_a_little_above_the_first_bound_is_reached() -> None:
    assert next_bound(FIRST, FULL, 0.5, lag=10 * FIRST, most=290_000) == 290_000


def test_a_setting_below_the_first_bound_holds_from_the_first_batch_on() -> None:
    assert first_bound(1_500) == 1_500
    assert next_bound(1_500, 1_500, 0.01, lag=10**9, most=1_500) == 1_500
    assert next_bound(1_500, 1_500, 500.0, lag=10**9, most=1_500) == 1_500


@given(
    st.integers(1, 10**7),
    st.integers(0, 10**7),
    st.floats(0, 10**4),
    st.integers(0, 10**9),
    st.integers(1, 10**7),
)
def test_a_bound_lies_between_the_first_and_the_most(
    bound: int, offsets: int, took_s: float, lag: int, most: int
) -> None:
    bound = max(first_bound(most), min(bound, most))
    assert first_bound(most) <= next_bound(bound, offsets, took_s, lag, most) <= most
