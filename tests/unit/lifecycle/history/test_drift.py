"""Bins are in the order of their values and the same for every run; equal histograms have not
drifted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.lifecycle.history.drift import bin_label, bin_of, change, stability, summary
from slicewise.windows.durations import HOUR_US

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(NUMBERS, NUMBERS)
def test_bins_and_values_have_one_order(one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert bin_of(small) <= bin_of(large)


@pytest.mark.parametrize(
    ("value", "label"),
    [(0.0, "0"), (1.0, "1"), (1.9, "1"), (2.0, "2"), (-3.0, "−2"), (0.3, "0.25")],
)
def test_a_bin_is_named_by_the_power_of_two_that_it_begins_with(value: float, label: str) -> None:
    assert bin_label(bin_of(value)) == label


def test_nulls_are_counted_and_what_is_no_number_is_in_no_bin() -> None:
    counts = summary([None, 1.5, 1, float("nan"), "text", [1], None])
    assert counts == {"values": 7, "null": 2, "bins": {str(bin_of(1.0)): 2}}


@given(st.dictionaries(st.integers(-50, 50).map(str), st.integers(1, 1000), min_size=1))
def test_equal_histograms_have_not_drifted(bins: dict[str, int]) -> None:
    assert stability(bins, bins) == 0.0


def test_a_histogram_that_moved_has_drifted_either_way() -> None:
    before, after = {"1": 400, "2": 100}, {"1": 100, "2": 400}
    assert stability(before, after) == pytest.approx(stability(after, before))
    assert stability(before, after) > 0.25


@pytest.mark.parametrize(
    ("hours_back", "reference", "named"),
    [
        ((30, 25, 24, 2, 1), 24, 24),
        ((30, 23.6, 23.4, 1), 23.6, 24),
        ((30, 2, 1), 1, 1),
        ((30, 2, 0.4), 30, None),
        ((0.2,), 0.2, None),
    ],
)
def test_the_reference_lies_a_day_before_or_an_hour_before_or_is_the_first(
    hours_back: tuple[float, ...], reference: float, named: int | None
) -> None:
    now_us = 1000 * HOUR_US
    runs = [(now_us - int(back * HOUR_US), {"1": i}) for i, back in enumerate(hours_back, 1)]
    drifted = change([*runs, (now_us, {"1": 99})])
    assert drifted is not None
    assert (now_us - drifted.before_us) / HOUR_US == pytest.approx(reference)
    assert drifted.hours == named
    assert drifted.after == {"1": 99}


def test_one_run_has_no_reference() -> None:
    assert change([(1, {"1": 5})]) is None
