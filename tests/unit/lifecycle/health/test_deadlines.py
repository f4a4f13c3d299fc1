"""Deadlines are judged by what the store says: of answers by view and source, of jobs by their last
report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewise.lifecycle.findings import findings, missed_jobs
from slicewise.lifecycle.health.deadlines import Deadlines
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import job_record, late_of
from slicewise.stores.online.redis.status import StoreStatus

S = 1_000_000
NOW = 100_000 * S
MANIFEST: dict[str, Any] = {
    "sources": [{"name": "payments"}],
    "units": [
        {"view": "per_card", "source": "payments", "functions": [], "storage_fingerprint": "a"},
        {
            "view": "scored",
            "source": "payments",
            "functions": [["score", "py"]],
            "storage_fingerprint": "b",
        },
    ],
}
AGREED = Limits(fresh_within_ms={"per_card": 2_000, "scored": 2_000})


def status_of(**figures: object) -> str:
    return json.dumps({"state": "running", "heartbeat_us": NOW - S} | figures)


def late(stream: str, tail: str | None = None, limits: Limits = AGREED) -> list[str]:
    parts = {"stream:payments": stream} | ({} if tail is None else {"tail:payments": tail})
    missed = late_of(StoreStatus(NOW, {}, MANIFEST, parts), limits)
    assert all(one.cause == f"fresh.{one.of}" for one in missed)
    return [one.of for one in missed]


def test_a_view_is_judged_by_the_lane_that_brings_its_events_first() -> None:
    # the real-time lane writes no view with a function of Python
    slow, quick = status_of(freshness_p99_ms=2_500.0), status_of(freshness_p99_ms=3.0, rows=1)
    assert late(slow, quick) == ["scored"]
    assert late(slow) == ["per_card", "scored"]
    assert late(status_of(freshness_p99_ms=1_999.0)) == []


def test_events_that_wait_are_late_before_any_is_applied() -> None:
    waits = {"lag": {"0": 3}, "progress_us": NOW - 4 * S}
    assert late(status_of(**waits)) == ["per_card", "scored"]
    assert late(status_of(**waits | {"progress_us": NOW - 2 * S})) == []


@pytest.mark.parametrize(
    "figures", [{"state": "stopped"}, {"heartbeat_us": NOW - 61 * S}, {"state": "refused"}]
)
def test_a_driver_that_says_nothing_of_now_is_no_deadlines_matter(
    figures: dict[str, object],
) -> None:
    assert late(status_of(freshness_p99_ms=9_000.0, **figures)) == []


def test_a_deadline_for_a_name_that_is_not_deployed_is_told() -> None:
    limits = Limits(fresh_within_ms={"per_crad": 5})
    assert late(status_of(), limits=limits) == ["per_crad"]
    status = StoreStatus(NOW, {}, MANIFEST, {"stream:payments": status_of()})
    texts = [one.text for one in findings(status, limits) if one.part == "freshness"]
    assert texts == ["per_crad: a deadline for answers, and no such view or source is deployed"]


@pytest.mark.parametrize(
    ("reported_s", "overdue"), [(2 * 3600 + 1, True), (2 * 3600 - 1, False), (None, True)]
)
def test_an_hourly_job_is_to_report_within_two_hours_of_its_last_report(
    reported_s: int | None, overdue: bool
) -> None:
    parts = {"deployed": str(NOW - 3 * 3600 * S)}
    for job in ("check", "expect", "sweep", "maintain"):
        parts[f"job:{job}"] = job_record({}, ok=True, at_us=NOW)
    if reported_s is not None:
        parts["job:compact"] = job_record({}, ok=True, at_us=NOW - reported_s * S)
    missed = missed_jobs(StoreStatus(NOW, {}, MANIFEST, parts))
    assert [one.cause for one in missed] == ["overdue.compact_slices"] * overdue


def test_a_deadline_is_told_once_it_lasts_and_over_once_it_is_kept_as_long() -> None:
    deadlines, watched = Deadlines(3), {"fresh.a", "fresh.b"}
    for _ in range(2):
        deadlines = deadlines.after(["fresh.a"], watched)
    assert not deadlines.due
    deadlines = deadlines.after(["fresh.a"], watched)
    assert deadlines.due == {"fresh.a"}
    assert deadlines.over == {"fresh.b"}
    deadlines = deadlines.notifying(["fresh.a"]).after(["fresh.a"], watched)
    assert not deadlines.due
    assert deadlines.notified == {"fresh.a"}
    for _ in range(2):
        deadlines = deadlines.after([], watched)
    assert "fresh.a" not in deadlines.over
    deadlines = deadlines.after([], watched)
    assert deadlines.over == watched
    assert not deadlines.notified
