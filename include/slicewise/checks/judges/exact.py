"""The check's own arithmetic: exact by Python's integers and `math.fsum`, sharing nothing with the
algebra.

Every function takes plain Python values and is called per group by Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction

OVERFLOW = "overflow"
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_UNIT = 1_074  # the smallest double is 2^-1074: every finite double is an integer of that unit
_WIDE = Context(prec=400)


def sum_doubles(values: Iterable[float]) -> float | None:
    """The exact real sum, rounded once half-even; null for no values or beyond the largest
    double."""
    numbers = list(values)
    if not numbers:
        return None
    try:
        total = math.fsum(numbers)
    except OverflowError:  # a partial sum of fsum's, not necessarily the sum
        total = _as_double(exact_sum(numbers))
    return None if math.isinf(total) else total + 0.0


def mean_doubles(values: Iterable[float]) -> float | None:
    """The exact real sum over the count, rounded once half-even."""
    numbers = list(values)
    if not numbers:
        return None
    mean = _as_double(exact_sum(numbers) / len(numbers))
    return None if math.isinf(mean) else mean + 0.0


def exact_sum(numbers: Iterable[float]) -> Fraction:
    """The sum of finite doubles as a rational number.

    `math.fsum` rounds the exact sum once. Taken from the numbers again it leaves the exact rest:
    some rounds later, each of 53 bits or more, nothing is left.
    """
    left, total = list(numbers), Fraction(0)
    while True:
        try:
            part = math.fsum(left)
        except OverflowError:  # a partial sum of fsum's, not necessarily the sum
            return total + _by_integers(left)
        if part == 0:
            return total
        total += Fraction(part)
        left.append(-part)


def _by_integers(numbers: Iterable[float]) -> Fraction:
    total = 0
    for number in numbers:
        numerator, denominator = number.as_integer_ratio()
        total += numerator << (_UNIT - denominator.bit_length() + 1)
    return Fraction(total, 1 << _UNIT)


HALF = 32
"""SQL sums longs in two halves, neither of which can overflow: the upper bits, and so many lower
ones."""


def of_halves(upper: int, lower: int) -> int:
    """The exact sum of longs from the sums of their halves."""
    return (upper << HALF) + lower


def sum_longs(values: Iterable[int]) -> int | None:
    """The sum, or null for no values or outside of 64 bits."""
    numbers = list(values)
    total = sum(numbers)
    return total if numbers and LONG_MIN <= total <= LONG_MAX else None


def mean_longs(values: Iterable[int]) -> float | None:
    """The exact sum over the count, rounded once half-even."""
    numbers = list(values)
    return mean_of_total(sum(numbers), len(numbers)) if numbers else None


def mean_of_total(total: int, n: int) -> float:
    """A sum of n longs over n, rounded once half-even."""
    return _as_double(Fraction(total, n)) + 0.0


def sum_decimals(values: Iterable[Decimal]) -> Decimal | None:
    """The exact sum; null for no values."""
    numbers = list(values)
    total = Decimal(0)
    for number in numbers:
        total = _WIDE.add(total, number)
    return total if numbers else None


def mean_decimals(values: Iterable[Decimal], scale: int) -> Decimal | None:
    """The exact sum over the count at this scale, halves away from zero; null for no values."""
    numbers = list(values)
    total = sum_decimals(numbers)
    if total is None:
        return None
    unscaled = Fraction(total) * 10**scale / len(numbers)
    whole = math.floor(abs(unscaled) + Fraction(1, 2))
    return Decimal(whole if unscaled >= 0 else -whole).scaleb(-scale, _WIDE)


def absolute_sum(values: Iterable[float]) -> float:
    """Σ|x|, rounded once: the scale of a plain sum's error; infinite beyond the largest double."""
    try:
        return math.fsum(map(abs, values))
    except OverflowError:  # none of its partial sums is beyond the sum
        return math.inf


def plain_sum_agrees(plain: float | None, exact: float | None, n: int, absolute: float) -> bool:
    """Tells whether an ordinary sum of n doubles lies as near to the exact one as its rounding
    allows.

    The bound of n − 1 additions, each off by at most half a unit: n · 2⁻⁵³ · Σ|x| (Higham,
    Accuracy and Stability of Numerical Algorithms, 4.2), with one more unit for the exact sum's
    own rounding. A plain sum that overflowed on its way says nothing.
    """
    if exact is None:  # no values, or beyond the largest double: there a plain sum says nothing
        return n > 0 or plain is None
    if plain is None or not math.isfinite(plain) or not math.isfinite(absolute):
        return plain is not None
    bound = Fraction(n + 1, 2**53) * Fraction(absolute)
    return abs(Fraction(plain) - Fraction(exact)) <= bound


def _as_double(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator  # integer true division rounds once, half-even
    except OverflowError:
        return math.inf if value > 0 else -math.inf
