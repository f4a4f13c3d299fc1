"""One process answers any number of (entity, bounds, offset vector) questions with the bits that
the online store answers.

Whole columns throughout: partials of (entity, slice) are accumulated once and combined per
window; what a bound or an offset vector cuts comes from the events themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from slicewise.aggregates import Columns, Finished
from slicewise.features.plan.unit import ListUnit, PlannedFeature, StorageUnit
from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.answering.last import last_rows
from slicewise.training.answering.question import Bounds as Bounds
from slicewise.training.answering.question import Question as Question
from slicewise.training.answering.question import UnitEvents as UnitEvents
from slicewise.training.answering.tree import ITEMS_AT_ONCE, SliceTree, SortedRows, Transit
from slicewise.training.ranges import Ints, batches, expand
from slicewise.windows.slices import SLICES

ROWS_OF_TOKENS_AT_ONCE = 20_000


def answer(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    transit: Transit | None = None,
) -> dict[str, Finished]:
    """The finished value of every feature for every row, by feature column.

    transit: see SliceTree.build.
    """
    timed = [feature for feature in features if not feature.window.most_rows]
    partials = dict(
        zip((f.column for f in timed), _partials(events, timed, question, transit), strict=True)
    )
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
) -> list[Columns]:
    if not features:
        return []
    if question.offset_vectors is None:
        tree = _tree(events.unit, events.source, transit)
        return _combined(tree, features, question)
    parts, order = [], []
    for rows in _alike(question.offset_vectors):
        parts.append(_contained_in(events, features, question.take(rows), transit))
        order.append(rows)
    if not parts:
        return _combined(_tree(events.unit, events.source, transit), features, question)
    back = np.argsort(np.concatenate(order), kind="stable").astype(np.int64)
    return [Columns.concat([part[i] for part in parts]).take(back) for i in range(len(features))]


def _tree(unit: StorageUnit, source: SortedRows, transit: Transit | None) -> SliceTree:
    return SliceTree.build(unit.layout, _tree_slice(unit), source, transit)


def _tree_slice(unit: StorageUnit) -> int:
    """The slice of a unit; of an event list, which has none, one that cuts its windows into some
    parts: bounds cut slices anywhere."""
    if not isinstance(unit, ListUnit):
        return unit.slice_us
    shortest = min(
        (f.window.length_us for f in unit.features if not f.window.most_rows), default=SLICES[-1]
    )
    return max((slice_us for slice_us in SLICES if slice_us * 10 <= shortest), default=SLICES[0])


def _combined(
    tree: SliceTree, features: Sequence[PlannedFeature], question: Question
) -> list[Columns]:
    """The partial of every feature's window, each distinct interval combined once."""
    out: dict[str, Columns] = {}
    for same in _by_bounds(features, question):
        start, end = question.bounds[same[0].column]
        wanted = sorted({feature.partial for feature in same})
        combined = dict(zip(wanted, tree.combine(question.entity, start, end, wanted), strict=True))
        out.update((feature.column, combined[feature.partial]) for feature in same)
    return [out[feature.column] for feature in features]


def _by_bounds(
    features: Sequence[PlannedFeature], question: Question
) -> list[list[PlannedFeature]]:
    """Features whose bounds are the same in every row, together."""
    groups: list[tuple[Bounds, list[PlannedFeature]]] = []
    for feature in features:
        start, end = question.bounds[feature.column]
        for (other_start, other_end), same in groups:
            if np.array_equal(start, other_start) and np.array_equal(end, other_end):
                same.append(feature)
                break
        else:
            groups.append(((start, end), [feature]))
    return [same for _, same in groups]


def _alike(offset_vectors: TokenOffsets) -> Iterator[Ints]:
    """Rows in runs of similar offset vectors: most events are known to all of a run, or to none."""
    order = np.argsort(offset_vectors.base.sum(axis=1), kind="stable").astype(np.int64)
    for first in range(0, len(order), ROWS_OF_TOKENS_AT_ONCE):
        yield order[first : first + ROWS_OF_TOKENS_AT_ONCE]


def _contained_in(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    question: Question,
    transit: Transit | None,
) -> list[Columns]:
    """Events that all of these rows know go through the tree; the rest is asked row by row."""
    offset_vectors = question.offset_vectors
    assert offset_vectors is not None
    settled = events.source.rows.offset < offset_vectors.base.min(axis=0)[events.topic_partition]
    in_question = np.isin(events.source.entity, question.entity)
    tree = _tree(events.unit, events.source.take(_where(settled & in_question)), transit)
    partials = _combined(tree, features, question)
    unsettled = _where(~settled & in_question)
    if not len(unsettled):
        return partials
    source, topic_partition = events.source.take(unsettled), events.topic_partition[unsettled]
    out = []
    for feature, partial in zip(features, partials, strict=True):
        start, end = question.bounds[feature.column]
        more = _accumulated(
            source, topic_partition, question.entity, start, end, offset_vectors, feature
        )
        every = np.arange(partial.n, dtype=np.int64)
        out.append(
            feature.aggregate.combine_columns(
                Columns.concat([partial, more]), np.concatenate([every, every]), partial.n
            )
        )
    return out


def _accumulated(
    source: SortedRows,
    topic_partition: Ints,
    entity: Ints,
    start_us: Ints,
    end_us: Ints,
    offset_vectors: TokenOffsets,
    feature: PlannedFeature,
) -> Columns:
    first, beyond = source.between(entity, start_us, end_us)
    parts = []
    for part in batches(beyond - first, ITEMS_AT_ONCE):
        position, owner = expand(first[part], beyond[part])
        rows = source.rows
        contained = offset_vectors.contain(
            owner + part.start,
            rows.time[position],
            topic_partition[position],
            rows.offset[position],
        )
        parts.append(
            feature.aggregate.accumulate_columns(
                rows.take(position[contained]), owner[contained], part.stop - part.start
            )
        )
    return Columns.concat(parts)


def _where(flags: np.ndarray) -> Ints:
    return np.flatnonzero(flags).astype(np.int64)
