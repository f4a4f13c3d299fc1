"""A run judges a model by the command, leaves its page in the list, and fails for want of rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from slicewise_airflow.commands import JobRefused
from slicewise_airflow.models.backtesting import backtested
from slicewise_airflow.reports.routes import add_routes

from slicewise.lifecycle.reports import JobFailed
from slicewise.local import run_pages
from slicewise.settings import Settings

REPORT: dict[str, Any] = {
    "model": "fraud_v4",
    "beside": "fraud_v3",
    "requests": 120,
    "measured": 100,
    "measures": {"rows": 100, "values": {"auc": 0.9}},
    "measures_of_a": {"rows": 100, "values": {"auc": 0.8}},
    "gain": {"difference": 0.05, "within": 0.01, "verdict": "worse"},
    "worse_slices": [],
    "leaks": [{"feature": "<b>:label", "auc": 0.999}],
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a program in place of slicewise, which writes down its arguments and makes the page
    that --html names."""

    def make(report: str, code: int = 0) -> Path:
        path, given = tmp_path / "slicewise", tmp_path / "given"
        path.write_text(
            f'#!/bin/sh\necho "$@" >> {shlex.quote(str(given))}\n'
            'for one in "$@"; do case "$one" in --html=*) echo "<p>page</p>" > "${one#--html=}";; '
            f"esac; done\nprintf '%s\\n' {shlex.quote(report)}\nexit {code}\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", str(tmp_path / "python"))
        return given

    return make


@pytest.fixture
def client() -> TestClient:
    """A client that is signed in."""
    app = FastAPI()
    add_routes(app, (), ())
    return TestClient(app)


def context(run_id: str = "manual__1", **params: object) -> dict[str, Any]:
    run = SimpleNamespace(
        run_id=run_id,
        run_type="manual",
        partition_key=None,
        run_after=datetime(2026, 11, 21, 9, tzinfo=UTC),
    )
    return {"dag_run": run, "params": {"model": "fraud_v4", "beside": "fraud_v3"} | params}


def test_a_run_leaves_one_page_in_the_list_however_often_it_is_tried(
    program: Callable[..., Path], client: TestClient
) -> None:
    given = program(json.dumps(REPORT))
    first, again = backtested(context()), backtested(context())
    assert first == again
    commands = given.read_text().splitlines()
    assert commands[0] == commands[1]
    assert commands[0].startswith("backtest fraud_v4 --beside=fraud_v3 --end=2026-11-21T09:00:00Z")
    path = first["page"].removeprefix("/slicewise")
    shown = client.get(path)
    assert (shown.status_code, shown.text) == (200, "<p>page</p>\n")
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    listed = client.get("/reports/backtests/").text
    assert listed.count("<td>fraud_v4</td>") == 1
    assert f'href="{path.rpartition("/")[2]}"' in listed
    assert '<td class="red">worse</td>' in listed
    assert "looks like a leak: &lt;b&gt;:label" in listed


def test_too_few_rows_fail_the_run_and_its_page_is_there(
    program: Callable[..., Path], client: TestClient
) -> None:
    program(json.dumps(REPORT))
    with pytest.raises(JobRefused, match="100 rows are measured, and the run wants 101"):
        backtested(context(min_rows=101))
    [name] = run_pages.backtests(Settings.load()).names()
    assert client.get(f"/reports/backtests/{name}").status_code == 200


def test_a_run_that_was_killed_within_the_command_has_no_page_in_the_list(
    program: Callable[..., Path], client: TestClient
) -> None:
    program("killed", code=137)
    with pytest.raises(JobFailed, match="exit code 137"):
        backtested(context())
    assert "No run has judged a model yet" in client.get("/reports/backtests/").text
    program(json.dumps(REPORT))
    backtested(context())
    assert "<td>fraud_v4</td>" in client.get("/reports/backtests/").text


@pytest.mark.parametrize("name", ["backtest-x", "..%2Fcheck%2Fx", "backtest-20261121T090000Z-ab"])
def test_a_page_that_is_none_is_refused(client: TestClient, name: str) -> None:
    assert client.get(f"/reports/backtests/{name}").status_code == 404


def test_a_description_that_is_torn_leaves_the_list_readable(client: TestClient) -> None:
    for kind, pages in (
        ("backtest", run_pages.backtests(Settings.load())),
        ("training", run_pages.trainings(Settings.load())),
    ):
        name = f"{kind}-20261121T090000Z-0123456789ab"
        pages.describe(name, {})
        (pages.folder / f"{name}.json").write_text('{"model"')
        listed = client.get(f"/reports/{kind}s/")
        assert (listed.status_code, name in listed.text) == (200, True)
