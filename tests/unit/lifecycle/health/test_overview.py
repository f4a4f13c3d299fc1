"""The picture of the platform is what the store holds, in a shape for people."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slicewise.errors import UnknownName
from slicewise.lifecycle.findings import findings
from slicewise.lifecycle.health.judge import Limits
from slicewise.lifecycle.health.overview import health_of, job_record, overview, require_view
from slicewise.stores.online.redis.status import StoreStatus
from slicewise.windows.durations import HOUR_US

NOW = 1_700_000_000_000_000
UNIT, NEW = "a" * 16, "b" * 16
MANIFEST = {
    "sources": [{"name": "flights"}],
    "units": [
        {"view": "by_carrier", "storage_fingerprint": UNIT},
        {"view": "by_route", "storage_fingerprint": NEW},
    ],
}


def stored(**parts: str) -> StoreStatus:
    metadata = {"generation": b"3", "epoch": b"2", f"y:{UNIT}": b"1", f"b:{NEW}": b"3/12"}
    hour = NOW // HOUR_US
    return StoreStatus(NOW, metadata, MANIFEST, parts, {UNIT: {hour - 1: 4, hour - 2: 4}, NEW: {}})


def test_views_show_what_is_built_and_compacted() -> None:
    ready, building = overview(stored(), Limits()).views
    assert (ready.ready, ready.built, ready.hours, ready.newest_hour) == (
        True,
        1.0,
        2,
        "2023-11-14T21Z",
    )
    assert (building.ready, building.built, building.hours, building.newest_hour) == (
        False,
        0.25,
        0,
        None,
    )


def test_a_view_that_is_stored_in_two_units_is_one_line_until_both_are_built() -> None:
    hour, other = NOW // HOUR_US, "c" * 16
    units = [
        {"view": "by_carrier", "storage_fingerprint": fingerprint} for fingerprint in (UNIT, NEW)
    ]
    units.insert(1, {"view": "by_route", "storage_fingerprint": other})
    metadata = {f"y:{UNIT}": b"1", f"y:{other}": b"1", f"b:{NEW}": b"3/12"}
    status = StoreStatus(
        NOW, metadata, {**MANIFEST, "units": units}, {}, {UNIT: {hour - 1: 4}, NEW: {hour - 3: 2}}
    )
    carrier, route = overview(status, Limits()).views
    assert (carrier.view, carrier.units, route.view, route.units) == (
        "by_carrier",
        (UNIT, NEW),
        "by_route",
        (other,),
    )
    assert (carrier.ready, carrier.built, carrier.hours, carrier.newest_hour) == (
        False,
        0.25,
        1,
        "2023-11-14T21Z",
    )
    assert carrier.waits.startswith("3 of 12 hours; ")
    assert (route.ready, route.waits) == (True, "")
    (finding,) = [item for item in findings(status, Limits()) if item.part.startswith("view ")]
    assert "3 of 12 hours" in finding.text
    neither = replace(status, metadata={f"b:{UNIT}": b"1/12", f"b:{NEW}": b"3/12"})
    (result, _) = overview(neither, Limits()).views
    assert result.built == 1 / 12
    assert "1 of 12 hours" in result.waits
    assert "3 of 12 hours" in result.waits


def test_an_unread_status_is_a_reason_and_not_an_exception() -> None:
    health = health_of(stored(**{"stream:flights": "torn"}), Limits())
    assert not health.well
    assert any("cannot be read" in reason for reason in health.reasons)


def test_a_job_leaves_its_plain_figures_and_its_age() -> None:
    text = job_record(
        {"values": 10, "mismatches": 0, "slices": [1, 2], "n": {}}, ok=True, at_us=NOW - 90_000_000
    )
    (line,) = overview(stored(**{"job:check": text}), Limits()).jobs
    assert (line.job, line.ok, line.age_s, line.report) == (
        "check",
        True,
        90.0,
        {"values": 10, "mismatches": 0},
    )


def test_a_record_of_a_job_that_cannot_be_read_hides_no_other() -> None:
    whole = job_record({"hours": 3}, ok=True, at_us=1)
    for torn in ("", "torn", "7", '{"ok": true}', '{"at_us": "x", "ok": true}'):
        parts = {"job:compact": torn, "job:check": whole}
        jobs = overview(StoreStatus(2, {}, {}, parts), Limits()).jobs
        assert [line.job for line in jobs] == ["check"], torn


def test_an_empty_store_is_shown_as_empty() -> None:
    result = overview(StoreStatus(NOW), Limits())
    assert (result.views, result.streams, result.jobs, result.deployment_version) == (
        (),
        (),
        (),
        None,
    )
    assert not result.health.well


def test_the_picture_is_plain_json() -> None:
    status = json.dumps({"state": "running", "heartbeat_us": NOW - 2_000_000, "lag": 0})
    document = json.loads(
        json.dumps(overview(stored(**{"stream:flights": status}), Limits()).to_json())
    )
    assert document["health"]["well"]
    assert document["streams"][0]["heartbeat_age_s"] == 2.0


def test_what_publishes_beside_the_stream_is_part_of_its_health() -> None:
    manifest = {
        **MANIFEST,
        "units": [{**MANIFEST["units"][0], "source": "flights", "emission": {"topic": "t"}}],
    }
    well = json.dumps({"state": "running", "heartbeat_us": NOW, "lag": 0})
    stopped = json.dumps({"state": "stopped", "heartbeat_us": NOW, "lag": 0})

    def reasons(**parts: str) -> tuple[str, ...]:
        return health_of(StoreStatus(NOW, {}, manifest, parts), Limits()).reasons

    assert reasons(**{"stream:flights": well, "emit:flights": well}) == ()
    assert reasons(**{"stream:flights": well}) == (
        "emission: flights: no driver has written a status",
    )
    assert reasons(**{"stream:flights": well, "emit:flights": stopped}) == (
        "emission: stopped while the stream runs",
    )
    assert health_of(StoreStatus(NOW, {}, manifest, {"stream:flights": stopped}), Limits()).stopped
    [leaderboard] = [
        {**MANIFEST, "units": [{"view": "v", "source": "flights"}], "leaderboards": [{"view": "v"}]}
    ]
    assert StoreStatus(NOW, {}, leaderboard).emitted == ("flights",)


def test_a_store_that_lost_what_it_had_applied_is_not_well_until_it_has_it_again() -> None:
    well = json.dumps({"state": "running", "heartbeat_us": NOW, "lag": 0})
    status = stored(**{"stream:flights": well})
    lost = {**status.metadata, "w:aa:0": b"30", "w:aa:1": b"7", "g:aa:0": b"10"}
    (reason,) = health_of(StoreStatus(NOW, lost, MANIFEST, status.parts), Limits()).reasons
    assert "27 events to go" in reason
    again = {**lost, "g:aa:0": b"30", "g:aa:1": b"7"}
    assert health_of(StoreStatus(NOW, again, MANIFEST, status.parts), Limits()).well


def test_a_view_that_is_not_deployed_is_refused_and_none_is_all_of_them() -> None:
    status = stored()
    unit = status.units[0]
    for name in (None, "", unit["view"], unit["storage_fingerprint"]):
        require_view(status, name)
    with pytest.raises(UnknownName) as refused:
        require_view(status, f"{unit['view']}s")
    assert str(unit["view"]) in str(refused.value.expected)
    assert refused.value.lasting, "no other try knows it"
