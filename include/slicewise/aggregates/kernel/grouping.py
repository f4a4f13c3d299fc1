"""Keys and pairs are numbered in their own order, so that a number says nothing of how events
came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.values import ValueType

SMALL_SORT = 1 << 17
"""Values, up to which what a read combines is sorted as it comes."""
SPARE = 1 << 16
"""Places that a table of all possible numbers may have beyond four per given one."""


def coded(stored: Any, kind: ValueType) -> tuple[Any, Int64]:
    """The distinct stored values, ascending, and for each given one its position among them."""
    encoded = (pa.array(stored) if isinstance(stored, np.ndarray) else stored).dictionary_encode()
    values = encoded.dictionary.to_numpy() if isinstance(stored, np.ndarray) else encoded.dictionary
    order = np.argsort(kind.order(values), kind="stable")
    universe = values[order] if isinstance(values, np.ndarray) else values.take(pa.array(order))
    return universe, _positions(order)[encoded.indices.to_numpy()]


def shifted(stored: Any, kind: ValueType, n_groups: int) -> tuple[Int64, int, int] | None:
    """(positions, span, least) of few whole numbers: a position is a value less the least, below
    the span, and group · span + position is an int64. None of other values: `coded` numbers those.

    What a read combines is sorted once by such pairs, without a table of the distinct values. Many
    values are often few distinct ones in many groups, each of which `coded` lets be looked at once.
    """
    if kind.dtype in (None, "<f8") or not 0 < len(stored) <= SMALL_SORT:
        return None
    least = int(stored.min())
    span = int(stored.max()) - least + 1
    return (stored.astype(np.int64) - least, span, least) if span * n_groups < 2**63 else None


def numbered(numbers: Int64, most: int) -> tuple[Int64, Int64]:
    """The distinct numbers, ascending, and for each given one its position among them.

    The numbers lie in [0, most). In one pass over a table of all of them where that is not much
    longer than what is given, else by hashing.
    """
    if most <= 4 * len(numbers) + SPARE:
        seen = np.zeros(most, np.bool_)
        seen[numbers] = True
        return np.flatnonzero(seen), (np.cumsum(seen) - 1)[numbers]
    encoded = pa.array(numbers).dictionary_encode()
    values = encoded.dictionary.to_numpy()
    order = np.argsort(values)
    return values[order], _positions(order)[encoded.indices.to_numpy()]


def order_of(keys: NDArray[Any], groups: Int64, *, stable: bool = False) -> Int64:
    """Indices that sort by group, then by key; equal pairs in any order unless `stable`.

    About twice as fast as lexsort: keys by NumPy's quickest sort, groups by 16 bits at a time,
    which it sorts by radix.
    """
    order = np.argsort(keys, kind="stable" if stable else None)
    most, shift = int(groups.max(initial=0)), 0
    while most >> shift:
        piece = (groups[order] >> shift).astype(np.uint16)
        order = order[np.argsort(piece, kind="stable")]
        shift += 16
    return order


def least_of(keys: NDArray[Any], most: int) -> NDArray[np.bool_]:
    """Marks the `most` least keys; of equal ones the first."""
    if len(keys) <= most:
        return np.ones(len(keys), np.bool_)
    bound = np.partition(keys, most - 1)[most - 1]
    chosen: NDArray[np.bool_] = keys < bound
    chosen[np.flatnonzero(keys == bound)[: most - int(chosen.sum())]] = True
    return chosen


def _positions(order: Int64) -> Int64:
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    return position
