"""Row functions: a value of its row alone, kept as text, checked before it is deployed; what fails
is its own row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.cli.row_function_check import verify
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import SliceUnit
from slicewise.features.rowlogic.row_function import COMPUTE, RowFunction
from slicewise.features.sql.python_form import python_form
from slicewise.lifecycle.realtime import microbatch_only, realtime_units
from slicewise.spark.lake import partials
from slicewise.spark.microbatch import apply as microbatch


@sw.row_function(output="double")
def per_item(amount: pa.Array, items: pa.Array) -> pa.Array:
    """The cost of an item."""
    return pc.divide(amount, items)


@sw.row_function(output="string")
def label(card, tags):  # type: ignore[no-untyped-def]
    return [
        None
        if one is None
        else one
        + ":"
        + ("-" if many is None else "+".join([tag for tag in many if tag is not None]))
        for one, many in zip(card.to_pylist(), tags.to_pylist(), strict=True)
    ]


@sw.row_function(output="double")
def share(amount):  # type: ignore[no-untyped-def]
    return pc.divide(amount, amount[0])


@sw.row_function(output="long")
def text_of(amount):  # type: ignore[no-untyped-def]
    return pc.if_else(pc.is_null(amount), "a", "b")


@sw.row_function(output="boolean")
def is_odd(paid_at):  # type: ignore[no-untyped-def]
    return pc.equal(pc.bit_wise_and(paid_at, 1), 1)


MISSPELT = RowFunction("f", "def f(amout):\n    return amout\n", ("amout",), "double")
PAYMENTS = sw.KafkaSource(
    "payments",
    schema={
        "card": "string",
        "amount": "double",
        "items": "long",
        "tags": "array<string>",
        "paid_at": "timestamp_us",
    },
    timestamp="paid_at",
)
PAYMENTS_COLUMNS = [
    ("card", pa.string()), ("amount", pa.float64()), ("items", pa.int64()), ("tags", pa.list_(pa.string())),
]  # fmt: skip


def view(**columns: Any) -> sw.FeatureView:
    return sw.FeatureView(
        "v",
        source=PAYMENTS,
        entity=["card"],
        columns={"dear": "amount > 10", **columns},
        features=[
            sw.Feature("cost", sw.sum("per_item", where="dear"), ["1h", sw.exact_range("1h")]),
            sw.Feature("labels", sw.last_k("label", k=3), ["1h", sw.rows(2)]),
            sw.Feature("n", sw.count(), ["1h"]),
        ],
        tests=[
            sw.case(
                events=[EVENTS[0]],
                at="1970-01-01T00:30:00Z",
                expect={"cost_1h": 4.0, "labels_1h": ["a:x+y"]},
            )
        ],
    )


EVENTS = [
    {"card": "a", "amount": 12.0, "items": 3, "tags": ["x", None, "y"], "paid_at": 1},
    {"card": "a", "amount": 11.0, "items": 0, "tags": None, "paid_at": 2},  # infinite: left out
    {"card": "a", "amount": 3.0, "items": None, "tags": [], "paid_at": 3},
]
VIEW = view(per_item=per_item, label=label)


def test_a_row_function_is_a_column_of_every_window() -> None:
    (row,) = (
        table := sw.evaluate(VIEW, EVENTS, [{"card": "a", "at": "1970-01-01T00:30:00+00:00"}])
    ).to_pylist()
    assert row["cost_1h"] == row["cost_exact_1h"] == 4.0
    assert row["labels_1h"] == row["labels_rows_2"] == ["a:", "a:x+y"]
    assert row["n_1h"] == 2
    assert table.schema.metadata[b"slicewise.refused"] == b"row_function:per_item=1"


def test_it_travels_as_text_in_the_deployment_and_in_the_fingerprint() -> None:
    deployment = plan(Project("p", (VIEW,)))
    assert Deployment.from_json(deployment.to_json()).digest == deployment.digest
    assert "pc.divide" in deployment.to_json()
    names = {unit.storage_fingerprint for unit in deployment.units}
    changed = RowFunction(
        per_item.name, per_item.source.replace("divide", "multiply"), per_item.reads, "double"
    )
    assert not names & {
        u.storage_fingerprint
        for u in plan(Project("p", (view(per_item=changed, label=label),))).units
    }
    assert '@sw.row_function(output="double")\ndef per_item(amount, items):' in python_form(VIEW)


def test_what_raises_is_of_its_row_alone() -> None:
    given = {"amount": pa.array([1, 2, None, 2**63 - 1] * 20), "items": pa.array([1, 0, 5, 3] * 20)}
    values, there = per_item.bind({"amount": "long", "items": "long"}).of(given)
    assert values.type == pa.float64() or not there.any()
    floor = RowFunction(
        "f",
        "def f(amount, items):\n    return pc.divide(amount, items)\n",
        ("amount", "items"),
        "long",
    )
    values, there = floor.bind({"amount": "long", "items": "long"}).of(given)
    assert values.to_pylist() == [1, None, None, (2**63 - 1) // 3] * 20
    # division by zero raises; a null is a value
    assert there.tolist() == [True, False, True, True] * 20


def test_canonical_values_go_in_and_come_out() -> None:
    negate = RowFunction("f", "def f(x):\n    return pc.negate(x)\n", ("x",), "double", ("double",))
    values, there = negate.of({"x": pa.array([0.0, -0.0, 1.5, None])})
    assert [None if v is None else v.hex() for v in values.to_pylist()] == [
        "0x0.0p+0",
        "0x0.0p+0",
        "-0x1.8000000000000p+0",
        None,
    ]
    assert there.all()
    sliced = negate.of({"x": pa.array([9.0, 1.0, 2.0])[1:]})[0]
    assert sliced.to_pylist() == [-1.0, -2.0]


@pytest.mark.parametrize("function", [per_item, label, is_odd], ids=lambda function: function.name)
def test_a_function_of_its_row_passes_the_check(function: RowFunction) -> None:
    verify(function.bind(dict(plan(Project("p", (VIEW,))).source("payments").columns)), "here")


@pytest.mark.parametrize(
    ("function", "message"),
    [(share, "other values"), (text_of, "gives no value of type long")],
    ids=["batch", "type"],
)
def test_a_function_of_its_batch_or_of_another_type_is_found(
    function: RowFunction, message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        verify(function.bind({"amount": "double"}), "here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x):\n    return pc.random(3)\n", "uses .random"),
        ("def f(x):\n    return pc.sin(x)\n", "uses .sin"),
        ("def f(x):\n    return np.abs(x)\n", "'np'"),
        ("def f(x):\n    import time\n    return x\n", "an import"),
        ("def f(x):\n    return x.__class__\n", "uses .__class__"),
        ("def f(x):\n    return pc\n", "'pc'"),
        ("def f(x):\n    pc = x\n    return pc.abs(x)\n", "a name of its own"),
        ("def f(x, y):\n    return x\n", "2 arguments"),
    ],
)
def test_what_may_differ_between_machines_or_runs_is_refused(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        RowFunction("f", text, ("x",), "double")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: view(per_item=per_item, label=_plain), "is the function _plain"),
        (lambda: sw.row_function(output="float")(_plain), "one of long"),
        (lambda: sw.row_function(output="long")(lambda x: x), "kept as text"),
        (lambda: sw.row_function(output="long")(_later), "def, without async"),
        (lambda: sw.row_function(_plain), "does not say what it gives"),
        (lambda: sw.row_function()(_plain), "does not say what it gives"),
        (lambda: view(per_item=MISSPELT, label=label), "did you mean amount"),
        (lambda: view(per_item=per_item, label=label, big="per_item > 3"), "per_item"),
        (lambda: view(per_item=label, label=label), "sum"),
    ],
)
def test_wrong_definitions_are_told(made: Callable[[], Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        plan(Project("p", (made(),)))


async def _later(amount):  # type: ignore[no-untyped-def]
    return amount


def _plain(x):  # type: ignore[no-untyped-def]
    return x


def test_slicewise_check_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """import pyarrow.compute as pc
import slicewise as sw

s = sw.KafkaSource("s", schema={"k": "string", "x": "double", "t": "timestamp_us"}, timestamp="t")

@sw.row_function(output="double")
def centred(x):
    return %s

v = sw.FeatureView("v", source=s, entity=["k"], columns={"centred": centred},
                   features=[sw.Feature("c", sw.sum("centred"), windows=["1h"])])
"""
    (tmp_path / "slicewise.toml").write_text('name = "p"\ndefinitions = "features.py"\n')
    (tmp_path / "features.py").write_text(text % "pc.subtract(x, 0.5)")
    assert main(["check", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    (tmp_path / "features.py").write_text(text % "pc.subtract(x, pc.coalesce(x[0], 1.0))")
    assert main(["check", str(tmp_path)]) == 1
    assert "gives other values" in capsys.readouterr().err


def test_what_it_may_compute_is_there() -> None:
    assert all(hasattr(pc, name) for name in COMPUTE)


def test_the_stream_and_compaction_run_it_on_what_row_logic_gave() -> None:
    """Whole columns as workers get them: instants as longs, each function's row left out where it
    has no value."""
    deployment = plan(Project("p", (VIEW,)))
    sliced, listed = deployment.units
    n, names = 40, {name: f"c_{name}" for name, _ in PAYMENTS_COLUMNS}
    events = [{**EVENTS[i % 3], "paid_at": 1_000_000 * i} for i in range(n)]
    table = pa.table(
        {
            "topic_id": pa.array(["0" * 32] * n),
            "partition": pa.array([0] * n, pa.int32()),
            "offset": pa.array(range(n), pa.int64()),
            "event_time": pa.array([e["paid_at"] for e in events], pa.int64()),
            "kafka_time": pa.array([e["paid_at"] for e in events], pa.int64()),
            "keep": pa.array([0] * n, pa.int8()),
            "card": pa.array(["a"] * n),
            "c_where": pa.array([i % 3 != 2 for i in range(n)]),
            **{
                names[name]: pa.array([e[name] for e in events], kind)
                for name, kind in PAYMENTS_COLUMNS
            },
        }
    )
    for unit in (sliced, listed):
        inputs = {name: names.get(name, "c_where") for name, _ in unit.given_types}
        placed = microbatch.Placed(unit.storage_fingerprint, "keep", ("card",), inputs)
        source = microbatch.SourceRows(table, "0" * 32, 0)
        left = [i for i in range(n) if i % 3 != 1]
        if isinstance(unit, SliceUnit):
            batch = microbatch.batch_of(unit, placed, source)
            assert batch is not None
            assert batch.offset.tolist() == left
            every = np.arange(len(left))
            by_stream = unit.layout.encode_rows(
                batch.accumulate(every, np.zeros(len(left), np.int64), 1)
            )
            task = partials.Accumulate(
                partials.UnitRef(deployment.to_json(), unit.storage_fingerprint), inputs
            )
            (rows,) = task(iter(table.to_batches()))
            columns = unit.layout.from_arrow(pa.Table.from_batches([rows]))
            combined = [
                part.combine_columns(column, np.zeros(rows.num_rows, np.int64), 1)
                for part, column in zip(unit.layout.partials, columns, strict=True)
            ]
            assert unit.layout.encode_rows(combined) == by_stream
        else:
            members = microbatch.list_batch_of(unit, placed, source)
            assert members is not None
            assert members.offset.tolist() == left
            decoded = unit.members.decode(members.members)
            assert decoded.columns["per_item"].to_pylist() == [
                4.0 if i % 3 == 0 else None for i in left
            ]
            assert decoded.columns["label"].to_pylist() == [
                "a:x+y" if i % 3 == 0 else "a:" for i in left
            ]


def test_a_unit_with_row_functions_stays_on_the_micro_batch_lane_and_says_why() -> None:
    deployment = plan(Project("p", (VIEW,)))
    [(named, why)] = microbatch_only(deployment)
    assert (named, why) == (
        "v",
        "per_item, label: row functions are Python, which Spark's real-time mode does not run",
    )
    alone = sw.FeatureView(
        "w",
        source=PAYMENTS,
        entity=["card"],
        columns={"dear": "amount > 10"},
        features=[sw.Feature("n", sw.count(where="dear"), ["1h", sw.exact_range("1h")])],
    )
    both = plan(Project("p", (VIEW, alone)))
    assert {unit.view for unit in both.units} == {"v", "w"}
    assert {unit.view for unit in realtime_units(both, "payments")} == {"w"}
    assert realtime_units(both, "orders") == ()
