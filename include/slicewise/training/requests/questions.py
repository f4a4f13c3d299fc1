"""A row of a spine asks in the column that has the name of the asked feature's column.

It holds a value, or a list of values: the answer has its shape.
docs/adr/0033-a-question-is-a-column.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from slicewise.aggregates import Finished
from slicewise.aggregates.sketches.membership import membership_of
from slicewise.errors import BadRequest
from slicewise.features.plan.unit import PlannedFeature, StorageUnit


def question_types(
    requested: Iterable[tuple[StorageUnit, Iterable[PlannedFeature]]],
) -> dict[str, str]:
    """Declared type of every column that the features of these units are asked by. Raises
    BadRequest."""
    types: dict[str, str] = {}
    for unit, features in requested:
        for feature in features:
            aggregate = membership_of(feature.aggregate)
            if aggregate is None:
                continue
            column, kind = aggregate.question, dict(unit.input_types)[aggregate.question]
            if types.setdefault(column, kind) != kind:
                raise BadRequest(
                    (
                        f"the column {column!r} is {types[column]} to one feature and {kind} to "
                        "another"
                    ),
                    where="features",
                    expected="features that agree on what they are asked",
                    next_step="ask for them in two data sets",
                )
    return types


def answered(feature: PlannedFeature, finished: Finished, table: pa.Table) -> Finished:
    """The answers of a feature that is asked by the table's rows; of others what was finished."""
    aggregate = membership_of(feature.aggregate)
    if aggregate is None:
        return finished
    return aggregate.answered(finished, table[aggregate.question].combine_chunks())


def refuse_questions(types: Mapping[str, str]) -> None:
    """Raises BadRequest where features are asked, and there are no rows that could ask."""
    if types:
        raise BadRequest(
            (
                f"features that are asked by {', '.join(map(repr, types))} have no answer without "
                "a question"
            ),
            where="features",
            expected="features that answer of themselves",
            next_step="build a training set: its spine holds the questions",
        )
