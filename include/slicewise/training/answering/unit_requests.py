"""Features of many units are answered for one spine by one rule: bounds by mode, or those that a
token recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slicewise.aggregates import Finished
from slicewise.calls import shown
from slicewise.errors import BadRequest
from slicewise.features.declare.definitions import FeatureSet
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import PlannedFeature, StorageUnit
from slicewise.training.answering.entities import entities_of
from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.answering.local import Bounds, Question, UnitEvents, answer
from slicewise.training.answering.questions import answered, question_types
from slicewise.training.answering.recorded import recorded_bounds
from slicewise.training.answering.recorded import tokens_of as tokens_of
from slicewise.training.answering.rows import events_of, unit_events
from slicewise.training.answering.sessions import settled
from slicewise.training.archive import Archive, Archived, refuse_beyond, refuse_unarchived
from slicewise.training.ranges import Ints
from slicewise.training.tables.spine import Spine, TokenColumns
from slicewise.windows.bounds import Mode

KNOWLEDGE = ("event_time", "token")


@dataclass(frozen=True)
class UnitRequest:
    """The features of one unit that a request names, with the refs under which they are
    answered."""

    unit: StorageUnit
    features: tuple[PlannedFeature, ...]

    def ref(self, feature: PlannedFeature) -> str:
        """ "view:column"."""
        return f"{self.unit.view}:{feature.column}"


def resolve(
    deployment: Deployment, features: object
) -> tuple[tuple[str, ...], tuple[UnitRequest, ...]]:
    """Refs in the order asked, and what each unit is asked for.

    features: a feature set (object or name), or a list of refs "view:column". Raises UnknownName
    and BadRequest.
    """
    refs = named(features)
    if isinstance(refs, str):
        refs = deployment.feature_set(refs).features
    units: dict[str, tuple[StorageUnit, list[PlannedFeature]]] = {}
    for ref in refs:
        unit, feature = deployment.resolve(ref)
        units.setdefault(unit.storage_fingerprint, (unit, []))[1].append(feature)
    return refs, tuple(UnitRequest(unit, tuple(some)) for unit, some in units.values())


def named(features: object) -> tuple[str, ...] | str:
    """The refs that are asked for, or the name of a feature set, which a deployment knows. Raises
    BadRequest."""
    if isinstance(features, str) and ":" not in features and features:
        return features
    refs = _refs(features)
    if not refs:
        raise BadRequest(
            "no features",
            where="features",
            expected='refs such as "view:column"',
            next_step="name at least one",
        )
    for ref in refs:
        if ":" not in ref:
            raise BadRequest(
                f"{ref!r} is no feature",
                where="features",
                expected='refs such as "view:column"',
                next_step="ask for a feature set by its name alone, or for features by their refs",
            )
    twice = sorted({ref for ref in refs if refs.count(ref) > 1})
    if twice:
        raise BadRequest(
            f"{', '.join(twice)} stand twice",
            where="features",
            expected="each feature once",
            next_step="leave the second out",
        )
    return refs


def _refs(features: object) -> tuple[str, ...]:
    if isinstance(features, FeatureSet):
        return tuple(features.features)
    if isinstance(features, str):
        return (features,) if features else ()
    if isinstance(features, Sequence) and all(isinstance(ref, str) for ref in features):
        return tuple(features)
    raise BadRequest(
        f"{shown(features)} names no features",
        where="features",
        expected='the name of a feature set, or a list of refs such as ["view:column"]',
        next_step="name what the training set is to hold",
    )


def entity_types(requested: Sequence[UnitRequest]) -> dict[str, str]:
    """Declared type of every entity column that the spine must have."""
    types: dict[str, str] = {}
    for unit_request in requested:
        for name, kind in unit_request.unit.entity:
            if types.setdefault(name, kind) != kind:
                raise BadRequest(
                    (
                        f"the entity column {name!r} is {types[name]} in one view and {kind} in "
                        "another"
                    ),
                    where="features",
                    expected="views that agree on their entity",
                    next_step="ask for them in two data sets",
                )
    return types


def questions_of(requested: Sequence[UnitRequest]) -> dict[str, str]:
    """Declared type of every column that the features are asked by. Raises BadRequest."""
    return question_types((unit_request.unit, unit_request.features) for unit_request in requested)


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
) -> dict[str, Finished]:
    """Finished values by ref, one per row of the spine.

    archived: how far each source is read. mode: of bounds that no token recorded. Raises BadRequest
    where the spine asks for more.
    """
    tokens = spine.tokens if knowledge == "token" else None
    finished: dict[str, Finished] = {}
    for unit_request in requested:
        unit = unit_request.unit
        archived_until = archived[unit.source]
        if tokens is None:
            if len(spine):
                refuse_beyond(unit.source, archived_until, int(spine.at_us.max()))
            bounds = _by_mode(unit_request, spine, mode)
            own = None
        else:
            own = tokens_of(unit, tokens)
            refuse_unarchived(unit.source, archived_until, own)
            bounds = recorded_bounds(unit_request.features, own, len(spine))
        events = read_unit(deployment, archive, unit, bounds, archived_until.archive_version, spine)
        offset_vectors = (
            None if own is None else TokenOffsets.of(own, len(spine), events.topic_partitions)
        )
        numbers = events.entities.numbers(spine.table)
        if own is None:
            bounds = settled(events, unit_request.features, numbers, bounds)
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
