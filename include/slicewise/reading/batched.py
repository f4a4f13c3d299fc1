"""Partials of one form are combined and finished together, whichever units and columns they are of.

What is shared is decided once per plan: units of one layout are decoded as one; partials that
differ in the names of their columns alone are combined as one column, each in groups of its own.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from slicewise.aggregates import Finished
from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns
from slicewise.codec import Layout
from slicewise.reading.columnar import Combiner, combiner_of
from slicewise.reading.index import Slot
from slicewise.reading.plan import Int64, ReadPlan
from slicewise.reading.table import Table


@dataclass(frozen=True)
class Member:
    """A partial of the units of one layout, and where its groups begin."""

    layout: int
    partial: int
    first: int
    """Groups before it, per entity: of all members before it in its form."""


@dataclass(frozen=True, eq=False)
class Form:
    """Partials that combine alike."""

    aggregate: Aggregate
    members: tuple[Member, ...]
    groups: int
    """Per entity."""

    @cached_property
    def combiner(self) -> Combiner:
        """The form in which few rows are combined."""
        return combiner_of(self.aggregate)


@dataclass(frozen=True, eq=False)
class BatchedPlan:
    """Plans of several units for the same entities, with what they share."""

    plans: tuple[ReadPlan, ...]

    @cached_property
    def layouts(self) -> tuple[tuple[int, ...], ...]:
        """Plans by layout: those of one entry store equal records."""
        by_key: dict[tuple[str, ...], list[int]] = {}
        for i, plan in enumerate(self.plans):
            key = tuple(partial.partial_id() for partial in plan.unit.layout.partials)
            by_key.setdefault(key, []).append(i)
        return tuple(tuple(members) for members in by_key.values())

    @cached_property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """Per plan its layout, and the windows of the plans before it in that layout."""
        positions = [(0, 0)] * len(self.plans)
        for layout, members in enumerate(self.layouts):
            before = 0
            for i in members:
                positions[i] = (layout, before)
                before += len(self.plans[i].intervals)
        return tuple(positions)

    def window_of(self, members: Sequence[int], window: int) -> tuple[int, int]:
        """Plan and interval of a window of the layout of these plans."""
        for plan in members:
            width = len(self.plans[plan].intervals)
            if window < width:
                return plan, window
            window -= width
        raise IndexError(window)

    @cached_property
    def mask_bases(self) -> tuple[int, ...]:
        """Per plan what is added to its masks' numbers in its layout's table."""
        bases = [0] * len(self.plans)
        for members in self.layouts:
            before = 0
            for i in members:
                bases[i] = before
                before += len(self.plans[i].masks)
        return tuple(bases)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Per layout, which of all its plans' windows each mask holds."""
        return tuple(Table.of([self.plans[i] for i in members]) for members in self.layouts)

    @cached_property
    def has_sessions(self) -> bool:
        """Tells whether a window is a session: whole columns alone tell what it holds."""
        return any(plan.gaps for plan in self.plans)

    @cached_property
    def scalar_layouts(self) -> tuple[tuple[Layout, Mapping[int, Combiner], frozenset[int]], ...]:
        """Per layout what its rows are cut by, and the partials that are asked for, with their
        forms."""
        return tuple(
            (layout, {i: combiner_of(layout.partials[i]) for i in sorted(wanted)}, wanted)
            for layout, wanted in self._wanted
        )

    @cached_property
    def gathered(self) -> tuple[tuple[Layout, int, frozenset[int]], ...]:
        """Per layout what its rows are decoded by, how many masks there are, and the partials that
        are wanted: those that are asked for, and what tells a session's events."""
        return tuple(
            (
                layout,
                len(table.masks),
                wanted if table.span is None else wanted | {table.span},
            )
            for (layout, wanted), table in zip(self._wanted, self.tables, strict=True)
        )

    @cached_property
    def _wanted(self) -> tuple[tuple[Layout, frozenset[int]], ...]:
        """Per layout the partials that its plans ask for."""
        return tuple(
            (
                self.plans[members[0]].unit.layout,
                frozenset[int]().union(*(self.plans[i].partials for i in members)),
            )
            for members in self.layouts
        )

    @cached_property
    def windows(self) -> tuple[int, ...]:
        """Per layout the windows of all its plans."""
        return tuple(sum(len(self.plans[i].intervals) for i in m) for m in self.layouts)

    @cached_property
    def _forms(self) -> tuple[tuple[Form, ...], dict[tuple[int, int], tuple[int, int]]]:
        wanted: dict[tuple[int, int], Aggregate] = {}
        for i, plan in enumerate(self.plans):
            for finisher in plan.finishers:
                aggregate = plan.unit.layout.partials[finisher.partial]
                wanted.setdefault((self.positions[i][0], finisher.partial), aggregate)
        shapes: dict[str, list[Member]] = {}
        firsts: dict[str, int] = {}
        aggregates: dict[str, Aggregate] = {}
        where: dict[tuple[int, int], tuple[int, int]] = {}
        for (layout, partial), aggregate in wanted.items():
            shape = form_of(aggregate)
            first = firsts.get(shape, 0)
            shapes.setdefault(shape, []).append(Member(layout, partial, first))
            firsts[shape] = first + self.windows[layout]
            aggregates.setdefault(shape, aggregate)
            where[layout, partial] = (list(shapes).index(shape), first)
        forms = tuple(
            Form(aggregates[shape], tuple(members), firsts[shape])
            for shape, members in shapes.items()
        )
        return forms, where

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """The forms that are combined, each in one call."""
        return self._forms[0]

    @cached_property
    def of_one(self) -> tuple[tuple[int, ...], ...]:
        """Per plan and feature, where the value of one entity stands among those of all
        finishes."""
        widths = [self.forms[form].groups for form, _ in self.finishes]
        starts = list(accumulate(widths, initial=0))
        return tuple(
            tuple(starts[s.finish] + s.before + s.window for s in slots) for slots in self.slots
        )

    @cached_property
    def _finishes(self) -> tuple[tuple[tuple[int, Aggregate], ...], tuple[tuple[Slot, ...], ...]]:
        where = self._forms[1]
        numbers: dict[tuple[int, str], int] = {}
        finishes: list[tuple[int, Aggregate]] = []
        slots = []
        for plan, (layout, before) in zip(self.plans, self.positions, strict=True):
            own: list[Slot] = []
            for i in range(len(plan.features)):
                finisher = plan.finishers[plan.finisher_of[i]]
                form, first = where[layout, finisher.partial]
                key = (form, finish_of(finisher.aggregate))
                if key not in numbers:
                    numbers[key] = len(finishes)
                    finishes.append((form, finisher.aggregate))
                own.append(
                    Slot(numbers[key], first + before, len(plan.intervals), plan.interval_of[i])
                )
            slots.append(tuple(own))
        return tuple(finishes), tuple(slots)

    @cached_property
    def finishes(self) -> tuple[tuple[int, Aggregate], ...]:
        """The finishes, each in one call: (form, aggregate)."""
        return self._finishes[0]

    @cached_property
    def finishers(self) -> tuple[Combiner, ...]:
        """Per finish the form in which few rows are finished."""
        return tuple(combiner_of(aggregate) for _, aggregate in self.finishes)

    @cached_property
    def slots(self) -> tuple[tuple[Slot, ...], ...]:
        """Per plan and feature, where its values stand."""
        return self._finishes[1]


def ends_of(batched: BatchedPlan, form: Form, entities: int) -> Int64:
    """Per group of a form where its window ends."""
    plans = [batched.plans[i] for member in form.members for i in batched.layouts[member.layout]]
    ends = [np.array([end for _, end in plan.intervals], np.int64) for plan in plans]
    return np.concatenate([np.tile(end, entities) for end in ends])


def form_of(aggregate: Aggregate) -> str:
    """Equal for partials that combine alike: of one form, but for the names of their columns."""
    aggregate = aggregate.core  # which events it was given is no matter any more
    return _nameless({**aggregate.stored(), "version": aggregate.semantic_version}, aggregate)


def finish_of(aggregate: Aggregate) -> str:
    """Equal for aggregates that finish partials of one form alike."""
    aggregate = aggregate.core
    return _nameless(aggregate.meaning(), aggregate)


_COLUMN_KEYS = ("column", "payload", "by")
"""Parameters that name a column. Another parameter may have the same text as a column's name: it
is never replaced, so that unlike partials are never taken for alike."""


def _nameless(values: dict[str, Any], aggregate: Aggregate) -> str:
    names = {name: f"#{i}" for i, name in enumerate(aggregate.inputs)}
    replaced = {k: names.get(v, v) if k in _COLUMN_KEYS else v for k, v in values.items()}
    types = [str(aggregate.type_of(name)) for name in aggregate.inputs]
    return json.dumps([replaced, types], sort_keys=True)


def combine(
    batched: BatchedPlan,
    decoded: Sequence[Sequence[Columns]],
    taken: Sequence[Int64],
    groups: Sequence[Int64],
    entities: int,
) -> tuple[Finished, ...]:
    """Per finish its values. decoded: per layout its partials; taken, groups: per layout which
    rows count, and in which group of that layout."""
    combined = []
    for form in batched.forms:
        parts = [_taken(decoded[m.layout][m.partial], taken[m.layout]) for m in form.members]
        if len(parts) == 1:
            whole, owners = parts[0], groups[form.members[0].layout]
        else:
            whole = Columns.concat(parts)
            owners = np.concatenate([groups[m.layout] + entities * m.first for m in form.members])
        combined.append(form.aggregate.combine_columns(whole, owners, entities * form.groups))
    return tuple(
        aggregate.finish_columns_at(
            combined[form], functools.partial(ends_of, batched, batched.forms[form], entities)
        )
        for form, aggregate in batched.finishes
    )


def _taken(partials: Columns, rows: Int64) -> Columns:
    """These rows; where they are all, once and in order, without a copy: as with one window,
    mostly."""
    if len(rows) == partials.n and np.array_equal(rows, np.arange(partials.n)):
        return partials
    return partials.take(rows)
