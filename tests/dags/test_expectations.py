"""Expectations page by severity, each suite's to its owner, and their pages are shown from one
folder alone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from slicewise_airflow.alerts import page
from slicewise_airflow.expect import ExpectJob
from slicewise_airflow.pages import data_docs

from slicewise.lifecycle.checking import ExpectationsNotMade, ExpectationsUnmet
from slicewise.local.servers.inbox import Inbox
from slicewise.settings import Settings
from tests.dags.test_operators import context, program  # noqa: F401  # a fixture

NOT_NULL = "expect_column_values_to_not_be_null"


def suite(name: str, *severities: str, result: str = "") -> dict[str, Any]:
    worst = next((s for s in ("critical", "warning", "info") if s in severities), "")
    return {
        "suite": name,
        "of": name.partition(".")[2],
        "result": result or ("unmet" if severities else "met"),
        "worst": worst,
        "unmet": [
            {"type": NOT_NULL, "column": "amount", "severity": s, "observed": "12 of 120"}
            for s in severities
        ],
    }


def report(*suites: dict[str, Any], why: str = "") -> dict[str, Any]:
    severities = [one["severity"] for whole in suites for one in whole["unmet"]]
    return {
        "job": "expect",
        "hour": "2026-11-21T08",
        "outcome": "not_made" if why else "unmet" if severities else "met",
        "critical": severities.count("critical"),
        "why": why,
        "suites": list(suites),
    }


def judge(program: Any, given: dict[str, Any], code: int) -> BaseException | None:  # noqa: F811
    """Runs the task as Airflow does, with its callback where it fails."""
    program("submit", json.dumps(given), code=code)
    instance = SimpleNamespace(
        dag_id="check_expectations", task_id="expect", run_id="r", log_url="", try_number=1
    )
    whole = context("manual") | {"ti": instance, "task_instance": instance}
    try:
        ExpectJob(task_id="expect").execute(whole)
    except (ExpectationsUnmet, ExpectationsNotMade) as error:
        page(whole | {"exception": error})
        return error
    return None


def incidents() -> dict[str, tuple[str, bool]]:
    return {one.key: (one.alert.severity, one.is_open) for one in Inbox(Settings.load()).read()}


def test_each_severity_has_its_own_end(program: Any) -> None:  # noqa: F811
    given = report(
        suite("events.orders", "critical", "warning"),
        suite("arrivals.orders", "warning"),
        suite("features.spending", "info"),
    )
    error = judge(program, given, 2)
    assert isinstance(error, ExpectationsUnmet)
    assert f"{NOT_NULL}(amount) of 2026-11-21T08: 12 of 120" in str(error)
    assert incidents() == {
        "expectations.events.orders": ("critical", True),
        "expectations.arrivals.orders": ("warning", True),
    }
    # a later hour: one is met, the other is a warning now and fails nothing
    later = report(suite("events.orders"), suite("arrivals.orders", "warning"))
    assert judge(program, later, 0) is None
    assert incidents() == {
        "expectations.events.orders": ("critical", False),
        "expectations.arrivals.orders": ("warning", True),
    }


@pytest.mark.parametrize("is_met", [True, False], ids=["over", "open"])
def test_of_several_hours_the_newest_says_whether_an_incident_is_over(
    is_met: bool,
    program: Any,  # noqa: F811
) -> None:
    unmet, met = suite("events.orders", "critical"), suite("events.orders")
    older, newer = (unmet, met) if is_met else (met, unmet)
    judge(program, report(older | {"hour": "2026-11-21T07"}, newer), 2)
    assert incidents() == {"expectations.events.orders": ("critical", not is_met)}


def test_what_could_not_be_judged_is_told_and_settles_nothing(program: Any) -> None:  # noqa: F811
    judge(program, report(suite("events.orders", "warning")), 0)
    given = report(suite("events.orders", result="not_made"), why="events.orders: no table")
    error = judge(program, given, 1)
    assert isinstance(error, ExpectationsNotMade)
    assert "events.orders: no table" in str(error)
    assert incidents() == {
        "expectations.events.orders": ("warning", True),
        "check_expectations.expect": ("warning", True),
    }


def test_what_is_critical_hides_no_hour_that_could_not_be_judged(
    program: Any,  # noqa: F811
) -> None:
    judge(program, report(suite("events.orders", result="not_made"), why="no table"), 1)
    assert incidents()["check_expectations.expect"] == ("warning", True)
    both = report(suite("events.orders", "critical"), why="2026-11-21T08: no table")
    error = judge(program, both, 2)
    assert isinstance(error, ExpectationsUnmet)
    assert "not all could be judged: 2026-11-21T08: no table" in str(error)
    assert incidents()["check_expectations.expect"] == ("warning", True)


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path))
    app = FastAPI()
    data_docs.mount(app, [])
    return TestClient(app)


def test_data_docs_are_shown_from_their_folder_alone(pages: TestClient, tmp_path: Path) -> None:
    assert "No data docs yet" in pages.get("/data-docs/").text
    root = tmp_path / "reports" / "data-docs"
    (root / "validations").mkdir(parents=True)
    (root / "validations" / "one.html").write_text("<p>one")
    (root / "validations" / "one.py").write_text("secret = 1")
    (tmp_path / "secret.html").write_text("secret")
    (root / "link.html").symlink_to(tmp_path / "secret.html")
    shown = pages.get("/data-docs/validations/one.html")
    assert shown.text.endswith("<p>one")
    assert "default-src 'none'" in shown.headers["Content-Security-Policy"]
    for name in (
        "../../secret.html",
        "%2e%2e/%2e%2e/secret.html",
        "..%2f..%2fsecret.html",
        "link.html",
        "validations",
        "validations/one.py",
        "a%00b.html",
        "/etc/hostname",
    ):
        assert pages.get(f"/data-docs/{name}").status_code == 404, name


def test_a_page_of_the_library_asks_no_other_host_and_keeps_its_own_styles(
    pages: TestClient, tmp_path: Path
) -> None:
    folder = tmp_path / "reports" / "data-docs" / "expectations" / "events"
    folder.mkdir(parents=True)
    (folder / "orders.html").write_text(
        '<html><head><link rel="stylesheet" href="https://cdn.example/bootstrap.css"/>'
        "<style>.own { color: red }</style><script src='https://cdn.example/x.js'></script></head>"
        "<body><script>\nrows()\n</script><td class='col-md-2'>amount</td></body></html>"
    )
    text = pages.get("/data-docs/expectations/events/orders.html").text
    assert "https://" not in text
    assert "<script" not in text
    assert ".own { color: red }" in text
    assert '[class*="col-md-2"]' in text, "the layout of the library's classes"
    assert "amount" in text


def test_the_index_lists_the_runs_with_their_results(pages: TestClient, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    for hour, success in (("05", True), ("06", False)):
        under = f"events/orders/2026-01-02T{hour}/20260102T070000.000000Z"
        page = reports / "data-docs" / "validations" / under / "batch.html"
        page.parent.mkdir(parents=True)
        page.write_text("<p>a run")
        os.utime(page, (int(hour), int(hour)))
        result = reports / "expectation-results" / under / "batch.json"
        result.parent.mkdir(parents=True)
        result.write_text(json.dumps({"success": success}))
    text = pages.get("/data-docs/").text
    assert text.index("2026-01-02T06") < text.index("2026-01-02T05"), "the newest first"
    assert text.count("not all is met") == 1
    (address,) = re.findall(r'href="(validations/[^"]*T06/[^"]*)"', text)
    assert pages.get(f"/data-docs/{address}").text.endswith("<p>a run")


def test_data_docs_need_a_sign_in() -> None:
    import slicewise_page

    (route,) = [
        one for one in slicewise_page._app().routes if "data-docs" in getattr(one, "path", "")
    ]
    assert route.dependencies  # type: ignore[attr-defined]
