"""The weight of an instant is a pure function of integers: w · 2^(q - 63), the same on every
machine.

One landmark for ever, the epoch: with t = q·h + r, 0 <= r < h, the weight 2^(t/h) is 2^q · f(r).
f takes r/h to 33 bits, rounded down, in three parts of eleven; each part's power of two stands in a
table, correctly rounded to 63 bits after the point, and their product is cut off there.
"""

from __future__ import annotations

from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.ragged import Int64

PART_BITS = 11
PARTS = 3
POINT = 63
"""Bits after the point of a weight's factor w, which is at least 2^63 and below 2^64."""
ERROR = 2.0**-33
"""Bound of a weight's relative error."""
_WORKING_BITS = 256
_LOW, _BITS = np.uint64(2**32 - 1), np.uint64(32)


@cache
def tables() -> tuple[tuple[int, ...], ...]:
    """Per part i and j below 2^11: 2^(j / 2^(11·i)) · 2^63, rounded to the nearest integer."""
    scale, root = _WORKING_BITS, 2 << (2 * _WORKING_BITS)
    powers = []
    step = isqrt(root)  # 2^(1/2) with `scale` bits after the point
    for i in range(1, PARTS * PART_BITS):
        if i % PART_BITS == 0:
            powers.append(_powers(step))
        step = isqrt(step << scale)
    powers.append(_powers(step))
    return tuple(powers)


def _powers(step: int) -> tuple[int, ...]:
    power, powers = 1 << _WORKING_BITS, []
    for _ in range(1 << PART_BITS):
        # Each product is low by less than 2^-254, after 2,047 of them by less than 2^-240.
        low = (power + (1 << (_WORKING_BITS - POINT - 1))) >> (_WORKING_BITS - POINT)
        high = (power + (1 << 20) + (1 << (_WORKING_BITS - POINT - 1))) >> (_WORKING_BITS - POINT)
        if low != high:
            raise AssertionError("a power of two too near to a half to be rounded")
        powers.append(low)
        power = power * step >> _WORKING_BITS
    return tuple(powers)


@cache
def _columns() -> tuple[NDArray[np.uint64], ...]:
    return tuple(np.array(table, np.uint64) for table in tables())


def weight(time: int, half_life: int) -> tuple[int, int]:
    """(q, w) of an instant, both in microseconds: its weight is w · 2^(q - 63)."""
    q, rest = divmod(time, half_life)
    share = (rest << (PARTS * PART_BITS)) // half_life
    first, second, third = tables()
    mask = (1 << PART_BITS) - 1
    factor = first[share >> (2 * PART_BITS)] * second[(share >> PART_BITS) & mask] >> POINT
    return q, factor * third[share & mask] >> POINT


def weights(time: Int64, half_life: int) -> tuple[Int64, NDArray[np.uint64]]:
    """(q, w) of instants [n]; half_life below 2^52."""
    q = time // half_life
    rest = time - q * half_life
    factor: NDArray[np.uint64] | None = None
    for table in _columns():
        rest <<= PART_BITS
        part = rest // half_life
        rest -= part * half_life
        power = table[part]
        factor = power if factor is None else _product(factor, power)
    assert factor is not None
    return q, factor


def _product(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """a · b / 2^63, rounded down; below 2^64."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _BITS, b & _LOW, b >> _BITS
    middle = a_high * b_low + (a_low * b_low >> _BITS)
    other = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _BITS) + (other >> _BITS)
    product: NDArray[np.uint64] = (high << np.uint64(1)) | ((other >> np.uint64(31)) & np.uint64(1))
    return product
