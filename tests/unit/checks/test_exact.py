"""The check's own arithmetic is that of rational numbers, rounded once."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.checks.judges import exact

doubles = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30)
longs = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)


def _nearest(value: Fraction) -> float | None:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return None


@given(doubles)
def test_a_sum_is_the_double_nearest_to_the_exact_one(values: list[float]) -> None:
    wanted = _nearest(sum(map(Fraction, values), Fraction(0))) if values else None
    actual = exact.sum_doubles(values)
    assert actual == wanted
    assert actual is None or math.copysign(1, actual or 1.0) == math.copysign(1, wanted or 1.0)


@given(doubles)
def test_a_mean_is_rounded_once(values: list[float]) -> None:
    wanted = _nearest(sum(map(Fraction, values), Fraction(0)) / len(values)) if values else None
    assert exact.mean_doubles(values) == wanted


@given(longs)
def test_sums_of_longs_are_exact_or_null(values: list[int]) -> None:
    inside = bool(values) and -(2**63) <= sum(values) < 2**63
    assert exact.sum_longs(values) == (sum(values) if inside else None)
    assert exact.mean_longs(values) == (
        _nearest(Fraction(sum(values), len(values))) if values else None
    )


@pytest.mark.parametrize(
    ("values", "sum_", "mean"),
    [
        (["0.10", "0.05"], "0.15", "0.075000"),
        (["0.01", "0.00", "0.00"], "0.01", "0.003333"),
        (["-0.01", "-0.01", "0.00"], "-0.02", "-0.006667"),
        ([], None, None),
    ],
)
def test_decimals_are_exact_and_means_round_halves_away_from_zero(
    values: list[str], sum_: str | None, mean: str | None
) -> None:
    numbers = [Decimal(value) for value in values]
    assert exact.sum_decimals(numbers) == (None if sum_ is None else Decimal(sum_))
    result = exact.mean_decimals(numbers, 6)
    assert (None if result is None else format(result, "f")) == mean


@given(doubles.filter(bool))
def test_an_ordinary_sum_lies_within_its_bound_in_any_order(values: list[float]) -> None:
    plain = 0.0
    for value in values:
        plain += value
    assert exact.plain_sum_agrees(
        plain, exact.sum_doubles(values), len(values), exact.absolute_sum(values)
    )


def test_an_ordinary_sum_beyond_its_bound_is_seen() -> None:
    values = [0.1] * 10
    good, total = exact.absolute_sum(values), exact.sum_doubles(values)
    assert total is not None
    assert not exact.plain_sum_agrees(total * (1 + 1e-12), total, 10, good)
    assert not exact.plain_sum_agrees(None, total, 10, good)


@given(doubles)
def test_sizes_add_up_to_the_nearest_double_and_are_infinite_beyond_the_largest(
    values: list[float],
) -> None:
    wanted = _nearest(sum((abs(Fraction(value)) for value in values), Fraction(0)))
    assert exact.absolute_sum(values) == (math.inf if wanted is None else wanted)


def test_sizes_round_to_infinity_where_their_exact_sum_does() -> None:
    largest, half_step = math.nextafter(math.inf, 0), math.ldexp(1.0, 969)
    assert exact.absolute_sum([largest, half_step]) == largest
    assert exact.absolute_sum([-largest, half_step, -half_step]) == math.inf
