"""An entry of a job, a minute or an incident is small, and holds what pictures show."""

from __future__ import annotations

import json

import pytest

from slicewise.lifecycle.health.alerts import Alert
from slicewise.lifecycle.history.entries import MOST_NAMES, is_entry, of_incident, of_job, of_minute
from slicewise.lifecycle.incidents import Incident, ended_between, met
from slicewise.stores.online.redis.status import NodeUsage, StoreStatus

ALERT = Alert("broker_away", "ingest_stream", "watch", "r", "away", "", "", cause="broker")
NODE = NodeUsage(used_bytes=10, limit_bytes=0, keys=3, evicted_keys=0, clients=1)


def test_a_compaction_keeps_sums_and_no_row() -> None:
    row = {"view": "v", "hour": "2026-11-28T05", "events": 5, "late": 1, "bytes": 7}
    report = {
        "took_ms": 9,
        "outcome": "done",
        "slices": [row, row],
        "archived": [{"source": "s", "events": 4, "bad": {"json": 1}, "late": {"under 5 min": 2}}],
    }
    entry = of_job("compact", report, ok=True, at_us=1)
    assert entry is not None
    assert entry["slices"] == {"v": {"events": 10, "late": 2, "bytes": 14}}
    assert entry["archived"] == {"s": {"events": 4, "bad": 1, "late": {"under 5 min": 2}}}
    assert (entry["took_ms"], entry["ok"]) == (9, True)


def test_an_entry_has_a_bound_whatever_a_job_reports() -> None:
    views = {f"v{i}": {"values": 1, "causes": {}} for i in range(10 * MOST_NAMES)}
    entry = of_job("check", {"views": views, "outcome": "x" * 10_000}, ok=True, at_us=1)
    assert entry is not None
    assert len(entry["views"]) == MOST_NAMES
    assert len(json.dumps(entry)) < 20_000


@pytest.mark.parametrize(("job", "report"), [("stream", {}), ("sweep", {"dry_run": True})])
def test_nothing_is_kept_of_what_is_no_run_of_a_job(job: str, report: dict[str, object]) -> None:
    assert of_job(job, report, ok=True, at_us=1) is None


def test_a_minute_has_the_lag_of_sources_and_the_answers_of_probes() -> None:
    stream = {"state": "running", "heartbeat_us": 1, "lag": {"0": 4, "1": 3}, "events_per_s": 2.5}
    probes = {
        "state": "running",
        "heartbeat_us": 1,
        "shown": 9,
        "lost": 0,
        "waiting_ms": 0.0,
        "minute_p50_ms": 4.0,
        "minute_p99_ms": 20.0,
    }
    parts = {"stream:clicks": json.dumps(stream), "probes": json.dumps(probes)}
    status = StoreStatus(1, manifest={"sources": [{"name": "clicks"}]}, parts=parts)
    entry = of_minute(status, [NODE, None], 60)
    assert entry is not None
    assert entry["sources"] == {"clicks": {"lag": 7, "events_per_s": 2.5, "p99_ms": None}}
    assert entry["probes"] == {"lost": 0, "p50_ms": 4.0, "p99_ms": 20.0}
    assert (entry["used_bytes"], entry["keys"]) == (10, 3)


def test_a_minute_without_the_store_has_no_entry() -> None:
    assert of_minute(StoreStatus(1), [None], 60) is None


def test_an_incident_is_kept_once_when_it_is_over_with_the_time_since_which_it_was_seen() -> None:
    opened, _ = met((), ALERT, 100, 10, began_us=40)
    (over,) = ended_between(opened, (Incident(ALERT, 100, 100, 100, over_us=160, began_us=40),))
    entry = of_incident(over)
    assert (entry["began_us"], entry["opened_us"], entry["at_us"]) == (40, 100, 160)
    assert opened[0].began_us == 40
    assert ended_between((over,), (over,)) == ()


@pytest.mark.parametrize("raw", [None, [], {}, {"kind": "job"}, {"kind": 1, "at_us": 1}])
def test_what_is_no_entry_is_not_read_as_one(raw: object) -> None:
    assert not is_entry(raw)
