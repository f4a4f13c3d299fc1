"""A choice of events is made by a total order: no two entries are equal, so no order of arrival
shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.kernel.events import Rows
from slicewise.aggregates.kernel.ragged import Int64, offsets_of

Key = NDArray[Any]
Keys = Callable[[Int64], Sequence[Key]]
"""Keys of the total order of the entries at these indices, most significant first."""


def rows_order(rows: Rows) -> Keys:
    """The total order of events."""
    keys = (rows.time, rows.topic_hi, rows.topic_lo, rows.partition, rows.offset)
    return lambda indices: [key[indices] for key in keys]


def identity_order(identities: NDArray[np.void]) -> Keys:
    """The same from stored identities."""
    names = identities.dtype.names or ()
    return lambda indices: [identities[name][indices].astype(np.uint64) for name in names]


def choose(
    first: Key, ties: Keys, groups: Int64, n_groups: int, k: int, *, newest: bool = False
) -> tuple[Int64, Int64]:
    """Per group its first k entries by the key `first`, then by `ties`; its last k if `newest`.

    Returns indices of the chosen entries, group by group in ascending order of the keys, and
    the offsets [n_groups+1] of the groups among them.
    """
    if k == 1 and len(groups):
        # Only entries with the best key need any order.
        bounds = np.iinfo(first.dtype)
        best = np.full(n_groups, bounds.min if newest else bounds.max, first.dtype)
        (np.maximum if newest else np.minimum).at(best, groups, first)
        rows = np.flatnonzero(first == best[groups])
        order = rows[np.argsort(groups[rows], kind="stable")]
    else:
        order = np.lexsort((first, groups))
    order = _settle(order, first, ties, groups)
    counts = np.bincount(groups[order], minlength=n_groups)
    starts = offsets_of(counts)
    rank = np.arange(len(order)) - np.repeat(starts[:-1], counts)
    kept = rank >= np.repeat(counts - k, counts) if newest else rank < k
    return order[kept], offsets_of(np.minimum(counts, k))


def _settle(order: Int64, first: Key, ties: Keys, groups: Int64) -> Int64:
    """Entries sorted by group and first key, with those that tie put into the total order."""
    key, group = first[order], groups[order]
    same = (key[1:] == key[:-1]) & (group[1:] == group[:-1])
    if not same.any():
        return order
    tied = np.append(same, False)
    tied[1:] |= same
    run = np.cumsum(np.append(True, ~same))[tied]
    among = order[tied]
    settled = order.copy()
    settled[tied] = among[np.lexsort([*_deciding(ties(among)[::-1]), run])]
    return settled


def _deciding(keys: Sequence[Key]) -> list[Key]:
    """Without keys (least significant first) that tell nothing: one value, or the order as it
    is."""
    varying = [key for key in keys if not (key[0] == key[-1] and (key == key[0]).all())]
    if varying and bool((varying[0][1:] >= varying[0][:-1]).all()):
        return varying[1:]  # the sort is stable
    return varying
