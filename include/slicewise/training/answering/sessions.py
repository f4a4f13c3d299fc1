"""A row's session is found among the events themselves, by the rule that online reads walk partials
by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slicewise.features.plan.unit import PlannedFeature
from slicewise.training.answering.question import Bounds
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints
from slicewise.windows.sessions import session_heads


def settled(
    events: UnitEvents,
    features: Sequence[PlannedFeature],
    entity: Ints,
    bounds: Mapping[str, Bounds],
) -> dict[str, Bounds]:
    """The bounds with those of each session's feature replaced by what the session came to.

    entity: per row its number. A session starts at the slice of its first event; where none is
    open, the bounds are empty at their end. Bounds that a token recorded are settled already.
    """
    settled_bounds = dict(bounds)
    heads: dict[int, Ints] = {}
    source = events.source
    for feature in features:
        gap_us = feature.window.session_gap_us
        if not gap_us:
            continue
        if gap_us not in heads:
            heads[gap_us] = session_heads(source.entity, source.rows.time, gap_us)
        start, end = bounds[feature.column]
        first, beyond = source.between(entity, start, end)
        some = np.flatnonzero(beyond > first)
        last = beyond[some] - 1
        is_open = end[some] - source.rows.time[last] < gap_us
        some, last = some[is_open], last[is_open]
        begun = source.rows.time[np.maximum(heads[gap_us][last], first[some])]
        opened = end.copy()
        opened[some] = begun // events.unit.slice_us * events.unit.slice_us
        settled_bounds[feature.column] = (opened, end)
    return settled_bounds
