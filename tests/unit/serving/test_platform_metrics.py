"""A scrape shows what the store holds of jobs, views, incidents and itself, and breaks for
nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slicewise.errors import StoreUnavailable
from slicewise.lifecycle import incidents
from slicewise.lifecycle.findings import ALLOWED_S, EVERY_S
from slicewise.lifecycle.health.alerts import matter_alert
from slicewise.lifecycle.health.overview import job_record
from slicewise.lifecycle.incidents import met, settled
from slicewise.serving.platform_metrics import TABLE, PlatformMetrics
from slicewise.stores.online.redis.status import NodeUsage, StoreStatus

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
NODE = NodeUsage(used_bytes=300, limit_bytes=400, keys=7, evicted_keys=0, clients=3)
COMPACTED = {
    "job": "compact",
    "outcome": "done",
    "took_ms": 2_500,
    "left_over": 4,
    "archived": [{"source": "plays", "events": 90, "bad": {"not_json": 2, "too_late": 1}}],
    "hours": [{"hour": "2026-11-21T08"}, {"hour": "2026-11-21T09"}],
    "slices": [{"events": 30, "late": 1}, {"events": 60, "late": 0}],
    "days": [],
}
CHECKED = {"values": 5_000, "mismatches": 2, "took_ms": 61_000, "outcome": "red", "sample": 500}


def status(**parts: str) -> StoreStatus:
    units = [
        {"view": "listening", "source": "plays", "storage_fingerprint": "a" * 16},
        {"view": "places", "source": "plays", "storage_fingerprint": "b" * 16},
    ]
    return StoreStatus(
        NOW,
        metadata={"y:" + "a" * 16: b"1", "b:" + "b" * 16: b"3/12"},
        manifest={"sources": [{"name": "plays"}], "units": units},
        parts=parts,
        published={"a" * 16: {7: 1, 8: 1}},
    )


def samples(
    stored: StoreStatus | StoreUnavailable, nodes: tuple[NodeUsage | None, ...] = (NODE,)
) -> dict[tuple[str, ...], float]:
    """Metric without its prefix, and its labels' values by their names -> value, of one
    scrape."""

    def read(*_: object, **__: Any) -> StoreStatus:
        if isinstance(stored, StoreUnavailable):
            raise stored
        return stored

    text = PlatformMetrics("redis://nowhere", read, lambda *_, **__: nodes).text().decode()
    return {
        (
            sample.name.removeprefix("slicewise_"),
            *(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_compaction_shows_when_it_reported_how_it_went_and_what_it_wrote() -> None:
    record = job_record(COMPACTED, ok=True, at_us=NOW - 90 * SECOND)
    seen = samples(status(**{"job:compact": record}))
    assert seen["job_reported_seconds", "compact"] == NOW / 1e6 - 90
    assert (seen["job_well", "compact"], seen["job_overdue", "compact"]) == (1, 0)
    assert seen["job_seconds", "compact"] == 2.5
    figures = {key[1]: value for key, value in seen.items() if key[0] == "job_figure"}
    assert figures == {
        "hours": 2,
        "days": 0,
        "slices": 2,
        "events": 90,
        "late_events": 1,
        "archived_events": 90,
        "bad_records": 3,
        "left_over": 4,
    }


def test_a_red_check_shows_its_values_and_those_that_differ() -> None:
    seen = samples(status(**{"job:check": job_record(CHECKED, ok=False, at_us=NOW)}))
    assert seen["job_well", "check"] == 0
    assert seen["job_seconds", "check"] == 61
    assert seen["job_figure", "values", "check"] == 5_000
    assert seen["job_figure", "mismatches", "check"] == 2


@pytest.mark.parametrize("job", EVERY_S)
def test_a_job_is_overdue_an_hour_after_it_was_due(job: str) -> None:
    due_us = int((EVERY_S[job] + ALLOWED_S) * SECOND)
    for age_us, overdue in ((due_us, 0), (due_us + SECOND, 1)):
        record = job_record({}, ok=True, at_us=NOW - age_us)
        assert samples(status(**{f"job:{job}": record}))["job_overdue", job] == overdue


def test_a_job_that_never_reported_is_overdue_and_one_that_runs_when_needed_is_never() -> None:
    seen = samples(status(deployed=str(NOW - 100 * 3600 * SECOND)))
    assert {job: seen["job_overdue", job] for job in ("compact", "backfill")} == {
        "compact": 1,
        "backfill": 0,
    }
    assert samples(StoreStatus(NOW))["job_overdue", "compact"] == 0, "nothing is deployed"


def test_a_view_shows_whether_it_answers_its_hours_and_the_freshness_of_its_source() -> None:
    stream = {
        "state": "running",
        "heartbeat_us": NOW,
        "freshness_p50_ms": 40.0,
        "freshness_p99_ms": 90.0,
    }
    seen = samples(status(**{"stream:plays": json.dumps(stream)}))
    assert (seen["view_ready", "listening"], seen["view_ready", "places"]) == (1, 0)
    assert (seen["view_built_ratio", "listening"], seen["view_built_ratio", "places"]) == (1, 0.25)
    assert seen["view_hours", "listening"] == 2
    assert seen["view_freshness_ms", "0.99", "places"] == 90
    lane = stream | {"freshness_p99_ms": 5.0}
    both = {"stream:plays": json.dumps(stream), "tail:plays": json.dumps(lane)}
    assert samples(status(**both))["view_freshness_ms", "0.99", "places"] == 5, (
        "the real-time lane makes events visible first"
    )


def test_a_driver_is_stopped_where_all_of_its_sources_are_and_one_that_never_spoke_is_not_shown() -> (
    None
):
    stopped = {"state": "stopped", "heartbeat_us": NOW}
    lost = {"state": "running", "heartbeat_us": NOW - 3600 * SECOND}
    probes = stopped | {"shown": 0, "lost": 0, "waiting_ms": 0.0}
    seen = samples(
        status(
            **{
                "stream:plays": json.dumps(stopped),
                "tail:plays": json.dumps(lost),
                "probes": json.dumps(probes),
            }
        )
    )
    assert {key[1]: value for key, value in seen.items() if key[0] == "driver_stopped"} == {
        "stream": 1,
        "realtime": 0,
        "probes": 1,
    }


def test_incidents_are_counted_by_severity_while_they_are_open() -> None:
    red = matter_alert("check_red", "check_consistency", "check", "r", ["2 of 9 differ"])
    late = matter_alert("probes", "ingest_stream", "watch", "r", ["p99 9 s"])
    both, _ = met(met((), red, NOW, SECOND)[0], late, NOW, SECOND)
    seen = samples(status(**{incidents.PART: incidents.to_text(both)}))
    opened = {severity: seen["incidents_open", severity] for severity in ("critical", "warning")}
    assert opened == {"critical": 1, "warning": 1}
    over, _ = settled(both, lambda one: one.key == "check_red", NOW)
    seen = samples(status(**{incidents.PART: incidents.to_text(over)}))
    assert (seen["incidents_open", "critical"], seen["incidents_open", "info"]) == (0, 0)


def test_each_node_shows_its_memory_and_one_that_is_away_that_it_is() -> None:
    seen = samples(status(), (NODE, None))
    assert (seen["store_up", "1"], seen["store_up", "2"]) == (1, 0)
    assert (seen["store_memory_bytes", "1"], seen["store_memory_limit_bytes", "1"]) == (300, 400)
    assert (seen["store_keys", "1"], seen["store_clients", "1"]) == (7, 3)
    assert ("store_keys", "2") not in seen


def test_a_store_that_is_away_breaks_no_scrape() -> None:
    seen = samples(StoreUnavailable("the online store does not answer"), (None,))
    assert seen == {("status_read",): 0, ("store_up", "1"): 0}


def test_a_status_of_no_json_breaks_no_scrape() -> None:
    for part in ("stream:plays", "job:check", incidents.PART, "probes"):
        assert ("status_read",) in samples(status(**{part: "torn"})), part


def test_every_metric_is_described_whether_or_not_it_has_a_sample() -> None:
    described = {family.name for family in PlatformMetrics().describe()}
    assert described == {f"slicewise_{name}" for name in TABLE}


def test_scrapes_that_come_together_share_one_read_and_the_next_reads_again() -> None:
    reads, answer = list[int](), threading.Event()

    def read(*_: object, **__: Any) -> StoreStatus:
        reads.append(1)
        assert answer.wait(10)
        return status()

    async def scrapes() -> None:
        metrics = PlatformMetrics("redis://nowhere", read, lambda *_, **__: (NODE,))
        waiting = [asyncio.create_task(metrics.read()) for _ in range(3)]
        while not reads:
            await asyncio.sleep(0.001)
        waiting[0].cancel()  # its client went away: the others are answered all the same
        answer.set()
        _, second, third = await asyncio.gather(*waiting, return_exceptions=True)
        assert second == third
        assert len(reads) == 1
        assert await metrics.read() == second
        assert len(reads) == 2

    asyncio.run(scrapes())


def test_the_service_starts_without_what_only_a_scrape_needs() -> None:
    code = (
        "import sys, slicewise.serving.http.app; "
        "sys.exit('slicewise.serving.platform_metrics' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0


def test_a_view_that_the_real_time_lane_does_not_write_has_the_freshness_of_the_other_lane() -> (
    None
):
    line = {"state": "running", "heartbeat_us": NOW, "lag": {}}
    slow = line | {
        "freshness_ms": {"p50": 40, "p99": 90},
        "freshness_p50_ms": 40,
        "freshness_p99_ms": 90,
    }
    fast = line | {
        "freshness_ms": {"p50": 2, "p99": 5},
        "freshness_p50_ms": 2,
        "freshness_p99_ms": 5,
    }
    stored = status(**{"stream:plays": json.dumps(slow), "tail:plays": json.dumps(fast)})
    units = [
        unit | ({"functions": [["weighed", {}]]} if unit["view"] == "places" else {})
        for unit in stored.manifest["units"]
    ]
    seen = samples(replace(stored, manifest={**stored.manifest, "units": units}))
    assert seen["view_freshness_ms", "0.99", "listening"] == 5
    assert seen["view_freshness_ms", "0.99", "places"] == 90
