"""One process answers any number of (entity, bounds, offset vector) questions with the bits that
the online store answers.

Whole columns throughout, a run of entities at a time. What has tables of ranges looks a window up
in them; of all else partials of (entity, slice) are accumulated once and combined per window. What
an offset vector cuts comes from the events themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Columns, Finished
from slicewise.codec import Layout
from slicewise.features.plan.unit import ListUnit, PlannedFeature, StorageUnit
from slicewise.training.answering.last import last_rows
from slicewise.training.answering.question import Bounds as Bounds
from slicewise.training.answering.question import Question as Question
from slicewise.training.answering.settling import settled_until
from slicewise.training.answering.tree import ITEMS_AT_ONCE, SliceTree, Transit
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints, batches, expand, order_by
from slicewise.windows.slices import SLICES

EVENTS_AT_ONCE = 2**18
"""Events of a run of entities, which a cache holds with what is made of them; an entity is never
cut."""


def answer(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    transit: Transit | None = None,
) -> dict[str, Finished]:
    """The finished value of every feature for every row, by feature column.

    transit: see SliceTree.build.
    """
    if not features:
        return {}
    # Rows beside those of their entity look events up beside each other.
    order, _, _ = order_by(question.entity + 1, question.bounds[features[0].column][1])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    parts = [
        _answered(some, features, own, transit) for some, own in _runs(events, question.take(order))
    ]
    return {f.column: _joined([part[f.column] for part in parts], back) for f in features}


def _runs(events: UnitEvents, question: Question) -> Iterator[tuple[UnitEvents, Question]]:
    """Runs of entities with their events, and the rows that are about them; rows ascend by
    entity."""
    entity = events.source.entity
    firsts = np.unique(entity[EVENTS_AT_ONCE::EVENTS_AT_ONCE])
    edges = [0, *np.searchsorted(entity, firsts).tolist(), len(entity)]
    rows = [0, *np.searchsorted(question.entity, firsts).tolist(), len(question.entity)]
    for i in range(len(edges) - 1):
        if i == 0 or rows[i] < rows[i + 1]:
            yield events.slice(edges[i], edges[i + 1]), question.slice(rows[i], rows[i + 1])


def _joined(parts: Sequence[Finished], back: Ints) -> Finished:
    errors, begin = {}, 0
    for part in parts:
        errors.update({begin + row: code for row, code in part.errors.items()})
        begin += len(part.values)
    values = parts[0].values if len(parts) == 1 else pa.concat_arrays([p.values for p in parts])
    if errors:
        rows = np.argsort(back)
        errors = {int(rows[row]): errors[row] for row in sorted(errors, key=lambda r: rows[r])}
    return Finished(values.take(pa.array(back)), errors)


def _answered(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    transit: Transit | None,
) -> dict[str, Finished]:
    timed = [feature for feature in features if not feature.window.most_rows]
    partials = _partials(events, timed, question, transit) if timed else {}
    for feature in features:
        if feature.window.most_rows:
            partials[feature.column] = last_rows(events, feature, question)
    return {
        f.column: f.aggregate.finish_columns_at(
            partials[f.column], functools.partial(_ends, question, f)
        )
        for f in features
    }


def _ends(question: Question, feature: PlannedFeature) -> Ints:
    """The instants that ages are counted from."""
    return question.bounds[feature.column][1] - feature.window.holds_end(question.mode)


def _partials(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    transit: Transit | None,
) -> dict[str, Columns]:
    if question.offset_vectors is None:
        return _within(events, features, question, question.bounds, transit)
    until = settled_until(events, question.entity, question.offset_vectors)
    bounds = {
        f.column: (start, np.minimum(end, np.maximum(start, until)))
        for f, (start, end) in ((f, question.bounds[f.column]) for f in features)
    }
    partials = _within(events, features, question, bounds, transit)
    rest = {f.column: (bounds[f.column][1], question.bounds[f.column][1]) for f in features}
    for same in _by_bounds(features, rest):
        _add_rest(events, same, question, rest[same[0].column], partials)
    return partials


def _within(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    bounds: Mapping[str, Bounds],
    transit: Transit | None,
) -> dict[str, Columns]:
    """The partial of every feature's events within its bounds, all of which count; each distinct
    interval combined once."""
    alike = _by_bounds(features, bounds)
    intervals = [bounds[same[0].column] for same in alike]
    wanted = [sorted({feature.partial for feature in same}) for same in alike]
    ranges = [events.source.between(question.entity, *interval) for interval in intervals]
    combined: list[dict[int, Columns]] = [{} for _ in alike]
    left: set[int] = set()
    for position in sorted({position for positions in wanted for position in positions}):
        chosen = [i for i, positions in enumerate(wanted) if position in positions]
        aggregate = events.unit.layout.partials[position]
        # what stands between writer and reader is asked of slices
        form = aggregate.over_ranges(events.source.rows) if transit is None else None
        if form is None:
            left.add(position)
            continue
        for i, columns in zip(chosen, form.between([ranges[i] for i in chosen]), strict=True):
            combined[i][position] = columns
        del form  # which may be large, before the next one is made
    if left:
        tree, index = _tree(events, left, transit)
        for i, (start, end) in enumerate(intervals):
            some = [position for position in wanted[i] if position in left]
            if some:
                own = [index[position] for position in some]
                partials = tree.combine(question.entity, start, end, own)
                combined[i].update(zip(some, partials, strict=True))
    return {
        feature.column: combined[i][feature.partial]
        for i, same in enumerate(alike)
        for feature in same
    }


def _tree(
    events: UnitEvents, wanted: set[int], transit: Transit | None
) -> tuple[SliceTree, dict[int, int]]:
    """A tree of these partials of the layout, and per partial its position in the tree's own."""
    layout, positions = events.unit.layout, list(range(len(events.unit.layout.partials)))
    if transit is None:
        positions = sorted(wanted)
        layout = Layout(tuple(layout.partials[position] for position in positions))
    tree = SliceTree.build(layout, _tree_slice(events.unit), events.source, transit)
    return tree, {position: i for i, position in enumerate(positions)}


def _tree_slice(unit: StorageUnit) -> int:
    """The slice of a unit; of an event list, which has none, one that cuts its windows into some
    parts: bounds cut slices anywhere."""
    if not isinstance(unit, ListUnit):
        return unit.slice_us
    shortest = min(
        (f.window.length_us for f in unit.features if not f.window.most_rows), default=SLICES[-1]
    )
    return max((slice_us for slice_us in SLICES if slice_us * 10 <= shortest), default=SLICES[0])


def _by_bounds(
    features: Sequence[PlannedFeature], bounds: Mapping[str, Bounds]
) -> list[list[PlannedFeature]]:
    """Features whose bounds are the same in every row, together."""
    groups: list[tuple[Bounds, list[PlannedFeature]]] = []
    for feature in features:
        start, end = bounds[feature.column]
        for (other_start, other_end), same in groups:
            if np.array_equal(start, other_start) and np.array_equal(end, other_end):
                same.append(feature)
                break
        else:
            groups.append(((start, end), [feature]))
    return [same for _, same in groups]


def _add_rest(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    interval: Bounds,
    partials: dict[str, Columns],
) -> None:
    """Adds to the partials of the features those events of the interval that each row's offset
    vector contains."""
    assert question.offset_vectors is not None
    rows = events.source.rows
    first, beyond = events.source.between(question.entity, *interval)
    for part in batches(beyond - first, ITEMS_AT_ONCE):
        position, owner = expand(first[part], beyond[part])
        owner += part.start
        contained = question.offset_vectors.contain(
            owner, rows.time[position], events.topic_partition[position], rows.offset[position]
        )
        if not contained.any():
            continue
        some, group = np.unique(owner[contained], return_inverse=True)
        chosen = rows.take(position[contained])
        twice = np.tile(np.arange(len(some)), 2)
        for feature in features:
            aggregate, whole = feature.aggregate, partials[feature.column]
            more = aggregate.accumulate_columns(chosen, group, len(some))
            both = Columns.concat([whole.take(some), more])
            added = aggregate.combine_columns(both, twice, len(some))
            source = np.arange(whole.n)
            source[some] = whole.n + np.arange(len(some))
            partials[feature.column] = Columns.concat([whole, added]).take(source)
