"""An incident ends when what it is about is over. A watch knows what it cannot judge."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from slicewise_airflow import alerts, api, record, supervise
from slicewise_airflow import stream as watching
from slicewise_airflow.alerts import page, page_parts, settle
from slicewise_airflow.check import CheckJob
from slicewise_airflow.stream import StreamHealthTrigger
from slicewise_airflow.supervise import Supervisor

from slicewise.lifecycle import lagging
from slicewise.lifecycle.checking import CheckRed
from slicewise.lifecycle.deployed import Deployed, Deployments
from slicewise.lifecycle.healing.record import Healing, Job
from slicewise.lifecycle.health.alerts import Missed
from slicewise.lifecycle.health.judge import Health
from slicewise.lifecycle.health.overview import job_record
from slicewise.lifecycle.supervision import Notice
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import drivers, process
from slicewise.local.servers.inbox import Inbox
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import StoreStatus
from tests.support.platform.receiver import Receiver

NAMED = {"dag": "ingest_stream", "task": "watch", "run": "r", "url": ""}
OFTEN = supervise.DEADLINE_LOOKS


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.create()
    monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", str(tmp_path / "python"))
    monkeypatch.setattr(supervise, "TENDED_EVERY_S", 0.0)
    monkeypatch.setattr(record, "owners", dict)
    return folder


def task(dag: str = "ingest_stream", name: str = "watch", run: str = "r") -> Any:
    return SimpleNamespace(dag_id=dag, task_id=name, run_id=run, log_url="", try_number=1)


def watched(*looks: Any) -> None:
    """A watch that saw these deadlines missed, look after look."""

    async def look() -> None:
        supervisor = Supervisor(Settings.load(), NAMED)
        for missed in looks:
            await supervisor.look()
            await supervisor.look_at_deadlines(missed)
            supervisor.tend(())
            await asyncio.sleep(0.005)
        await supervisor.end()

    asyncio.run(look())


TYPO = Missed(
    "fresh.per_crad",
    "per_crad: a deadline for answers, and no such view or source is deployed",
    "per_crad",
)


@pytest.mark.usefixtures("state")
def test_a_deadline_that_is_agreed_no_more_is_over(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "per_crad=2000")
    watched(*[[TYPO]] * (OFTEN + 1))
    assert receiver.events() == ["freshness_missed"]
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "per_card=2000")  # as the runbook says
    watched(*[[]] * (3 * OFTEN))
    assert receiver.events() == ["freshness_missed", "incident_over"]


@pytest.mark.usefixtures("state")
def test_a_stale_deadline_hides_no_real_time_lane(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "per_crad=2000")
    watched(*[[TYPO]] * (OFTEN + 1))
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "")
    watched(*[[]] * (3 * OFTEN))
    page_parts({"task_instance": task()}, {"tail": ["no heartbeat for 60 s"]})
    assert "realtime_lost" in receiver.events()


LATE = Missed("fresh.per_card", "per_card: 9.0 s, and 2.0 s are agreed", "per_card")
GONE = json.dumps({"pid": 2**22 + 1, "born": "another boot"})


def test_a_deadline_that_nobody_can_judge_is_not_over(
    state: StateFolder, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """late_of names nothing of a driver that is silent."""
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "per_card=2000")
    watched(*[[LATE]] * (OFTEN + 1))
    state.pid_file("stream").write_text(GONE)  # the driver dies, and does not come up again
    watched(*[[]] * (2 * OFTEN))
    assert receiver.events("fresh.per_card") == ["freshness_missed"]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("name", ["probes", "emit"])
def test_a_driver_that_brings_no_event_into_answers_explains_no_late_answer(
    name: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "per_card=2000")
    alerts.page_driver(task(), name, name, Notice("loops", "it dies"))
    watched(*[[LATE]] * (2 * OFTEN))
    assert "freshness_missed" in receiver.events()


@pytest.mark.usefixtures("state")
def test_what_follows_a_compaction_is_not_overdue_beside_it(receiver: Receiver) -> None:
    page(
        {
            "task_instance": task("compact_slices", "compact"),
            "exception": ValueError("broken"),
            "params": {},
        }
    )
    late = [
        Missed(f"overdue.{dag}", f"{dag}: overdue")
        for dag in ("compact_slices", "check_consistency", "check_expectations")
    ]
    watched(*[late] * (OFTEN + 1))
    assert receiver.events() == ["task_failed"], [post["key"] for post in receiver.posts]


def living(state: StateFolder, **words: object) -> Path:
    """A micro-batch lane that lives and says this of its source; the file that it says it in."""
    process.write_pid_file(state.pid_file("stream"), process.this_process())
    file = drivers.heartbeat_file(state, "stream")
    file.parent.mkdir()
    file.write_text(json.dumps({"sources": {"plays": {"heartbeat_us": 1, "records": 10, **words}}}))
    return file


def test_a_driver_that_starts_again_has_not_caught_up(
    state: StateFolder, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lagging, "NOTICE_US", 0)
    file = living(state, events_per_s=100.0, lag={"0": 60_000})
    behind = file.read_text()
    watched(*[None] * 3)
    assert receiver.events() == ["stream_lags"]
    file.unlink()  # as stream._prepare does before a start; the lane is as far behind as before
    watched(*[None] * 3)
    file.write_text(behind)
    watched(*[None] * 3)
    assert receiver.events() == ["stream_lags"]


def test_an_incident_of_a_driver_that_is_well_ends_also_in_a_new_folder_and_hides_no_later_one(
    state: StateFolder, receiver: Receiver
) -> None:
    alerts.page_driver(task(), "stream", "the micro-batch lane", Notice("down", "it died"))
    # the file of the supervision is gone, as on another machine: the store had the incident
    living(state)
    watched(*[None] * 10)
    assert [one.key for one in Inbox(Settings.load()).read() if one.is_open] == []
    state.pid_file("stream").write_text(GONE)
    watched(None)
    assert receiver.events().count("driver_lost") == 2


@pytest.mark.usefixtures("state")
def test_a_store_that_answers_and_lost_events_gives_no_driver_its_time_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    health = Health.of({"store": Health(("it lost what it had applied, 9 events to go",))})
    monkeypatch.setattr(watching, "look", lambda *_: (health, Deployed(1, "d"), ()))
    times: list[int] = []
    monkeypatch.setattr(Supervisor, "server_was_away", lambda _: times.append(1))
    monkeypatch.setattr("slicewise.lifecycle.health.watch.SETTLE_US", 0)
    trigger = StreamHealthTrigger(time.time() + 0.4, time.time() + 60, 0.05, 400, 30.0)

    async def fired() -> Any:
        return await anext(trigger.run())

    asyncio.run(fired())
    assert not times, f"{len(times)} looks"


@pytest.mark.usefixtures("state")
def test_a_green_check_of_one_view_ends_no_red_one_of_another(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = CheckRed("the check is red: 3 of 9 values differ")
    red.concerned = {"per_card": 498_000}
    marked = Healing().red(Job(1, "a"), {"per_card": 5}, 6, [], 0)
    monkeypatch.setattr(record, "read_part", lambda *_: (marked.text(),))
    check = task("check_consistency", "check")
    page({"task_instance": check, "exception": red, "params": {}})
    settle({"task_instance": check, "params": {"views": ["per_shop"]}})
    assert receiver.events() == ["check_red"]


def runs(monkeypatch: pytest.MonkeyPatch, every: list[DagRun]) -> None:
    """Airflow's answer: newest first, as many as were asked for."""
    monkeypatch.setattr(
        AirflowApi,
        "runs",
        lambda _s, _d, *, limit=100, state="", **_: [
            one for one in every if state in ("", one.state)
        ][:limit],
    )


def test_a_cleared_run_is_awaited_however_old(monkeypatch: pytest.MonkeyPatch) -> None:
    own = DagRun("d", "scheduled__2026-11-28T07", "scheduled", "running", None, None)
    over = [
        DagRun("d", f"scheduled__2026-11-27T{hour:02}", "scheduled", "success", None, None)
        for hour in range(23, 8, -1)
    ]
    cleared = DagRun("d", "scheduled__2026-11-27T08", "scheduled", "queued", None, None)
    runs(monkeypatch, [own, *over, cleared])
    assert api.is_awaited("d", own.run_id)


def test_a_cleared_run_is_awaited_also_by_one_that_was_triggered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = DagRun("d", "manual__2026-11-28T07", "manual", "running", None, None)
    cleared = DagRun("d", "scheduled__2026-11-28T06", "scheduled", "queued", None, None)
    runs(monkeypatch, [own, cleared])
    assert api.is_awaited("d", own.run_id)


def test_a_deployment_that_ends_the_driver_at_once_is_undone(
    state: StateFolder, tmp_path: Path
) -> None:
    """The watch looks at drivers every second, and at the store every five."""
    slicewise, calls = tmp_path / "slicewise", tmp_path / "calls"
    undone = json.dumps({"version": 8, "digest": "old", "changes": []})
    slicewise.write_text(f"#!/bin/sh\necho \"$@\" >> {calls}\necho '{undone}'\n")
    slicewise.chmod(0o755)
    now = time.time_ns() // 1_000
    drivers.keep_deployments(state, Deployments("old", 6, "old", 6, now - 10**9, now - 10**9))
    state.pid_file("stream").write_text(GONE)  # `apply`, and the driver ends a second later

    async def look() -> None:
        supervisor = Supervisor(Settings.load(), NAMED)
        await supervisor.look()
        for _ in range(16):
            await supervisor.look_at_deployment(Deployed(7, "new", now - 1_000_000))
            await supervisor.look()
            await asyncio.sleep(0.3)
        await supervisor.end()

    asyncio.run(look())
    assert "rollback --json --version 7" in calls.read_text(), calls.read_text()


# ------------------------------------------------------------ the record of a check
@pytest.mark.parametrize(
    ("views", "heals", "replaced"),
    [([], False, True), (["songs"], False, False), (["plays"], True, True)],
    ids=["all", "others", "what differed"],
)
def test_a_green_check_replaces_a_red_one_that_it_healed_alone(
    views: list[str], heals: bool, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    red = job_record({"mismatches": 1}, ok=False, at_us=1_000)
    healing = Healing().red(Job(900, "a"), {"plays": 5}, 6, [], began_us=0)
    if heals:
        healing = healing.green(Job(2_000, "b"), {"plays"}, 7, began_us=1_500)
    monkeypatch.setattr(record, "read_part", lambda *_: (healing.text(),))
    stored = StoreStatus(1, parts={"job:check": red})
    monkeypatch.setattr(record, "read_status", lambda *_: stored)
    assert CheckJob(task_id="check").replaces(Settings.load(), {"views": views}) is replaced


def test_a_green_check_of_some_views_replaces_no_green_one(monkeypatch: pytest.MonkeyPatch) -> None:
    green = StoreStatus(1, parts={"job:check": job_record({}, ok=True, at_us=1)})
    monkeypatch.setattr(record, "read_status", lambda *_: green)
    assert not CheckJob(task_id="check").replaces(Settings.load(), {"views": ["songs"]})
