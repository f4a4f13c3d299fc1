"""Expectations are checked as they are written, travel with the deployment, and change nothing that
is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.features.sql.python_form import python_form

NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"


def view(
    events: Sequence[Any] = (), values: Sequence[Any] = (), name: str = "spending"
) -> sw.FeatureView:
    orders = sw.KafkaSource(
        f"orders_{name}",
        schema={"user": "string", "amount": "double", "paid_at": "timestamp_us"},
        timestamp="paid_at",
        expect=events,
    )
    spend = sw.Feature("spend", sw.sum("amount"), windows=["1h", "10m"], expect=values)
    return sw.FeatureView(name, source=orders, entity=["user"], features=[spend])


def planned(*views: sw.FeatureView, project: str = "shop") -> Deployment:
    return plan(Project.of(project, views))


def test_an_expectation_changes_nothing_that_is_stored_and_travels_with_the_deployment() -> None:
    bare = planned(view())
    given = planned(
        view(
            [sw.expect(NOT_NULL, column="amount", mostly=0.99, severity="critical")],
            [{"type": BETWEEN, "kwargs": {"min_value": 0}}],
        )
    )
    assert (given.sources, given.units) == (bare.sources, bare.units)
    assert given.sources[0].schema_fingerprint == bare.sources[0].schema_fingerprint
    assert "expectations" not in json.loads(bare.to_json())
    assert Deployment.from_json(given.to_json()) == given
    assert given.digest != bare.digest
    assert [(e.suite, e.type, json.loads(e.kwargs), e.severity) for e in given.expectations] == [
        ("events.orders_spending", NOT_NULL, {"column": "amount", "mostly": 0.99}, "critical"),
        ("features.spending", BETWEEN, {"column": "spend_1h", "min_value": 0}, "warning"),
        ("features.spending", BETWEEN, {"column": "spend_10m", "min_value": 0}, "warning"),
    ]


def test_what_one_project_expects_stays_when_another_is_deployed() -> None:
    expected = [sw.expect(NOT_NULL, column="amount")]
    other = planned(view(expected, name="refunds"), project="back")
    own = planned(view(expected))
    both = joined(own, other)
    assert {e.suite for e in both.expectations} == {
        "events.orders_refunds",
        "events.orders_spending",
    }
    assert joined(planned(view()), both).expectations == other.expectations


def test_the_python_form_is_the_same_definition() -> None:
    written = view(
        [sw.expect("expect_column_values_to_be_in_set", column="user", value_set=["ann", "bob"])],
        [sw.expect(BETWEEN, column="spend_1h", min_value=0, severity="info")],
    )
    names: dict[str, Any] = {"sw": sw}
    exec(python_form(written), names)
    assert names["spending"] == written


def write_suite(folder: Path, suite: object) -> Path:
    (folder / "expectations").mkdir()
    (folder / "expectations" / "orders.json").write_text(json.dumps(suite))
    (folder / "features.py").write_text(
        "import slicewise as sw\n"
        'orders = sw.KafkaSource("orders", schema={"user": "string", "paid_at": "timestamp_us"}, '
        'timestamp="paid_at")\n'
        'paid = sw.FeatureView("paid", source=orders, entity=["user"], '
        'features=[sw.Feature("n", sw.count(), windows=["1h"])])\n'
    )
    return folder / "features.py"


def test_a_suite_file_is_great_expectations_own_json(tmp_path: Path) -> None:
    suite = {
        "name": "features.paid",
        "id": None,
        "expectations": [
            {
                "type": BETWEEN,
                "kwargs": {"column": "n_1h", "max_value": 9.0},
                "meta": {},
                "severity": "critical",
            }
        ],
        "meta": {"great_expectations_version": "1.24.1"},
        "notes": None,
    }
    (expectation,) = plan(load_project(write_suite(tmp_path, suite))).expectations
    assert (expectation.suite, expectation.severity) == ("features.paid", "critical")
    assert json.loads(expectation.kwargs) == {"column": "n_1h", "max_value": 9.0}


@pytest.mark.parametrize(
    ("suite", "what", "hint"),
    [
        ({"name": "paid", "expectations": []}, "name is 'paid'", "source or the view"),
        ({"name": "events.order", "expectations": []}, "about nothing", "events.orders"),
        (
            {"name": "events.orders", "expectations": [{"type": NOT_NULL, "kwargs": {}}]},
            "lacks column",
            "write column=",
        ),
        (
            {
                "name": "events.orders",
                "expectations": [{"type": NOT_NULL, "kwargs": {"column": "usr"}}],
            },
            "'usr', which is no column",
            "user",
        ),
    ],
)
def test_a_suite_file_that_is_wrong_is_refused_by_its_name(
    tmp_path: Path, suite: object, what: str, hint: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        plan(load_project(write_suite(tmp_path, suite)))
    assert what in refused.value.what
    assert "orders.json" in str(refused.value.where)
    assert hint in str(refused.value.next_step)


@pytest.mark.parametrize(
    ("write", "what", "hint"),
    [
        (lambda: sw.expect("expect_column_values_to_not_be_nul"), "is no expectation", NOT_NULL),
        (lambda: sw.expect(BETWEEN, min_valu=1), "takes no min_valu", "min_value"),
        (lambda: sw.expect(NOT_NULL, mostly=99), "mostly is 99", "0.99"),
        (lambda: sw.expect(NOT_NULL, severity="bad"), "severity is 'bad'", "leave it out"),
        (lambda: sw.expect(BETWEEN, max_value=float("nan")), "are not JSON", "as text"),
        (lambda: view([sw.expect(NOT_NULL, column="amout")]), "'amout', which", "amount"),
        (lambda: view([sw.expect(NOT_NULL)]), "lacks column", "column="),
        (lambda: view(sw.expect(NOT_NULL)), "expect is", "put it in"),  # type: ignore[arg-type]
        (lambda: view([], ["null"]), "'null' is no expectation", "write it so"),
        (lambda: view([], [sw.expect(NOT_NULL, column="spend")]), "'spend', which", "spend_1h"),
        (
            lambda: sw.Feature(
                "known", sw.bloom("user", capacity=5), ["1h"], [sw.expect(NOT_NULL)]
            ),
            "has no value",
            "bloom_fill",
        ),
    ],
)
def test_an_expectation_that_is_wrong_is_refused_where_it_is_written(
    write: Callable[[], object], what: str, hint: str
) -> None:
    with pytest.raises(DefinitionError) as refused:
        write()
    assert what in refused.value.what
    assert "test_expectations.py" in str(refused.value.where)
    assert hint in str(refused.value.next_step)
