"""Compacted data that was read before is not combined again while its bytes are the same.

Compacted hours are immutable, so the same bytes under the same plan come to the same states. They
are found by the digest of all that was read of them: nothing has to be told when an hour is
published.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.ragged import Ragged
from slicewise.reading.columnar import ColumnarState
from slicewise.reading.plan import HotField, Total

CACHE_BYTES = 64 << 20
SEEN = 100_000
"""Digests that were seen once: only what is asked for again is kept."""
_ENTRY_BYTES, _HOUR_BYTES, _STATE_BYTES, _ARRAY_BYTES, _ITEM_BYTES = 600, 100, 250, 120, 70


class CachedDays(NamedTuple):
    """Combined compacted hours of one entity's unit under one plan."""

    hours: Mapping[int, int]
    """hour -> archive version"""
    stale: frozenset[Total]
    """Days and five-day totals whose total is out of date."""
    states: Sequence[tuple[int, Mapping[int, Any]]]
    """(mask, per partial that is asked for its state) of all rows that count in the mask's
    windows."""
    partials: frozenset[int]
    """The partials that have states."""

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        states = [state for _, by_partial in self.states for state in by_partial.values()]
        columns = {id(s.partials): s.partials for s in states if isinstance(s, ColumnarState)}
        return (
            _ENTRY_BYTES
            + _HOUR_BYTES * len(self.hours)
            + sum(_STATE_BYTES + _inside(state) for state in states)
            + sum(map(_bytes_of, columns.values()))
        )


class CachedColumns(NamedTuple):
    """The same as whole columns: row i counts in the windows of masks[i]."""

    hours: Mapping[int, int]
    stale: frozenset[Total]
    masks: Sequence[int]
    partials: Sequence[Columns]
    """Partials of the layout; those that the plan does not ask for are empty."""

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return _ENTRY_BYTES + _HOUR_BYTES * len(self.hours) + sum(map(_bytes_of, self.partials))


def _inside(state: Any) -> int:
    """About the bytes of the lists and arrays in a state."""
    if isinstance(state, ColumnarState):
        return 0  # its columns are counted once
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, list | tuple | frozenset):
        return _ITEM_BYTES * len(state) + sum(map(_inside, state))
    return len(state) if isinstance(state, bytes) else 0


def _bytes_of(partials: Columns) -> int:
    arrays = [array for values in partials.values.values() for array in _arrays(values)]
    return sum(_ARRAY_BYTES + array.nbytes for array in arrays)


def _arrays(values: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(values, np.ndarray):
        return [values]
    return (
        [values.offsets, values.values]
        if isinstance(values, Ragged)
        else [values.offsets, values.ends, values.data]
    )


LATE_DAYS = 256
"""About how many lookups `PartialCache.uncached` looks back."""


class Cached(Protocol):
    """Something combined, that was made from bytes that were read."""

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        ...


Key = tuple[int | str, bytes]


class PartialCache:
    """Bounded by bytes; the oldest are forgotten first."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._entries: dict[Key, Cached] = {}
        self._seen: dict[Key, None] = {}
        self.bytes = self.hits = self.misses = 0
        self.uncached = 1.0
        """Part of the compacted days that few rows were looked up for, of late, and not cached."""

    @staticmethod
    def key(plan: int, days: Sequence[Sequence[bytes | None]]) -> Key:
        """The key of a plan's number (of whole columns ~number), which says what is read, and all
        that was read: lengths (-1 of what is not there), then the bytes, which are not copied."""
        values = list(chain.from_iterable(days))
        digest = hashlib.sha256(
            array("q", [-1 if value is None else len(value) for value in values])
        )
        for value in values:
            if value:
                digest.update(value)
        return plan, digest.digest()

    def get(self, key: Key) -> Cached | None:
        """Finds something that is cached, if it is."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
        else:
            self.hits += 1
        return entry

    def note(self, *, is_cached: bool) -> None:
        """Takes note whether few rows could do without an entity's compacted days."""
        self.uncached += ((not is_cached) - self.uncached) / LATE_DAYS

    def is_repeated(self, key: Key) -> bool:
        """Tells whether this was asked for before; remembers that it is now. Never, where nothing
        may be kept."""
        if not self._limit:
            return False
        if key in self._seen:
            del self._seen[key]
            return True
        if len(self._seen) >= SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        return False

    def put(self, key: Key, cached: Cached) -> None:
        """Keeps it; one that is larger than all that may be kept is not."""
        size = cached.size
        if size > self._limit:
            return
        replaced = self._entries.pop(key, None)
        self._entries[key] = cached
        self.bytes += size - (0 if replaced is None else replaced.size)
        while self.bytes > self._limit:
            self.bytes -= self._entries.pop(next(iter(self._entries))).size


class PlanMemory(NamedTuple):
    """Parts that replies and answers of one plan had in common so far."""

    learned: dict[bytes, HotField]
    """Meaning of the hot fields seen so far."""
    tokens: dict[bytes, str]
    """Tokens of the bases met so far."""


class PlanCache(NamedTuple):
    """All that is remembered for the answers of one plan. It changes the time that they take, and
    no bit."""

    partials: PartialCache
    """Combined partials of compacted hours, of all plans of whoever answers."""
    plans: Sequence[PlanMemory]
    """Memories of the plan's units of slices, in their order."""

    @staticmethod
    def of(partials: PartialCache, units: int) -> PlanCache:
        """A cache of a new plan."""
        return PlanCache(partials, [PlanMemory({}, {}) for _ in range(units)])
