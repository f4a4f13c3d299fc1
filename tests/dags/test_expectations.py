"""Expectations page by severity, each suite's to its owner, and their pages are shown from one
folder alone."""

from __future__ import annotations

import json
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
    (root / "index.html").write_text("<p>all of them")
    (root / "validations" / "one.html").write_text("<p>one")
    (root / "validations" / "one.py").write_text("secret = 1")
    (tmp_path / "secret.html").write_text("secret")
    (root / "link.html").symlink_to(tmp_path / "secret.html")
    assert pages.get("/data-docs/").text == "<p>all of them"
    shown = pages.get("/data-docs/validations/one.html")
    assert shown.text == "<p>one"
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


def test_data_docs_need_a_sign_in() -> None:
    import slicewise_page

    (route,) = [
        one for one in slicewise_page._app().routes if "data-docs" in getattr(one, "path", "")
    ]
    assert route.dependencies  # type: ignore[attr-defined]
