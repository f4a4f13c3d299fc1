"""A session is a chain of events less than the gap apart; the one that counts is the last, while
the gap lasts.

Walked over spans: single events, or what a slice holds, which is of one session because a slice is
at most the gap. So online reads, training and `evaluate` find the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    Int64 = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


def open_sessions(
    key: Int64, first: Int64, last: Int64, end_us: Int64, gap_us: Int64
) -> tuple[Flags, Int64]:
    """Marks the spans of the open session of their key, and gives per span when its chain's first
    event was.

    key: whose span it is, in any order; first, last: event times of the span, whose own events are
    of one session; end_us, gap_us: the same for all spans of a key. Spans may overlap, as those of
    several partitions do. A session is open while the end is less than the gap after its last
    event.
    """
    if not len(key):
        return np.zeros(0, np.bool_), np.zeros(0, np.int64)
    order = np.lexsort((first, key))
    key, first, last = key[order], first[order], last[order]
    begins = np.empty(len(key), np.bool_)
    begins[0] = True
    np.not_equal(key[1:], key[:-1], out=begins[1:])
    latest = _latest_so_far(begins, last)
    breaks = begins.copy()
    breaks[1:] |= first[1:] - latest[:-1] >= gap_us[order][1:]
    heads = np.flatnonzero(breaks)
    chain = np.cumsum(breaks) - 1
    ends = np.append(np.flatnonzero(begins)[1:], len(key)) - 1  # the last span of each key
    owner = np.cumsum(begins) - 1
    is_open = end_us[order][ends] - latest[ends] < gap_us[order][ends]
    in_latest = (chain == chain[ends][owner]) & is_open[owner]
    belongs, begun = np.empty(len(key), np.bool_), np.empty(len(key), np.int64)
    belongs[order], begun[order] = in_latest, first[heads][chain]
    return belongs, begun


def _latest_so_far(begins: Flags, last: Int64) -> Int64:
    """Per span the latest `last` of its key up to it."""
    values, rank = np.unique(last, return_inverse=True)
    # Ranks instead of times: key and rank fit into one integer, so that one running maximum serves
    # all keys.
    base = (np.cumsum(begins) - 1) * len(values)
    latest: Int64 = values[np.maximum.accumulate(base + rank) - base]
    return latest


def session_heads(key: Int64, time: Int64, gap_us: int) -> Int64:
    """Per event the position of the first event of its session; events sorted by key, then time.

    The same chains as `open_sessions` walks, for all ends at once.
    """
    breaks = np.ones(len(key), np.bool_)
    breaks[1:] = (key[1:] != key[:-1]) | (time[1:] - time[:-1] >= gap_us)
    heads: Int64 = np.maximum.accumulate(np.where(breaks, np.arange(len(key), dtype=np.int64), 0))
    return heads
