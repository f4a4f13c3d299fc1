"""Logged answers become a model's rows: values as they were answered, or looked up at their
instant."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa

from slicewise.features.plan.deployment import base_of
from slicewise.models.scoring import typed
from slicewise.serving.logged.outcomes import Prediction
from slicewise.serving.logged.records import LoggedAnswer
from slicewise.serving.shadow.planned import Plan, prediction_id
from slicewise.stores.log.publisher import Keyed

_DECODER = msgspec.json.Decoder(LoggedAnswer)
Lookup = Callable[[Sequence[str], Sequence[Mapping[str, Any]], int], Sequence[Sequence[Any] | str]]
"""(refs, entities, instant) -> per entity its values, or the reason why there are none."""


@dataclass(frozen=True)
class LoggedRow:
    """An entity of a live request that was answered."""

    request_id: str
    logged_us: int
    answered_us: int
    entity_text: str
    entity: Mapping[str, Any]
    answer: Mapping[str, Any]


@dataclass
class Chosen:
    """Rows that a model is to answer. foreign: records of others in the topic."""

    rows: list[LoggedRow] = field(default_factory=list)
    foreign: int = 0


def chosen_rows(records: Sequence[Keyed], plan: Plan) -> Chosen:
    """Rows of the plan's entities and feature set, in the order of the log, without requests about
    past instants."""
    chosen = Chosen()
    for record in records:
        if not plan.takes(record.key):
            continue
        try:
            logged = _DECODER.decode(record.value)
            entity, answer = json.loads(logged.entity), json.loads(logged.answer)
        except (msgspec.DecodeError, UnicodeError, ValueError, RecursionError):
            chosen.foreign += 1
            continue
        if not isinstance(entity, dict) or not isinstance(answer, dict):
            chosen.foreign += 1
        elif logged.mode == "live" and base_of(logged.feature_set) == plan.requests:
            chosen.rows.append(
                LoggedRow(
                    logged.request_id,
                    logged.logged_at,
                    logged.answered_at,
                    logged.entity,
                    entity,
                    answer,
                )
            )
    return chosen


def split_at(records: Sequence[Keyed], time_us: int) -> tuple[list[Keyed], list[Keyed]]:
    """Records that came before an instant, and the others."""
    older = [one for one in records if one.time_us < time_us]
    return older, [one for one in records if one.time_us >= time_us]


def prediction_of(row: LoggedRow, plan: Plan, score: float | None) -> Prediction:
    """The prediction for a row: all but the score follows from the log, so that one that is made
    again has the same id and the same instant."""
    model = plan.model
    is_positive = score is not None and score >= model.threshold
    return Prediction(
        prediction_id(row.request_id, row.entity_text, row.logged_us),
        model.name,
        score,
        model.positive or None if is_positive else None,
        row.answered_us,
        row.request_id,
        dict(row.entity),
    )


def features_of(
    rows: Sequence[LoggedRow], plan: Plan, lookup: Lookup
) -> tuple[pa.Table, dict[int, str]]:
    """A row of features for each row, and the reasons of those that have none: they are null.

    An answer that has all features gives them as they are; others are looked up, those of one
    instant together.
    """
    refs = list(plan.kinds)
    values: list[Sequence[Any]] = [()] * len(rows)
    errors = dict[int, str]()
    lacking = []
    for number, row in enumerate(rows):
        if all(ref in row.answer for ref in refs):
            values[number] = [row.answer[ref] for ref in refs]
        else:
            lacking.append(number)
    lacking.sort(key=lambda number: rows[number].answered_us)
    for instant_us, same in groupby(lacking, key=lambda number: rows[number].answered_us):
        numbers = list(same)
        entities = [_own(rows[number].entity, plan.columns) for number in numbers]
        for number, given in zip(numbers, lookup(refs, entities, instant_us), strict=True):
            if isinstance(given, str):
                errors[number], values[number] = given, [None] * len(refs)
            else:
                values[number] = [
                    plan.defaults.get(ref) if value is None else value
                    for ref, value in zip(refs, given, strict=True)
                ]
    return _table(values, plan.kinds, errors), errors


def _own(entity: Mapping[str, Any], columns: frozenset[str]) -> Mapping[str, Any]:
    """Columns of an entity by which the features are read; others are refused."""
    return {name: value for name, value in entity.items() if name in columns}


def _table(
    values: list[Sequence[Any]], kinds: Mapping[str, pa.DataType], errors: dict[int, str]
) -> pa.Table:
    """Columns of these values; a row with a value of another type has an error, and nulls."""
    for number, row in enumerate(values):
        for (ref, kind), value in zip(kinds.items(), row, strict=True):
            why = _refused(value, kind)
            if why is not None:
                errors[number] = f"{ref}: {why}"[:300]
                values[number] = [None] * len(kinds)
                break
    columns = {
        ref: typed([row[at] for row in values], kind)
        for at, (ref, kind) in enumerate(kinds.items())
    }
    return pa.table(columns)


def _refused(value: Any, kind: pa.DataType) -> str | None:
    try:
        typed([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    return None
