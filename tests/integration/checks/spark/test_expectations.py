"""Events that are planted in an hour of the archive are named by their expectations, and by no
other; a good hour meets all of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise.checks.expectations import pages
from slicewise.checks.expectations.outcome import Judged, RunOutcome, rows_of, summary
from slicewise.checks.expectations.run import ExpectationRun
from slicewise.checks.expectations.validation import Validation
from slicewise.clock import ManualClock
from slicewise.features.declare.project import Project
from slicewise.features.expectation_names import ARGUMENTS, NEEDED
from slicewise.features.plan.planner import plan
from slicewise.settings import Settings
from slicewise.spark.runtime.session import job_session
from slicewise.stores.lake.catalog import Catalog, open_catalog
from slicewise.stores.lake.records import append, records
from slicewise.stores.lake.schemas import BAD, CHECKS, log_table
from slicewise.training.archiving import offline
from slicewise.windows.durations import HOUR_US
from spark_jobs import expect
from spark_jobs.expect import values_of
from tests.support.stores.archived import archive

pytestmark = [
    pytest.mark.timeout(600),
    # Great Expectations imports what Python 3.11 deprecates.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

FIRST = 1_767_225_600_000_000 // HOUR_US  # 2026-01-01T00
BAD_HOUR = FIRST + 30
GOOD_HOUR = FIRST + 29
TOPIC = "0" * 32
NOT_NULL = "expect_column_values_to_not_be_null"
BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
KL = "expect_column_kl_divergence_to_be_less_than"

ORDERS = sw.KafkaSource(
    "orders",
    schema={"user": "string", "amount": "double", "currency": "string", "paid_at": "timestamp_us"},
    timestamp="paid_at",
    expect=[
        sw.expect(NOT_NULL, column="amount", mostly=0.99, severity="critical"),
        sw.expect(BETWEEN, column="amount", min_value=0),
        sw.expect(IN_SET, column="currency", value_set=["EUR", "USD"], severity="info"),
        sw.expect("expect_column_values_to_be_dateutil_parseable", column="user", severity="info"),
    ],
)
SPENDING = sw.FeatureView(
    "spending",
    source=ORDERS,
    entity=["user"],
    features=[
        sw.Feature("orders", sw.count(), windows=["1h"]),
        sw.Feature(
            "spend", sw.sum("amount"), windows=["1h"], expect=[sw.expect(KL, threshold=0.2)]
        ),
    ],
)
DEPLOYMENT = plan(Project.of("shop", [SPENDING]))


def orders(hour: int, count: int, *, planted: bool) -> list[dict[str, Any]]:
    """Orders of an hour, one of each user. planted: with other amounts and a wrong currency."""
    rows = []
    for number in range(count):
        amount: float | None = 1.0 + number % 50
        currency = "EUR" if number % 3 else "USD"
        if planted:
            amount = None if number % 10 == 0 else -5.0 if number < 8 else 1_000.0 + number
            currency = "<script>x" if number == 42 else currency
        time = hour * HOUR_US + number
        rows.append(
            {"user": f"u{number}", "amount": amount, "currency": currency, "paid_at": time,
             "partition": 0, "offset": (hour - FIRST) * 1_000 + number}
        )  # fmt: skip
    return rows


def bad(hour: int, count: int) -> list[dict[str, Any]]:
    return [
        {"archive_seq": 1, "topic_id": TOPIC, "archive_time": (hour + 1) * HOUR_US, "kind": BAD,
         "partition": 0, "offset": (hour - FIRST) * 1_000 + 900 + number, "reason": "not_json",
         "kafka_time": hour * HOUR_US + number, "raw": b"{"}
        for number in range(count)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("expectations")
    return Settings.load({"SLICEWISE_STATE": str(folder), "SLICEWISE_HOME": _home()})


def _home() -> str:
    return str(Path(__file__).resolve().parents[4])


@pytest.fixture(scope="module")
def catalog(settings: Settings) -> Catalog:
    catalog = open_catalog(settings)
    source = DEPLOYMENT.source("orders")
    hours = [FIRST + 5, FIRST + 6, *range(BAD_HOUR - 8, BAD_HOUR)]
    events = [event for hour in hours for event in orders(hour, 120, planted=False)]
    events += orders(BAD_HOUR, 120, planted=True)
    archive(catalog, source, TOPIC, 1, events, [], (BAD_HOUR + 1) * HOUR_US)
    append(catalog, log_table(source), bad(BAD_HOUR, 40))
    return catalog


@pytest.fixture(scope="module")
def spark(settings: Settings) -> Iterator[SparkSession]:
    session = job_session(settings, "test-expectations")
    yield session
    session.stop()


def judged(
    spark: SparkSession, settings: Settings, hour: int, validation: Validation
) -> RunOutcome:
    def values(refs: Sequence[str], entities: pa.Table, at_us: int) -> pa.Table:
        return values_of(settings, DEPLOYMENT, refs, entities, at_us)

    return ExpectationRun(
        spark,
        DEPLOYMENT,
        lambda source: f"{settings.catalog_name}.log.`{source}`",
        values,
        ManualClock((BAD_HOUR + 1) * HOUR_US),
        run=f"of-{hour}",
        hour=hour,
        sample=120,
        validation=validation,
    ).execute()


def unmet(outcome: RunOutcome) -> dict[tuple[str, str, str], Judged]:
    return {
        (suite.suite.name, one.wanted.type, one.wanted.column): one
        for suite in outcome.suites
        for one in suite.unmet
    }


UNPARSED = ("events.orders", "expect_column_values_to_be_dateutil_parseable", "user")
"""Not computed on any hour: Great Expectations has no such figure in Spark."""


def test_what_is_planted_is_named_recorded_and_shown(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    results, docs = tmp_path / "results", tmp_path / "docs"
    validation = Validation("2026-01-02T06", BAD_HOUR * HOUR_US, results)
    outcome = judged(spark, settings, BAD_HOUR, validation)
    failing = unmet(outcome)
    assert {key: one.wanted.severity for key, one in failing.items()} == {
        ("events.orders", NOT_NULL, "amount"): "critical",
        ("events.orders", BETWEEN, "amount"): "warning",
        ("events.orders", IN_SET, "currency"): "info",
        UNPARSED: "info",
        ("arrivals.orders", IN_SET, "kind"): "warning",
        ("features.spending", KL, "spend_1h"): "warning",
    }, outcome
    assert failing["events.orders", NOT_NULL, "amount"].observed == "12 unexpected of 120"
    assert "-5.0" in failing["events.orders", BETWEEN, "amount"].observed
    assert (
        failing["events.orders", IN_SET, "currency"].observed == "1 unexpected of 120, as <script>x"
    )
    assert "could not be computed" in failing[UNPARSED].observed
    assert [s.rows for s in outcome.suites] == [120, 160, 120]
    assert outcome.suites[2].reference == "24 hours before"

    append(catalog, CHECKS, rows_of(outcome))
    own = [row for row in records(catalog, CHECKS) if row["run_id"] == outcome.run]
    kept = [row for row in own if row["kind"] == "expectation"]
    assert {row["feature"] for row in kept if row["result"] == "unmet"} == {
        "amount", "currency", "kind", "spend_1h",
    }  # fmt: skip
    assert {(row["suite"], row["hour"]) for row in kept} == {
        (suite.suite.name, BAD_HOUR) for suite in outcome.suites
    }
    report = summary(outcome, "2026-01-02T06")
    assert (report["critical"], report["warning"], report["info"]) == (1, 3, 2)
    json.dumps(report)

    index = pages.build(validation, docs).read_text()
    assert "events.orders" in index
    shown = next(docs.glob("validations/events/orders/*/*/*.html")).read_text()
    assert "&lt;script&gt;x" in shown
    assert "<script>x" not in shown
    again = Validation("2026-01-02T05", GOOD_HOUR * HOUR_US, results)
    good = judged(spark, settings, GOOD_HOUR, again)
    assert set(unmet(good)) == {UNPARSED}
    both = pages.build(again, docs).read_text()
    assert "2026-01-02T05" in both
    assert "2026-01-02T06" in both
    pages.forget(results, 1)
    assert "2026-01-02T06" not in pages.build(again, docs).read_text()
    [page] = docs.glob("validations/events/orders/*/*/*.html")
    # the index of the data docs finds a page's result so
    assert (results / page.relative_to(docs / "validations")).with_suffix(".json").is_file()
    assert (docs / "expectations" / "events" / "orders.html").is_file()


def test_the_job_judges_what_is_deployed_and_leaves_rows_and_pages(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offline, "deployed", lambda _: DEPLOYMENT)
    given = argparse.Namespace(only=["orders"], sample=10, docs=tmp_path)
    clock = ManualClock((BAD_HOUR + 1) * HOUR_US)
    report = expect._judged(given, settings, clock, spark, "2026-01-02T06")
    assert (report["outcome"], report["critical"], report["warning"]) == ("unmet", 1, 2)
    assert Path(report["docs"]).is_file()
    suites = [row for row in records(catalog, CHECKS) if row["run_id"] == report["run_id"]]
    assert {row["suite"] for row in suites if row["kind"] == "suite"} == {
        "events.orders",
        "arrivals.orders",
    }
    nothing = expect._judged(
        argparse.Namespace(only=["orders"], sample=10, docs=None),
        settings, clock, spark, "2026-02-01T00",
    )  # fmt: skip
    assert nothing["critical"] == 0, "an hour without events breaks nothing that is critical"

    def full(*_: object) -> Path:
        raise OSError("No space left on device")

    monkeypatch.setattr(pages, "build", full)
    undocumented = expect._judged(given, settings, clock, spark, "2026-01-02T06")
    assert (undocumented["outcome"], undocumented["critical"]) == ("not_made", 1)
    assert "data docs could not be built: OSError: No space left" in undocumented["why"]
    # 06 was judged above, and so were the hours before by tests before; nothing came after it
    late = orders(BAD_HOUR + 2, 3, planted=False)
    archive(catalog, DEPLOYMENT.source("orders"), TOPIC, 2, late, [], (BAD_HOUR + 3) * HOUR_US)
    since = expect._hours(True, settings, "2026-01-02T10")
    assert since[-2:] == ["2026-01-02T08", "2026-01-02T10"]
    assert "2026-01-02T06" not in since
    assert "2026-01-02T07" not in since, "an hour without events says nothing"
    assert expect._hours(False, settings, "2026-01-02T10") == ["2026-01-02T10"]
    assert expect._hours(True, settings, "2026-03-01T00") == ["2026-03-01T00"]


def test_the_names_that_definitions_are_checked_by_are_great_expectations_own() -> None:
    from great_expectations.expectations.expectation import Expectation
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    elsewhere = {  # about data that a batch of an hour is not
        "expect_query_results_to_match_comparison",
        "expect_table_row_count_to_equal_other_table",
    }
    names = set(list_registered_expectation_implementations()) - elsewhere
    left = {"batch_id", "row_condition", "condition_parser", "library_metadata"}
    common = {*Expectation.__fields__, *left}
    fields = {name: get_expectation_impl(name).__fields__ for name in names}
    assert {name: set(given) for name, given in ARGUMENTS.items()} == {
        name: set(given) - common for name, given in fields.items()
    }
    assert {name: set(given) for name, given in NEEDED.items()} == {
        name: {key for key, one in given.items() if one.required} - common
        for name, given in fields.items()
    }
