"""The last rows of a question are those of the total order that it knows: what it does not know is
no row of it."""

from __future__ import annotations

import numpy as np

from slicewise.aggregates import Columns
from slicewise.features.plan.unit import PlannedFeature
from slicewise.training.answering.question import Question
from slicewise.training.answering.tree import ITEMS_AT_ONCE
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints, batches, expand


def last_rows(events: UnitEvents, feature: PlannedFeature, question: Question) -> Columns:
    """The partial of every row's last events within its bounds."""
    start, end = question.bounds[feature.column]
    first, beyond = events.source.between(question.entity, start, end)
    most = feature.window.most_rows
    parts = []
    for part in batches(np.minimum(beyond - first, most), ITEMS_AT_ONCE):
        position, owner = _positions(events, question, part, first[part], beyond[part], most)
        chosen = events.source.rows.take(position)
        parts.append(feature.aggregate.accumulate_columns(chosen, owner, part.stop - part.start))
    if not parts:
        return Columns.empty(feature.aggregate.fields, 0)
    return Columns.concat(parts)


def _positions(
    events: UnitEvents, question: Question, part: slice, first: Ints, beyond: Ints, most: int
) -> tuple[Ints, Ints]:
    """The chosen events and their rows, which are numbered from 0."""
    begin = np.maximum(first, beyond - most)
    if question.offset_vectors is None:
        return expand(begin, beyond)
    rows = events.source.rows
    while True:
        position, owner = expand(begin, beyond)
        contained = question.offset_vectors.contain(
            owner + part.start,
            rows.time[position],
            events.topic_partition[position],
            rows.offset[position],
        )
        count = np.bincount(owner[contained], minlength=len(first))
        lacking = (count < most) & (begin > first)
        if not lacking.any():
            break
        # some of the latest are not known: look twice as far back
        begin = np.where(lacking, np.maximum(first, 2 * begin - beyond), begin)
    position, owner = position[contained], owner[contained]
    from_end = np.cumsum(count)[owner] - 1 - np.arange(len(owner))
    latest = from_end < most
    return position[latest], owner[latest]
