"""Bins are in the order of their values and the same for every run; equal histograms have not
drifted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.lifecycle.history.drift import bin_label, bin_of, stability, summary

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
