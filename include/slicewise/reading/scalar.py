"""Few rows stand by what they count in, as Python's own numbers, and are combined once per key.

The same rows as `gathering.Gathering` holds, to the same bits (docs/adr/0016).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, pairwise
from typing import Any

import numpy as np

from slicewise.aggregates import Finished
from slicewise.aggregates.event_forms import ColumnarEvents, ScalarEvents
from slicewise.aggregates.scalar import Run, Scalars
from slicewise.codec import Layout, Row
from slicewise.reading.batched import BatchedPlan, ends_of
from slicewise.reading.cache import CachedDays, PartialCache
from slicewise.reading.columnar import Columnar, Combiner
from slicewise.reading.exchange import Stored
from slicewise.reading.pending import (
    SCALAR_EVENTS,
    PendingEvents,
    PendingField,
    accumulated,
    distinct,
)
from slicewise.reading.plan import NOWHERE, HourRows, Int64, ReadPlan
from slicewise.reading.rows import Compacted, add_days
from slicewise.reading.table import Table


@dataclass
class ScalarGathering:
    """Rows of one layout by their key."""

    layout: Layout
    forms: Mapping[int, Combiner]
    """The partials that are asked for, and how each is combined."""
    wanted: frozenset[int]
    """The partials that are asked for."""
    cache: PartialCache | None = None
    by_key: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    cached_keys: list[int] = field(default_factory=list)
    cached_states: list[Mapping[int, Any]] = field(default_factory=list)
    """States that were combined before: per key those of the partials that are asked for."""

    def compacted(
        self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int
    ) -> Compacted:
        """Takes compacted hours, as `rows.Rows`."""
        cache = self.cache
        if cache is None or not any(map(any, days)):
            return add_days(plan, days, key, self)
        name = cache.key(plan.number, days)
        cached_days = cache.get(name)
        is_cached = isinstance(cached_days, CachedDays) and cached_days.partials == self.wanted
        cache.note(is_cached=is_cached)
        if not isinstance(cached_days, CachedDays) or not is_cached:
            if not cache.is_repeated(name):
                return add_days(plan, days, key, self)
            own = ScalarGathering(self.layout, self.forms, self.wanted)
            cached_days = CachedDays(*add_days(plan, days, 0, own), own.states(), self.wanted)
            cache.put(name, cached_days)
        for mask, states in cached_days.states:
            self.cached_keys.append(key + mask)
            self.cached_states.append(states)
        return cached_days.hours, cached_days.stale

    def states(self) -> list[tuple[int, Mapping[int, Any]]]:
        """Per key the states of the partials that are asked for."""
        columns, runs, keys = self.columns()
        singles = [[run] for run in range(len(runs))]
        combined = [form.combine(columns[i], runs, singles) for i, form in self.forms.items()]
        return [
            (key, dict(zip(self.forms, states, strict=True)))
            for key, states in zip(keys, zip(*combined, strict=True), strict=True)
        ]

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """Takes single rows, as `rows.Rows`."""
        rows, by_key = self.layout.scalar.singles(values, head), self.by_key
        distinct_masks = set(masks)
        if len(distinct_masks) == 1:
            by_key[key + masks[0]] += rows
        else:
            for mask in distinct_masks:
                by_key[key + mask] += compress(rows, [of_row == mask for of_row in masks])

    def block(
        self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows
    ) -> None:
        """Takes a block of rows, as `rows.Rows`."""
        rows = self.layout.scalar.block(value, start, len(numbers))
        at = 0
        for mask, n in part.runs(numbers):
            if mask:
                self.by_key[key + mask] += rows[at : at + n]
            at += n

    def events(self, plan: ReadPlan, key: int, pending: PendingField) -> None:
        """Takes pending events, as `rows.Rows`: as states, each of all events of a key."""
        of = plan.scalar_of
        if of is None:
            for partials, keys in accumulated(self.layout, [PendingEvents(plan, key, pending)]):
                for row_key, row in zip(
                    keys.tolist(), self.layout.scalar_rows(partials), strict=True
                ):
                    self.by_key[row_key].append(row)
            return
        for mask, events in _by_mask(pending):
            self.cached_keys.append(key + mask)
            self.cached_states.append(
                {i: of[i](events) if i in of else self._empty(i) for i in self.forms}
            )

    def _empty(self, partial: int) -> Any:
        """The state of no events: of what another plan of the layout asks for."""
        fields = self.layout.partials[partial].fields
        (empty,) = self.forms[partial].combine([()] * len(fields), (), ((),))
        return empty

    def columns(self) -> tuple[list[Sequence[Sequence[Any]]], list[Run], list[int]]:
        """Per partial and field the values by row; the range of rows of each key; the keys."""
        rows = self.by_key.values()
        ends = accumulate(map(len, rows), initial=0)
        return (
            self.layout.scalar.columns(list(chain.from_iterable(rows)), self.wanted),
            list(pairwise(ends)),
            list(self.by_key),
        )


def _by_mask(pending: PendingField) -> list[tuple[int, ScalarEvents | ColumnarEvents]]:
    """The events of each mask: one, mostly."""
    masks = pending.masks
    if len(masks) <= SCALAR_EVENTS:
        scalar = pending.events.events()
        return [
            (mask, scalar.where([row_mask == mask for row_mask in masks])) for mask in set(masks)
        ]
    many = pending.events.many()
    if pending.mask != NOWHERE:
        return [(pending.mask, many)]
    numbers = np.asarray(masks, np.int64)
    return [(mask, many.where(numbers == mask)) for mask in distinct(numbers)[0].tolist()]


def rows_of(plan: ReadPlan, stored: Sequence[Stored], uncached: float = 1.0) -> float:
    """About how many rows are to be combined: what decides between the two ways.

    uncached: the part of compacted days that is not cached, as it was of late: the others cost
    nothing here.
    """
    size, fetched = plan.unit.layout.record.itemsize, plan.fetched
    rows = of_days = 0
    for part in stored:
        rows += len(part.hot) >> 1
        of_days += len(fetched.totals)
        rows += 0 if part.earlier is None else len(part.earlier.hours.values)
        for day, at in fetched.rows_at:
            value = part.days[day][at]
            if value is not None:
                of_days += len(value) // size
    return rows + uncached * of_days


def finish_scalars(
    batched: BatchedPlan, gathered: Sequence[ScalarGathering], entities: int
) -> tuple[Finished | Scalars, ...]:
    """Per finish of the plan its values."""
    decoded, runs, groups = [], [], []
    for gathering, table in zip(gathered, batched.tables, strict=True):
        columns, ranges, keys = gathering.columns()
        decoded.append(columns)
        runs.append(ranges)
        groups.append(runs_of(table, keys + gathering.cached_keys, entities))
    return combine_scalars(
        batched,
        decoded,
        runs,
        groups,
        [gathering.cached_states for gathering in gathered],
        entities,
    )


def runs_of(table: Table, keys: Sequence[int], entities: int) -> list[list[int]]:
    """Per group the runs in it; keys: per run its key."""
    runs: list[list[int]] = [[] for _ in range(entities * len(table.index.before))]
    windows_of = table.windows_of
    if entities == 1:
        for run, key in enumerate(keys):
            for window in windows_of[key]:
                runs[window].append(run)
        return runs
    groups, masks = table.index.numbers, table.index.masks
    for run, key in enumerate(keys):
        owner, mask = divmod(key, masks)
        for window in windows_of[mask]:
            before, width, local = groups[window]
            runs[entities * before + owner * width + local].append(run)
    return runs


def combine_scalars(
    batched: BatchedPlan,
    decoded: Sequence[Sequence[Sequence[Sequence[Any]]]],
    runs: Sequence[Sequence[Run]],
    groups: Sequence[Sequence[Sequence[int]]],
    cached: Sequence[Sequence[Mapping[int, Any]]],
    entities: int,
) -> tuple[Finished | Scalars, ...]:
    """`combine` of few rows, to the same bits. decoded: per layout, partial and field its values by
    row; runs, groups: per layout ranges of rows, and per group the runs in it; cached: per layout
    further runs, each as the states of its partials."""
    combined: list[list[Any]] = []
    for form in batched.forms:
        combiner = form.combiner
        whole: list[Any] = []
        for m in form.members:
            states = [state[m.partial] for state in cached[m.layout]]
            whole += combiner.combine(
                decoded[m.layout][m.partial], runs[m.layout], groups[m.layout], states
            )
        combined.append(whole)
    finished: list[Finished | Scalars] = []
    for (number, _), finisher in zip(batched.finishes, batched.finishers, strict=True):
        states = combined[number]
        if isinstance(finisher, Columnar):
            ends = functools.partial(ends_of, batched, batched.forms[number], entities)
            finished.append(finisher.finish(states, ends))
        else:
            finished.append(finisher.finish(states))
    return tuple(finished)
