"""Merged values become an answer in the order that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from slicewise.aggregates.scalar import Scalars
from slicewise.offsets import token as tokens
from slicewise.reading.answer import Merged
from slicewise.reading.event_list import ListMerged
from slicewise.serving.answering.answer import Answer, EntityAnswer, Interval, SourceFreshness
from slicewise.serving.answering.catalog import Selection
from slicewise.serving.answering.memory.fallback import remembers
from slicewise.serving.answering.planned import Planned
from slicewise.serving.answering.questions import answered
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.serving.answering.values import Converter


def answer_of(
    request: FeaturesRequest,
    selection: Selection,
    mode: str,
    t_us: int,
    planned: Planned,
    merged: Merged,
    lists: Sequence[ListMerged],
    freshness: tuple[SourceFreshness, ...],
    questions: Mapping[str, list[list[Any]]],
    unseen: Mapping[int, tuple[str, ...]],
) -> Answer:
    """The answer of merged values: per entity a value per feature, its default where it is null, and a token.

    questions: what `questions_of` found in the request. unseen: per entity the views of which nothing was found.
    """
    refs, n = selection.refs, len(request.entities)
    named = request.tokens or remembers(selection)  # what is remembered may be asked for with its tokens
    parts = range(len(selection.sliced))
    if n == 1 and not lists and all(type(found) is Scalars and not found.errors for found in merged.finished):
        whole = list(chain.from_iterable([found.values for found in merged.finished]))
        row = tuple([whole[place] for place in planned.places])
        if selection.defaults is not None:
            row = tuple([d if v is None else v for v, d in zip(row, selection.defaults, strict=True)])
        token = tokens.join([merged.token(part, 0) for part in parts]) if named else ""
        (entity_of,) = request.entities
        sessions = _sessions(selection, merged, 0)
        one = (EntityAnswer(entity_of, row, token, bounds=sessions, no_data=unseen.get(0, ())),)
        return Answer(
            refs, mode, t_us, planned.bounds, one, freshness, (), doubles=selection.doubles, tokens=request.tokens
        )
    columns: list[list[Any]] = [[]] * len(refs)
    errors: list[dict[str, str]] = [{} for _ in range(n)]
    known: dict[int, list[Any]] = {}
    for part, slots in zip(selection.sliced, merged.joint.slots, strict=True):
        for position, slot in zip(part.positions, slots, strict=True):
            values = known.get(slot.finish)
            finished = merged.finished[slot.finish]
            if values is None:
                values = finished.values
                if not isinstance(finished, Scalars):
                    values = selection.converters[position](values)
                known[slot.finish] = values
            first = n * slot.first + slot.interval
            columns[position] = values[first : n * slot.first + n * slot.stride : slot.stride]
            if finished.errors:
                for entity in range(n):
                    code = finished.errors.get(first + entity * slot.stride)
                    if code is not None:
                        errors[entity][refs[position]] = code
    for part, listed in zip(selection.listed, lists, strict=True):
        for i, position in enumerate(part.positions):
            _add_listed(listed, i, selection.converters[position], columns, position)
            _add_errors(listed, i, selection.refs[position], errors)
    for position in selection.asking:
        columns[position], codes = answered(selection, position, columns[position], request.entities, questions)
        for entity, code in codes.items():
            errors[entity][refs[position]] = code
    if selection.defaults is not None:
        for position, default in enumerate(selection.defaults):
            if default is not None:
                columns[position] = [default if v is None else v for v in columns[position]]
    rows = list(zip(*columns, strict=True))
    results = tuple(
        EntityAnswer(
            entity,
            rows[i],
            _token(merged, lists, i) if named else "",
            errors[i],
            _sessions(selection, merged, i),
            unseen.get(i, ()),
        )
        for i, entity in enumerate(request.entities)
    )
    flags = ("overflow",) if any(errors) else ()
    return Answer(
        refs, mode, t_us, planned.bounds, results, freshness, flags, doubles=selection.doubles, tokens=request.tokens
    )


def _token(merged: Merged, lists: Sequence[ListMerged], entity: int) -> str:
    parts = [merged.token(part, entity) for part in range(len(merged.joint.plans))]
    return tokens.join([*parts, *(listed.token(entity) for listed in lists)])


def _add_listed(listed: ListMerged, feature: int, convert: Converter, columns: list[list[Any]], position: int) -> None:
    finished, where = listed.values(feature)
    columns[position] = convert(finished.values)[where]


def _add_errors(listed: ListMerged, feature: int, ref: str, errors: list[dict[str, str]]) -> None:
    finished, where = listed.values(feature)
    if finished.errors:
        for entity, row in enumerate(range(where.start, listed.entities * where.step, where.step)):
            if (code := finished.errors.get(row)) is not None:
                errors[entity][ref] = code


def _sessions(selection: Selection, merged: Merged, entity: int) -> dict[str, Interval]:
    """The session of each feature for an entity; other features have the answer's bounds."""
    found: dict[str, Interval] = {}
    for number, (part, plan) in enumerate(zip(selection.sliced, merged.joint.plans, strict=True)):
        if plan.gaps:
            intervals = merged.intervals(number, entity)
            for position, i in zip(part.positions, plan.interval_of, strict=True):
                if plan.gaps[i]:
                    found[selection.refs[position]] = intervals[i]
    return found
