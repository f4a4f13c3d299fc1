"""Few rows stand by what they count in, as Python's own numbers, and are combined once per key.

The same rows as `merge_rows.Gathering` holds, to the same bits (docs/adr/0016).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from slicewise.aggregates.alone import ManyEvents, ScalarEvents
from slicewise.aggregates.scalar import Run, Scalars
from slicewise.codec import Layout, Row, ScalarRows
from slicewise.reading.batched import BatchedPlan, combine_few
from slicewise.reading.cache import CachedDays, PartialCache
from slicewise.reading.claims import Stored
from slicewise.reading.pending import FEW_EVENTS, PendingEvents, PendingField, accumulated, distinct
from slicewise.reading.plan import NOWHERE, HourRows, Int64, ReadPlan
from slicewise.reading.rows import Compacted, add_days


@dataclass
class ScalarGathering:
    """Rows of one layout by their key."""

    layout: Layout
    few: ScalarRows
    known: PartialCache | None = None
    by_key: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    known_keys: list[int] = field(default_factory=list)
    known_states: list[Sequence[Any]] = field(default_factory=list)
    """What was known of compacted hours: per key the states of the layout's partials."""

    def compacted(self, plan: ReadPlan, days: Sequence[Sequence[bytes | None]], key: int) -> Compacted:
        """Takes compacted hours, as `merge_rows.Rows`."""
        known = self.known
        if known is None or not days:
            return add_days(plan, days, key, self)
        name = known.key(plan.number, days)
        found = known.get(name)
        if not isinstance(found, CachedDays):
            if not known.is_asked_again(name):
                return add_days(plan, days, key, self)
            alone = ScalarGathering(self.layout, self.few)
            found = CachedDays(*add_days(plan, days, 0, alone), alone.states())
            known.put(name, found)
        for mask, states in found.states:
            self.known_keys.append(key + mask)
            self.known_states.append(states)
        return found.hours, found.stale

    def states(self) -> list[tuple[int, Sequence[Any]]]:
        """Per key the states of the layout's partials; None of one that has no form for few rows."""
        columns, runs, keys = self.columns()
        each = [[run] for run in range(len(runs))]
        states = [
            [None] * len(runs) if partial.few is None else partial.few.combine(fields, runs, each)
            for partial, fields in zip(self.layout.partials, columns, strict=True)
        ]
        return list(zip(keys, zip(*states, strict=True), strict=True))

    def singles(self, key: int, head: int, values: Sequence[bytes], masks: Sequence[int]) -> None:
        """Takes single rows, as `merge_rows.Rows`."""
        rows, by_key = self.few.singles(values, head), self.by_key
        if len(set(masks)) == 1:
            by_key[key + masks[0]] += rows
        else:
            for mask, row in zip(masks, rows, strict=True):
                by_key[key + mask].append(row)

    def block(self, key: int, value: bytes, start: int, numbers: Sequence[int] | Int64, part: HourRows) -> None:
        """Takes a block of rows, as `merge_rows.Rows`."""
        rows = self.few.block(value, start, len(numbers))
        at = 0
        for mask, n in part.runs(numbers):
            if mask:
                self.by_key[key + mask] += rows[at : at + n]
            at += n

    def events(self, plan: ReadPlan, key: int, tail: PendingField) -> None:
        """Takes events of the tail, as `merge_rows.Rows`: as states, each of all events of a key."""
        of = plan.few_of
        if of is None:
            for partials, keys in accumulated(self.layout, [PendingEvents(plan, key, tail)]):
                for found, row in zip(keys.tolist(), self.layout.few_rows(partials), strict=True):
                    self.by_key[found].append(row)
            return
        for mask, events in _by_mask(tail):
            self.known_keys.append(key + mask)
            self.known_states.append([None if each is None else each(events) for each in of])

    def columns(self) -> tuple[list[Sequence[Sequence[Any]]], list[Run], list[int]]:
        """Per partial and field the values by row; the range of rows of each key; the keys."""
        rows = self.by_key.values()
        ends = accumulate(map(len, rows), initial=0)
        return self.few.columns(list(chain.from_iterable(rows))), list(pairwise(ends)), list(self.by_key)


def _by_mask(tail: PendingField) -> list[tuple[int, ScalarEvents | ManyEvents]]:
    """The events of each mask: one, mostly."""
    masks = tail.masks
    if len(masks) <= FEW_EVENTS:
        few = tail.events.events()
        return [(mask, few.where([each == mask for each in masks])) for mask in set(masks)]
    many = tail.events.many()
    if tail.mask != NOWHERE:
        return [(tail.mask, many)]
    numbers = np.asarray(masks, np.int64)
    return [(mask, many.where(numbers == mask)) for mask in distinct(numbers)[0].tolist()]


def rows_of(plan: ReadPlan, stored: Sequence[Stored]) -> int:
    """About how many rows are stored: what decides between the two ways."""
    size, fetched = plan.unit.layout.record.itemsize, plan.fetched
    found = 0
    for part in stored:
        found += (len(part.hot) >> 1) + len(fetched.totals)
        for day, at in fetched.rows_at:
            value = part.days[day][at]
            if value is not None:
                found += len(value) // size
    return found


def finish_few(joint: BatchedPlan, gathered: Sequence[ScalarGathering], entities: int) -> tuple[Scalars, ...]:
    """Per finish of the plan its values."""
    decoded, runs, groups = [], [], []
    for found, table in zip(gathered, joint.tables, strict=True):
        columns, ranges, keys = found.columns()
        decoded.append(columns)
        runs.append(ranges)
        groups.append(table.runs_of(keys + found.known_keys, entities))
    return combine_few(joint, decoded, runs, groups, [found.known_states for found in gathered])
