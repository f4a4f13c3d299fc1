"""Faults are findings, with words and where to look; what is well has none."""

from __future__ import annotations

import json
from dataclasses import replace

from slicewise.lifecycle import incidents
from slicewise.lifecycle.findings import ALLOWED_S, EVERY_S, Finding, findings
from slicewise.lifecycle.health.alerts import matter_alert
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import job_record
from slicewise.offsets import gaps as accepted_gaps
from slicewise.offsets.gaps import AcceptedGap
from slicewise.stores.online.model.phases import OVER, changed, phases_of
from slicewise.stores.online.redis.status import StoreStatus

NOW = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
UNIT, NEW = "a" * 16, "b" * 16
UNITS = [
    {"view": "by_carrier", "storage_fingerprint": UNIT, "source": "flights"},
    {"view": "by_route", "storage_fingerprint": NEW, "source": "flights"},
]
STREAM = json.dumps({"state": "running", "heartbeat_us": NOW, "lag": 0})
WELL = StoreStatus(
    NOW,
    {"generation": b"3", "epoch": b"2", f"y:{UNIT}": b"1", f"y:{NEW}": b"1"},
    {"sources": [{"name": "flights"}], "units": UNITS},
    {"stream:flights": STREAM},
    {UNIT: {}, NEW: {}},
)


def findings_of(status: StoreStatus) -> tuple[Finding, ...]:
    return findings(status, Limits())


def having(**parts: str) -> StoreStatus:
    return replace(WELL, parts={**WELL.parts, **parts})


def building(text: str | None, done: bytes = b"0/24") -> StoreStatus:
    parts = WELL.parts if text is None else {**WELL.parts, "building": text}
    return replace(WELL, metadata={f"y:{UNIT}": b"1", f"b:{NEW}": done}, parts=parts)


def test_nothing_is_found_where_all_is_well() -> None:
    assert findings_of(WELL) == ()


def test_a_view_that_is_not_ready_says_that_it_answers_503_and_what_it_waits_for() -> None:
    (finding,) = findings_of(
        building(changed(None, {NEW: "Spark computes hours 1 to 24 of 24"}, NOW - 90_000_000))
    )
    assert (finding.part, finding.look, finding.now) == (
        "view by_route",
        "docs/runbook.md#a-view-stays-in-building",
        True,
    )
    assert (
        finding.text
        == "answers 503: building, 0 of 24 hours; Spark computes hours 1 to 24 of 24 (for 90 s)"
    )


def test_a_view_that_nobody_builds_says_so_and_a_job_that_fell_silent_too() -> None:
    (finding,) = findings_of(building(None, done=b""))
    assert "not begun; no job is at work" in finding.text
    (finding,) = findings_of(building(changed(None, {NEW: "Spark computes"}, NOW - HOUR_US)))
    assert "for 60 min; is its job still at work?" in finding.text
    (finding,) = findings_of(building("torn"))
    assert "no job is at work" in finding.text
    before = changed(None, {NEW: "Spark computes", UNIT: "its turn"}, NOW)
    over = changed(before, {NEW: OVER}, NOW)
    (finding,) = findings_of(building(over))
    assert "no job is at work" in finding.text, (
        "what was said of a build that is over is not said of the next"
    )
    assert set(phases_of(over)) == {UNIT}
    assert phases_of(changed(over, {}, NOW + 24 * HOUR_US)) == {}, (
        "nothing is left of what nobody builds any more"
    )


def test_a_stream_that_is_not_well_is_found_with_its_reason() -> None:
    old = json.dumps({"state": "running", "heartbeat_us": NOW - 300_000_000, "lag": 0})
    (finding,) = findings_of(having(**{"stream:flights": old}))
    assert finding == Finding(
        "stream",
        "flights: no heartbeat for 300 s",
        "docs/runbook.md#the-stream-is-not-well",
        now=True,
    )
    stopped = json.dumps({"state": "stopped", "heartbeat_us": NOW, "lag": 0})
    (finding,) = findings_of(having(**{"stream:flights": stopped}))
    assert not finding.now


def test_a_stream_that_is_stopped_on_purpose_hides_nothing_of_the_store() -> None:
    stopped = json.dumps({"state": "stopped", "heartbeat_us": NOW, "lag": 0})
    lost = {**WELL.metadata, "w:aa:0": b"30", "g:aa:0": b"10"}
    status = replace(
        having(**{"stream:flights": stopped}), metadata=lost, wanting=("node 2 does not answer",)
    )
    result = findings_of(status)
    assert [(finding.part, finding.now) for finding in result] == [
        ("stream", False),
        ("store", True),
        ("store", True),
    ]
    assert "node 2 does not answer" in result[1].text
    assert "20 events to go" in result[2].text, (
        "each answer is a 503, and nobody applies them again"
    )


def test_a_build_that_failed_is_no_fault_any_more_once_nothing_is_left_to_build() -> None:
    failed = job_record({}, ok=False, at_us=NOW - 60_000_000)
    (finding,) = findings_of(having(**{"job:backfill": failed}))
    assert not finding.now, (
        "its view was built since, or is gone; no run comes that would report another end"
    )
    status = building(changed(None, {NEW: "Spark computes"}, NOW))
    finding = findings_of(replace(status, parts={**status.parts, "job:backfill": failed}))[-1]
    assert (finding.part, finding.now) == ("job backfill", True)
    day_ago = job_record({}, ok=False, at_us=NOW - 25 * HOUR_US)
    assert findings_of(having(**{"job:backfill": day_ago})) == ()


def test_thresholds_of_lag_and_freshness_are_found() -> None:
    slow = {
        "state": "running",
        "heartbeat_us": NOW,
        "lag": 9,
        "events_per_s": 0,
        "freshness_p99_ms": 60_000,
    }
    result = findings(
        having(**{"stream:flights": json.dumps(slow)}), Limits(lag_events=5, freshness_p99_ms=1_000)
    )
    assert [finding.text for finding in result] == [
        "flights: 9 events behind, and none are being applied",
        "flights: freshness p99 60000 ms",
    ]


def test_lost_events_are_found_with_their_own_page() -> None:
    (finding,) = findings_of(
        replace(WELL, metadata={**WELL.metadata, "w:aa:0": b"30", "g:aa:0": b"10"})
    )
    assert "20 events to go" in finding.text
    assert (finding.part, finding.look) == ("store", "docs/runbook.md#the-store-is-not-well")


def test_a_job_whose_last_run_failed_is_found() -> None:
    text = job_record({"mismatches": 1}, ok=False, at_us=NOW - 60_000_000)
    (finding,) = findings_of(having(**{"job:check": text}))
    assert finding == Finding(
        "job check", "its last run failed, 1 min ago", "docs/runbook.md#the-check-is-red"
    )


def test_a_job_is_overdue_once_its_schedule_and_its_time_are_over() -> None:
    for job, every_s in EVERY_S.items():
        due_us = int((every_s + ALLOWED_S) * 1e6)
        at = job_record({}, ok=True, at_us=NOW - due_us)
        assert findings_of(having(**{f"job:{job}": at})) == ()
        late = job_record({}, ok=True, at_us=NOW - due_us - 1)
        (finding,) = findings_of(having(**{f"job:{job}": late}))
        assert finding.text.startswith("overdue: it runs every ")
        assert finding.now
    once = job_record({}, ok=True, at_us=NOW - 100 * HOUR_US)
    assert findings_of(having(**{"job:backfill": once})) == (), (
        "it runs when there is something to build"
    )


def test_accepted_losses_are_told_and_those_that_cannot_be_read_are_wrong() -> None:
    accepted_gap = AcceptedGap("flights", "aa", 0, 10, 130, 0, 9, "ann", "retention", NOW)
    (finding,) = findings_of(having(**{"holes:flights": accepted_gaps.to_json([accepted_gap])}))
    assert (finding.text, finding.look, finding.now) == (
        "120 offsets are lost for good, accepted by ann",
        "slicewise hole",
        False,
    )
    assert findings_of(having(**{"holes:flights": accepted_gaps.to_json([])})) == ()
    (finding,) = findings_of(having(**{"holes:flights": "torn"}))
    assert finding.now


def test_incidents_that_are_open_or_were_over_within_a_day_are_told() -> None:
    sent = matter_alert("check_red", "check_consistency", "check", "run", ["3 values differ"])
    before, _ = incidents.met((), sent, NOW - 23 * HOUR_US, HOUR_US)
    before, _ = incidents.met(before, sent, NOW - 22 * HOUR_US, HOUR_US)
    (finding,) = findings_of(having(alerts=incidents.to_text(before)))
    assert finding == Finding(
        "alert check_red",
        (
            "check_consistency.check since 2023-11-13 23:13 UTC, open, 2 times: the check is red: 3 "
            "values differ"
        ),
        "docs/runbook.md#the-check-is-red",
        now=False,
    )
    over, _ = incidents.settled(before, lambda _: True, NOW - 20 * HOUR_US)
    status = having(alerts=incidents.to_text(over))
    (finding,) = findings_of(status)
    assert "over after 3.0 h, 2 times" in finding.text
    later = findings_of(replace(status, now_us=NOW + 5 * HOUR_US))
    assert not [finding for finding in later if finding.part.startswith("alert")]
    assert findings_of(having(alerts="torn")) == ()


def test_a_check_that_could_not_be_made_is_no_red_one() -> None:
    (finding,) = findings_of(having(**{"job:check": job_record({}, ok=False, at_us=NOW)}))
    assert finding.look == "docs/runbook.md#the-check-could-not-be-made"


def test_jobs_that_never_reported_are_overdue_once_the_deployment_has_stood_for_long() -> None:
    young = having(deployed=str(NOW - int((EVERY_S["compact"] + ALLOWED_S) * 1e6)))
    assert findings_of(young) == ()
    old = having(
        deployed=str(NOW - 8 * HOUR_US), **{"job:check": job_record({}, ok=True, at_us=NOW)}
    )
    result = findings_of(old)
    assert [finding.part for finding in result] == [
        "job compact",
        "job expect",
        "job sweep",
    ]
    assert all("has never reported" in finding.text for finding in result)


def test_what_starts_beside_right_answers_is_told_and_not_wrong() -> None:
    stream = json.dumps({"state": "running", "heartbeat_us": NOW, "lag": 0, "tail": "on"})
    status = having(
        **{"stream:flights": stream, "deployed": str(NOW - 5_000_000), "ensured:tail": str(NOW)}
    )
    (finding,) = findings_of(status)
    assert (finding.part, finding.now) == ("starting", False)
    (finding,) = findings_of(
        replace(status, parts={"deployed": str(NOW), "ensured:stream": str(NOW)})
    )
    assert (finding.part, finding.now) == ("stream", True)


def test_nothing_deployed_is_no_fault() -> None:
    (finding,) = findings_of(StoreStatus(NOW))
    assert (finding.text, finding.now) == ("nothing is deployed", False)


def test_a_check_that_is_red_by_its_plain_sums_leads_to_the_red_section() -> None:
    report = {"result": "red", "mismatches": 0, "plain_sums_off": 1, "values": 10}
    failed = job_record(report, ok=False, at_us=NOW - 60_000_000)
    look = [one.look for one in findings(having(**{"job:check": failed}), Limits())
            if one.part == "job check" and "failed" in one.text]  # fmt: skip
    assert look == ["docs/runbook.md#the-check-is-red"], look
