"""A request's reads follow from its selection and one time; they are planned once and used until a
bound moves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from slicewise.reading import reader
from slicewise.reading.plan import ReadMode, Total
from slicewise.reading.reader import PartialCache, Plan, PlanCache
from slicewise.serving.answering.answer import Bounds
from slicewise.serving.answering.catalog import Catalog, Selection
from slicewise.serving.answering.refusals import kept_until_us


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan of a selection, and where its answers stand among the features asked for."""

    plan: Plan
    bounds: Bounds
    """Per feature, in the order of the selection."""
    positions: tuple[int, ...]
    """Per feature, where the value of one entity stands among those of all finishes; of slices
    alone."""
    cache: PlanCache
    """Common parts of the answers of its slices, for as long as the plan is kept."""
    kept_until_us: int
    """The store's time up to which nothing that is read is too old for it."""


def plan_selection(
    catalog: Catalog,
    selection: Selection,
    mode: ReadMode,
    t_us: int,
    without_total: Collection[tuple[str, Total]],
    kept: Planned | None = None,
    partials: PartialCache | None = None,
) -> Planned:
    """without_total: (unit, day or five-day total) of what is read by its hours or days. kept: a
    plan of the selection's slices that serves this instant too. partials: compacted hours that were
    read, of all plans; None: none are remembered."""
    plan = reader.plan(
        selection, mode, t_us, catalog, without_total, None if kept is None else kept.plan
    )
    bounds = {} if kept is None else dict(kept.bounds)
    for number in range(0 if kept is None else len(selection.sliced), len(selection.parts)):
        for i, position in enumerate(selection.parts[number].positions):
            bounds[selection.refs[position]] = plan.interval(number, i)
    at: dict[int, int] = {}
    if not selection.listed:
        for part, positions in zip(selection.sliced, plan.slices.batch.of_one, strict=True):
            at |= zip(part.positions, positions, strict=True)
    in_order = Bounds({ref: bounds[ref] for ref in selection.refs})
    if kept is None:
        cache = PlanCache.of(partials or PartialCache(0), len(selection.sliced))
    else:
        cache = kept.cache
    return Planned(plan, in_order, tuple(at[i] for i in sorted(at)), cache, kept_until_us(plan))
