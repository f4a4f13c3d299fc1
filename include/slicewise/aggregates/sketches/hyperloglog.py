"""Registers hold maxima, so that their union is the maximum; the estimate is a function of them
alone.

Dense HyperLogLog of 2^p one-byte registers (Flajolet et al. 2007) with Ertl's improved
estimator (arXiv:1702.01284, algorithm 6): additions, products, quotients and square roots of
doubles in one order, each of which IEEE 754 rounds correctly: the same bits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.ragged import Int64

ALPHA = 0.7213475204444817  # 1 / (2 ln 2)
_BIAS = 1023
"""Bias of a double's exponent."""
LEAST_PRECISION, MOST_PRECISION = 4, 16


def registers_and_ranks(
    hashes: NDArray[np.uint64], precision: int
) -> tuple[Int64, NDArray[np.uint8]]:
    """(register, rank) of each hash: its first p bits, and the first one bit after them, from 1."""
    register = (hashes >> np.uint64(64 - precision)).astype(np.int64)
    # The bit put below the last one bounds the rank at 64 - p + 1.
    rest = (hashes << np.uint64(precision)) | np.uint64(1 << (precision - 1))
    # The first one bit is a double's exponent; without the bit after it no rounding can carry into
    # it.
    exponent = (rest & ~(rest >> np.uint64(1))).astype(np.float64).view(np.int64) >> 52
    return register, (64 + _BIAS - exponent).astype(np.uint8)


def register_and_rank(value: int, precision: int) -> tuple[int, int]:
    """The same for one hash."""
    width = 64 - precision
    rest = value & ((1 << width) - 1)
    return value >> width, width - rest.bit_length() + 1


def estimates(registers: NDArray[np.uint8], precision: int) -> Int64:
    """Estimated number of distinct values of each row of registers [n, 2^p]."""
    highest = 64 - precision + 1
    out = np.zeros(len(registers), np.int64)
    for i, row in enumerate(registers):
        out[i] = estimate(np.bincount(row, minlength=highest + 1).tolist(), precision)
    return out


def histogram(registers: Iterable[int], precision: int) -> list[int]:
    """The number of registers that hold each rank, 0 to 64 - p + 1."""
    counts = [0] * (64 - precision + 2)
    for rank in registers:
        counts[rank] += 1
    return counts


def estimate(counts: Sequence[int], precision: int) -> int:
    """The estimate from the histogram of ranks, rounded half to even."""
    m = float(1 << precision)
    highest = 64 - precision + 1
    z = m * _tau(1.0 - counts[highest] / m)
    for rank in range(highest - 1, 0, -1):
        z = 0.5 * (z + counts[rank])
    z += m * _sigma(counts[0] / m)
    return round(ALPHA * m * m / z)


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    y, z = 1.0, x
    while True:
        x *= x
        before = z
        z += x * y
        y += y
        if z == before:
            return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z = 1.0, 1.0 - x
    while True:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1.0 - x) * (1.0 - x) * y
        if z == before:
            return z / 3.0
