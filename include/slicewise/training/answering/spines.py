"""Features of many units are answered for one spine by one rule: bounds by mode, or those that a
token recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.aggregates import Finished
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import TopicPartition
from slicewise.training.answering.knowledge import TokenOffsets, applied_events
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
from slicewise.training.arrival import Arrival, SourceArrival
from slicewise.training.events.entities import entities_of
from slicewise.training.events.rows import Span, events_of, unit_events
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints
from slicewise.training.requests.questions import answered
from slicewise.training.requests.unit_requests import UnitRequest, tokens_of
from slicewise.training.tables.spine import AlikeTokens, Spine, TokenColumns
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
    finished: dict[str, Finished] = {}
    for unit_request in requested:
        unit = unit_request.unit
        archived_until = archived[unit.source]
        bounded = _bounded(unit_request, archived_until, spine, knowledge, mode, arrival)
        bounds = bounded.bounds
        events = read_unit(deployment, archive, unit, bounds, archived_until.archive_version, spine)
        offset_vectors = bounded.offsets(len(spine), events.topic_partitions)
        numbers = events.entities.numbers(spine.table)
        if bounded.tokens is None:
            bounds = settled(events, unit_request.features, numbers, bounds, offset_vectors)
        question = Question(numbers, bounds, offset_vectors, mode)
        some_finished = answer(events, unit_request.features, question)
        finished |= {
            unit_request.ref(feature): answered(feature, some_finished[feature.column], spine.table)
            for feature in unit_request.features
        }
    return finished


def spans(
    archived: Mapping[str, Archived],
    requested: Sequence[UnitRequest],
    spine: Spine,
    knowledge: str,
    arrival: Arrival | None = None,
) -> tuple[Span, ...]:
    """Spans of event times that the units' windows reach, from the spine's first row to its last.

    Raises BadRequest where the spine asks for more than is archived.
    """
    return tuple(
        span_of(
            _bounded(
                unit_request,
                archived[unit_request.unit.source],
                spine,
                knowledge,
                "event_time",
                arrival,
            ).bounds
        )
        for unit_request in requested
    )


@dataclass(frozen=True)
class _Bounded:
    """Bounds of every row, and what says which events within them it knows: tokens of its unit, or
    what had arrived."""

    bounds: dict[str, Bounds]
    tokens: tuple[AlikeTokens, ...] | None = None
    arrived: SourceArrival | None = None

    def offsets(
        self, rows: int, topic_partitions: tuple[TopicPartition, ...]
    ) -> TokenOffsets | None:
        """The offset vectors of the rows; None where all events are known."""
        if self.tokens is not None:
            return TokenOffsets.of(self.tokens, rows, topic_partitions)
        if self.arrived is not None:
            return TokenOffsets.of_arrival(self.arrived, topic_partitions)
        return None


def _bounded(
    unit_request: UnitRequest,
    archived_until: Archived,
    spine: Spine,
    knowledge: str,
    mode: Mode,
    arrival: Arrival | None,
) -> _Bounded:
    """Raises BadRequest where the spine asks for more than is archived."""
    source = unit_request.unit.source
    if arrival is not None:
        arrived = arrival.of(source, spine.at_us)
        refuse_unapplied(source, archived_until, arrived.joined())
        return _Bounded(_by_mode(unit_request, spine, mode), arrived=arrived)
    if knowledge != "token":
        if len(spine):
            refuse_beyond(source, archived_until, int(spine.at_us.max()))
        return _Bounded(_by_mode(unit_request, spine, mode))
    own = tokens_of(unit_request.unit, spine.tokens)
    refuse_unarchived(source, archived_until, own)
    return _Bounded(recorded_bounds(unit_request.features, own, len(spine)), own)


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
    arrived: SourceArrival | None = None,
) -> UnitEvents:
    """The unit's events within all of the bounds; of the spine's entities, if one is given.

    arrived: what was applied by the one instant at which all rows know, and counts alone.
    """
    source, span = deployment.source(unit.source), span_of(bounds)
    entities = None
    if spine is not None:
        entities = entities_of(spine.table, [name for name, _ in unit.entity])
    events = unit_events(
        unit, events_of(archive, source, unit, *span, archive_version), entities, span
    )
    return events if arrived is None else applied_events(events, arrived)


def span_of(bounds: Mapping[str, Bounds]) -> Span:
    """From the first start to the last end."""
    starts = [int(start.min()) for start, _ in bounds.values() if len(start)]
    ends = [int(end.max()) for _, end in bounds.values() if len(end)]
    start, end = (min(starts), max(ends)) if starts else (0, 0)
    return start, max(start, end)


def _by_mode(request: UnitRequest, spine: Spine, mode: Mode) -> dict[str, Bounds]:
    unit = request.unit
    return {
        feature.column: feature.window.bounds_columns(mode, spine.at_us, unit.slice_us)
        for feature in request.features
    }
