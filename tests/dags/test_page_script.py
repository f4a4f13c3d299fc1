"""The page's script shows every figure as text, whatever the figures hold."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slicewise.lifecycle.health.judge import Health
from slicewise.lifecycle.health.overview import Overview

ROOT = Path(__file__).resolve().parents[2]
# As much of a document as the script uses: elements that keep their children and their text.
DOCUMENT = """
class Node_ {
  constructor(tag) { this.tag = tag; this.children = []; this.className = ""; this._text = ""; }
  append(...more) { this.children.push(...more); }
  replaceChildren(...more) { this.children = more; this._text = ""; }
  createTHead() { const e = new Node_("thead"); this.append(e); return e; }
  createTBody() { const e = new Node_("tbody"); this.append(e); return e; }
  insertRow() { const e = new Node_("tr"); this.append(e); return e; }
  set textContent(t) { this._text = String(t); this.children = []; }
  get textContent() { return [this._text, ...this.children.map(c => c.textContent)].filter(Boolean).join(" | "); }
}
const byId = {};
const document = { getElementById: id => byId[id] ??= new Node_("div"), createElement: tag => new Node_(tag) };
const answer = JSON.parse(process.argv[1]);
const fetch = async () => ({ ok: answer.status === 200, status: answer.status, json: async () => answer.body });
const setInterval = () => 0;
"""
WELL = Overview(
    now_us=1_700_000_000_000_000,
    store_id=3,
    deployment_version=2,
    health=Health(()),
    streams=(),
    probes=None,
    views=(),
    jobs=(),
)
OVERVIEW: dict[str, Any] = WELL.to_json() | {
    "health": {"reasons": [], "stopped": False, "well": True},
    "streams": [
        {
            "source": "<b>flights</b>",
            "state": "running",
            "lag_events": 12_345,
            "events_per_s": 1999.6,
            "freshness_p50_ms": 128.4,
            "freshness_p99_ms": None,
            "heartbeat_age_s": 0.4,
        }
    ],
    "views": [
        {
            "view": "carrier",
            "units": ["a" * 16, "b" * 16],
            "ready": False,
            "built": 0.256,
            "hours": 19,
            "newest_hour": "2026-11-21T08Z",
        }
    ],
    "jobs": [{"job": "check", "ok": False, "age_s": 7200.0, "report": {"mismatches": 1}}],
    "serving_url": "http://127.0.0.1:8000",
}


def shown(body: dict[str, Any], status: int = 200) -> dict[str, str]:
    """Element id -> the text that the page shows there."""
    page = (ROOT / "plugins" / "slicewise_page.html").read_text(encoding="utf-8")
    [script] = re.findall(r"<script>(.*)</script>", page, re.DOTALL)
    ending = """
      const texts = () => Object.fromEntries(Object.entries(byId).map(([id, e]) => [id, e.textContent]));
      setTimeout(() => console.log(JSON.stringify(texts())), 50);
    """
    node = shutil.which("node")
    assert node, "Node runs the page's script; make check says how to get it"
    program = DOCUMENT + script.replace('"use strict";', "") + ending
    done = subprocess.run(
        [node, "-e", program, json.dumps({"status": status, "body": body})],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, str] = json.loads(done.stdout)
    return document


def test_figures_are_shown_as_text() -> None:
    page = shown(OVERVIEW)
    assert page["said"] == "The stream is well."
    assert "<b>flights</b> | running | 12,345 | 2,000 | 128 ms | – | 0 s ago" in page["streams"]
    assert (
        "carrier | aaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbb | building, 25 % | 19 | 2026-11-21T08Z"
        in page["views"]
    )
    assert "check | failed | 2.0 h ago | mismatches 1" in page["jobs"]
    assert "deployment version 2, store id 3; as of 2023-11-14T22:13:20.000Z" in page["foot"]


def test_reasons_stand_at_the_top() -> None:
    ill = OVERVIEW | {
        "health": {"reasons": ["flights: no heartbeat for 31 s"], "stopped": False, "well": False}
    }
    assert shown(ill)["said"] == "The stream is not well: flights: no heartbeat for 31 s"
    stopped = OVERVIEW | {"health": {"reasons": [], "stopped": True, "well": True}}
    assert shown(stopped)["said"] == "The stream is stopped on purpose."


def test_a_platform_that_starts_is_neither_well_nor_ill() -> None:
    starting = ["emission: plays: its driver was started 4 s ago"]
    health = {"reasons": [], "stopped": False, "well": False, "starting": starting}
    text = shown(OVERVIEW | {"health": health})["said"]
    assert text.startswith("The stream is starting.")
    assert "Starting: emission: plays: its driver was started 4 s ago" in text


@pytest.mark.parametrize(
    ("result", "words"), [("red", "red: values differ"), ("not_made", "could not be made")]
)
def test_a_check_that_could_not_be_made_is_shown_as_that(result: str, words: str) -> None:
    report = {"result": result, "why": "because"}
    job = {"job": "check", "ok": False, "age_s": 7200.0, "report": report}
    assert (
        f"check | {words} | 2.0 h ago | result {result}, why because"
        in shown(OVERVIEW | {"jobs": [job]})["jobs"]
    )


def test_what_is_wrong_stands_with_where_to_look_and_well_means_all_of_it() -> None:
    now = {
        "part": "view carrier",
        "text": "answers 503",
        "look": "docs/runbook.md#a-view-stays-in-building",
        "now": True,
    }
    past = {
        "part": "alert <b>x</b>",
        "text": "a check was red",
        "look": "docs/runbook.md#the-check-is-red",
        "now": False,
    }
    page = shown(OVERVIEW | {"findings": [now, past]})
    assert page["said"] == "The stream is well."
    assert "Not well now" in page["found"]
    assert "view carrier | answers 503 | docs/runbook.md#a-view-stays-in-building" in page["found"]
    assert "Of the last day, accepted, or starting" in page["found"]
    assert "alert <b>x</b> | a check was red" in page["found"]
    assert shown(OVERVIEW | {"findings": [past]})["said"] == "All is well."
    ill = {"reasons": ["flights: no heartbeat for 31 s"], "stopped": False, "well": False}
    assert "not well" in shown(OVERVIEW | {"findings": [], "health": ill})["said"]


def test_a_view_that_is_built_says_what_it_waits_for() -> None:
    views = [
        OVERVIEW["views"][0]
        | {"waits": "0 of 24 hours; Spark computes hours 1 to 24 of 24 (for 90 s)"}
    ]
    assert (
        "building, 25 %: 0 of 24 hours; Spark computes"
        in shown(OVERVIEW | {"views": views})["views"]
    )


def test_an_empty_platform_says_what_to_do_next() -> None:
    page = shown(OVERVIEW | {"streams": [], "views": [], "jobs": []})
    assert "Unpause the DAG ingest_stream" in page["streams"]
    assert "slicewise apply" in page["views"]


@pytest.mark.parametrize("status", [503, 500])
def test_what_cannot_be_read_is_said(status: int) -> None:
    page = shown(
        {"error": {"what": "the online store does not answer", "next_step": "slicewise status"}},
        status,
    )
    assert (
        page["said"]
        == "The status cannot be read: the online store does not answer. slicewise status"
    )


INCIDENT = {
    "event": "check_red",
    "dag": "check_consistency",
    "task": "check",
    "severity": "critical",
    "error": "<i>3</i> values differ",
    "attempts": "2 times",
    "next_step": "read the report",
    "owner": "team",
    "runbook": "docs/runbook.md#the-check-is-red",
    "opened_us": OVERVIEW["now_us"] - 600_000_000,
    "over_us": 0,
    "times": 4,
    "pages": 1,
}


def test_the_inbox_shows_what_is_open_what_was_tried_and_what_to_do() -> None:
    over = INCIDENT | {"over_us": OVERVIEW["now_us"], "event": "task_failed", "task": ""}
    inbox = shown(OVERVIEW | {"incidents": [INCIDENT, over]})["alerts"]
    assert "critical | check_red | check_consistency.check | <i>3</i> values differ" in inbox
    assert "Tried: 2 times | Next: read the report | open for 10 min, 10 min ago | 4 | 1" in inbox
    assert "over | task_failed | check_consistency" in inbox
    assert "over after 10 min" in inbox
    assert inbox.count("Next:") == 1
    assert "No alert in the last seven days." in shown(OVERVIEW)["alerts"]


def test_the_inbox_is_shown_while_the_store_is_away() -> None:
    body = {"error": {"what": "it does not answer"}, "incidents": [INCIDENT], "now_us": 1}
    page = shown(body, status=503)
    assert "The status cannot be read: it does not answer" in page["said"]
    assert "check_red" in page["alerts"]
