"""The check's SQL gives a row function's column, and leaves out rows without a value, as
locally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot

import slicewise as sw
from slicewise.checks.recompute import queries
from slicewise.checks.row_functions import function_name
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.rowlogic.row_function import RowFunction
from slicewise.training.events.rows import row_logic
from slicewise.training.tables.given.events import typed_events


@sw.row_function(output="long")
def whole(x):  # type: ignore[no-untyped-def]
    return [None if number is None else int(number) for number in x.to_pylist()]


@sw.row_function(output="long")
def items_per_tenth(n, tenth):  # type: ignore[no-untyped-def]
    """Raises for a row whose tenth is zero."""
    return pc.divide(n, tenth)


SOURCE = sw.KafkaSource(
    "s", schema={"k": "string", "n": "long", "x": "double", "t": "timestamp_us"}, timestamp="t"
)
VIEW = sw.FeatureView(
    "v",
    source=SOURCE,
    entity=["k"],
    where="x > -5",
    columns={
        "tenth": "CAST(FLOOR(x / 10) AS BIGINT)",
        "whole": whole,
        "items_per_tenth": items_per_tenth,
    },
    features=[
        sw.Feature("n", sw.sum("n"), ["1h"]),
        sw.Feature("whole", sw.last_k("whole", k=3), ["1h"]),
        sw.Feature("per_tenth", sw.sum("items_per_tenth"), ["1h"]),
    ],
)


def one_row_a_call(function: RowFunction) -> Callable[..., dict[str, Any]]:
    """Calls the function as the check's workers do; DuckDB counts the arguments of what it is
    given."""

    def called(*values: Any) -> dict[str, Any]:
        types = (pa.int64() if kind == "long" else pa.float64() for kind in function.types)
        arrays = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
        result, there = function.of(dict(zip(function.reads, arrays, strict=True)))
        return {"there": bool(there[0]), "value": result[0].as_py()}

    if len(function.reads) == 1:
        return lambda one: called(one)
    return lambda one, two: called(one, two)


def test_the_checks_sql_and_the_local_engine_take_the_same_rows() -> None:
    events = [
        {
            "k": None if i % 11 == 0 else "a",
            "n": i - 7,
            "x": None if i % 13 == 0 else i * 1.75 - 9.0,
            "t": i,
        }
        for i in range(60)
    ]
    deployment = plan(Project("p", (VIEW,)))
    (unit,), source = deployment.units, deployment.source("s")
    typed, _ = typed_events(source, events)
    own, refused = row_logic(unit, typed)
    # x of 0 to 10, in steps of 1.75, less one without a key
    assert refused["row_function:items_per_tenth"] == 5
    table = pa.table(
        {"o": typed["offset"], **{f"c_{name}": typed[name] for name in ("k", "n", "x")}}
    )
    table = table.append_column("c_t", typed["t"].cast(pa.int64()))
    for name in ("topic_id", "p", "seq", "t", "kafka_t"):
        table = table.append_column(name, pa.array([0] * len(table)))
    with duckdb.connect() as engine:
        engine.register("events", table)
        for number, (_, function) in enumerate(unit.functions):
            parameters: list[Any] = [
                {"long": "BIGINT", "double": "DOUBLE"}[kind] for kind in function.types
            ]
            engine.create_function(  # type: ignore[call-overload]
                function_name(number),
                one_row_a_call(function),
                parameters,
                "STRUCT(there BOOLEAN, value BIGINT)",
                null_handling="special",
            )
        text = queries.viewed(unit, source, "SELECT * FROM events")
        (transpiled,) = sqlglot.transpile(text, read="spark", write="duckdb")
        rows = engine.sql(
            f"SELECT o, v_n, v_whole, v_items_per_tenth FROM ({transpiled}) ORDER BY o"
        ).fetchall()
    names = ("offset", "n", "whole", "items_per_tenth")
    assert rows == list(zip(*(own[name].to_pylist() for name in names), strict=True))
    assert len(rows) > 20
