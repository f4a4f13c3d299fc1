"""A row's session is found among the events themselves, by the rule that online reads walk partials
by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slicewise.features.plan.unit import PlannedFeature
from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.answering.question import Bounds
from slicewise.training.answering.tree import ITEMS_AT_ONCE
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints, batches, expand
from slicewise.windows.sessions import session_heads


def settled(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    entity: Ints,
    bounds: Mapping[str, Bounds],
    offset_vectors: TokenOffsets | None = None,
) -> dict[str, Bounds]:
    """The bounds with those of each session's feature replaced by what the session came to.

    entity: per row its number. offset_vectors: what each row knows; None where it knows all. A
    session starts at the slice of its first event; where none is open, the bounds are empty at
    their end. Bounds that a token recorded are settled already.
    """
    settled_bounds = dict(bounds)
    heads: dict[int, Ints] = {}
    source = events.source
    for feature in features:
        gap_us = feature.window.session_gap_us
        if not gap_us:
            continue
        start, end = bounds[feature.column]
        first, beyond = source.between(entity, start, end)
        if offset_vectors is not None:
            opened = _opened(events, (first, beyond), end, gap_us, offset_vectors)
            settled_bounds[feature.column] = (opened, end)
            continue
        if gap_us not in heads:
            heads[gap_us] = session_heads(source.entity, source.rows.time, gap_us)
        some = np.flatnonzero(beyond > first)
        last = beyond[some] - 1
        is_open = end[some] - source.rows.time[last] < gap_us
        some, last = some[is_open], last[is_open]
        begun = source.rows.time[np.maximum(heads[gap_us][last], first[some])]
        opened = end.copy()
        opened[some] = begun // events.unit.slice_us * events.unit.slice_us
        settled_bounds[feature.column] = (opened, end)
    return settled_bounds


def _opened(
    events: UnitEvents,
    ranges: tuple[Ints, Ints],
    end_us: Ints,
    gap_us: int,
    offset_vectors: TokenOffsets,
) -> Ints:
    """Per row where its session starts, among the events of its range that it knows: one that it
    does not know holds no chain together."""
    rows, (first, beyond) = events.source.rows, ranges
    opened = end_us.copy()
    for part in batches(beyond - first, ITEMS_AT_ONCE):
        position, owner = expand(first[part], beyond[part])
        owner += part.start
        contained = offset_vectors.contain(
            owner, rows.time[position], events.topic_partition[position], rows.offset[position]
        )
        if not contained.any():
            continue
        owner, time = owner[contained], rows.time[position[contained]]
        # of one row's events, which ascend by time, the chains; the last of them may be open
        heads = session_heads(owner, time, gap_us)
        last = np.flatnonzero(np.append(owner[1:] != owner[:-1], True))
        last = last[end_us[owner[last]] - time[last] < gap_us]
        begun = time[heads[last]]
        opened[owner[last]] = begun // events.unit.slice_us * events.unit.slice_us
    return opened
