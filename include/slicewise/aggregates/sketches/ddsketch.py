"""A value's bin follows from its bits by an integer table; a bin's value is within the error of all
its values.

DDSketch (Masson, Rim, Lee 2019, arXiv:1908.10693) without a logarithm: every octave is cut into the
same number of bins of equal ratio, at 2^(j/n) rounded up to 52 bits after the point. No libm.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.grouping import SMALL_SORT, order_of
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.rounding import scaled
from slicewise.errors import CodecError

LEAST_ERROR, MOST_ERROR = 0.001, 0.5
INFINITY, NAN = 2**30, 2**31 - 1
"""Bins of what has no logarithm; −infinity is -INFINITY, zero 0."""
_MARGIN = Fraction(2**32 - 1, 2**32)  # of the table's own rounding
_SUBNORMAL = 54
_OCTAVES = 1075
"""Octaves below 1, so that the bins of positive values are positive."""


def bins_per_octave(error: float) -> int:
    """The least number of bins of which each is within the relative error of its middle."""
    exact = Fraction(repr(error)) * _MARGIN
    ratio, whole, n = (1 + exact) / (1 - exact), Fraction(1), 0
    while whole < 2:
        whole, n = whole * ratio, n + 1
    return n


@dataclass(frozen=True)
class Bins:
    """The bins of every octave cut in `n`."""

    n: int

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Mantissas [n+1], 2^52 to 2^53: bin j of an octave holds those from edges[j] to below
        edges[j+1]."""
        with localcontext(prec=80):
            edges = [math.ceil(Decimal(2) ** (52 + Decimal(j) / self.n)) for j in range(1, self.n)]
        return (2**52, *edges, 2**53)

    @cached_property
    def _inner(self) -> NDArray[np.int64]:
        return np.array(self.edges[1:-1], np.int64)

    def of(self, values: NDArray[np.float64]) -> NDArray[np.int32]:
        """The bin of each canonical double: ascending as the values are."""
        size = np.abs(values)
        small = size < 2.0**-1022
        with np.errstate(invalid="ignore", over="ignore"):
            # exact: a power of two
            bits = np.where(small, size * 2.0**_SUBNORMAL, size).view(np.int64)
        exponent = (bits >> 52) - 1023 - np.where(small, _SUBNORMAL, 0)
        mantissa = (bits & (2**52 - 1)) | 2**52
        numbers = (exponent + _OCTAVES) * self.n + np.searchsorted(
            self._inner, mantissa, side="right"
        )
        numbers[np.isinf(size)] = INFINITY
        numbers = np.where(values < 0, -numbers, numbers)
        numbers[size == 0] = 0
        numbers[np.isnan(values)] = NAN
        return numbers.astype(np.int32)

    def of_one(self, value: float) -> int:
        """The same of one value."""
        if value == 0 or value != value:
            return 0 if value == 0 else NAN
        if math.isinf(value):
            return INFINITY if value > 0 else -INFINITY
        (bits,) = struct.unpack("<q", struct.pack("<d", abs(value)))
        mantissa, exponent = bits & (2**52 - 1), bits >> 52
        if exponent:
            mantissa |= 2**52
        else:
            shift = 53 - mantissa.bit_length()
            mantissa, exponent = mantissa << shift, 1 - shift
        number: int = (exponent - 1023 + _OCTAVES) * self.n + bisect_right(self.edges, mantissa) - 1
        return number if value > 0 else -number

    def value(self, number: int) -> float:
        """The answer of a bin: 2ab/(a+b) of its edges, rounded once."""
        if number == NAN:
            return math.nan
        if abs(number) == INFINITY:
            return math.copysign(math.inf, number)
        if number == 0:
            return 0.0
        octave, within = divmod(abs(number), self.n)
        if octave >= _OCTAVES + 1024:
            raise CodecError(f"bin {number}", expected="a bin of a double")
        low, high = self.edges[within], self.edges[within + 1]
        middle = scaled(2 * low * high, octave - _OCTAVES - 52, low + high)
        assert middle is not None  # below the edge above, which is at most 2^1024
        return float(math.copysign(middle, number))


@lru_cache(maxsize=64)
def bins(n: int) -> Bins:
    """The bins of n per octave; their table is made once."""
    return Bins(n)


def grouped(groups: Int64, keys: Int64, counts: Int64) -> tuple[Int64, Int64, Int64]:
    """Counts added per (group, key), ascending."""
    if len(groups) == 0:
        return groups, keys, counts
    # what is combined comes in ascending runs
    order = order_of(keys, groups, stable=len(keys) <= SMALL_SORT)
    groups, keys, counts = groups[order], keys[order], counts[order]
    first = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (keys[1:] != keys[:-1])))
    return groups[first], keys[first], np.add.reduceat(counts, first)
