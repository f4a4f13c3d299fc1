"""A row is refused in the whole view: in slices and in event lists, on every path, counted by
reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.compute as pc
import pytest
import sqlglot
from hypothesis import given, settings

import slicewise as sw
from slicewise.checks.recompute import queries
from slicewise.errors import DefinitionError
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.finite import may_be_infinite
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.training.dataset import build_snapshot, build_training_set
from slicewise.training.events.rows import row_logic
from slicewise.training.queries import GivenArchive, query_rows
from slicewise.training.tables.given.events import typed_events
from slicewise.training.tables.instants import as_timestamps
from tests.support.inputs.rowlogic_grammar import grammar
from tests.support.inputs.rowlogic_vectors import ROWS, SCHEMA, expected

GOLDEN = Path(__file__).parents[1] / "golden" / "deployment_uneven.json"
"""A deployment of `view_of("seconds * seconds")` by the version before units refused alike."""
T = 1_767_225_600_000_000
AT = T + 60_000_000
plays = sw.KafkaSource(
    "plays",
    schema={"user": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
)


@sw.row_function(output="double")
def inverse(seconds):  # type: ignore[no-untyped-def]
    return pc.divide(1.0, seconds)


def view_of(squared: Any) -> FeatureView:
    """Counted over slices; a computed column is read over events alone."""
    return FeatureView(
        "mixed",
        source=plays,
        entity=["user"],
        columns={"squared": squared},
        features=[
            sw.Feature("n", sw.count(), windows=["1h"]),
            sw.Feature("squares", sw.sum("squared"), windows=[sw.exact_range("1h")]),
        ],
    )


def units_of(view: FeatureView) -> Mapping[bool, StorageUnit]:
    """By whether it is an event list."""
    return {isinstance(unit, ListUnit): unit for unit in plan(Project.of("p", [view])).units}


def events(*seconds: float | None) -> list[dict[str, Any]]:
    return [
        {"user": "ann", "seconds": duration, "played_at": T + i}
        for i, duration in enumerate(seconds)
    ]


OTHER = FeatureView(
    "other",
    source=plays,
    entity=["user"],
    columns={"squared": "seconds * seconds"},
    features=[
        sw.Feature("n", sw.count(), windows=[sw.rows(9)]),
        sw.Feature("squares", sw.sum("squared"), windows=["1h"]),
        sw.Feature("long", sw.count("squared"), windows=["30d"]),
    ],
)


@pytest.mark.parametrize(
    ("view", "seconds", "reason", "counted", "total"),
    [
        (
            view_of("seconds * seconds"),
            (1e200, 2.0, None),
            "not_finite:squared=1",
            "n_1h",
            "squares_exact_1h",
        ),
        (view_of(inverse), (0.0, 0.25, None), "row_function:squared=1", "n_1h", "squares_exact_1h"),
        (OTHER, (1e200, 2.0, None), "not_finite:squared=1", "n_rows_9", "squares_1h"),
    ],
)
def test_every_feature_of_a_view_counts_the_same_events(
    view: FeatureView, seconds: Sequence[float | None], reason: str, counted: str, total: str
) -> None:
    #   one event that the computed column refuses, one of value 4, and a null, which is no reason to refuse
    deployment, given_events = plan(Project.of("p", [view])), events(*seconds)
    queries = [{"user": "ann", "at": AT}]
    evaluated = sw.evaluate(view, given_events, queries)
    assert (evaluated.schema.metadata or {})[b"slicewise.refused"].decode() == reason
    typed, refused = typed_events(deployment.source("plays"), given_events)
    assert not refused
    archive, refs = GivenArchive(typed), [f"{view.name}:{name}" for name in (counted, total)]
    spine = [{"user": "ann", "at": as_timestamps(np.array([AT]))[0]}]
    trained = build_training_set(deployment, archive, spine, refs, "event_time").table
    snapped = build_snapshot(deployment, archive, refs, [AT]).table
    assert evaluated.select([counted, total]).to_pylist() == [{counted: 2, total: 4.0}]
    for answers in (trained, snapped):
        assert answers.select(refs).to_pylist() == [dict(zip(refs, (2, 4.0), strict=True))]
    rows = query_rows(view, archive).table.to_pylist()
    assert [(row[counted], row[total]) for row in rows] == [(1, 4.0), (2, 4.0)]


def test_the_check_takes_the_rows_that_each_unit_takes() -> None:
    given_events = events(1e200, 2.0, None, -1e308, 3.5)
    deployment = plan(Project.of("p", [view_of("seconds * seconds")]))
    source = deployment.source("plays")
    typed, _ = typed_events(source, given_events)
    with duckdb.connect() as engine:
        engine.register("typed", typed)
        text = (
            "SELECT topic_id, `partition` AS p, `offset` AS o, 1 AS seq, event_time AS t, "
            "kafka_time AS kafka_t, "
            "`user` AS c_user, seconds AS c_seconds, event_time AS c_played_at FROM typed"
        )
        for unit in deployment.units:
            kept, refused = row_logic(unit, typed)
            relation = engine.sql(
                sqlglot.transpile(queries.viewed(unit, source, text), read="spark", write="duckdb")[
                    0
                ]
            )
            assert sorted(relation.select("t").fetchall()) == [
                (t,) for t in sorted(kept["event_time"].to_pylist())
            ]
            assert kept.num_rows == 3
            assert dict(refused) == {"not_finite:squared": 2}


def test_a_unit_is_another_one_only_where_its_view_can_refuse_by_what_it_does_not_read() -> None:
    bounded, unbounded = units_of(view_of("seconds / 60")), units_of(view_of("seconds * seconds"))
    alone = units_of(
        FeatureView("mixed", plays, ["user"], [sw.Feature("n", sw.count(), windows=["1h"])])
    )
    assert bounded[False].storage_fingerprint == alone[False].storage_fingerprint
    assert unbounded[False].storage_fingerprint != alone[False].storage_fingerprint
    assert [name for name, _ in unbounded[False].columns] == ["squared"]
    assert bounded[False].columns == ()


def test_a_deployment_of_before_is_read_with_its_fingerprints_and_keeps_its_rule() -> None:
    before = Deployment.from_json(GOLDEN.read_text(encoding="utf-8"))
    assert Deployment.from_json(before.to_json()) == before
    now = units_of(view_of("seconds * seconds"))
    old = {isinstance(unit, ListUnit): unit for unit in before.units}
    assert old[True].storage_fingerprint == now[True].storage_fingerprint, (
        "the list has always computed it"
    )
    assert old[False].storage_fingerprint != now[False].storage_fingerprint
    assert old[False].columns == ()


SECONDS = sw.Feature("seconds", sw.sum("seconds"), windows=["1h"])
FINITE = [
    row for row in ROWS if all(row[name] is None or math.isfinite(row[name]) for name in "xy")
]


@settings(max_examples=200)
@given(grammar())
def test_what_is_bounded_is_finite_on_every_row(text: str) -> None:
    tree = parse_expression(text, SCHEMA, where="here").tree
    if tree.kind == "double" and not may_be_infinite(tree, ()):
        for value in expected(text, FINITE):
            assert value is None or math.isfinite(value), text


@pytest.mark.parametrize(
    ("text", "allow_nan", "infinite"),
    [
        ("x / 60", (), False),
        ("x / 60", ("x",), True),
        ("x / 0.5", (), True),
        ("x / 0", (), True),
        ("a / b", (), False),
        ("x / b", (), False),
        ("b / x", (), True),
        ("x + x", (), True),
        ("x * 0.5 + x * 0.5", (), False),
        ("x * x", (), True),
        ("CASE WHEN x < 1e10 THEN x ELSE 0.0 END", (), False),
        ("CAST(s AS DOUBLE)", (), False),
        ("CAST(s AS DOUBLE) * 2", (), True),
        ("SQRT(x)", (), True),
        ("COALESCE(x, 1.5)", ("x",), True),
        ("ABS(-x)", (), False),
        ("a + b", ("x",), False),
    ],
)
def test_which_columns_may_refuse_follows_from_their_text(
    text: str, allow_nan: tuple[str, ...], infinite: bool
) -> None:
    assert may_be_infinite(parse_expression(text, SCHEMA, where="here").tree, allow_nan) is infinite


def test_the_column_that_the_refusal_of_nan_proposes_is_finite_and_keeps_every_finite_value() -> (
    None
):
    source = replace(plays, allow_nan=("seconds",))
    with pytest.raises(DefinitionError, match="which allows NaN and infinities") as refused:
        plan(
            Project.of(
                "p", [replace(view_of("seconds"), source=source, columns={}, features=[SECONDS])]
            )
        )
    assert (
        refused.value.expected == "finite values; sw.count alone reads a column that allows others"
    )
    text = str(refused.value.next_step).split('"')[1]
    counted = sw.Feature("n", sw.count("seconds"), windows=["1h"])
    finite = sw.Feature("finite", sw.max("finite"), windows=["1h"])
    view = replace(
        view_of("seconds"), source=source, columns={"finite": text}, features=[counted, finite]
    )
    most = 1.7976931348623157e308
    table = sw.evaluate(
        view, events(math.nan, math.inf, -math.inf, most, 1e308), [{"user": "ann", "at": AT}]
    )
    assert table.select(["n_1h", "finite_1h"]).to_pylist() == [{"n_1h": 5, "finite_1h": most}]
    assert (table.schema.metadata or {})[b"slicewise.refused"] == b""
