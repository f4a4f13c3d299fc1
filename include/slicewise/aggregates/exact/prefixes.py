"""Sums from the first number on are exact, so that two of them are deducted to the sum between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.limbs import (
    CARRY_LANES,
    SHORT_CHUNK,
    Numbers,
    canonical,
)
from slicewise.aggregates.kernel.ragged import Int64, Ragged

MOST_LANES = 12
"""Numbers that spread over more lanes are added by groups: their table would be wide."""
MOST_CELLS = 2**26
"""Lanes x numbers: 512 MiB. A lane of so many numbers below 2^33 stays below 2^59."""


@dataclass(frozen=True, eq=False)
class LanePrefixes:
    """Per lane, from `least` on, the sum of the values of all numbers before each [lanes, n+1]."""

    least: int
    sums: Int64

    @staticmethod
    def of(numbers: Numbers) -> LanePrefixes | None:
        """The table of these numbers; None where it would be wide."""
        lanes = numbers.most - numbers.least + 1
        if lanes > MOST_LANES or lanes * numbers.size > MOST_CELLS:
            return None
        sums = np.zeros((lanes, numbers.size + 1), np.int64)
        for begin in range(0, numbers.size, SHORT_CHUNK):
            end = min(begin + SHORT_CHUNK, numbers.size)
            at = np.arange(begin + 1, end + 1)
            for lane, values in numbers.pieces(slice(begin, end)):
                if isinstance(lane, int):
                    sums[lane - numbers.least, begin + 1 : end + 1] += values
                else:
                    sums[lane - numbers.least, at] += values
        np.cumsum(sums, axis=1, out=sums)
        return LanePrefixes(numbers.least, sums)

    def between(self, first: Int64, beyond: Int64) -> tuple[NDArray[np.int32], Ragged]:
        """(start, limbs) [q] of the sum of the numbers of each range."""
        lanes = len(self.sums)
        totals = np.zeros((lanes + CARRY_LANES, len(first)), np.int64)
        for lane in range(lanes):
            np.subtract(self.sums[lane][beyond], self.sums[lane][first], out=totals[lane])
        return canonical(totals, self.least)
