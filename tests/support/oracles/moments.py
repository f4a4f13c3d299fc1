"""Moments by their textbook definitions, in fractions and two passes, for oracles; shares no code
with the product."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any, Protocol

Pairs = Sequence[tuple[Fraction, Fraction]]

LARGEST_BITS = (0x7FF << 52) - 1

SECOND = 1_000_000


class Event(Protocol):
    """An event's time in microseconds, and its columns."""

    @property
    def time(self) -> int: ...
    @property
    def columns(self) -> Mapping[str, Any]: ...


class TooLarge(Exception):
    """The nearest double would lie beyond the largest."""


def double(exact: Fraction) -> float:
    """The nearest double, half to even; a zero is +0.0."""
    negative, size = exact < 0, abs(exact)
    nearest = _nearest(size, size, lambda value: (value > size) - (value < size))
    return -nearest if negative and nearest else nearest


def root(exact: Fraction) -> float:
    """The double nearest to the square root, half to even."""
    near = Fraction(isqrt((exact.numerator << 2400) // exact.denominator), 1 << 1200)
    return _nearest(exact, near, lambda value: (value * value > exact) - (value * value < exact))


def _nearest(exact: Fraction, near: Fraction, side: Callable[[Fraction], int]) -> float:
    """By halving a range of doubles, which their bits number in order.

    side: where a double or a middle of two lies, above the number (1), at it (0) or below it (-1).
    """
    try:
        guess = struct.unpack("<q", struct.pack("<d", near.numerator / near.denominator))[0]
    except OverflowError:
        guess = LARGEST_BITS
    low, high = max(guess - 8, 0), min(guess + 8, LARGEST_BITS + 1)
    assert side(_numbered(low)) <= 0, exact
    assert high > LARGEST_BITS or side(_numbered(high)) > 0, exact
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if side(_numbered(middle)) > 0 else (middle, high)
    above = side((_numbered(low) + _numbered(low + 1)) / 2)
    chosen = low + 1 if above < 0 or (above == 0 and low % 2) else low
    if chosen > LARGEST_BITS:
        raise TooLarge
    (value,) = struct.unpack("<d", struct.pack("<q", chosen))
    return float(value)


def _numbered(bits: int) -> Fraction:
    """The double of these bits, and 2^1024 above the largest."""
    if bits > LARGEST_BITS:
        return Fraction(2) ** 1024
    return Fraction(*struct.unpack("<d", struct.pack("<q", bits)))


def central(values: Sequence[Fraction], power: int) -> Fraction:
    """Σ(x − mean)^power."""
    return _powers([values] * power)


def central_product(pairs: Pairs) -> Fraction:
    """Σ(x − mean)(y − mean)."""
    return _powers([[x for x, _ in pairs], [y for _, y in pairs]])


def _powers(factors: Sequence[Sequence[Fraction]]) -> Fraction:
    """The sum over all rows of the product of the deviations of each factor."""
    products, unit = [1] * len(factors[0]), 1
    for values in factors:
        one = math.lcm(*(value.denominator for value in values))
        whole = [value.numerator * (one // value.denominator) for value in values]
        total = sum(whole)
        products = [p * (len(whole) * w - total) for p, w in zip(products, whole, strict=True)]
        unit *= len(whole) * one
    return Fraction(sum(products), unit)


def variance(values: Sequence[Fraction], population: bool = False) -> Fraction | None:
    by = len(values) - (not population)
    return central(values, 2) / by if by > 0 else None


def stddev(values: Sequence[Fraction], population: bool = False) -> float | None:
    result = variance(values, population)
    return None if result is None else root(result)


def skewness(values: Sequence[Fraction]) -> float | None:
    if len(set(values)) < 2:
        return None
    third, second = central(values, 3), central(values, 2)
    size = root(len(values) * third**2 / second**3)
    return -size if third < 0 and size else size


def kurtosis(values: Sequence[Fraction]) -> Fraction | None:
    if len(set(values)) < 2:
        return None
    return len(values) * central(values, 4) / central(values, 2) ** 2 - 3


def covariance(pairs: Pairs, population: bool = False) -> Fraction | None:
    by = len(pairs) - (not population)
    return central_product(pairs) / by if by > 0 else None


def correlation(pairs: Pairs) -> float | None:
    across, down = central([x for x, _ in pairs], 2), central([y for _, y in pairs], 2)
    if across == 0 or down == 0:
        return None
    product = central_product(pairs)
    size = root(product**2 / (across * down))
    return -size if product < 0 and size else size


def linear_trend(pairs: Pairs, output: str) -> Fraction | None:
    """The output of the line of least squares through (x, y)."""
    across = central([x for x, _ in pairs], 2)
    if across == 0:
        return None
    slope = central_product(pairs) / across
    if output == "slope":
        return slope
    if output == "intercept":
        return (
            sum((y for _, y in pairs), Fraction(0))
            - slope * sum((x for x, _ in pairs), Fraction(0))
        ) / len(pairs)
    # The share of the variance that is left when the line is taken away.
    whole = central([y for _, y in pairs], 2)
    if whole == 0:
        return Fraction(1)
    left = central([y - slope * x for x, y in pairs], 2)
    return 1 - left / whole


Exact = Fraction | float | None


def _of_column(least: int, exact: Callable[..., Exact]) -> Callable[..., float | None]:
    def judged(events: Sequence[Event], column: str, **given: Any) -> float | None:
        values = [e.columns[column] for e in events if e.columns.get(column) is not None]
        return _answer(least, values, values, exact, given)

    return judged


def _of_two(least: int, exact: Callable[..., Exact]) -> Callable[..., float | None]:
    def judged(events: Sequence[Event], x: str, y: str, **given: Any) -> float | None:
        pairs = [(e.columns.get(x), e.columns.get(y)) for e in events]
        return _of_pairs(least, pairs, exact, given)

    return judged


def _trend(
    events: Sequence[Event], column: str, over: str | None = None, output: str = "slope"
) -> float | None:
    x = [Fraction(e.time, SECOND) if over is None else e.columns.get(over) for e in events]
    pairs = list(zip(x, [e.columns.get(column) for e in events], strict=True))
    return _of_pairs(1, pairs, linear_trend, {"output": output})


def _of_pairs(
    least: int, pairs: Sequence[tuple[Any, Any]], exact: Callable[..., Exact], given: Any
) -> float | None:
    present = [(x, y) for x, y in pairs if x is not None and y is not None]
    numbers = [value for pair in present for value in pair]
    return _answer(least, present, numbers, exact, given)


def _answer(
    least: int,
    present: Sequence[Any],
    numbers: Sequence[Any],
    exact: Callable[..., Exact],
    given: Any,
) -> float | None:
    """Null where there are too few; NaN where a number is not finite."""
    if len(present) < (1 if given.get("population") else least):
        return None
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        return math.nan
    whole = [
        tuple(map(Fraction, item)) if isinstance(item, tuple) else Fraction(item)
        for item in present
    ]
    value = exact(whole, **given)
    return double(value) if isinstance(value, Fraction) else value


BY_KIND: dict[str, Callable[..., float | None]] = {
    "variance": _of_column(2, variance),
    "stddev": _of_column(2, stddev),
    "skewness": _of_column(1, skewness),
    "kurtosis": _of_column(1, kurtosis),
    "covariance": _of_two(2, covariance),
    "correlation": _of_two(1, correlation),
    "linear_trend": _trend,
}
"""Oracles over events and an aggregate's parameters by name; TooLarge beyond the largest double."""
