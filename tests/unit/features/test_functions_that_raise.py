"""A user's function that raises is null, or leaves its row out, as ever; whoever tries it is told
where and why."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import FunctionRaised

PLAYS = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "n": "long", "ts": "timestamp_us"},
    timestamp="ts",
)
EVENTS = [
    {"user_id": "ann", "seconds": 4.0, "n": 2, "ts": 1},
    {"user_id": "ann", "seconds": None, "n": 0, "ts": 2},
]
QUERY = [{"user_id": "ann", "at": 60_000_000}]


def nothing():  # type: ignore[no-untyped-def]
    return 0.0


def add(state, event):  # type: ignore[no-untyped-def]
    more = event["seconds"]
    return state + more


def kept(state, event):  # type: ignore[no-untyped-def]  # noqa: ARG001
    return state


def final(state):  # type: ignore[no-untyped-def]
    return str(state)


def same(state):  # type: ignore[no-untyped-def]
    return state


@sw.row_function(output="double")
def ratio(seconds: Any, n: Any) -> Any:
    # a comment, which its text does not hold
    results = []
    for second, many in zip(seconds.to_pylist(), n.to_pylist(), strict=True):
        if second is None or many:
            results.append((second or 0.0) / many)
        else:
            results.append("none")
    return results  # fmt: skip


class Ratio(sw.Aggregate):
    """Seconds by what comes once."""

    columns = {"x": "long"}  # noqa: RUF012
    fields = {"total": "long"}  # noqa: RUF012
    output = "long"

    def empty(self):  # type: ignore[no-untyped-def]
        return (0,)

    def accumulate(self, state, event):  # type: ignore[no-untyped-def]
        return (state[0] + 6 // event["x"],)

    def combine(self, a, b):  # type: ignore[no-untyped-def]
        return (a[0] + b[0],)

    def finish(self, state):  # type: ignore[no-untyped-def]
        return state[0]


def view(*features: sw.Feature, **columns: Any) -> sw.FeatureView:
    return sw.FeatureView(
        "v", source=PLAYS, entity=["user_id"], columns=columns, features=list(features)
    )


def line_of(text: str) -> int:
    at, *_ = [
        i
        for i, line in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1)
        if text in line
    ]
    return at


def warned(made: sw.FeatureView) -> tuple[dict[str, Any], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = sw.evaluate(made, EVENTS, QUERY)
    assert all(
        warning.category is FunctionRaised and warning.filename == __file__ for warning in caught
    )
    texts = [str(warning.message) for warning in caught]
    assert json.loads(table.schema.metadata[b"slicewise.raised"]) == texts
    return table.to_pylist()[0], texts


def test_an_ordered_fold_that_raises_is_null_and_tells_its_line() -> None:
    made = view(
        sw.Feature(
            "x", sw.ordered(nothing, add, same, columns=["seconds"], output="double"), ["1h"]
        )
    )
    row, (text,) = warned(made)
    assert row["x_1h"] is None
    assert text.startswith("add raised TypeError: unsupported operand type(s)")
    assert f"{__file__}:{line_of('return state + more')}: return state + more" in text
    assert "null there, with function_error" in text
    assert "expected: " in text
    assert "next step: " in text


def test_a_fold_that_gives_another_type_is_told() -> None:
    made = view(
        sw.Feature(
            "x", sw.ordered(nothing, kept, final, columns=["n"], output="double"), ["1h", "2h"]
        )
    )
    row, (text,) = warned(made)
    assert row["x_1h"] is row["x_2h"] is None
    assert text.startswith("final gave '0.0', and output is double (2 times): ")
    assert f"{__file__}:{line_of('def final(state)')}: def final(state):" in text


def test_a_row_function_that_raises_leaves_its_row_out_and_tells_its_line() -> None:
    made = view(
        sw.Feature("n", sw.count(), ["1h"]), sw.Feature("x", sw.sum("ratio"), ["1h"]), ratio=ratio
    )
    row, (text,) = warned(made)
    assert row["n_1h"] == 1
    assert text.startswith("ratio raised ZeroDivisionError: ")
    assert (
        f"{__file__}:{line_of('results.append(')}: results.append((second or 0.0) / many)" in text
    )
    assert "left out of the view" in text


def test_an_aggregate_of_ones_own_that_raises_tells_its_line() -> None:
    row, (text,) = warned(view(sw.Feature("x", Ratio("n"), ["1h"])))
    assert row["x_1h"] is None
    assert text.startswith("accumulate raised ZeroDivisionError: ")
    assert f'{__file__}:{line_of("6 // event")}: return (state[0] + 6 // event["x"],)' in text


def test_nothing_is_told_where_nothing_raises() -> None:
    made = view(
        sw.Feature("x", sw.ordered(nothing, kept, same, columns=["n"], output="double"), ["1h"])
    )
    assert warned(made) == ({"user_id": "ann", "at": warned(made)[0]["at"], "x_1h": 0.0}, [])


PROJECT = """
import slicewise as sw

def nothing():
    return 0

def ratio(state, event):
    return state + 6 // event["n"]

def same(state):
    return state

plays = sw.KafkaSource("plays", schema={"user_id": "string", "n": "long", "ts": "timestamp_us"}, timestamp="ts")
v = sw.FeatureView("v", source=plays, entity=["user_id"], features=[
    sw.Feature("x", sw.ordered(nothing, ratio, same, columns=["n"], output="long"), windows=["1h"])],
    tests=[sw.case(events=[{"user_id": "ann", "n": 0, "ts": 1}], at=60_000_000, expect={"x_1h": EXPECTED})])
"""


@pytest.mark.parametrize(("expected", "code"), [("6", 1), ("None", 0)])
def test_a_case_of_a_function_that_raises_is_told_also_where_it_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expected: str, code: int
) -> None:
    (tmp_path / "slicewise.toml").write_text('[project]\nname = "p"\ndefinitions = "features.py"\n')
    (tmp_path / "features.py").write_text(PROJECT.replace("EXPECTED", expected))
    assert main(["check", str(tmp_path)]) == code
    out = capsys.readouterr().out
    assert "warning: ratio raised ZeroDivisionError" in out
    assert f"{tmp_path / 'features.py'}:8: return state + 6 // event" in out
    assert main(["check", str(tmp_path), "--json"]) == code
    (test,) = json.loads(capsys.readouterr().out)["views"][0]["tests"]
    assert test["raised"][0].startswith("ratio raised ZeroDivisionError")
