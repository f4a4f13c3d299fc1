"""Rows of many entities stay encoded until all are there, and are decoded as whole columns.

Few rows stand by what they count in instead (`scalar.ScalarGathering`), to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat

import numpy as np

from slicewise.aggregates.kernel.columns import Columns
from slicewise.codec import SEAL_BYTES, Layout, Raw
from slicewise.reading.cache import CachedColumns, PartialCache
from slicewise.reading.pending import PendingEvents, PendingField, accumulated
from slicewise.reading.plan import HourRows, Int64, ReadPlan
from slicewise.reading.rows import Compacted, add_days


@dataclass
class Gathering:
    """Encoded rows of one layout, in blocks; and what is cached of compacted hours, combined
    already."""

    layout: Layout
    masks: int
    """Number of masks of all plans of the layout."""
    wanted: frozenset[int]
    """Partials that are decoded; others come without fields."""
    cache: PartialCache | None = None
    blocks: list[Raw] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """Per block its rows."""
    runs: list[tuple[int, int]] = field(default_factory=list)
    """(key, rows) of consecutive rows that count alike."""
    cached_keys: list[int] = field(default_factory=list)
    cached_partials: list[Sequence[Columns]] = field(default_factory=list)
    pending: list[PendingEvents] = field(default_factory=list)

    def compacted(
        self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int
    ) -> Compacted:
        """Takes compacted hours, as `Rows`."""
        cache = self.cache
        # nothing is compacted, or a session looks at each slice by itself
        if cache is None or plan.gaps or not any(map(any, days)):
            return add_days(plan, days, key, self)
        name = cache.key(~plan.number, days)
        cached_columns = cache.get(name)
        if not isinstance(cached_columns, CachedColumns):
            if not cache.is_repeated(name):
                return add_days(plan, days, key, self)
            own = Gathering(self.layout, self.masks, plan.partials)
            cached_columns = CachedColumns(*add_days(plan, days, 0, own), *own.combined())
            cache.put(name, cached_columns)
        if cached_columns.masks:
            self.cached_keys += [key + mask for mask in cached_columns.masks]
            self.cached_partials.append(cached_columns.partials)
        return cached_columns.hours, cached_columns.stale

    def combined(self) -> tuple[Sequence[int], list[Columns]]:
        """Keys, and per partial of the layout one row per key; empty ones of what is not asked
        for."""
        keys, groups = np.unique(self.keys(), return_inverse=True)
        n = len(keys)
        decoded = self.layout.decode_blocks(self.blocks, self.counts, self.wanted)
        partials = [
            partial.combine_columns(rows, groups, n)
            if i in self.wanted
            else Columns.empty(partial.fields, n)
            for i, (partial, rows) in enumerate(zip(self.layout.partials, decoded, strict=True))
        ]
        return keys.tolist(), partials

    def columns(self) -> tuple[list[Columns], Int64]:
        """Per partial of the layout its rows, and per row its key."""
        decoded = self.layout.decode_blocks(self.blocks, self.counts, self.wanted)
        partials, keys = (
            [*self.cached_partials],
            [self.keys(), np.array(self.cached_keys, np.int64)],
        )
        for pending_partials, their_keys in accumulated(self.layout, self.pending):
            partials.append(pending_partials)
            keys.append(their_keys)
        if not partials:
            return decoded, keys[0]
        parts = zip(decoded, *partials, strict=True)
        return [Columns.concat(part) for part in parts], np.concatenate(keys)

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """Takes single rows, as `Rows`."""
        self.blocks += [value[head:-SEAL_BYTES] for value in values]
        self.counts += repeat(1, len(values))
        self.runs += [(key + mask, len(list(same))) for mask, same in groupby(masks)]

    def block(
        self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows
    ) -> None:
        """Takes a block of rows, as `Rows`."""
        self.blocks.append(value[start:-SEAL_BYTES])
        self.counts.append(len(numbers))
        self.runs += [(key + mask, n) for mask, n in part.runs(numbers)]

    def events(self, plan: ReadPlan, key: int, pending: PendingField) -> None:
        """Takes pending events, as `Rows`."""
        self.pending.append(PendingEvents(plan, key, pending))

    def keys(self) -> Int64:
        """Per row its key."""
        keys, lengths = np.array(self.runs, np.int64).reshape(-1, 2).T
        return np.repeat(keys, lengths)
