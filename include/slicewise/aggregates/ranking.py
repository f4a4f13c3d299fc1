"""A choice of events is made by a total order: no two entries are equal, so no order of arrival shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slicewise.aggregates.events import Rows
from slicewise.aggregates.ragged import Int64, offsets_of

Key = NDArray[Any]


def rows_order(rows: Rows) -> list[Key]:
    """Keys of the total order of events, most significant first."""
    return [rows.time, rows.topic_hi, rows.topic_lo, rows.partition, rows.offset]


def identity_order(identities: NDArray[np.void]) -> list[Key]:
    """The same from stored identities."""
    names = identities.dtype.names or ()
    return [identities[name].astype(np.uint64) for name in names]


def choose(keys: Sequence[Key], groups: Int64, n_groups: int, k: int, *, newest: bool = False) -> tuple[Int64, Int64]:
    """Per group its first k entries by `keys` (most significant first), or its last k if `newest`.

    Returns indices of the chosen entries, group by group in ascending order of the keys, and
    the offsets [n_groups+1] of the groups among them.
    """
    rows = np.arange(len(groups))
    if k == 1 and not newest and len(rows):
        # Only ties for the best need the rest of the order.
        best = np.full(n_groups, np.iinfo(keys[0].dtype).max, keys[0].dtype)
        np.minimum.at(best, groups, keys[0])
        rows = np.flatnonzero(keys[0] == best[groups])
    of = groups[rows]
    order = rows[np.lexsort([*_telling([key[rows] for key in reversed(keys)]), of])]
    counts = np.bincount(of, minlength=n_groups)
    starts = offsets_of(counts)
    place = np.arange(len(order)) - np.repeat(starts[:-1], counts)
    kept = place >= np.repeat(counts - k, counts) if newest else place < k
    return order[kept], offsets_of(np.minimum(counts, k))


def _telling(keys: Sequence[Key]) -> list[Key]:
    """Without keys (least significant first) that tell nothing: one value, or the order as it is."""
    varying = [key for key in keys if len(key) and not (key[0] == key[-1] and (key == key[0]).all())]
    if varying and bool((varying[0][1:] >= varying[0][:-1]).all()):
        return varying[1:]  # the sort is stable
    return varying
