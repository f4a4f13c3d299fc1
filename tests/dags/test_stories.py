"""The page from red to green shows each step with its run in Airflow. No text of a value runs."""

from __future__ import annotations

import time

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from slicewise_airflow.pages.stories import mount

from slicewise.lifecycle.healing.record import Healing, Job
from slicewise.lifecycle.health.alerts import matter_alert
from slicewise.lifecycle.incidents import met, settled
from slicewise.local import history
from slicewise.local.servers.inbox import Inbox
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

HOUR = 498_000
BEGAN_US = time.time_ns() // 1_000 - 60_000_000
VALUE = {
    "view": "plays", "feature": "n", "entity": '{"user": "<b>anna"}',
    "online": "3", "offline": "2", "cause": "doubled",
}  # fmt: skip


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    mount(app, [])
    return TestClient(app)


def job(second: int) -> Job:
    at_us = BEGAN_US + second * 1_000_000
    return Job(at_us, f"report{second}", "check_consistency", f"manual__{second}+00:00")


def keep(healing: Healing, monkeypatch: pytest.MonkeyPatch) -> None:
    text = healing.text()
    monkeypatch.setattr("slicewise.stores.online.redis.status.read_part", lambda *_: (text,))


def red() -> Healing:
    return Healing().red(job(1), {"plays": HOUR}, HOUR + 2, [VALUE], began_us=0)


def test_a_story_shows_what_differed_what_was_recomputed_and_that_the_gate_is_open(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    healing = red().recomputed(job(2), {"plays": {HOUR, HOUR + 1}}, {"plays"})
    healing = healing.green(job(4), {"plays"}, 77, began_us=BEGAN_US + 3_000_000)
    StateFolder(Settings.load().state_dir).create()
    folder = history.checks(Settings.load())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "check-20261128T050000Z-report1.html").write_text("a report")
    alert = matter_alert("check_red", "d", "t", "r", ["x"], runbook_base="", owner="team-a")
    inbox = Inbox(Settings.load())
    inbox.change(lambda before, now_us: met(before, alert, now_us, 10**12))
    inbox.change(lambda before, now_us: settled(before, lambda _: True, now_us))
    keep(healing, monkeypatch)

    page = client.get("/stories/").text
    for shown in ("over at", "2026-10-24T00 to 2026-10-24T01", "doubled", "77 values", "team-a"):
        assert shown in page, shown
    assert "../../dags/check_consistency/runs/manual__1%2B00%3A00" in page
    assert "../reports/checks/check-20261128T050000Z-report1" in page
    assert "<b>anna" not in page
    document = client.get("/stories.json").json()
    (story,) = document["stories"]
    assert [step["kind"] for step in story["steps"]] == ["red", "recomputed", "green"]
    assert (story["gate"], document["marked"]) == ("open", [])
    assert [one["owner"] for one in story["alerts"] if one["over_us"]] == ["team-a"]


def test_a_story_that_is_not_over_names_the_hours_that_are_marked(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(red(), monkeypatch)
    page = client.get("/stories/").text
    assert "hours 2026-10-24T00 to 2026-10-24T02 are marked" in page.replace("\n", " ")
    assert "the gate is closed" in page


def test_a_store_that_is_away_is_said_in_words(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    answer = client.get("/stories/")
    assert answer.status_code == 503
    assert "Next:" in answer.text
