"""Any interval of an entity is combined from few partials, each equal to what its slices combine
to.

Level 0 holds the partials of (entity, slice); level i those of aligned runs of 16^i slices. Only
runs with events are kept. An interval is cut greedily from the finest level up, as in a segment
tree of fan-out 16, so that a window of 10,080 slices costs at most some 90 partials instead of
10,080. By the algebra (a result depends on the multiset of events alone) the bits are those of any
other way to combine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.aggregates import Columns, Rows
from slicewise.codec import Layout
from slicewise.training.events.unit_events import SortedRows
from slicewise.training.ranges import Ints, batches, expand, group_starts

FAN_OUT = 16
# partials combined in one call: bounds the memory of a request, not its result
ITEMS_AT_ONCE = 400_000
ROWS_AT_ONCE = 1_000_000  # events accumulated in one call, likewise

# Takes the partials of level 0, and how many there are, through what stands between writer and
# reader.
Transit = Callable[[list[Columns], int], list[Columns]]


@dataclass(frozen=True)
class _Level:
    keys: Ints  # entity * span + (run - first_run), ascending; a run is an aligned run of slices
    first_run: int
    span: int
    columns: tuple[Columns, ...]

    @staticmethod
    def of(entity: Ints, run: Ints, columns: Sequence[Columns]) -> _Level:
        first = int(run.min()) if len(run) else 0
        span = int(run.max()) - first + 1 if len(run) else 1
        return _Level(entity * span + (run - first), first, span, tuple(columns))

    def between(self, entity: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Per query the range of positions of the entity's runs in `[low, high)`; entity < 0 has
        none."""
        valid = (entity >= 0) & (low < high)
        start = np.where(valid, entity, 0) * self.span
        first = np.searchsorted(self.keys, start + np.clip(low - self.first_run, 0, self.span))
        beyond = np.searchsorted(self.keys, start + np.clip(high - self.first_run, 0, self.span))
        return np.where(valid, first, 0).astype(np.int64), np.where(valid, beyond, 0).astype(
            np.int64
        )


@dataclass(frozen=True)
class _Span:
    level: int  # EVENTS or the position of a level
    first: Ints
    beyond: Ints


EVENTS = -1


@dataclass(frozen=True)
class SliceTree:
    """Partials of (entity, run of slices) of one unit at every level, and the events for what cuts
    a slice."""

    layout: Layout
    slice_us: int
    source: SortedRows
    levels: tuple[_Level, ...]

    @staticmethod
    def build(
        layout: Layout, slice_us: int, source: SortedRows, transit: Transit | None = None
    ) -> SliceTree:
        """Accumulate the events once per (entity, slice), and combine the coarser levels from
        these."""
        numbers = source.rows.time // slice_us
        groups, firsts = group_starts(source.entity, numbers)
        columns = _accumulate(layout, source.rows, groups, firsts)
        if transit is not None:
            columns = transit(columns, len(firsts))
        entity, run = source.entity[firsts], numbers[firsts]
        levels = [_Level.of(entity, run, columns)]
        while levels[-1].span > FAN_OUT:
            groups, firsts = group_starts(entity, run // FAN_OUT)
            columns = [
                aggregate.combine_columns(part, groups, len(firsts))
                for aggregate, part in zip(layout.partials, columns, strict=True)
            ]
            entity, run = entity[firsts], run[firsts] // FAN_OUT
            levels.append(_Level.of(entity, run, columns))
        return SliceTree(layout, slice_us, source, tuple(levels))

    def combine(
        self, entity: Ints, start_us: Ints, end_us: Ints, wanted: Sequence[int]
    ) -> list[Columns]:
        """One partial per query `[start_us, end_us)` of an entity, for each wanted position of the
        layout.

        A negative entity number has no events: its partials are empty. Bounds may cut slices: what
        they cut is accumulated from the events themselves.
        """
        spans = self._spans(entity, start_us, end_us)
        counts = np.zeros(len(entity), np.int64)
        for span in spans:
            counts += span.beyond - span.first
        parts = [self._combine(spans, part, wanted) for part in batches(counts, ITEMS_AT_ONCE)]
        if not parts:
            return [Columns.empty(self.layout.partials[position].fields, 0) for position in wanted]
        return [Columns.concat([part[i] for part in parts]) for i in range(len(wanted))]

    def _spans(self, entity: Ints, start_us: Ints, end_us: Ints) -> list[_Span]:
        low, high = -(-start_us // self.slice_us), end_us // self.slice_us
        cut_twice = high < low  # both bounds cut the same slice: all comes from events
        head_end = np.where(cut_twice, end_us, np.minimum(low * self.slice_us, end_us))
        last_start = np.where(cut_twice, end_us, np.maximum(high * self.slice_us, head_end))
        high = np.maximum(high, low)
        spans = [
            _Span(EVENTS, *self.source.between(entity, start_us, head_end)),
            _Span(EVENTS, *self.source.between(entity, last_start, end_us)),
        ]
        for depth, level in enumerate(self.levels[:-1]):
            up_low, up_high = -(-low // FAN_OUT), high // FAN_OUT
            whole = up_low < up_high  # some run of the next level lies inside
            spans.append(
                _Span(depth, *level.between(entity, low, np.where(whole, up_low * FAN_OUT, high)))
            )
            spans.append(
                _Span(depth, *level.between(entity, np.where(whole, up_high * FAN_OUT, high), high))
            )
            low, high = np.where(whole, up_low, 0), np.where(whole, up_high, 0)
        spans.append(_Span(len(self.levels) - 1, *self.levels[-1].between(entity, low, high)))
        return spans

    def _combine(self, spans: list[_Span], part: slice, wanted: Sequence[int]) -> list[Columns]:
        n = part.stop - part.start
        every = np.arange(n, dtype=np.int64)
        cut = [(span.level, *expand(span.first[part], span.beyond[part])) for span in spans]
        stored = [
            (level, taken, owner) for level, taken, owner in cut if level != EVENTS and len(taken)
        ]
        raw = np.concatenate([taken for level, taken, _ in cut if level == EVENTS])
        raw_owner = np.concatenate([owner for level, _, owner in cut if level == EVENTS])
        rows = self.source.rows.take(raw)
        out = []
        for position in wanted:
            aggregate = self.layout.partials[position]
            pieces = [
                self.levels[level].columns[position].take(taken) for level, taken, _ in stored
            ]
            owners = [owner for _, _, owner in stored]
            pieces.append(aggregate.accumulate_columns(rows, raw_owner, n))
            owners.append(every)
            out.append(aggregate.combine_columns(Columns.concat(pieces), np.concatenate(owners), n))
        return out


def _accumulate(layout: Layout, rows: Rows, groups: Ints, firsts: Ints) -> list[Columns]:
    """The partials of consecutive groups of rows, a bounded number of rows at once; a group is
    never cut."""
    n_groups = len(firsts)
    sizes = np.diff(np.append(firsts, len(groups)))
    parts: list[list[Columns]] = [[] for _ in layout.partials]
    for part in batches(sizes, ROWS_AT_ONCE):
        first = int(firsts[part.start])
        beyond = int(firsts[part.stop]) if part.stop < n_groups else len(groups)
        positions = np.arange(first, beyond, dtype=np.int64)
        some, local = rows.take(positions), groups[first:beyond] - part.start
        for done, aggregate in zip(parts, layout.partials, strict=True):
            done.append(aggregate.accumulate_columns(some, local, part.stop - part.start))
    if n_groups == 0:
        return [Columns.empty(aggregate.fields, 0) for aggregate in layout.partials]
    return [Columns.concat(done) for done in parts]
