"""Moments by deviations from the mean, in Python's integers: a second pass over rows, where the
algebra adds powers.

With whole numbers x over one denominator d, n·x − Σx is a deviation in units of 1/(n·d), so that
all is exact until the one rounding at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from slicewise.checks.judges import Row, judge

_DIGITS = Context(prec=40)

Exact = int | float | Decimal | Fraction
"""A finite number, which is a ratio of two whole ones."""


@judge("variance")
def variance(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """Σ(x − mean)² / (n − 1), or / n of a population."""
    return _of_column(rows, spec, lambda values: _double(_variance(values, spec["population"])))


@judge("stddev")
def stddev(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """√variance."""
    return _of_column(rows, spec, lambda values: _root(_variance(values, spec["population"])))


@judge("skewness")
def skewness(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """√n · Σ(x − mean)³ / (Σ(x − mean)²)^1.5."""

    def shape(values: Sequence[Exact]) -> float | None:
        deviations, _ = _deviations(values)
        second, third = sum(d * d for d in deviations), sum(d**3 for d in deviations)
        return (
            _signed(third, _root(Fraction(len(values) * third**2, second**3))) if second else None
        )

    return _of_column(rows, spec, shape)


@judge("kurtosis")
def kurtosis(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """n · Σ(x − mean)⁴ / (Σ(x − mean)²)² − 3."""

    def shape(values: Sequence[Exact]) -> float | None:
        deviations, _ = _deviations(values)
        second, fourth = sum(d * d for d in deviations), sum(d**4 for d in deviations)
        return _double(Fraction(len(values) * fourth, second**2) - 3) if second else None

    return _of_column(rows, spec, shape)


@judge("covariance")
def covariance(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """Σ(x − mean)(y − mean) / (n − 1), or / n of a population."""

    def shared(x: Sequence[Exact], y: Sequence[Exact]) -> float | None:
        by = len(x) - (0 if spec["population"] else 1)
        return _double(_product(x, y) / by) if by else None

    return _of_pairs([(row.values[spec["x"]], row.values[spec["y"]]) for row in rows], shared, spec)


@judge("correlation")
def correlation(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """Σ(x − mean)(y − mean) / √(Σ(x − mean)² · Σ(y − mean)²)."""

    def shared(x: Sequence[Exact], y: Sequence[Exact]) -> float | None:
        size, both = _product(x, x) * _product(y, y), _product(x, y)
        return _signed(both, _root(both**2 / size)) if size else None

    return _of_pairs([(row.values[spec["x"]], row.values[spec["y"]]) for row in rows], shared, spec)


@judge("linear_trend")
def linear_trend(rows: Sequence[Row], spec: Mapping[str, Any]) -> float | None:
    """The line of least squares of a column over another, or over event time in seconds."""
    over = spec["over"]

    def line(x: Sequence[Exact], y: Sequence[Exact]) -> float | None:
        across, up = _product(x, x), _product(y, y)
        if not across:
            return None
        slope = _product(x, y) / across
        if spec["output"] == "slope":
            return _double(slope)
        if spec["output"] == "intercept":
            return _double(_mean(y) - slope * _mean(x))
        return _double(slope**2 * across / up) if up else 1.0

    x = [Fraction(row.t, 1_000_000) if over is None else row.values[over] for row in rows]
    return _of_pairs(
        list(zip(x, (row.values[spec["column"]] for row in rows), strict=True)), line, spec
    )


def _of_column(
    rows: Sequence[Row],
    spec: Mapping[str, Any],
    value: Callable[[Sequence[Exact]], float | None],
) -> float | None:
    present = [row.values[spec["column"]] for row in rows if row.values[spec["column"]] is not None]
    if len(present) < _least(spec):
        return None
    return value(present) if all(map(_finite, present)) else math.nan


def _of_pairs(
    pairs: Sequence[tuple[Any, Any]],
    value: Callable[[Sequence[Exact], Sequence[Exact]], float | None],
    spec: Mapping[str, Any],
) -> float | None:
    present = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    if len(present) < _least(spec):
        return None
    if not all(_finite(x) and _finite(y) for x, y in present):
        return math.nan
    return value([x for x, _ in present], [y for _, y in present])


def _least(spec: Mapping[str, Any]) -> int:
    """The least number of values that there must be: two of a sample."""
    return 2 if spec.get("population") is False else 1


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _mean(values: Sequence[Exact]) -> Fraction:
    return sum((Fraction(value) for value in values), Fraction(0)) / len(values)


def _deviations(values: Sequence[Exact]) -> tuple[list[int], int]:
    """Deviations from the mean, as integers over the second."""
    ratios = [value.as_integer_ratio() for value in values]
    one = math.lcm(*{denominator for _, denominator in ratios})
    whole = [numerator * (one // denominator) for numerator, denominator in ratios]
    total, n = sum(whole), len(values)
    return [n * value - total for value in whole], n * one


def _product(x: Sequence[Exact], y: Sequence[Exact]) -> Fraction:
    of_x, x_one = _deviations(x)
    of_y, y_one = (of_x, x_one) if y is x else _deviations(y)
    return Fraction(sum(a * b for a, b in zip(of_x, of_y, strict=True)), x_one * y_one)


def _variance(values: Sequence[Exact], population: bool) -> Fraction:
    return _product(values, values) / (len(values) - (0 if population else 1))


def _double(value: Fraction) -> float | None:
    """The nearest double; none beyond the largest, a zero is +0.0."""
    try:
        return value.numerator / value.denominator + 0.0
    except OverflowError:
        return None


def _root(square: Fraction) -> float | None:
    """The double nearest to the square root: a near one, moved until the middles on both sides
    enclose the root."""
    near = _DIGITS.sqrt(_DIGITS.divide(Decimal(square.numerator), Decimal(square.denominator)))
    root = min(float(near), math.nextafter(math.inf, 0))
    while root > 0 and _beyond(square, math.nextafter(root, 0), root) < 0:
        root = math.nextafter(root, 0)
    while not math.isinf(root) and _beyond(square, root, math.nextafter(root, math.inf)) > 0:
        root = math.nextafter(root, math.inf)
    # a double is a whole number of its steps, of at most 53 bits: the quotient is exact
    odd = not math.isinf(root) and root / math.ulp(root) % 2 == 1
    if odd and _beyond(square, math.nextafter(root, 0), root) == 0:
        root = math.nextafter(root, 0)
    elif odd and _beyond(square, root, math.nextafter(root, math.inf)) == 0:
        root = math.nextafter(root, math.inf)
    return None if math.isinf(root) else root


def _beyond(square: Fraction, low: float, high: float) -> int:
    """Tells whether a root is above (1), at (0) or below (-1) the middle of two doubles that are
    neighbours."""
    (n, one), (step, of_step) = low.as_integer_ratio(), _step(low, high).as_integer_ratio()
    middle, unit = 2 * n * of_step + step * one, 2 * one * of_step
    left, right = square.numerator * unit**2, middle**2 * square.denominator
    return (left > right) - (left < right)


def _step(low: float, high: float) -> float:
    """The distance of two doubles that are neighbours; beyond the largest its own step."""
    return math.ulp(low) if math.isinf(high) else high - low


def _signed(sign: Fraction | int, size: float | None) -> float | None:
    return -size if size and sign < 0 else size
