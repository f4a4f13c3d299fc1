"""Features of many units are answered for one spine by one rule: bounds by mode, or those that a
token recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slicewise.aggregates import Finished
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.answering.local import Bounds, Question, answer
from slicewise.training.answering.recorded import recorded_bounds
from slicewise.training.answering.sessions import settled
from slicewise.training.archive import (
    Archive,
    Archived,
    refuse_beyond,
    refuse_unapplied,
    refuse_unarchived,
)
from slicewise.training.arrival import Arrival
from slicewise.training.events.entities import entities_of
from slicewise.training.events.rows import events_of, unit_events
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints
from slicewise.training.requests.questions import answered
from slicewise.training.requests.unit_requests import UnitRequest, tokens_of
from slicewise.training.tables.spine import Spine, TokenColumns
from slicewise.windows.bounds import Mode


def reach(
    deployment: Deployment,
    archive: Archive,
    requested: Sequence[UnitRequest],
    latest_us: int | None,
) -> dict[str, Archived]:
    """The reach of each source's read, for instants up to `latest_us` (None: none are asked for).

    Raises NothingArchived where nothing is archived.
    """
    reaches = {}
    for name in sorted({unit_request.unit.source for unit_request in requested}):
        archived_until = archive.reaches(name)
        if latest_us is not None and latest_us > archived_until.until_us:
            archived_until = archive.confirmed(deployment.source(name), archived_until)
        reaches[name] = archived_until
    return reaches


def answer_spine(
    deployment: Deployment,
    archive: Archive,
    archived: Mapping[str, Archived],
    requested: Sequence[UnitRequest],
    spine: Spine,
    knowledge: str,
    mode: Mode = "event_time",
    arrival: Arrival | None = None,
) -> dict[str, Finished]:
    """Finished values by ref, one per row of the spine.

    archived: how far each source is read. mode: of bounds that no token recorded. arrival: what
    rows know of sources, where knowledge is that of arrival. Raises BadRequest where the spine asks
    for more.
    """
    tokens = spine.tokens if knowledge == "token" else None
    finished: dict[str, Finished] = {}
    for unit_request in requested:
        unit = unit_request.unit
        archived_until = archived[unit.source]
        arrived = None if arrival is None else arrival.of(unit.source, spine.at_us)
        if arrived is not None:
            refuse_unapplied(unit.source, archived_until, arrived.joined())
            bounds, own = _by_mode(unit_request, spine, mode), None
        elif tokens is None:
            if len(spine):
                refuse_beyond(unit.source, archived_until, int(spine.at_us.max()))
            bounds = _by_mode(unit_request, spine, mode)
            own = None
        else:
            own = tokens_of(unit, tokens)
            refuse_unarchived(unit.source, archived_until, own)
            bounds = recorded_bounds(unit_request.features, own, len(spine))
        events = read_unit(deployment, archive, unit, bounds, archived_until.archive_version, spine)
        offset_vectors = None
        if own is not None:
            offset_vectors = TokenOffsets.of(own, len(spine), events.topic_partitions)
        elif arrived is not None:
            offset_vectors = TokenOffsets.of_arrival(arrived, events.topic_partitions)
        numbers = events.entities.numbers(spine.table)
        if own is None:
            bounds = settled(events, unit_request.features, numbers, bounds, offset_vectors)
        question = Question(numbers, bounds, offset_vectors, mode)
        some_finished = answer(events, unit_request.features, question)
        finished |= {
            unit_request.ref(feature): answered(feature, some_finished[feature.column], spine.table)
            for feature in unit_request.features
        }
    return finished


def incomplete(
    requested: Sequence[UnitRequest],
    archived: Mapping[str, Archived],
    at_us: Ints,
    tokens: TokenColumns | None,
) -> dict[str, int]:
    """Ref -> rows whose window may lack events that are lost for good; refs without any are left
    out."""
    gaps: dict[str, int] = {}
    for unit_request in requested:
        accepted_gaps = archived[unit_request.unit.source].accepted_gaps
        if not accepted_gaps:
            continue
        if tokens is None:
            slice_us = unit_request.unit.slice_us
            bounds = {
                f.column: f.window.bounds_columns("event_time", at_us, slice_us)
                for f in unit_request.features
            }
        else:
            own = tokens_of(unit_request.unit, tokens)
            bounds = recorded_bounds(unit_request.features, own, tokens.n)
        for feature in unit_request.features:
            start, end = bounds[feature.column]
            touched = np.zeros(len(start), np.bool_)
            for accepted_gap in accepted_gaps:
                touched |= (start < accepted_gap.until_us) & (end > accepted_gap.from_us)
            if touched.any():
                gaps[unit_request.ref(feature)] = int(touched.sum())
    return gaps


def read_unit(
    deployment: Deployment,
    archive: Archive,
    unit: StorageUnit,
    bounds: Mapping[str, Bounds],
    archive_version: int,
    spine: Spine | None,
) -> UnitEvents:
    """The unit's events within all of the bounds; of the spine's entities, if one is given."""
    starts = [int(start.min()) for start, _ in bounds.values() if len(start)]
    ends = [int(end.max()) for _, end in bounds.values() if len(end)]
    start, end = (min(starts), max(ends)) if starts else (0, 0)
    source = deployment.source(unit.source)
    span = start, max(start, end)
    entities = None
    if spine is not None:
        entities = entities_of(spine.table, [name for name, _ in unit.entity])
    return unit_events(
        unit, events_of(archive, source, unit, *span, archive_version), entities, span
    )


def _by_mode(request: UnitRequest, spine: Spine, mode: Mode) -> dict[str, Bounds]:
    unit = request.unit
    return {
        feature.column: feature.window.bounds_columns(mode, spine.at_us, unit.slice_us)
        for feature in request.features
    }
