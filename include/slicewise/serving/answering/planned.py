"""A request's reads follow from its selection and one time; they are planned once and used until a bound moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from slicewise.reading.answer import BatchedPlan
from slicewise.reading.event_list import ListPlan, plan_list
from slicewise.reading.plan import ReadMode, ReadPlan, Total, plan_read
from slicewise.serving.answering.answer import Bounds
from slicewise.serving.answering.catalog import Catalog, Selection, entity_tags
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.stores.online.operations.reading import TagRead
from slicewise.stores.online.routing import node_of
from slicewise.stores.online.shapes import ListShape, ReadShape, UnitShape

Target = tuple[int, int, int | None]
"""(group, entity, partition) that a tag is of."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A selection at one time: its plans together, and what they read under each group's tag."""

    joint: BatchedPlan
    shapes: tuple[ReadShape, ...]
    """Per group what is read of its units under a tag."""
    kept: tuple[tuple[ReadPlan, int], ...]
    """Per unit the plan, and how long before the store's time it may start."""
    bounds: Bounds
    """Per feature, in the order of the selection."""
    places: tuple[int, ...]
    """Per feature, where the value of one entity stands among those of all finishes; of slices alone."""
    lists: tuple[ListPlan, ...] = ()
    """Per event list its plan."""
    by_node: Mapping[int, tuple[ReadShape, ...]] = field(default_factory=dict)
    """Of a store of several nodes: the shapes under each one's names."""


def plan_selection(
    catalog: Catalog,
    selection: Selection,
    mode: ReadMode,
    t_us: int,
    without_total: Collection[tuple[str, Total]],
) -> Planned:
    """without_total: (unit, day or pentad) of what is read by its hours or days."""
    plans = []
    for part in selection.sliced:
        name = part.unit.storage_fingerprint
        missing = frozenset(total for unit, total in without_total if unit == name)
        horizon = catalog.horizons.get(name)
        reached = None if horizon is None else horizon.hour
        plans.append(plan_read(part.unit, part.features, mode, t_us, missing, reached))
    joint = BatchedPlan(tuple(plans))
    both = list(zip(selection.sliced, plans, strict=True))

    def shapes_of(each: Catalog) -> tuple[ReadShape, ...]:
        units = [
            (p.group, UnitShape(each.names[p.unit.storage_fingerprint], tuple((d.day, d.names) for d in plan.days)))
            for p, plan in both
        ]
        return tuple(
            ReadShape(each.generation, tuple(unit for of, unit in units if of == group))
            for group in range(len(selection.groups))
        )

    found = {
        selection.refs[position]: plan.intervals[plan.interval_of[i]]
        for part, plan in both
        for i, position in enumerate(part.positions)
    }
    kept = tuple((plan, plan.unit.retention_us) for plan in plans)
    at = {
        position: place
        for part, places in zip(selection.sliced, joint.of_one, strict=True)
        for position, place in zip(part.positions, places, strict=True)
    }
    bounds = Bounds({ref: found[ref] for ref in selection.refs if ref in found})
    places = () if selection.listed else tuple(at[i] for i in range(len(selection.refs)))
    by_node = {number: shapes_of(each) for number, each in catalog.nodes.items()}
    return Planned(joint, shapes_of(catalog), kept, bounds, places, by_node=by_node)


def with_lists(planned: Planned, catalog: Catalog, selection: Selection, mode: ReadMode, t_us: int) -> Planned:
    """The plan of a selection's slices, and of its event lists: those at this very instant."""
    plans = tuple(plan_list(part.unit, part.features, mode, t_us) for part in selection.listed)
    both = list(zip(selection.listed, plans, strict=True))

    def with_theirs(names: Catalog, shapes: tuple[ReadShape, ...]) -> tuple[ReadShape, ...]:
        lists = [(p.group, ListShape(names.names[p.unit.storage_fingerprint], plan.ranges)) for p, plan in both]
        return tuple(
            ReadShape(shape.generation, (*shape.units, *(each for of, each in lists if of == group)))
            for group, shape in enumerate(shapes)
        )

    shapes = with_theirs(catalog, planned.shapes)
    by_node = {number: with_theirs(catalog.nodes[number], each) for number, each in planned.by_node.items()}
    found = dict(planned.bounds)
    for part, plan in both:
        found |= {selection.refs[position]: plan.bounds_of(i) for i, position in enumerate(part.positions)}
    bounds = Bounds({ref: found[ref] for ref in selection.refs})
    return replace(planned, shapes=shapes, bounds=bounds, lists=plans, by_node=by_node)


def reads_of(
    catalog: Catalog, selection: Selection, planned: Planned, request: FeaturesRequest
) -> tuple[list[Target], list[TagRead]]:
    """Per tag (group, entity, partition), and what is read under it. StoreUnavailable where its node is away."""
    several = bool(catalog.nodes)
    spread = {source: catalog.partitions(source) for _, s, source in selection.groups if s}
    tags_of_groups = entity_tags(selection, request.entities, spread)
    targets: list[Target] = []
    reads: list[TagRead] = []
    for group, by_partition in enumerate(tags_of_groups):
        shape = planned.shapes[group]
        for partition, tags in by_partition:
            for entity, tag in enumerate(tags):
                targets.append((group, entity, partition))
                if several:
                    number = node_of(tag, catalog.count)
                    catalog.of_node(number)
                    shape = planned.by_node[number][group]
                reads.append(TagRead(shape, tag))
    return targets, reads
