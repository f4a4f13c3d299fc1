"""The judges of combined aggregates agree with the algebra on every example of the registry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from slicewise.aggregates import REGISTRY, Aggregate, Event, Rows
from slicewise.checks.judges import END, Row, judged
from slicewise.checks.values import canonical
from tests.laws.events import events

COMBINED = ("where", "bucketed", "histogram")
KINDS = ("where", "bucketed", "histogram", "count", "sum", "mean", "min", "max", "argmin", "argmax", "top_k",
         "bottom_k", "last_k", "bool_and", "bool_or", "distinct_count", "first", "last", "first_k",
         "last_k_distinct", "decay_sum", "decay_count", "own")  # fmt: skip
AT = 1_357_038_000_000_000
# No source has dates; and a judge does not know how many digits a decimal column has.
UNKNOWN = (pa.date32(), pa.decimal128(38, 6))
EXAMPLES = [
    example
    for kind in KINDS
    for example in REGISTRY[kind].bound_examples()[: 12 if kind in (*COMBINED, "own") else 2]
    if not set(example.types or ()) & set(UNKNOWN)
]


def answer(aggregate: Aggregate, chosen: Sequence[Event]) -> Any:
    rows = Rows.from_events(chosen, {name: aggregate.type_of(name) for name in aggregate.inputs})
    partial = aggregate.accumulate_columns(rows, np.zeros(len(chosen), np.int64), 1)
    finished = aggregate.finish_columns_at(partial, lambda: np.array([AT]))
    return finished.values.to_pylist()[0]


def judged_value(aggregate: Aggregate, chosen: Sequence[Event]) -> Any:
    """The judge's value; None where it says that the answer is approximate."""
    with_topics = [(f"{e.topic_hi:016x}{e.topic_lo:016x}", e) for e in chosen]
    rows = [Row(e.time, topic, e.partition, e.offset, _plus(e.columns)) for topic, e in with_topics]
    result = judged(rows, {**aggregate.spec(), END: AT})
    if isinstance(result, dict) and set(result) == {"equal", "value"}:
        return result["value"] if result["equal"] else ...
    return result


def _plus(columns: Any) -> dict[str, Any]:
    return {
        name: value + 0.0 if isinstance(value, float) else value for name, value in columns.items()
    }


def good(chosen: Sequence[Event], instants: set[str]) -> list[Event]:
    """Without what a source refuses: NaN, infinities, and instants of no year that Python has."""
    return [
        event
        for event in chosen
        if not any(isinstance(v, float) and not math.isfinite(v) for v in event.columns.values())
        and not any(abs(event.columns[name] or 0) > 10**17 for name in instants)
    ]


@pytest.mark.parametrize("aggregate", EXAMPLES, ids=lambda a: a.describe())
def test_the_judge_says_what_the_algebra_answers(aggregate: Aggregate) -> None:
    types = {name: aggregate.type_of(name) for name in aggregate.inputs}

    instants = {name for name, kind in types.items() if pa.types.is_timestamp(kind)}

    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(events(types))
    def holds(chosen: list[Event]) -> None:
        kept = good(chosen, instants)
        wanted = judged_value(aggregate, kept)
        if wanted is not ...:
            assert canonical(answer(aggregate, kept)) == canonical(wanted)

    holds()
