"""Reports ask for a sign-in and serve only what their names allow; pictures stand by themselves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from slicewise_airflow import record
from slicewise_airflow.reports.drawing import COLOURS, drawn
from slicewise_airflow.reports.page import KEPT
from slicewise_airflow.reports.routes import add_routes

from slicewise.errors import SettingsError
from slicewise.lifecycle.health.alerts import Alert
from slicewise.lifecycle.history.picture import Picture
from slicewise.lifecycle.incidents import met, settled
from slicewise.local import history
from slicewise.local.servers.inbox import Inbox
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import NodeUsage, StoreStatus

RUN = "check-20261128T050000Z-abc123"
PICTURE = Picture(
    "lag", "Lag <b>", "events", "line", ("a", "b", "c"),
    {"<script>alert(1)</script>": (1.0, None, 3.0), "two": (2.0, 2.0, 2.0)},
    "Most: 3 of <i>.",
)  # fmt: skip


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A client that is signed in."""
    KEPT.made.clear()
    app = FastAPI()
    add_routes(app, (), ())
    yield TestClient(app)
    KEPT.made.clear()


def keep(**entry: object) -> None:
    record.keep(Settings.load(), {"at_us": time.time_ns() // 1_000, **entry})


def keep_check(name: str = "view") -> None:
    views = {name: {"values": 1000, "causes": {"late": 2}}}
    keep(
        kind="job", job="check", ok=False, run_id="abc123", outcome="red",
        values=1000, mismatches=2, views=views,
    )  # fmt: skip


@pytest.mark.parametrize("path", ["", "figures.json", "checks/", f"checks/{RUN}"])
def test_no_report_is_shown_without_a_sign_in(path: str) -> None:
    from slicewise_page import _app

    assert TestClient(_app()).get(f"/reports/{path}").status_code in (401, 403)


def test_the_page_says_its_figures_in_words_and_a_table_and_loads_nothing(
    client: TestClient,
) -> None:
    keep_check()
    keep(kind="job", job="compact", ok=True, outcome="done", took_ms=31_000)
    answer = client.get("/reports/?days=1")
    assert answer.status_code == 200
    assert "1 check compared 1,000 values: 2 differed, 2,000 per million" in answer.text
    assert '<td class="number">2,000</td>' in answer.text
    assert answer.text.count("<svg ") >= 3
    assert not re.findall(r"<script|(?:src|xlink:href)=|url\(|@import", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_names_are_shown_as_text(client: TestClient) -> None:
    keep_check("<img src=x onerror=alert(1)>")
    assert "<img" not in client.get("/reports/").text


def test_a_platform_without_a_past_says_what_brings_figures(client: TestClient) -> None:
    text = client.get("/reports/").text
    assert "<svg " not in text
    assert "trigger check_consistency" in text
    assert "No check has left a report yet" in client.get("/reports/checks/").text


@pytest.mark.parametrize("days", [1, 7, 35])
def test_figures_are_served_as_plain_values(client: TestClient, days: int) -> None:
    keep_check()
    document = client.get(f"/reports/figures.json?days={days}").json()
    named = {picture["name"]: picture for picture in document["pictures"]}
    assert named["mismatches-by-view"]["series"]["view"][-1] == 2000.0


@pytest.mark.parametrize("path", ["", "figures.json"])
def test_a_window_that_is_none_is_refused(client: TestClient, path: str) -> None:
    answer = client.get(f"/reports/{path}?days=8")
    assert answer.status_code == 400
    assert "days=1, 7, 35" in answer.text


def test_the_report_of_a_run_is_served_as_it_was_written_and_listed(client: TestClient) -> None:
    folder = history.checks(Settings.load())
    folder.mkdir(parents=True)
    (folder / f"{RUN}.html").write_text("<p>the report</p>")
    (folder / "latest.html").write_text("not of the list")
    keep_check()
    answer = client.get(f"/reports/checks/{RUN}")
    assert (answer.status_code, answer.text) == (200, "<p>the report</p>")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    listed = client.get("/reports/checks/").text
    assert f'href="{RUN}"' in listed
    assert '<td class="red">red</td>' in listed
    assert "latest" not in listed


def test_the_page_of_a_version_is_served_as_it_was_written(client: TestClient) -> None:
    folder = history.versions(Settings.load())
    folder.mkdir(parents=True)
    (folder / "by_card@2.html").write_text("<h1>by_card and by_card@2</h1>", encoding="utf-8")
    shown = client.get("/reports/versions/by_card@2")
    assert (shown.status_code, shown.text) == (200, "<h1>by_card and by_card@2</h1>")
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    for name in ("by_card@3", "by_card", "..%2Fcheck%2Fx@2", "by_card@2.html"):
        assert client.get(f"/reports/versions/{name}").status_code == 404, name


def test_a_report_that_is_gone_says_so(client: TestClient) -> None:
    answer = client.get(f"/reports/checks/{RUN}")
    assert answer.status_code == 404
    assert "is gone" in answer.text
    assert 'href="../checks/"' in answer.text


@pytest.mark.parametrize(
    "name",
    [
        "latest", "check-1-a", "check-20261128T050000Z-..", "%2e%2e%2fsecret", "../secret",
        "check-20261128T050000Z-a/../../secret", f"{RUN}%00", "<script>",
    ],
)  # fmt: skip
def test_nothing_but_reports_of_checks_is_served(client: TestClient, name: str) -> None:
    folder = history.checks(Settings.load())
    folder.mkdir(parents=True)
    for file in (folder / "latest.html", folder.parent / "secret.html"):
        file.write_text("secret")
    (folder / f"{RUN}.html").symlink_to(folder.parent / "secret.html")
    for path in (name, RUN):
        answer = client.get(f"/reports/checks/{path}")
        assert answer.status_code == 404
        assert "secret" not in answer.text.replace("secret.html", "")
        assert "<script>" not in answer.text


@pytest.mark.parametrize("shape", ["line", "log", "stacked", "bars"])
def test_a_picture_names_its_figures_and_takes_the_colours_of_the_page(shape: str) -> None:
    picture = Picture(**{**vars(PICTURE), "shape": shape})
    text = drawn(picture)
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    ids = {element.get("id"): element.text for element in root.iter()}
    named = [ids[name] for name in str(root.get("aria-labelledby")).split()]
    assert named == [picture.title, picture.text]
    assert root.get("viewBox")
    assert not root.get("width")
    assert all(colour in text for colour in COLOURS[:2])
    assert not re.findall(r"#[0-9a-f]{6}\b|rgb\(", text), "a colour of its own"
    assert not re.findall(r"<script|https?://(?!www\.w3\.org/)", text)
    assert "&lt;script" in text


def test_nothing_of_the_reports_is_imported_before_somebody_opens_one() -> None:
    plugins = Path(__file__).resolve().parents[2] / "plugins"
    heavy = "pygal", "jinja2", "slicewise.lifecycle"
    program = (
        "import sys; import slicewise_airflow.reports.routes; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(plugins)},
    )
    assert done.stdout.strip() == "[]"


def test_a_run_of_a_job_and_a_minute_are_kept(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeUsage(used_bytes=3 << 20, limit_bytes=0, keys=7, evicted_keys=0, clients=1)
    monkeypatch.setattr(record, "record_part", lambda *_, **__: None)
    monkeypatch.setattr(record, "read_status", lambda *_: StoreStatus(1))
    monkeypatch.setattr(record, "read_usage", lambda *_: (node,))
    record.record(Settings.load(), "compact", {"took_ms": 31_000, "outcome": "done"}, ok=True)
    record.keep_minute()
    text = client.get("/reports/").text
    assert "1 compaction with work took 31 s" in text
    assert re.search(r"The store used 3 MiB for 7 keys at \d\d \w{3} \d\d:\d\d", text)


def test_a_minute_without_the_store_is_a_gap_and_no_error(client: TestClient) -> None:
    record.keep_minute()
    assert "No figures of the store in this time" in client.get("/reports/").text


def test_an_incident_that_is_over_has_the_time_that_it_took(client: TestClient) -> None:
    inbox = Inbox(Settings.load())
    fault = Alert("broker_away", "ingest_stream", "watch", "r", "e", "", "", cause="broker")
    inbox.change(lambda before, now_us: met(before, fault, now_us, 10, now_us - 120_000_000))
    for _ in range(2):
        inbox.change(lambda before, now_us: settled(before, lambda _: True, now_us))
    text = client.get("/reports/").text
    assert "1 incident ended" in text
    assert "Of 1 the beginning was seen, 2 min before" in text


def test_a_task_that_fails_for_good_failed_first_when_its_first_try_did() -> None:
    began = datetime(2026, 11, 21, 8, tzinfo=UTC)

    def failed(number: int, run_id: str = "r", max_tries: int = 2) -> dict[str, Any]:
        instance = SimpleNamespace(
            dag_id="d", task_id="t", run_id=run_id, map_index=-1, try_number=number,
            max_tries=max_tries, end_date=began + timedelta(minutes=number),
        )  # fmt: skip
        return {"task_instance": instance, "task": SimpleNamespace(retries=2)}

    def minute(context: dict[str, Any]) -> float:
        return (record.first_failure_us(context) / 1e6 - began.timestamp()) / 60

    record.keep_failed_try(failed(1))
    record.keep_failed_try(failed(2))
    assert minute(failed(3)) == 1
    assert minute(failed(3, run_id="another")) == 3
    # cleared after its third try: the tries before that were another fault's
    record.keep_failed_try(failed(4, max_tries=5))
    assert minute(failed(6, max_tries=5)) == 4


def test_a_refusal_is_not_kept(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Settings:
        raise SettingsError("slicewise.toml is torn", where="f", expected="e", next_step="mend it")

    with monkeypatch.context() as patch:
        patch.setattr(Settings, "load", broken)
        assert client.get("/reports/?days=35").status_code == 503
    assert client.get("/reports/?days=35").status_code == 200, "the settings are mended"


def test_a_window_that_is_no_number_is_refused_in_words(client: TestClient) -> None:
    page = client.get("/reports/?days=week")
    assert page.status_code == 400
    assert "days=1, 7, 35" in page.text
    assert client.get("/reports/figures.json?days=").json()["error"]["expected"] == "days=1, 7, 35"


def test_a_stack_of_less_than_one_has_a_scale() -> None:
    series = {"one": (0.4, 0.3), "two": (0.2, 0.1)}
    picture = Picture("memory", "Store memory", "MiB", "stacked", ("a", "b"), series, "text")
    axes = [e for e in ET.fromstring(drawn(picture)).iter() if "axis y" in (e.get("class") or "")]
    labels = [t.text for e in axes for t in e.iter() if t.tag.endswith("text")]
    assert len(labels) > 1, labels
