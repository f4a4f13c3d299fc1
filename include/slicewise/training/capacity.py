"""An event list keeps an entity's latest events alone; which windows reach before them is told as
serving tells it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slicewise.features.plan.unit import ListUnit, PlannedFeature
from slicewise.training.answering.local import Question
from slicewise.training.events.unit_events import UnitEvents

Flags = npt.NDArray[np.bool_]


def beyond_capacity(
    events: UnitEvents, features: Sequence[PlannedFeature], question: Question
) -> dict[str, Flags]:
    """Per feature column the rows whose window reaches events that the list of all these events
    does not keep.

    Columns without any are left out. Lists of a per-partition unit are of one partition each.
    """
    last = _newest_left_out(events)
    if not (last >= 0).any():
        return {}
    low = last[
        np.where((question.entity >= 0) & (question.entity < len(last)), question.entity, -1)
    ]
    cut = low >= 0
    too_far = {}
    for feature in features:
        start, end = question.bounds[feature.column]
        first, beyond = events.source.between(question.entity, start, end)
        rows = feature.window.most_rows
        if rows:
            reaches = (beyond - first < rows) | (beyond - rows <= low)
        else:
            reaches = events.source.rows.time[np.maximum(low, 0)] >= start
        if (cut & reaches).any():
            too_far[feature.column] = np.asarray(cut & reaches, np.bool_)
    return too_far


def _newest_left_out(events: UnitEvents) -> npt.NDArray[np.int64]:
    """Per entity the position of the newest event that its list left out; -1: it keeps all of
    them."""
    assert isinstance(events.unit, ListUnit)
    kept = events.unit.event_list
    entity = events.source.entity
    # one more: of entities without events
    last = np.full(int(entity.max(initial=-1)) + 2, -1, np.int64)
    # events are in order per entity: those of one list are counted from its newest back
    topic_partition = (
        events.topic_partition if events.unit.per_partition else np.zeros(len(entity), np.int64)
    )
    order = np.lexsort((np.arange(len(entity)), topic_partition, entity))
    lists = np.stack([entity[order], topic_partition[order]], axis=1)
    begins = np.flatnonzero(np.r_[True, (lists[1:] != lists[:-1]).any(axis=1)][: len(order)])
    for begin, end in zip(begins.tolist(), np.append(begins, len(order))[1:].tolist(), strict=True):
        if end - begin > kept.most:
            newest = int(order[end - kept.most - 1])
            last[entity[newest]] = max(last[entity[newest]], newest)
    return last
