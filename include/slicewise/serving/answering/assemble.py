"""Values become an answer in the order that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.aggregates.scalar import Scalars
from slicewise.reading.reader import Answered
from slicewise.serving.answering.answer import Answer, EntityAnswer, Interval, SourceFreshness
from slicewise.serving.answering.catalog import Selection
from slicewise.serving.answering.planned import Planned
from slicewise.serving.answering.questions import answered
from slicewise.serving.answering.requests import FeaturesRequest
from slicewise.stores.online.operations.reading import UnitReply


def answer_of(
    request: FeaturesRequest,
    selection: Selection,
    mode: str,
    t_us: int,
    planned: Planned,
    store_answer: Answered,
    freshness: tuple[SourceFreshness, ...],
    questions: Mapping[str, list[list[Any]]],
    unseen: Mapping[int, tuple[str, ...]],
) -> Answer:
    """The answer of what was read: per entity a value per feature, its default where it is null,
    and a token.

    questions: what `questions_of` found in the request. unseen: per entity the views of which
    nothing was found.
    """
    refs, n = selection.refs, len(request.entities)
    # what is remembered may be asked for with its tokens
    named = request.tokens or selection.is_remembered
    whole = store_answer.values_of_one
    if whole is not None:
        row = tuple([whole[position] for position in planned.positions])
        if selection.defaults is not None:
            row = tuple(
                [d if v is None else v for v, d in zip(row, selection.defaults, strict=True)]
            )
        token = store_answer.token(0) if named else ""
        (entity_of,) = request.entities
        sessions = _sessions(selection, store_answer, 0)
        one = (EntityAnswer(entity_of, row, token, bounds=sessions, no_data=unseen.get(0, ())),)
        return Answer(
            refs,
            mode,
            t_us,
            planned.bounds,
            one,
            freshness,
            (),
            doubles=selection.doubles,
            log=selection.log,
            tokens=request.tokens,
        )
    columns: list[list[Any]] = [[]] * len(refs)
    errors: list[dict[str, str]] = [{} for _ in range(n)]
    cached: dict[int, list[Any]] = {}
    """Converted values of each finish: features may share them."""
    for number, part in enumerate(selection.parts):
        alike = store_answer.alike(number)
        for i, position in enumerate(part.positions):
            finished, where = store_answer.column(number, i)
            values = cached.get(id(finished))
            if values is None:
                values = finished.values
                if not isinstance(finished, Scalars):
                    values = selection.converters[position](values)
                cached[id(finished)] = values
            own = values[where]
            columns[position] = own if alike is None else [own[entity] for entity in alike]
            if finished.errors:
                rows_of = range(where.start, where.stop, where.step)
                for entity, first in enumerate(range(n) if alike is None else alike):
                    code = finished.errors.get(rows_of[first])
                    if code is not None:
                        errors[entity][refs[position]] = code
    for position in selection.memberships:
        columns[position], codes = answered(
            selection, position, columns[position], request.entities, questions
        )
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
            store_answer.token(i) if named else "",
            errors[i],
            _sessions(selection, store_answer, i),
            unseen.get(i, ()),
        )
        for i, entity in enumerate(request.entities)
    )
    flags = ("overflow",) if any(errors) else ()
    return Answer(
        refs,
        mode,
        t_us,
        planned.bounds,
        results,
        freshness,
        flags,
        doubles=selection.doubles,
        log=selection.log,
        tokens=request.tokens,
    )


def _sessions(selection: Selection, store_answer: Answered, entity: int) -> dict[str, Interval]:
    """Bounds of each feature's session for an entity; other features have the answer's bounds."""
    if not store_answer.plan.slices.has_sessions:
        return {}
    return {
        selection.refs[part.positions[i]]: interval
        for number, part in enumerate(selection.sliced)
        for i, interval in store_answer.sessions(number, entity).items()
    }


_NONE: Mapping[int, tuple[str, ...]] = {}


def views_without_data(
    selection: Selection,
    targets: Sequence[tuple[int, int, int | None]],
    replies: Sequence[Sequence[UnitReply]],
    entities: int,
) -> Mapping[int, tuple[str, ...]]:
    """Entity -> the views of which the read found nothing, in no partition and no unit; of most
    reads none. So they are told from entities without events in the windows asked for.

    It takes no further read: an applied offset stands in an entity's hot hash for as long as the
    store keeps any of its events that came by the stream. targets: (group, entity, partition) of
    each reply; a per-partition group has none of a topic without an applied event.
    """
    per_partition = any(group[1] for group in selection.groups)
    if not per_partition and _all_hot(replies):
        return _NONE  # of almost every read
    empty = [
        (group, entity, position)
        for (group, entity, _), units in zip(targets, replies, strict=True)
        for position, unit in enumerate(units)
        if not unit.hot and not _has_any(unit)
    ]
    groups = {group for group, _, _ in targets} if per_partition else set()
    bare = [part for part in selection.parts if part.group not in groups] if per_partition else []
    if not empty and not bare:
        return _NONE
    names = {(part.group, part.position): part.unit.view for part in selection.parts}
    nothing = {(entity, names[group, position]): None for group, entity, position in empty}
    nothing |= {(entity, part.unit.view): None for part in bare for entity in range(entities)}
    absent = {entity for entity, _ in nothing}
    for (group, entity, _), units in zip(targets, replies, strict=True):
        if entity in absent:
            for position, unit in enumerate(units):
                if unit.hot or _has_any(unit):
                    nothing.pop((entity, names[group, position]), None)
    unseen: dict[int, tuple[str, ...]] = {}
    for entity, view in sorted(nothing):
        unseen[entity] = (*unseen.get(entity, ()), view)
    return unseen


def _all_hot(replies: Sequence[Sequence[UnitReply]]) -> bool:
    """Tells whether all hot hashes hold something."""
    for units in replies:
        for unit in units:
            if not unit[0]:
                return False
    return True


def _has_any(unit: UnitReply) -> bool:
    return any(value is not None for day in unit.days for value in day)
