"""Counters add up, and an item's estimate is the least of its counters: never below its count.

Count-Min (Cormode, Muthukrishnan 2005) of fixed geometry, without conservative update, which would
depend on order. An estimate exceeds the count by more than e/width of all events with a probability
of at most e^-DEPTH.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.hashing import GOLDEN, mixed, mixed_one
from slicewise.aggregates.kernel.ragged import Int64

DEPTH = 4
E = Fraction(2718281828459045236, 10**18)
"""Rounded up."""
_ROWS = np.array([row * GOLDEN % 2**64 for row in range(DEPTH)], np.uint64)[:, None]


def width_of(error: float) -> int:
    """The least power of two of counters in a row that keeps to the error."""
    width = 1
    while width * Fraction(repr(error)) < E:
        width *= 2
    return width


def bound(events: int, width: int) -> int:
    """The most that an estimate may exceed the count by, with a probability of at least 1 -
    e^-DEPTH."""
    return int(E * events / width) + 1


def cells(hashes: NDArray[np.uint64], width: int) -> Int64:
    """The cells [DEPTH, n] of items with these hashes, among DEPTH rows of `width` laid end to
    end."""
    positions = (mixed(hashes + _ROWS) & np.uint64(width - 1)).view(np.int64)
    positions += np.arange(0, DEPTH * width, width)[:, None]
    return positions


def cells_of_one(value: int, width: int) -> list[int]:
    """The same of one hash."""
    return [
        (mixed_one((value + row * GOLDEN) % 2**64) & (width - 1)) + row * width
        for row in range(DEPTH)
    ]


def power(base: float, exponent: int) -> float:
    """base^exponent of a share by squaring: products of doubles in one order, no libm."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result
