"""The page's script shows every figure as text, whatever the figures hold."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewise.lifecycle.health.judge import Health
from slicewise.lifecycle.health.overview import Overview

ROOT = Path(__file__).resolve().parents[2]
# As much of a document as the script uses: elements that keep their children and their text.
DOCUMENT = """
class Node_ {
  constructor(tag) { this.tag = tag; this.children = []; this.className = ""; this._text = ""; this.style = {}; this.at = {}; this.on = {}; this.value = ""; }
  append(...more) { this.children.push(...more.filter(c => c !== "")); }
  replaceChildren(...more) { this.children = []; this._text = ""; this.append(...more); }
  createTHead() { const e = new Node_("thead"); this.append(e); return e; }
  createTBody() { const e = new Node_("tbody"); this.append(e); return e; }
  insertRow() { const e = new Node_("tr"); this.append(e); return e; }
  setAttribute(name, value) { this.at[name] = value; }
  getAttribute(name) { return this.at[name] ?? null; }
  addEventListener(name, f) { this.on[name] = f; }
  focus() { document.activeElement = this; }
  fire(name, more) { return this.on[name]({ preventDefault() {}, target: this, ...more }); }
  all(tag) { return [...(this.tag === tag ? [this] : []), ...this.children.flatMap(c => c.all ? c.all(tag) : [])]; }
  set textContent(t) { this._text = String(t); this.children = []; }
  get textContent() { return [this._text, ...this.children.map(c => c.textContent ?? c)].filter(Boolean).join(" | "); }
}
const byId = {};
const document = { activeElement: null, getElementById: id => byId[id] ??= new Node_("div"), createElement: tag => new Node_(tag),
  querySelector: query => document.getElementById("hours").all("button").find(b => query === `[data-hour="${b.at["data-hour"]}"]`) };
const window = { parent: null };
window.parent = window;
const given = JSON.parse(process.argv[1]), sent = [];
const fetch = async (address, options) => {
  if (options?.method === "POST") sent.push([address, JSON.parse(options.body)]);
  const [status, body] = given[address.replace(/[?].*/, "")] ?? [404, {}];
  return { ok: status === 200, status, json: async () => body };
};
const setInterval = () => 0;
const settled = () => new Promise(resolve => setTimeout(resolve, 20));
"""
SCRIPTS = ("base", "status", "explain", "hours", "leaderboards", "start")
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


def page(answers: dict[str, tuple[int, Any]], then: str = "") -> dict[str, Any]:
    """Element id -> the text that the page shows there, of a page to which each address gives its
    answer; under `sent` the POSTs. then: what somebody does on the page."""
    folder = ROOT / "plugins" / "page"
    scripts = "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    ending = f"""
      (async () => {{
        await settled(); {then}
        const texts = Object.fromEntries(Object.entries(byId).map(([id, e]) => [id, e.textContent]));
        console.log(JSON.stringify({{ ...texts, sent, hidden: Object.keys(byId).filter(id => byId[id].hidden) }}));
      }})();
    """
    node = shutil.which("node")
    assert node, "Node runs the page's script; make check says how to get it"
    done = subprocess.run(
        [node, "-e", DOCUMENT + scripts.replace('"use strict";', "") + ending, json.dumps(answers)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def shown(body: dict[str, Any], status: int = 200) -> dict[str, Any]:
    """The page with this status."""
    return page({"status.json": (status, body)})


def test_figures_are_shown_as_text() -> None:
    page = shown(OVERVIEW)
    assert page["said"] == "The stream is well."
    assert "<b>flights</b> | running | 12,345 | 2,000 | 128 ms | – | 0 s ago" in page["streams"]
    assert (
        "carrier | aaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbb | building, 25 % | 19 | 2026-11-21T08Z"
        in page["views"]
    )
    assert "check | failed | 2.0 h ago, 2023-11-14 20:13:20 | mismatches 1" in page["jobs"]
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
        f"check | {words} | 2.0 h ago, 2023-11-14 20:13:20 | result {result}, why because"
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


ALL_RIGHTS = (200, {"read": True, "compact": True})
CALENDAR: dict[str, Any] = {
    "now_us": OVERVIEW["now_us"],
    "first": "2023-11-13T00",
    "days": 2,
    "views": [
        {
            "view": "carrier",
            "rows": 3,
            "bytes": 2_500_000,
            "hours": {
                "2023-11-13T05": "compacted",
                "2023-11-13T06": "dirty",
                "2023-11-14T07": "dirty",
                "2023-11-14T22": "open",
            },
        },
        {
            "view": "route",
            "rows": 3,
            "bytes": 10,
            "hours": {"2023-11-13T05": "dirty", "2023-11-14T22": "open"},
        },
    ],
}
RUNS = "../api/v2/dags/compact_slices/dagRuns"
LAST_RUNS = {
    "dag_runs": [
        {"partition_key": "2023-11-13T05:00:00", "state": "failed"},
        {"partition_key": "2023-11-14T07:00:00", "state": "running"},
        {"partition_key": "2023-11-14T07:00:00", "state": "failed"},
    ]
}
CELL = "byId.hours.all('button').find(b => b.at['data-hour'] === '%s')"


def of_hours(
    then: str = "", answers: Mapping[str, tuple[int, Any]] | None = None
) -> dict[str, Any]:
    """The page with the calendar of two days, of somebody with all rights."""
    given = {
        "status.json": (200, OVERVIEW),
        "hours.json": (200, CALENDAR),
        RUNS: (200, LAST_RUNS),
        "rights.json": ALL_RIGHTS,
    }
    return page({**given, **(answers or {})}, then)


def test_every_hour_has_its_state_in_words_and_a_sign() -> None:
    labels = f"""
      byId.labels = new Node_("p");
      byId.labels.textContent = ["2023-11-13T05", "2023-11-13T06", "2023-11-13T07", "2023-11-14T07",
        "2023-11-14T22"].map(h => byId.hours.all("button").find(b => b.at["data-hour"] === h))
        .map(b => b.at["aria-label"] + " " + b.textContent).join("; ")
        + "; then " + ({CELL % "2023-11-14T23"} === undefined);
    """
    assert of_hours(labels)["labels"] == (
        "2023-11-13 05:00 UTC, failed: its last compaction ✕; 2023-11-13 06:00 UTC, dirty ◆; "
        "2023-11-13 07:00 UTC, no events ·; 2023-11-14 07:00 UTC, being compacted ▶; "
        "2023-11-14 22:00 UTC, open ○; then true"
    )
    assert "2.5 MB" in of_hours()["views"]


def test_one_hour_stops_the_tabulator_and_the_arrows_reach_the_others() -> None:
    moved = f"""
      const stops = () => byId.hours.all("button").filter(b => b.at.tabindex === "0").map(b => b.at["data-hour"]);
      const at = [stops()];
      for (const key of ["ArrowUp", "ArrowLeft", "ArrowDown"]) {{
        byId.hours.fire("keydown", {{ key, target: {CELL.replace("'%s'", "stops()[0]")} }});
        at.push(stops(), [document.activeElement.at["data-hour"]]);
      }}
      byId.stops = new Node_("p"); byId.stops.textContent = at.join(" ");
    """
    assert of_hours(moved)["stops"] == " ".join(
        ["2023-11-14T22", *["2023-11-13T22"] * 2, *["2023-11-13T21"] * 2, *["2023-11-14T21"] * 2]
    )


def test_an_hour_is_compacted_by_airflow_and_by_nobody_without_the_right() -> None:
    chosen = f"{CELL % '2023-11-13T06'}.fire('click');"
    sent = "await byId.hour.all('form')[0].fire('submit'); await settled();"
    done = of_hours(
        chosen + sent, answers={RUNS: (200, {**LAST_RUNS, "dag_run_id": "m", "state": "queued"})}
    )
    assert done["sent"] == [
        [
            RUNS,
            {
                "logical_date": None,
                "partition_key": "2023-11-13T06:00:00",
                "conf": {"only": True, "from_raw": False},
            },
        ]
    ]
    assert "dirty: carrier; no events: route" in done["hour"]
    assert "run m is queued" in done["hour"]
    viewer = of_hours(
        chosen
        + "byId.forms = new Node_('p'); byId.forms.textContent = byId.hour.all('form').length",
        answers={"rights.json": (200, {"read": False, "compact": False})},
    )
    assert viewer["forms"] == "0"
    assert "Airflow gives you no right to start a run" in viewer["hour"]
    assert "explain" in viewer["hidden"]
    refused = of_hours(chosen + "given[" + json.dumps(RUNS) + "] = [403, {}];" + sent)
    assert "The run was not started: Airflow gives you no right to this" in refused["hour"]


FEATURES: dict[str, Any] = {
    "views": [
        {
            "name": "carrier",
            "entity": {"carrier": "string", "n": "int64"},
            "features": ["carrier:f"],
        }
    ],
    "feature_sets": [],
    "leaderboards": [],
}
SEGMENT = {
    "start_us": 1_700_000_000_000_000,
    "end_us": 1_700_000_060_000_000,
    "where": "live",
    "state": "counted",
    "slices": 2,
    "events": None,
    "archive_versions": [7],
    "offsets": {"a" * 32: {"0": [4, 9]}},
    "late": True,
    "partition": None,
}
EXPLAINED: dict[str, Any] = {
    "t_us": OVERVIEW["now_us"],
    "mode": "live",
    "flags": [],
    "no_data": [],
    "errors": {},
    "token": "t",
    "views": [
        {
            "view": "carrier",
            "source": "flights",
            "stored": "slices",
            "slice": "1m",
            "token": "TOKEN",
            "features": [{"feature": "carrier:f", "value": "9007199254740993", "window": 0}],
            "windows": [
                {
                    "start_us": None,
                    "end_us": 1_700_000_060_000_000,
                    "resolution": "1m",
                    "segments": [
                        SEGMENT,
                        SEGMENT | {"where": "pending", "events": 1, "slices": None, "late": False},
                        SEGMENT | {"where": "hour", "state": "empty", "late": False},
                    ],
                    "left_out": {"empty": 400},
                }
            ],
            "contained": {"a" * 32: {"0": 10}},
            "committed": {},
            "applied": {},
            "start": {},
            "archive_versions": {"7": {"offsets": {"a" * 32: {"0": 3}}, "beyond_committed": False}},
        }
    ],
}


def explained(
    answer: tuple[int, Any], features: dict[str, Any] = FEATURES, more: str = ""
) -> dict[str, Any]:
    """The page on which somebody reads a carrier and explains its first value."""
    given = {
        "status.json": (200, OVERVIEW),
        "rights.json": ALL_RIGHTS,
        "features.json": (200, features),
        "explain.json": answer,
    }
    typed = (
        """
      byId.what.value = "view:carrier"; byId.what.fire("change");
      const [carrier, n, ...more] = byId.columns.all("input"); carrier.value = "<b>UA"; n.value = "7"; $("at").value = "";
      """
        + more
        + """
      byId.ask.fire("submit"); await settled(); byId.values.all("button")[0]?.fire("click");
    """
    )
    return page(given, typed)


def test_an_entity_is_read_and_one_of_its_values_explained() -> None:
    shown_page = explained((200, EXPLAINED))
    [(address, body)] = shown_page["sent"]
    assert address == "explain.json"
    assert body == {
        "entity": {"carrier": "<b>UA", "n": "7"},
        "kinds": FEATURES["views"][0]["entity"],
        "at": "",
        "features": ["carrier:f"],
    }
    assert (
        "carrier:f | 9007199254740993 | the first event | 2023-11-14 22:14:20"
        in shown_page["values"]
    )
    reason = shown_page["why"]
    assert "Made of 2 parts that the store has something in. 1 part came late" in reason
    assert "1 event of the real-time lane is not applied yet." in reason
    assert "400 further parts left out: empty 400." in reason
    assert "live slices | late | 2 | 7 | aaaaaaaa/0: 4–9" in reason
    assert "contained in the answer | aaaaaaaa/0: 10" in reason
    assert "archive version 7 | aaaaaaaa/0: 3" in reason
    assert "TOKEN" in reason


def test_a_membership_feature_is_explained_where_its_further_column_is_filled_in() -> None:
    further = {
        "route": {"kind": "int64", "features": ["carrier:seen"]},
        "gate": {"kind": "string", "features": ["carrier:gates"]},
    }
    [view] = FEATURES["views"]
    listed = FEATURES | {"views": [view | {"further": further}]}
    shown_page = explained((200, EXPLAINED), listed, 'more[0].value = "3"; more[1].value = "";')
    [(_, body)] = shown_page["sent"]
    assert body["entity"] == {"carrier": "<b>UA", "n": "7", "route": "3"}
    assert body["kinds"] == {"carrier": "string", "n": "int64", "route": "int64"}
    assert body["features"] == ["carrier:f", "carrier:seen"]


def test_an_entity_that_cannot_be_read_is_an_error_in_words() -> None:
    error = {"what": "'x' is no int64", "where": "column 'n'", "next_step": "correct the value"}
    shown_page = explained((400, {"error": error}))
    assert shown_page["asked"] == "'x' is no int64 (column 'n'). correct the value"
    assert shown_page["values"] == shown_page["why"] == ""


def test_a_leaderboard_is_shown_where_one_is_deployed() -> None:
    rows = [{"rank": 1, "entity": ["<i>s1"], "value": "12"}]
    leaderboard = {
        "name": "top_songs",
        "feature": "songs:plays_10s",
        "age_us": 2e6,
        "flags": [],
        "rows": rows,
    }
    shown_page = of_hours(answers={"leaderboards.json": (200, {"leaderboards": [leaderboard]})})
    assert (
        "top_songs: the first 1 by songs:plays_10s, its window ended 2 s ago"
        in shown_page["leaderboards"]
    )
    assert "1 | <i>s1" in shown_page["leaderboards"]
    assert "ranks" not in shown_page["hidden"]
    assert "ranks" in of_hours(answers={"leaderboards.json": (200, {"leaderboards": []})})["hidden"]


def test_sizes_stand_with_the_views_and_the_nodes() -> None:
    node = {
        "used_bytes": 2_000_000,
        "limit_bytes": 0,
        "keys": 1234,
        "evicted_keys": 0,
        "clients": 3,
    }
    sizes = {
        "nodes": [node, None],
        "views": {"carrier": {"keys": 7, "bytes": 1500}},
        "swept_us": 1_000_000,
        "now_us": 121_000_000,
    }
    shown_page = of_hours(answers={"sizes.json": (200, sizes)})
    assert "about 1.5 kB" in shown_page["views"]
    assert (
        "Store node 1: 2.0 MB, 1,234 keys, 0 evicted. Store node 2 is away. "
        "Views are as large as the sweep of 2 min ago estimated."
    ) in shown_page["nodes"]


FETCH = 'const [status, body] = given[address.replace(/[?].*/, "")] ?? [404, {}];'
AS_AIRFLOW = """
  let [status, body] = given[address.replace(/[?].*/, "")] ?? [404, {}];
  const states = new URL(address, "http://h/a/b/").searchParams.getAll("state");
  if (body.dag_runs && states.length) body = { dag_runs: body.dag_runs.filter(run => states.includes(run.state)) };
"""


def test_an_hour_whose_last_run_was_well_did_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FETCH in DOCUMENT
    monkeypatch.setitem(globals(), "DOCUMENT", DOCUMENT.replace(FETCH, AS_AIRFLOW))
    key = "2023-11-13T06:00:00"
    runs = {
        "dag_runs": [  # the newest first, as order_by=-id gives them
            {"partition_key": key, "state": "success"},
            {"partition_key": key, "state": "failed"},
        ]
    }
    then = f"""
      const cell = {CELL % "2023-11-13T06"}; cell.fire("click");
      byId.label = new Node_("p"); byId.label.textContent = cell.at["aria-label"];
    """
    shown = of_hours(then, {RUNS: (200, runs)})
    assert shown["label"] == "2023-11-13 06:00 UTC, dirty"
    assert "failed" not in shown["hour"], shown["hour"]
