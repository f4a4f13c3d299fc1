"""A class of a user's own is text that only computes; it is refused with the events that break a
law, or answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.aggregates import Aggregate, Columns, Event, Rows
from slicewise.aggregates.custom.examples import EXAMPLES
from slicewise.aggregates.custom.own import Own
from slicewise.codec import Layout
from slicewise.errors import CodecError, DefinitionError
from slicewise.features.plan.changes.law_check import HISTORIES, check_laws, own_aggregates
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project

E2E = Path(__file__).parents[2] / "e2e" / "project" / "features.py"
TYPES = {"x": pa.float64(), "k": pa.int64()}
COUNTER = '''class Counter(sw.Aggregate):
    """What it says to people."""

    columns = {"x": "double"}
    fields = {"n": "long"}
    output = "long"
    least: float = 0.0

    def empty(self):
        return (0,)

    def accumulate(self, state, event):
        return (state[0] + (event["x"] >= self.least),)

    def combine(self, a, b):
        return (a[0] + b[0],)

    def finish(self, state):
        return state[0]
'''


class Largest(sw.Aggregate):
    columns = {"x": ("double", "long")}  # noqa: RUF012
    fields = {"most": "double", "some": "boolean"}  # noqa: RUF012
    output = "double"
    times: int = 1

    def empty(self) -> Any:
        return (0.0, False)

    def accumulate(self, state: Any, event: Any) -> Any:
        return self.combine(state, (float(event["x"]), True))

    def combine(self, a: Any, b: Any) -> Any:
        return (max(a[0], b[0]) if a[1] and b[1] else a[0] if a[1] else b[0], a[1] or b[1])

    def finish(self, state: Any) -> Any:
        return state[0] * self.times


def made(text: str, *columns: str, **parameters: Any) -> Any:
    return Own.of_parameters(
        {"source": text, "columns": columns or ("x",), "parameters": parameters}
    ).bind(TYPES)


def partial(own: Aggregate, values: list[float | None]) -> Columns:
    events = [Event(i, 0, 0, 0, i, {"x": x, "k": i}) for i, x in enumerate(values)]
    rows = Rows.from_events(events, {name: own.type_of(name) for name in own.inputs})
    return own.accumulate_columns(rows, np.zeros(len(values), np.int64), 1)


def answer(own: Aggregate, values: list[float | None]) -> Any:
    finished = own.finish_columns(partial(own, values))
    return finished.errors.get(0, finished.values.to_pylist()[0])


def test_a_class_makes_an_aggregate_that_evaluate_answers() -> None:
    source = sw.KafkaSource(
        "s", schema={"u": "string", "x": "double", "t": "timestamp_us"}, timestamp="t"
    )
    features = [
        sw.Feature("most", Largest("x", times=2), windows=["1h"]),
        sw.Feature("high", Largest(x="x", where="x > 5"), windows=["1h"]),
        sw.Feature("by", sw.bucketed(Largest("x"), by="u"), windows=["1h"]),
    ]
    view = sw.FeatureView("v", source=source, entity=["u"], features=features)
    at = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    events = [
        {"u": "a", "x": x, "t": at - dt.timedelta(minutes=m)}
        for m, x in ((1, 3.0), (2, None), (3, -1.0))
    ]
    row = sw.evaluate(view, events, [{"u": "a", "at": at}]).to_pylist()[0]
    assert (row["most_1h"], row["high_1h"], row["by_1h"]) == (
        6.0,
        None,
        [{"key": "a", "value": 3.0}],
    )


def test_its_text_travels_and_its_digest_covers_all_but_how_it_finishes() -> None:
    def digest(text: str, **parameters: Any) -> str:
        return str(made(text, **parameters).partial_id())

    first = digest(COUNTER)
    assert digest(COUNTER.replace("return state[0]\n", "return state[0] + 1\n")) == first
    assert digest(COUNTER.replace("What it says", "What else it says")) == first
    for text in (
        COUNTER.replace(">=", ">"),
        COUNTER.replace("    least", "    version = 2\n    least"),
    ):
        assert digest(text) != first
    assert digest(COUNTER, least=1.0) != first
    assert (
        made(COUNTER).meaning()
        != made(COUNTER.replace("return state[0]\n", "return state[0] + 1\n")).meaning()
    )
    deployment = plan(load_project(E2E))
    again = Deployment.from_json(deployment.to_json())
    assert again.digest == deployment.digest
    assert {aggregate.describe() for aggregate in own_aggregates(again)} == {
        "Reach('amount')",
        "Discount('amount', 'items', beyond=20.0)",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class Counter(sw.Aggregate)", "class Counter(dict)", "other bases"),
        ("return (0,)", "return (open('x'),)", "'open'"),
        ("return (0,)", "import time", "an import"),
        ("return (0,)", "return self.__class__", ".__class__"),
        ("return (0,)", "return {1, 2}", "a set"),
        ("return (0,)", "self.n = 1", ".n"),
        ("return (0,)", "return np.zeros(1)", "'np'"),
        ("def empty(self)", "def nothing(self)", "has no empty"),
        ("def combine(self, a, b)", "def combine(self, a)", "combine(self, a)"),
        ('{"n": "long"}', '{"n": "int"}', "fields ="),
        ('{"x": "double"}', '{"x": "date"}', "columns ="),
        ('output = "long"', 'output = "list"', "output ="),
        ('output = "long"', 'output = "long"\n    seen = []', "seen"),
        ("return (0,)", "return (0,", "no Python"),
        ("return (0,)", "return (round(abs(1j)),)", "a complex number"),
        ("(a[0] + b[0],)", "(self.finish(a) + b[0],)", "Counter.combine uses finish"),
        (
            "    def finish",
            "    def combine(self, a, b):\n        import os\n\n    def finish",
            "two methods combine",
        ),
        ("least: float = 0.0", "least: float = 0.0\n    finish: float = 0.0", "names 'finish'"),
        ('{"x": "double"}', '{"where": "double"}', "names 'where'"),
    ],
)
def test_what_does_not_only_compute_is_refused(old: str, new: str, message: str) -> None:
    assert old in COUNTER
    with pytest.raises(DefinitionError) as raised:
        made(COUNTER.replace(old, new))
    assert message in raised.value.what


def test_a_power_is_told_with_its_line() -> None:
    with pytest.raises(DefinitionError) as raised:
        made(COUNTER.replace("a[0] + b[0]", "a[0] + b[0] ** 1"))
    assert raised.value.where == "line 16 of its text"


def test_columns_and_parameters_are_those_of_the_class() -> None:
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: made(COUNTER, "x", "k"), "columns"),
        (lambda: made(COUNTER, most=1.0), "no parameter 'most'"),
        (lambda: made(COUNTER, least="1"), "least is '1'"),
        (lambda: made(COUNTER, "k"), "type int64"),
        (lambda: sw.Aggregate("x"), "no aggregate of its own"),
    ]
    for make, message in wrong:
        with pytest.raises(DefinitionError) as raised:
            make()
        assert message in raised.value.what


def test_what_raises_is_a_failed_partial_for_ever_and_breaks_no_batch() -> None:
    own = made(
        COUNTER.replace(
            'state[0] + (event["x"] >= self.least)', 'state[0] + 1 // round(event["x"])'
        )
    )
    assert answer(own, [1.0, 0.5, None]) == "function_error"
    assert answer(own, [1.0, None]) == 1
    assert answer(own, []) is None
    both = Columns.concat([partial(own, [1.0]), partial(own, [0.5])])
    joined = own.combine_columns(both, np.zeros(2, np.int64), 1)
    assert own.finish_columns(joined).errors == {0: "function_error"}
    assert joined.fixed("n").tolist() == [-1]
    large = made(
        COUNTER.replace('"long"}', '"string"}')
        .replace("(0,)", "('',)")
        .replace("+ (", "+ 'x' * 20000000 * (")
    )
    assert answer(large, [1.0]) == "function_error"  # no definition makes rows of any size


def test_bytes_that_no_state_has_are_refused() -> None:
    own = EXAMPLES[1]
    power = Own.of_parameters(
        {"source": own[0], "columns": ["x", "weight"], "parameters": {}}
    ).bind(own[1][0])
    block = Layout((power,)).encode_block([Columns.empty(power.fields, 1)])
    of_one = block[:0] + bytes([1]) + block[1:]  # one event, but no sum of it
    with pytest.raises(CodecError):
        power.finish_columns(Layout((power,)).decode_blocks([of_one], [1])[0])


def broken(old: str, new: str) -> str:
    assert old in COUNTER
    with pytest.raises(DefinitionError) as raised:
        check_laws(made(COUNTER.replace(old, new)))
    return str(raised.value)


def test_an_aggregate_of_the_examples_obeys() -> None:
    source, (types, *_), parameters = EXAMPLES[1]
    own = Own.of_parameters(
        {"source": source, "columns": ["x", "weight"], "parameters": parameters}
    ).bind(types)
    assert isinstance(own, Own)
    assert check_laws(own).histories == HISTORIES


@pytest.mark.parametrize(
    ("old", "new", "law"),
    [
        ("return (0,)", "return (1,)", "empty() changes nothing"),
        ("(a[0] + b[0],)", "(a[0],)", "empty() changes nothing"),
        ('(event["x"] >= self.least)', 'state[0] + (event["x"] >= self.least)', "order of events"),
        ("(a[0] + b[0],)", "(max(a[0], b[0]),)", "how events are split"),
        ("(a[0] + b[0],)", "(a[0] + b[0] + (a[0] > 1 and b[0] == 1),)", "how events are split"),
        (
            "return (a[0] + b[0],)",
            "a.sort()\n        return (a[0] + b[0],)",
            "empty() changes nothing",
        ),
        ('(event["x"] >= self.least)', 'event["x"]', "of the declared fields"),
        ("return state[0]\n", "return str(state[0])\n", "of the declared fields"),
        ("return state[0]\n", "return 1 // state[0]\n", "of the declared fields"),
    ],
)
def test_a_broken_law_is_told_with_the_fewest_events_that_break_it(
    old: str, new: str, law: str
) -> None:
    text = broken(old, new)
    assert law in text
    assert text.count("\n  ") <= 7  # at most a few events, where, expected, next step


def test_states_are_tried_as_they_come_back_from_their_bytes() -> None:
    # a list comes back as a tuple, to which no list is added: of two events evaluate answers
    # function_error
    kept = (
        COUNTER.replace('"long"}', '"list<double>"}')
        .replace("(0,)", "([],)")
        .replace("return state[0]\n", "return 1\n")
    )
    lists = kept.replace(
        '(state[0] + (event["x"] >= self.least),)', '(sorted(state[0] + [event["x"]]),)'
    )
    lists = lists.replace("(a[0] + b[0],)", "(sorted(a[0] + b[0]),)")
    assert answer(made(lists), [1.0, 2.0]) == "function_error"
    with pytest.raises(DefinitionError) as raised:
        check_laws(made(lists))
    assert raised.value.what.count("x = ") == 2
    either = lists.replace("state[0] +", "list(state[0]) +").replace(
        "a[0] + b[0]", "list(a[0]) + list(b[0])"
    )
    assert answer(made(either), [1.0, 2.0]) == 1
    assert check_laws(made(either)).histories == HISTORIES


def test_a_class_is_not_asked_how_it_finishes_no_events() -> None:
    largest = (
        COUNTER.replace("(0,)", "(-1,)")
        .replace("state[0] + (", "max(state[0], 1 + (")
        .replace("least),)", "least)),)")
    )
    largest = largest.replace("a[0] + b[0]", "max(a[0], b[0])").replace(
        "return state[0]\n", "return 6 // (state[0] + 1)\n"
    )
    assert check_laws(made(largest)).histories == HISTORIES


def test_a_sum_of_doubles_is_refused_with_three_numbers_or_fewer() -> None:
    text = COUNTER.replace('{"n": "long"}', '{"n": "double"}').replace(
        '(event["x"] >= self.least)', 'event["x"]'
    )
    with pytest.raises(DefinitionError) as raised:
        check_laws(made(text.replace('output = "long"', 'output = "double"')))
    assert raised.value.what.count("x = ") <= 3
    assert "add integers" in str(raised.value.next_step)


def test_the_latest_of_values_is_refused_for_its_order() -> None:
    text = COUNTER.replace(
        '(state[0] + (event["x"] >= self.least),)', '(1 if event["x"] > 0 else 2,)'
    )
    with pytest.raises(DefinitionError) as raised:
        check_laws(made(text.replace("(a[0] + b[0],)", "b if b[0] else a")))
    assert "the order of events does not matter" in raised.value.what
    assert raised.value.what.count("x = ") == 2
    assert "in the order 2, 1 it is" in raised.value.what


def test_the_page_shows_a_class_that_obeys_and_a_story_that_is_told() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guides" / "own_aggregates.md").read_text(
        encoding="utf-8"
    )
    blocks = [block.split("```")[0] for block in page.split("```python\n")[1:]]
    source = (
        "class Spread"
        + blocks[0].split("class Spread")[1].split("\n\n\nspread")[0]
        + "\n\n"
        + indent(dedent(blocks[1]), "    ")
    )
    types = {"price": pa.float64()}
    own = Own.of_parameters({"source": source, "columns": ["price"], "parameters": {}}).bind(types)
    assert isinstance(own, Own)
    assert own.own.methods >= {"accumulate_columns", "combine_columns"}
    check_laws(own)
    mean = COUNTER.replace("Counter", "Mean").replace("    least: float = 0.0\n", "")
    mean = mean.replace('{"n": "long"}', '{"total": "double", "n": "long"}').replace(
        "(0,)", "(0.0, 0)"
    )
    mean = mean.replace('(event["x"] >= self.least),', 'event["x"], state[1] + 1').replace(
        "b[0],)", "b[0], a[1] + b[1])"
    )
    adds = Own.of_parameters(
        {
            "source": mean.replace('output = "long"', 'output = "double"'),
            "columns": ["price"],
            "parameters": {},
        }
    )
    with pytest.raises(DefinitionError) as raised:
        check_laws(adds.bind(types))  # type: ignore[arg-type]
    assert raised.value.what in page
