"""A question in an entity's row is typed before anything is read, and answered after all is merged.

A feature that is asked (`sw.bloom`) takes its question from the column of the entity's row that has
its column's name: a value, or a list of values. docs/adr/0033-a-question-is-a-column.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Finished
from slicewise.errors import BadRequest
from slicewise.serving.answering.catalog import Selection, value_of
from slicewise.serving.answering.requests import MAX_VALUES, Entity, instant_us

MAX_QUESTIONS = 1_000
"""Values that one entity's row asks for in one column."""
NO_QUESTIONS: Mapping[str, list[list[Any]]] = {}


def questions_of(selection: Selection, entities: Sequence[Entity]) -> Mapping[str, list[list[Any]]]:
    """Per column that is asked for, and per entity, the values asked for. Raises BadRequest."""
    questions = {column: [_values(entity[column], kind, column, i) for i, entity in enumerate(entities)]
             for column, kind in selection.question_types.items()}  # fmt: skip
    total = sum(len(values) for rows in questions.values() for values in rows)
    if total > MAX_VALUES:
        raise BadRequest(
            f"{total} values are asked for",
            where="entities",
            expected=f"at most {MAX_VALUES}",
            next_step="ask in several requests",
        )
    return questions


def _values(given: object, kind: str, column: str, i: int) -> list[Any]:
    several = given if isinstance(given, list) else [given]
    if len(several) > MAX_QUESTIONS:
        raise BadRequest(
            f"{len(several)} values of {column!r} are asked for",
            where=f"entities[{i}]",
            expected=f"at most {MAX_QUESTIONS}",
            next_step="ask in several requests",
        )
    values = [None if value is None else value_of(value, kind, column, i) for value in several]
    return [instant_us(value) if isinstance(value, datetime) else value for value in values]


def answered(
    selection: Selection,
    position: int,
    filters: Sequence[bytes | None],
    entities: Sequence[Entity],
    questions: Mapping[str, list[list[Any]]],
) -> tuple[list[Any], Mapping[int, str]]:
    """Per entity the answers of the feature at this position: a boolean, or a list of them; and
    errors."""
    aggregate = selection.memberships[position]
    column = aggregate.question
    kind = pa.list_(aggregate.type_of(column))
    finished = Finished(pa.array(filters, pa.large_binary()))
    answers = aggregate.answered(finished, pa.array(questions[column], kind))
    values: list[Any] = answers.values.to_pylist()
    single = np.array([not isinstance(entity[column], list) for entity in entities])
    return [
        answer[0] if one else answer for answer, one in zip(values, single, strict=True)
    ], answers.errors
