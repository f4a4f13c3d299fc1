"""The square root of a rational number becomes the nearest double, once, half to even."""

from __future__ import annotations

from math import isqrt

from slicewise.aggregates.kernel.rounding import scaled
from slicewise.errors import CodecError

ROOT_BITS = 64
"""Bits of a root that is still to be rounded: with one more for what is left, rounding it rounds
the root."""


def root(numerator: int, denominator: int, unit: int = 0) -> float | None:
    """sqrt(numerator / denominator) · 2^unit; None beyond the largest double.

    numerator >= 0, denominator > 0. The integer root of enough bits, with a last bit that says
    whether anything is left below it (rounding to odd: Boldo and Melquiond, IEEE Trans. Comp.
    57(4)), lies on the same side of every double and every middle between two as the root itself.
    """
    if numerator < 0 or denominator < 1:
        raise CodecError(
            "sums that no numbers have: a sum of squares below zero",
            expected="what was accumulated",
        )
    if numerator == 0:
        return 0.0
    shift = max(0, ROOT_BITS - (numerator.bit_length() - denominator.bit_length()) // 2)
    whole, rest = divmod(numerator << (2 * shift), denominator)
    floor = isqrt(whole)
    sticky = rest != 0 or floor * floor != whole
    return scaled(2 * floor + sticky, unit - shift - 1, 1)
