"""A slice fits the windows that are read by it."""

import pytest

from slicewise.errors import DefinitionError
from slicewise.windows.durations import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
)
from slicewise.windows.hopping import hopping
from slicewise.windows.slices import check_slice, default_slice
from slicewise.windows.sliding import sliding

M, H = MINUTE_US, HOUR_US


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
    assert default_slice([sliding(w) for w in windows]) == expected


def test_a_hop_must_be_a_multiple_of_the_slice_but_does_not_shorten_it_to_a_tenth() -> None:
    assert default_slice([hopping("1d", every="15m")]) == 15 * M
    assert default_slice([hopping("1d", every="20m")]) == 5 * M


def test_windows_that_no_slice_fits_are_refused() -> None:
    with pytest.raises(DefinitionError, match="no slice fits"):
        default_slice([sliding("500ms")])
    with pytest.raises(DefinitionError, match="no slice fits"):
        default_slice([sliding("1001ms")])


def test_a_declared_slice_divides_the_hour_and_every_window() -> None:
    check_slice(90 * SECOND_US, [sliding("3m")])
    with pytest.raises(DefinitionError, match="does not divide the hour"):
        check_slice(7 * M, [sliding("7m")])
    with pytest.raises(DefinitionError, match="not divisible by the slice 5m"):
        check_slice(5 * M, [sliding("1h"), sliding("12m")])
    with pytest.raises(DefinitionError, match="hopping_1h_12m is not divisible"):
        check_slice(5 * M, [hopping("1h", every="12m")])
    with pytest.raises(
        DefinitionError, match="1h_offset_7m is not divisible by the slice 5m: 7m is no"
    ):
        check_slice(5 * M, [sliding("1h", offset="7m")])


def test_an_offset_is_a_multiple_of_the_slice_but_does_not_shorten_it_to_a_tenth() -> None:
    assert default_slice([sliding("1h", offset="15m")]) == 5 * M
    assert default_slice([sliding("1d", offset="15m")]) == 15 * M
    assert default_slice([sliding("1d", offset="90s")]) == 30 * SECOND_US
    with pytest.raises(DefinitionError, match="offsets that are multiples of 100ms"):
        default_slice([sliding("1h", offset="1001ms")])
