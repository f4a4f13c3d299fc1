"""Suites have what a definition implies, and in its place what its author declares; a reference
hour adds what no definition can say."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise import cli
from slicewise.checks.expectations.hours import MOST, unjudged
from slicewise.checks.expectations.outcome import (
    Judged,
    RunOutcome,
    SuiteOutcome,
    combined,
    not_made,
    rows_of,
    summary,
)
from slicewise.checks.expectations.reference import (
    FEWEST,
    HOLDOUT,
    partition_of,
    with_reference,
)
from slicewise.checks.expectations.suites import (
    BETWEEN,
    KL,
    KL_THRESHOLD,
    LATENESS,
    NOT_NULL,
    ROWS,
    Suite,
    Wanted,
    suites,
    volume,
)
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.lifecycle.checking import ExpectationsUnmet, expectations_failure, suites_of


def made(events: list[Any] | None = None, values: list[Any] | None = None) -> dict[str, Suite]:
    orders = sw.KafkaSource(
        "orders",
        schema={
            "user": "string",
            "item": "string",
            "amount": "double",
            "paid_at": "timestamp_us",
        },
        timestamp="paid_at",
        required=["amount"],
        max_lateness="2h",
        owner="team-shop",
        expect=events or [],
    )
    spending = sw.FeatureView(
        "spending",
        source=orders,
        entity=["user"],
        features=[
            sw.Feature("n", sw.count(where="amount > 1"), windows=["1h"]),
            sw.Feature("spend", sw.sum("amount"), windows=["1h"], expect=values or []),
            sw.Feature("known", sw.bloom("item", capacity=5), windows=["1h"]),
            sw.Feature("full", sw.bloom_fill("item", capacity=5), windows=["1h"]),
        ],
    )
    return {s.name: s for s in suites(plan(Project.of("shop", [spending])))}


def listed(suite: Suite) -> dict[tuple[str, str], tuple[dict[str, Any], str]]:
    return {(w.type, w.column): (dict(w.kwargs), w.severity) for w in suite.wanted}


def test_a_definition_implies_its_suites() -> None:
    every = made()
    assert list(every) == ["events.orders", "arrivals.orders", "features.spending"]
    assert every["events.orders"].owner == "team-shop"
    events = listed(every["events.orders"])
    columns, severity = events["expect_table_columns_to_match_set", ""]
    own = {"user", "item", "amount", "paid_at"}
    assert set(columns["column_set"]) == own | {"event_time", "kafka_time"}
    assert severity == "critical"
    assert {c: s for (t, c), (_, s) in events.items() if t == NOT_NULL} == {
        "event_time": "critical",
        "amount": "critical",
        "paid_at": "critical",
        "user": "warning",
    }
    lateness, _ = listed(every["arrivals.orders"])[BETWEEN, LATENESS]
    assert (lateness["min_value"], lateness["max_value"]) == (-60.0, 3600.0)
    assert listed(every["features.spending"]) == {
        (NOT_NULL, "n_1h"): ({"column": "n_1h"}, "critical"),
        (BETWEEN, "n_1h"): ({"column": "n_1h", "min_value": 0}, "critical"),
        (BETWEEN, "full_1h"): (
            {"column": "full_1h", "min_value": 0.0, "max_value": 1.0},
            "critical",
        ),
    }


def test_what_is_declared_takes_the_place_of_what_is_implied_of_the_same_name_and_column() -> None:
    own = [sw.expect(NOT_NULL, column="amount", mostly=0.5), sw.expect(NOT_NULL, column="user")]
    wanted = [w for w in made(own)["events.orders"].wanted if w.type == NOT_NULL]
    assert [(w.column, w.origin) for w in wanted] == [
        ("event_time", "implied"),
        ("paid_at", "implied"),
        ("amount", "declared"),
        ("user", "declared"),
    ]


def test_a_volume_is_bounded_by_the_hours_before_where_they_are_enough() -> None:
    assert volume([100] * 5) is None
    bounds = volume([100, 120, 90, 200, 100, 100])
    assert bounds is not None
    assert (bounds.type, dict(bounds.kwargs)) == (ROWS, {"min_value": 22, "max_value": 800})


def test_a_reference_bounds_nulls_and_the_distance_of_distributions() -> None:
    rng = np.random.default_rng(7)
    before = pa.table({"n_1h": pa.array([1] * 100), "spend_1h": rng.normal(50, 5, 100)})
    now = pa.table({"n_1h": pa.array([1] * 100), "spend_1h": rng.normal(50, 5, 100)})
    suite = made(values=[sw.expect(KL, threshold=0.1, severity="critical")])["features.spending"]
    wanted = listed(with_reference(suite, now, before))
    kwargs, severity = wanted[KL, "spend_1h"]
    assert (kwargs["threshold"], severity) == (0.1, "critical")
    assert sum(kwargs["partition_object"]["weights"]) == pytest.approx(1)
    assert (KL, "n_1h") not in wanted, "its values are all alike"
    assert wanted[NOT_NULL, "n_1h"][1] == "critical", "it is never empty, whatever was before"
    assert wanted[NOT_NULL, "spend_1h"] == ({"column": "spend_1h", "mostly": 0.8}, "warning")
    assert (KL, "spend_1h") not in listed(with_reference(suite, now, None))


def test_chance_alone_is_not_as_far_as_the_limit_and_a_distribution_that_moved_is() -> None:
    rng = np.random.default_rng(20261128)

    def distance(reference: Any, observed: Any) -> float:
        """Distance as Great Expectations computes it, with what it holds out for the tails."""
        partition = partition_of(pa.chunked_array([reference]))
        assert partition is not None
        bins, share = np.array(partition["bins"]), HOLDOUT
        inside, _ = np.histogram(observed, bins)
        outside = [(observed < bins[0]).sum(), (observed > bins[-1]).sum()]
        seen = np.concatenate([inside, outside]) / len(observed)
        weights = np.array(partition["weights"]) * (1 - 2 * share)
        expected = np.concatenate([weights, [share / 2, share / 2]])
        there = seen > 0
        return float((seen[there] * np.log(seen[there] / expected[there])).sum())

    alike = [distance(*rng.normal(size=(2, FEWEST))) for _ in range(1_000)]
    assert sum(far >= KL_THRESHOLD for far in alike) <= 1
    moved = [distance(rng.normal(size=2_000), rng.normal(1.25, size=2_000)) for _ in range(20)]
    assert min(moved) > KL_THRESHOLD


def test_a_partition_needs_numbers_that_differ() -> None:
    assert partition_of(pa.chunked_array([["a"] * 100])) is None
    assert partition_of(pa.chunked_array([[1.0] * 100])) is None
    assert partition_of(pa.chunked_array([list(range(20))])) is None
    some = pa.chunked_array([[*range(100), float("nan"), float("inf"), None]])
    partition = partition_of(some)
    assert partition is not None
    assert (partition["bins"][0], partition["bins"][-1]) == (0.0, 99.0)


def outcome(*results: tuple[str, bool], why: str = "") -> RunOutcome:
    judged = tuple(
        Judged(Wanted(NOT_NULL, {"column": f"c{i}"}, severity, "about"), met, "seen")
        for i, (severity, met) in enumerate(results)
    )
    suite = SuiteOutcome(Suite("events", "orders", ()), judged, 9, why)
    return RunOutcome("r1", 498_000, 1, 2_001, (suite,))


@pytest.mark.parametrize(
    ("results", "why", "result", "worst"),
    [
        ([("critical", True), ("info", True)], "", "met", ""),
        ([("critical", True), ("info", False)], "", "unmet", "info"),
        ([("warning", False), ("critical", False)], "", "unmet", "critical"),
        ([], "no table", "not_made", ""),
    ],
)
def test_the_worst_severity_of_what_is_not_met_is_a_suites(
    results: list[tuple[str, bool]], why: str, result: str, worst: str
) -> None:
    report = summary(outcome(*results, why=why), "2026-10-24T00")
    assert (report["outcome"], report["suites"][0]["worst"]) == (result, worst)


@pytest.mark.parametrize(
    ("judged", "archived", "hours"),
    [
        ([], range(900), [900]),
        ([897, 895], range(900), [896, 898, 899, 900]),
        ([897], [899], [899, 900]),
        ([899], [], [900]),
        ([900 - MOST], range(900), list(range(900 - MOST + 1, 901))),
        ([900 - 2 * MOST], range(900), list(range(900 - MOST + 1, 901))),
        ([898, 900], range(902), [899, 900]),
    ],
    ids=["new", "some", "all was off", "all but it", "a day", "longer", "again"],
)
def test_hours_with_events_that_nobody_judged_are_judged_for_a_day(
    judged: list[int], archived: Collection[int], hours: list[int]
) -> None:
    assert unjudged(judged, lambda: archived, 900) == hours


def test_a_report_of_several_hours_adds_up_and_holds_the_worst() -> None:
    older = summary(outcome(("warning", False), ("critical", False)), "2026-10-24T00")
    newer = summary(outcome(("warning", True), ("critical", True)), "2026-10-24T01")
    unmade = summary(outcome(why="no table"), "2026-10-24T02")
    report = combined([older, newer])
    assert (report["hour"], report["hours"]) == (
        "2026-10-24T01",
        ["2026-10-24T00", "2026-10-24T01"],
    )
    assert (report["outcome"], report["critical"], report["warning"]) == ("unmet", 1, 1)
    assert report["expectations"] == 4
    reasons = [(suite.worst, suite.reasons[:1]) for suite in suites_of(report)]
    assert reasons == [
        ("critical", (f"{NOT_NULL}(c0) of 2026-10-24T00: seen",)),
        ("", ()),
    ]
    report = combined([older, unmade])
    assert (report["outcome"], report["critical"]) == ("not_made", 1)
    assert report["why"] == "2026-10-24T02: events.orders: no table"
    report = combined([older, not_made("2026-10-24T01", "the disk is full")])
    assert (report["outcome"], report["critical"]) == ("not_made", 1)
    error = expectations_failure(report, "")
    assert isinstance(error, ExpectationsUnmet)
    assert "and not all could be judged: 2026-10-24T01: the disk is full" in str(error)


def test_a_run_leaves_a_row_per_suite_and_per_expectation() -> None:
    whole, met, unmet = rows_of(outcome(("warning", True), ("critical", False)))
    assert {row["hour"] for row in (whole, met, unmet)} == {498_000}
    assert (whole["kind"], whole["result"], json.loads(whole["online"])["unmet"]) == (
        "suite",
        "unmet",
        1,
    )
    assert (met["result"], met["severity"]) == ("met", "warning")
    assert (unmet["result"], unmet["feature"], unmet["source"]) == ("unmet", "c1", "orders")
    assert json.loads(unmet["offline"])["type"] == NOT_NULL


def test_the_command_lists_what_is_expected(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    (tmp_path / "slicewise.toml").write_text('definitions = "features.py"\n')
    (tmp_path / "features.py").write_text(
        "import slicewise as sw\n"
        'orders = sw.KafkaSource("orders", schema={"user": "string", "at_": "timestamp_us"}, '
        'timestamp="at_", expect=[sw.expect("expect_column_values_to_be_unique", column="user", '
        'severity="info")])\n'
        'paid = sw.FeatureView("paid", source=orders, entity=["user"], '
        'features=[sw.Feature("n", sw.count(), windows=["1h"])])\n'
    )
    assert cli.main(["expectations", str(tmp_path)]) == 0
    assert "events.orders    declared  info      expect_column_values_to_be_unique" in (
        capsys.readouterr().out
    )
    assert cli.main(["expectations", str(tmp_path), "--only", "paid", "--json"]) == 0
    (suite,) = json.loads(capsys.readouterr().out)["suites"]
    assert suite["suite"] == "features.paid"
    assert cli.main(["expectations", str(tmp_path), "--only", "payd"]) == 1
    assert "did you mean paid" in capsys.readouterr().err


def test_a_share_of_nulls_of_three_values_is_not_bounded() -> None:
    before = pa.table({"spend_1h": [1.0, 2.0, 3.0]})
    now = pa.table({"spend_1h": [1.0, None, 3.0]})  # 33 %: a warning, and a page to the owner
    wanted = listed(with_reference(made()["features.spending"], now, before))
    assert (NOT_NULL, "spend_1h") not in wanted, wanted[NOT_NULL, "spend_1h"]
