"""Partials of any ranges of rows are looked up in tables that are made of the rows once.

What can be deducted keeps sums from the first row on, of which two are deducted; what is the same
twice as once keeps the best of runs of 2^i rows, of which two cover a range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.ragged import Int64, offsets_of

Ranges = Sequence[tuple[Int64, Int64]]
"""Lists of ranges of rows, each as (first row, row beyond its last); an empty range begins where it
ends."""


class RangeForm(Protocol):
    """Partials of ranges of the rows that it was made of."""

    def between(self, ranges: Ranges) -> list[Columns]:
        """Per list the partials of its ranges [n]."""
        ...


def before(chosen: NDArray[np.bool_]) -> Int64:
    """Per row, and beyond the last, how many rows before it are chosen [n+1]."""
    return offsets_of(chosen)


def valid_in(array: pa.Array) -> NDArray[np.bool_] | None:
    """Marks the values that are not null; None where all are."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """The ranges of all rows, as ranges of those that are chosen. chosen: None chooses all."""

    chosen: NDArray[np.bool_] | None

    @cached_property
    def _before(self) -> Int64 | None:
        return None if self.chosen is None else before(self.chosen)

    def among(self, ranges: Ranges) -> Ranges:
        """The same ranges, counted in chosen rows."""
        counts = self._before
        if counts is None:
            return ranges
        return [(counts[first], counts[beyond]) for first, beyond in ranges]


@dataclass(frozen=True, eq=False)
class ChosenForm:
    """The form of the chosen rows, given ranges of all rows."""

    rows: ChosenRows
    inner: RangeForm

    def between(self, ranges: Ranges) -> list[Columns]:
        return self.inner.between(self.rows.among(ranges))


@dataclass(frozen=True, eq=False)
class BestOfRuns:
    """The least key of every range, of keys [n], by two runs of 2^i keys that cover it together.

    One table of runs stands in memory at a time: the next is made of it.
    """

    keys: Int64
    worst: np.int64
    """Least key of an empty range."""

    def least(self, ranges: Ranges) -> list[Int64]:
        """Per list the least keys of its ranges."""
        levels = [np.frexp(np.maximum(beyond - first, 0))[1] for first, beyond in ranges]
        results = [np.full(len(first), self.worst) for first, _ in ranges]
        table, most = self.keys, max((int(level.max(initial=0)) for level in levels), default=0)
        for level in range(1, most + 1):
            run = 1 << (level - 1)
            for (first, beyond), own, result in zip(ranges, levels, results, strict=True):
                rows = np.flatnonzero(own == level)
                result[rows] = np.minimum(table[first[rows]], table[beyond[rows] - run])
            if level < most:
                table = np.minimum(table[:-run], table[run:])
        return results


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of ranges of rows."""

    rows: ChosenRows
    partials: Callable[[Int64], Columns]

    def between(self, ranges: Ranges) -> list[Columns]:
        return [self.partials(beyond - first) for first, beyond in self.rows.among(ranges)]
