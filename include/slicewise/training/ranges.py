"""Ranges over sorted arrays are expanded whole-column, and never more of them at once than a stated
number of items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
SORTED_AT_ONCE = 2**17
"""Rows whose order is found within a cache."""


def expand(first: Ints, beyond: Ints) -> tuple[Ints, Ints]:
    """All positions of the ranges `[first[i], beyond[i])`, and for each position the `i` that it
    belongs to.

    An empty or inverted range has no position.
    """
    counts = np.maximum(beyond - first, 0)
    owner = np.repeat(np.arange(len(first), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    positions = np.arange(len(owner), dtype=np.int64) - before[owner] + first[owner]
    return positions, owner


def batches(counts: Ints, limit: int) -> Iterator[slice]:
    """Consecutive runs of rows whose counts sum to at most `limit`; a row above the limit is a run
    of its own.

    Every row costs at least one, so that rows without items are bounded too.
    """
    total = np.cumsum(np.maximum(counts, 1))
    start = 0
    while start < len(counts):
        done = int(total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(total, done + limit, side="right")), start + 1)
        yield slice(start, stop)
        start = stop


def group_starts(*keys: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """Groups rows sorted by `keys`: the group of each row (dense, from 0), and each group's first
    row."""
    n = len(keys[0])
    if n == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    new = np.zeros(n, np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.cumsum(new, dtype=np.int64) - 1, np.flatnonzero(new).astype(np.int64)


def order_by(entity: Ints, time: Ints) -> tuple[Ints, Ints, Ints]:
    """Rows by entity, then by time; what is equal in both keeps its order. And both in this order.

    entity: at least 0. By radix into runs of entities that a cache holds, and each run by itself.
    """
    n = len(entity)
    entities = int(entity.max(initial=0)) + 1
    first_us = int(time.min(initial=2**62))
    span = int(time.max(initial=first_us)) - first_us + 1
    shift = max(entities.bit_length() - 16, (entities * SORTED_AT_ONCE // max(n, 1)).bit_length())
    if n <= SORTED_AT_ONCE or entities >> shift == 0:
        order = _sorted(entity, time, (0, entities), (first_us, span))
        return order, entity[order], time[order]
    runs = np.empty(n, np.uint16)
    np.right_shift(entity, shift, out=runs, casting="unsafe")
    order = np.argsort(runs, kind="stable")
    ends = np.cumsum(np.bincount(runs))
    entity, time = entity[order], time[order]
    begin = 0
    for number, end in enumerate(ends.tolist()):
        some = slice(begin, end)
        run = (number << shift, 1 << shift)
        own = _sorted(entity[some], time[some], run, (first_us, span))
        for values in (order, entity, time):
            values[some] = values[some][own]
        begin = end
    return order, entity, time


def _sorted(entity: Ints, time: Ints, run: tuple[int, int], times: tuple[int, int]) -> Ints:
    """run, times: the least of each, and how many there may be."""
    (first, entities), (first_us, span) = run, times
    if entities * span >= 2**63:
        return np.lexsort((time, entity)).astype(np.int64)
    return np.argsort((entity - first) * span + (time - first_us), kind="stable").astype(np.int64)
