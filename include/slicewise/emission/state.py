"""The state holds, per entity and slice, the partials of all events that it was given, and no
window.

Windows are combined from it as a reader combines them from the store: by the same algebra, so to
the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Aggregate, Columns, Finished
from slicewise.aggregates.kernel.events import Rows
from slicewise.emission.entities import Int64, numbered
from slicewise.features.plan.unit import PlannedFeature, StorageUnit

_FANOUT = 8
"""Chunks of one size that are made one of the next."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Partials of (entity, slice) pairs; a pair may stand in several chunks."""

    entities: pa.Table
    number: Int64
    """Per row its slice, counted since the epoch."""
    partials: tuple[Columns, ...]
    """Partials in the order of `WindowState.aggregates`."""
    first: Int64
    """Per row the position of its first event among those that it was made of."""
    level: int = 0

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: Int64) -> Chunk:
        taken = tuple(partial.take(rows) for partial in self.partials)
        return Chunk(self.entities.take(rows), self.number[rows], taken, self.first[rows])


@dataclass
class WindowState:
    """Windows' state of one unit. columns: of the features that are published."""

    unit: StorageUnit
    columns: frozenset[str]
    features: tuple[PlannedFeature, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    chunks: list[Chunk] = field(default_factory=list)
    _index: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.features = tuple(
            feature for feature in self.unit.features if feature.column in self.columns
        )
        wanted = sorted({feature.partial for feature in self.features})
        self._index = {partial: i for i, partial in enumerate(wanted)}
        self.aggregates = tuple(self.unit.layout.partials[partial] for partial in wanted)

    @property
    def rows(self) -> int:
        """Partials that it holds."""
        return sum(map(len, self.chunks))

    def accumulate(self, rows: Rows, entities: pa.Table) -> Chunk:
        """Events as partials; the state stays as it is."""
        number = rows.time // self.unit.slice_us
        codes, _ = numbered(entities)
        low = int(number.min(initial=0))
        span = int(number.max(initial=0)) - low + 1
        _, first, groups = np.unique(
            codes * span + (number - low), return_index=True, return_inverse=True
        )
        groups = groups.astype(np.int64)
        partials = tuple(
            aggregate.accumulate_columns(rows, groups, len(first)) for aggregate in self.aggregates
        )
        return Chunk(entities.take(first), number[first], partials, first.astype(np.int64))

    def add(self, chunk: Chunk) -> None:
        """Takes these partials in; few chunks stay, however many come."""
        self.chunks.append(chunk)
        while True:
            level = self.chunks[-1].level
            alike = [part for part in self.chunks if part.level == level]
            if len(alike) < _FANOUT:
                return
            self.chunks = [part for part in self.chunks if part.level != level]
            self.chunks.append(self._joined(alike, level + 1))

    def forget(self, number: int) -> None:
        """Drops what lies before this slice."""
        kept = []
        for chunk in self.chunks:
            young = chunk.number >= number
            if young.all():
                kept.append(chunk)
            elif young.any():
                kept.append(_leveled(chunk.take(np.flatnonzero(young)), chunk.level))
        self.chunks = kept

    def between(self, low: int, high: int) -> Chunk | None:
        """Rows of the slices [low, high); None without any."""
        chunks = []
        for chunk in self.chunks:
            inside = (chunk.number >= low) & (chunk.number < high)
            if inside.all():
                chunks.append(chunk)
            elif inside.any():
                chunks.append(chunk.take(np.flatnonzero(inside)))
        return concat(chunks) if chunks else None

    def combine(self, chunk: Chunk | None, groups: Int64, n: int) -> tuple[Columns, ...]:
        """Partials of n groups, of a chunk's rows; a group without rows has the empty one."""
        if chunk is None:
            chunk = self.nothing()
        return tuple(
            aggregate.combine_columns(columns, groups, n)
            for aggregate, columns in zip(self.aggregates, chunk.partials, strict=True)
        )

    def joined(
        self, parts: Sequence[tuple[Columns, ...]], groups: Int64, n: int
    ) -> tuple[Columns, ...]:
        """Partials of n groups, of the rows of several partials one after the other."""
        return tuple(
            aggregate.combine_columns(Columns.concat([part[i] for part in parts]), groups, n)
            for i, aggregate in enumerate(self.aggregates)
        )

    def nothing(self) -> Chunk:
        """A chunk without rows."""
        none = np.empty(0, np.int64)
        empty = tuple(Columns.empty(aggregate.fields, 0) for aggregate in self.aggregates)
        return Chunk(pa.table({}), none, empty, none)

    def finish(
        self, features: Sequence[PlannedFeature], partials: Sequence[Columns], ends: Int64
    ) -> tuple[Finished, ...]:
        """Values of these features over windows that end there."""
        return tuple(
            feature.aggregate.finish_columns_at(
                partials[self._index[feature.partial]], lambda: ends
            )
            for feature in features
        )

    def _joined(self, chunks: Sequence[Chunk], level: int) -> Chunk:
        whole = concat(chunks)
        codes, _ = numbered(whole.entities)
        low = int(whole.number.min())
        span = int(whole.number.max()) - low + 1
        _, first, groups = np.unique(
            codes * span + (whole.number - low), return_index=True, return_inverse=True
        )
        partials = self.combine(whole, groups.astype(np.int64), len(first))
        return Chunk(
            whole.entities.take(first), whole.number[first], partials, first.astype(np.int64), level
        )


def concat(chunks: Sequence[Chunk]) -> Chunk:
    """All rows of these chunks, at least one."""
    if len(chunks) == 1:
        return chunks[0]
    partials = tuple(
        Columns.concat(list(columns))
        for columns in zip(*(chunk.partials for chunk in chunks), strict=True)
    )
    return Chunk(
        pa.concat_tables([chunk.entities for chunk in chunks]).combine_chunks(),
        np.concatenate([chunk.number for chunk in chunks]),
        partials,
        np.concatenate([chunk.first for chunk in chunks]),
    )


def _leveled(chunk: Chunk, level: int) -> Chunk:
    return Chunk(chunk.entities, chunk.number, chunk.partials, chunk.first, level)
