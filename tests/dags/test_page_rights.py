"""Rights on the page are Airflow's own: who may only view reads it, and starts nothing."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from slicewise.local import history
from slicewise.settings import Settings

PATHS = ("/", "/page/base.js", "/rights.json", "/status.json", "/sizes.json", "/hours.json")
READING = ("/features.json", "/leaderboards.json", "/stories.json")
STORIES = "/stories/"
EXPLAIN = {"features": ["v:f"], "entity": {"user": "7"}, "kinds": {"user": "string"}}


@pytest.fixture(scope="module")
def airflow() -> FastAPI:
    """Airflow's API with its plugins, and a database in which no DAG was parsed."""
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        initdb()
        application: FastAPI = create_app(apps="core")
    return application


def signed_in(airflow: FastAPI, role: str | None) -> TestClient:
    """Somebody of this role in Airflow's simple auth manager."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    manager: Any = get_auth_manager()
    token = manager.generate_jwt(SimpleAuthManagerUser(username="somebody", role=role))
    return TestClient(airflow, headers={"Authorization": f"Bearer {token}"})


def test_a_viewer_sees_the_page_and_airflow_refuses_every_run_of_his(airflow: FastAPI) -> None:
    viewer, user = signed_in(airflow, "viewer"), signed_in(airflow, "user")
    assert viewer.get("/slicewise/rights.json").json() == {"read": True, "compact": False}
    assert user.get("/slicewise/rights.json").json() == {"read": True, "compact": True}
    assert viewer.get("/slicewise/").status_code == 200
    for dag in ("compact_slices", "backfill_view", "restart_stream"):
        address = f"/api/v2/dags/{dag}/dagRuns"
        run = {"logical_date": None, "partition_key": "2026-11-21T08:00:00"}
        assert viewer.post(address, json=run).status_code == 403
        # he may, and nobody parsed the DAG here
        assert user.post(address, json=run).status_code == 404


def test_who_has_no_role_sees_nothing(airflow: FastAPI) -> None:
    nobody = signed_in(airflow, None)
    for path in (*PATHS, *READING, STORIES):
        assert nobody.get(f"/slicewise{path}").status_code == 403, path
    assert nobody.post("/slicewise/explain.json", json=EXPLAIN).status_code == 403


def test_values_of_entities_need_the_right_to_read_assets(
    airflow: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    viewer = signed_in(airflow, "viewer")
    monkeypatch.setattr(get_auth_manager(), "is_authorized_asset", lambda **_: False)
    assert viewer.get("/slicewise/rights.json").json() == {"read": False, "compact": False}
    for path in (*READING, STORIES):
        assert viewer.get(f"/slicewise{path}").status_code == 403, path
    assert viewer.post("/slicewise/explain.json", json=EXPLAIN).status_code == 403
    assert viewer.get("/slicewise/").status_code == 200


def test_the_page_may_run_its_own_scripts_alone(airflow: FastAPI) -> None:
    viewer = signed_in(airflow, "viewer")
    policy = viewer.get("/slicewise/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert viewer.get("/slicewise/page/hours.js").headers["content-type"].startswith("text/java")
    for name in ("page.html", "none.js", "..%2fslicewise_page.py"):
        assert viewer.get(f"/slicewise/page/{name}").status_code == 404, name


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "no features, or no entity"),
        (EXPLAIN | {"kinds": {"user": "int64"}, "entity": {"user": "x"}}, "'x' is no int64"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_words(
    airflow: FastAPI, body: dict[str, Any], words: str
) -> None:
    answer = signed_in(airflow, "viewer").post("/slicewise/explain.json", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["what"]
    assert answer.json()["error"]["next_step"]


def test_what_is_away_is_an_error_in_words(
    airflow: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_SERVING_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", "/nowhere/python")
    viewer = signed_in(airflow, "viewer")
    answers = {path: viewer.get(f"/slicewise{path}") for path in READING}
    answers["explain"] = viewer.post("/slicewise/explain.json", json=EXPLAIN)
    answers["sizes"] = viewer.get("/slicewise/sizes.json")
    answers["hours"] = viewer.get("/slicewise/hours.json")
    for path, answer in answers.items():
        assert answer.status_code == 503, (path, answer.text)
        error = answer.json()["error"]
        assert error["what"], path
        assert error["next_step"], path


def test_values_of_entities_in_reports_need_the_right_to_read_assets(
    airflow: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    run = "check-20261128T050000Z-abc123"
    folder = history.checks(Settings.load())
    folder.mkdir(parents=True)
    (folder / f"{run}.html").write_text(
        "<td>{&#34;user&#34;: &#34;anna@example.org&#34;}</td><td>3</td>"
    )
    docs = Settings.load().state_dir / "reports" / "data-docs"
    docs.mkdir(parents=True)
    (docs / "one.html").write_text("anna@example.org")
    viewer = signed_in(airflow, "viewer")
    monkeypatch.setattr(get_auth_manager(), "is_authorized_asset", lambda **_: False)
    assert viewer.get("/slicewise/stories/").status_code == 403
    got = {
        path: viewer.get(f"/slicewise/{path}").status_code
        for path in (f"reports/checks/{run}", "data-docs/one.html")
    }
    assert set(got.values()) == {403}, got
