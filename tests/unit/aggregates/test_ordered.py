"""A fold is text that only computes: what is not is refused where it is written, and what it gives
is typed."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise import aggregates as agg
from slicewise.aggregates import Event, Rows, from_spec
from slicewise.aggregates.custom.folding import Ordered
from slicewise.errors import DefinitionError

TYPES = {"x": pa.int64()}
LIMIT = 3


def empty() -> Any:
    return []


def add(state: Any, event: Any) -> Any:
    return [*state, event["x"]]


def text(state: Any) -> Any:
    return ",".join([str(x) for x in state])


def answer(aggregate: Any, values: list[Any]) -> Any:
    """The answer over events that came in reverse order."""
    bound = aggregate.bind(TYPES)
    events = [Event(i, 0, 0, 0, i, {"x": x}) for i, x in enumerate(values)]
    rows = Rows.from_events(events[::-1], TYPES)
    finished = bound.finish_columns(
        bound.accumulate_columns(rows, np.zeros(len(rows), np.int64), 1)
    )
    return finished.errors[0] if finished.errors else finished.values.to_pylist()[0]


def ordered(output: str = "string", final: Callable[[Any], Any] = text, **more: Any) -> Any:
    return agg.ordered(empty, add, final, columns=["x"], output=output, **more)


def test_events_come_in_their_order_nulls_included() -> None:
    assert answer(ordered(), [3, None, 1]) == "3,None,1"
    assert answer(ordered(), []) is None


def test_beyond_the_capacity_the_policy_decides() -> None:
    assert answer(ordered(cap=3), [1, 2, 3]) == "1,2,3"
    assert answer(ordered(cap=2), [1, 2, 3]) == "too_many_events"
    assert answer(ordered(cap=2, policy="newest"), [1, 2, 3]) == "2,3"


def first(state: Any) -> Any:
    return state[0]


def beyond(state: Any) -> Any:
    return state[99]


def ratio(state: Any) -> Any:
    return state[0] / state[1]


@pytest.mark.parametrize(
    ("output", "final", "values", "wanted"),
    [
        ("long", first, [2**62], 2**62),
        ("double", first, [2], 2.0),
        ("double", ratio, [1, 4], 0.25),
        ("double", ratio, [1, 0], "function_error"),
        ("long", ratio, [4, 2], "function_error"),
        ("long", first, [None], None),
        ("boolean", first, [1], "function_error"),
        ("long", beyond, [1], "function_error"),
    ],
)
def test_a_value_is_of_its_declared_type_or_an_error(
    output: str, final: Any, values: list[Any], wanted: Any
) -> None:
    actual = answer(ordered(output, final), values)
    assert actual == wanted
    assert type(actual) is type(wanted)


def test_the_definition_holds_the_text_and_answers_without_the_module() -> None:
    spec = json.loads(json.dumps(ordered().spec()))
    assert "def add(state: Any, event: Any) -> Any:" in spec["source"]
    again = from_spec(spec)
    assert again == ordered()
    assert answer(again, [2, 1]) == "2,1"


def test_what_is_stored_does_not_depend_on_the_functions() -> None:
    assert ordered().bind(TYPES).partial_id() == ordered("long", first).bind(TYPES).partial_id()
    assert ordered().bind(TYPES).partial_id() != ordered(cap=7).bind(TYPES).partial_id()


def now(state: Any) -> Any:
    return (state, clock.time())


def limited(state: Any) -> Any:
    return len(state) > LIMIT


def imports(state: Any) -> Any:
    import random

    return (state, random.random())


def private(state: Any) -> Any:
    return state.__class__


def power(state: Any) -> Any:
    return state[0] ** 0.5


def of_set(state: Any) -> Any:
    return [x + 1 for x in {*state}]


def endless(state: Any) -> Any:
    while True:
        state = [*state]


def opens(state: Any) -> Any:
    return open(state)  # noqa: PTH123


def with_default(state: Any, n: int = 1) -> Any:
    return (state, n)


def inner() -> Any:
    def made(state: Any) -> Any:
        return state

    return made


@pytest.mark.parametrize(
    ("final", "message"),
    [
        (now, "clock"),
        (limited, "LIMIT"),
        (imports, "an import"),
        (private, "__class__"),
        (power, "a power"),
        (of_set, "a set"),
        (endless, "never end"),
        (opens, "open"),
        (with_default, "defaults"),
        (inner(), "inside another function"),
        (lambda state: state, "lambda"),
        (len, "built-in function len"),
        (empty, "arguments"),
    ],
)
def test_what_does_not_only_compute_is_refused_with_what_it_said(final: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        ordered(final=final)


def test_a_text_that_was_changed_on_its_way_is_refused() -> None:
    spec = ordered().spec()
    with pytest.raises(DefinitionError, match="an import"):
        from_spec(
            {
                **spec,
                "source": spec["source"].replace("    return []", "    import os\n    return []"),
            }
        )


@pytest.mark.parametrize(
    "wrong", [{"cap": 0}, {"cap": 10_001}, {"policy": "oldest"}, {"output": "list"}]
)
def test_parameters_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="expected"):
        ordered(**wrong)


def test_evaluate_folds_what_a_user_declares() -> None:
    source = sw.KafkaSource("s", schema={"u": "string", "x": "long", "t": "timestamp_us"}, timestamp="t",
                            max_lateness="1h")  # fmt: skip
    fold = sw.ordered(empty, add, text, columns=["x"], output="string", where="x > 1")
    view = sw.FeatureView(
        "v", source=source, entity=["u"], features=[sw.Feature("f", fold, windows=["1h"])]
    )
    events = [{"u": "a", "x": x, "t": f"2026-01-01T00:00:0{9 - x}Z"} for x in (1, 2, 3)]
    table = sw.evaluate(view, events, [{"u": "a", "at": "2026-01-01T00:30:00Z"}])
    assert table["f_1h"].to_pylist() == ["3,2"]


def test_its_definition_is_an_ordered_fold() -> None:
    assert isinstance(ordered(), Ordered)
