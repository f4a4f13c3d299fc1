"""A watch starts drivers that are lost on its machine, and tells each fault once."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from slicewise_airflow import api, record, supervise
from slicewise_airflow import stream as watching
from slicewise_airflow.alerts import page_monitor
from slicewise_airflow.models import runs
from slicewise_airflow.monitors import looking
from slicewise_airflow.stream import StreamHealth, StreamHealthTrigger, StreamNotWell
from slicewise_airflow.supervise import Supervisor, instance_of

from slicewise.errors import ServerError, StoreUnavailable
from slicewise.lifecycle import absence, incidents, lagging
from slicewise.lifecycle.absence import WATCHED, Watched
from slicewise.lifecycle.deployed import Deployed, Deployments
from slicewise.lifecycle.health.alerts import Alert, Missed
from slicewise.lifecycle.health.judge import Health
from slicewise.lifecycle.monitors.monitor import LOOKS, Judged, Monitor
from slicewise.lifecycle.restarts import Restarts
from slicewise.lifecycle.supervision import Supervised
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import drivers, process
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import StoreStatus

GONE = json.dumps({"pid": 2**22 + 1, "born": "another boot"})
NAMED = {"dag": "ingest_stream", "task": "watch", "run": "r", "url": "http://airflow/runs/r"}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """A state folder whose micro-batch lane has died. Its servers answer."""
    monkeypatch.setattr(drivers, "broker_away", lambda _: "")
    monkeypatch.setattr(drivers, "store_away", lambda _: "")
    folder = StateFolder(tmp_path / "state")
    folder.create()
    folder.pid_file("stream").write_text(GONE)
    monkeypatch.setenv("SLICEWISE_STATE", str(folder.path))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("SLICEWISE_PLATFORM_PYTHON", str(tmp_path / "python"))
    return folder


def program(tmp_path: Path, *, code: int = 0, words: str = "", prints: str = "") -> Path:
    """A `slicewise` that writes down how often it was called, and with what."""
    path, calls = tmp_path / "slicewise", tmp_path / "calls"
    lines = ["#!/bin/sh", f'echo "$@" >> {calls}', f'echo "{words}" >&2', f"echo '{prints}'"]
    path.write_text("\n".join([*lines, f"exit {code}\n"]))
    path.chmod(0o755)
    return calls


def looked(times: int, deployed: Deployed | None = None) -> Supervisor:
    """A supervisor that has looked so often, and told all that it had to. deployed: what the store
    names meanwhile."""

    async def look() -> Supervisor:
        supervisor = Supervisor(Settings.load(), NAMED)
        for _ in range(times):
            await supervisor.look()
            await supervisor.look_at_deployment(deployed)
        await supervisor.end()
        return supervisor

    return asyncio.run(look())


def alerts(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    return [line for line in lines if line.startswith("driver_")]


def test_a_driver_that_died_is_ensured_and_told_once(
    state: StateFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = program(tmp_path)
    supervisor = looked(2)  # the next start, a second later, is not due yet
    assert calls.read_text() == "stream ensure\n"
    (alert,) = alerts(caplog)
    assert alert.startswith("driver_lost dag=ingest_stream task=watch run=r error=")
    assert "a driver is lost: the micro-batch lane: its process is gone" in alert
    assert "docs/runbook.md#a-driver-is-lost" in alert
    assert "key=driver.stream state=open" in alert
    assert supervisor.ill == {"stream": ("its process is gone",)}
    assert drivers.kept(state)["stream"].restarts.in_a_row == 1


@pytest.mark.usefixtures("state")
def test_another_watch_goes_on_where_the_last_one_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program(tmp_path)
    looked(1)
    caplog.clear()
    assert looked(1).ill == {"stream": ("its process is gone",)}
    assert alerts(caplog) == []


def test_a_start_that_fails_is_kept_with_its_reason(state: StateFolder, tmp_path: Path) -> None:
    program(tmp_path, code=1, words="slicewise stream: the disk is full")
    looked(1)
    kept = drivers.kept(state)["stream"].restarts
    assert (kept.in_a_row, kept.error) == (1, "slicewise stream: the disk is full")
    assert kept.next_us is not None


def test_a_missing_program_is_a_start_that_failed(state: StateFolder) -> None:
    looked(1)
    assert "No such file" in drivers.kept(state)["stream"].restarts.error


@pytest.mark.parametrize("server", ["store_away", "broker_away"])
def test_nothing_is_started_while_a_server_is_away(
    server: str, state: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = program(tmp_path)
    monkeypatch.setattr(drivers, server, lambda _: "it does not answer")
    looked(2)
    assert not calls.exists()
    monkeypatch.setattr(drivers, server, lambda _: "")
    looked(1)
    assert calls.read_text() == "stream ensure\n"
    assert drivers.kept(state)["stream"].restarts.in_a_row == 1


def test_a_broker_that_stays_away_is_told_once_also_by_the_next_watch(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state.pid_file("stream").unlink()
    monkeypatch.setattr(absence, "NOTICE_US", 0)
    monkeypatch.setattr(drivers, "broker_away", lambda _: "the broker: h:1: refused")
    looked(3)
    looked(3)
    monkeypatch.setattr(drivers, "broker_away", lambda _: "")
    looked(3)
    away, back = (line for line in caplog.messages if line.startswith("broker_"))
    assert away.startswith("broker_away dag=ingest_stream task=watch run=r error=")
    assert "no broker answers: the broker: h:1: refused, for 0 s" in away
    assert "docs/runbook.md#the-broker-is-away" in away
    assert "key=broker state=open" in away
    assert back.startswith("broker_back ")
    assert "key=broker state=over" in back


def test_a_lane_that_falls_behind_is_told_once_and_not_started(
    state: StateFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = program(tmp_path)
    monkeypatch.setattr(lagging, "NOTICE_US", 0)
    process.write_pid_file(state.pid_file("stream"), process.this_process())
    behind = {"heartbeat_us": 1, "records": 10, "events_per_s": 100.0}
    file = drivers.heartbeat_file(state, "stream")
    file.parent.mkdir()
    file.write_text(json.dumps({"sources": {"plays": behind | {"lag": {"0": 6_001}}}}))
    looked(3)
    looked(3)
    file.write_text(json.dumps({"sources": {"plays": behind | {"lag": {"0": 10}}}}))
    looked(2)
    lags, near = (line for line in caplog.messages if line.startswith("stream_"))
    assert lags.startswith("stream_lags dag=ingest_stream task=watch run=r error=")
    assert "the stream falls behind: plays: 6,001 events behind, 60 s at its 100 events/s" in lags
    assert "docs/runbook.md#the-stream-falls-behind" in lags
    assert "key=lag.plays state=open" in lags
    assert near.startswith("stream_caught_up ")
    assert "key=lag.plays state=over" in near
    assert not calls.exists()


UNDONE = {"version": 8, "digest": "old", "changes": [{"view": "endless", "change": "removed"}]}


BAD, BACK = Deployed(7, "new"), Deployed(8, "old")


def lost_under_another(state: StateFolder, starts: int) -> None:
    """The driver died so often under version 7, and version 6 was good."""
    now = time.time_ns() // 1_000
    kept = Deployments("old", 6, "new", 7, now - 60_000_000)
    drivers.keep_deployments(state, kept)
    begun = Restarts((now,) * starts, starts, next_us=now + 100_000_000)
    drivers.keep(state, {"stream": Supervised(begun, "its process is gone", now - 50_000_000)})


def test_a_deployment_under_which_a_driver_does_not_live_is_undone_and_told_once(
    state: StateFolder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = program(tmp_path, prints=json.dumps(UNDONE))
    lost_under_another(state, starts=2)
    looked(1, BAD)
    assert calls.read_text() == "rollback --json --version 7 --by ingest_stream\n"
    (alert,) = (line for line in caplog.messages if line.startswith("deployment_undone dag="))
    assert (
        "a deployment was undone: version 7, under which the micro-batch lane did not live: its "
        "process is gone. Version 8 is what version 6 was, without endless, which it had not"
    ) in alert
    assert "key=driver.stream state=open severity=critical" in alert
    assert "docs/runbook.md#a-deployment-is-undone" in alert
    kept = drivers.kept_deployments(state)
    assert (kept.version, kept.undone_version, kept.undone) == (8, 7, "its process is gone")
    looked(1, BACK)  # by another watch: the driver is due at once, and nothing is undone again
    assert calls.read_text() == "rollback --json --version 7 --by ingest_stream\nstream ensure\n"


@pytest.mark.parametrize("starts", [0, 1])
def test_a_driver_that_one_start_may_help_undoes_nothing(
    starts: int, state: StateFolder, tmp_path: Path
) -> None:
    calls = program(tmp_path)
    lost_under_another(state, starts)
    looked(1, BAD)
    assert not calls.exists()


def test_a_deployment_that_cannot_be_undone_is_left_with_the_reason(
    state: StateFolder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = program(tmp_path, code=1, words="slicewise rollback: a schema changed since")
    lost_under_another(state, starts=2)
    looked(1, BAD)
    looked(1, BAD)
    assert calls.read_text() == "rollback --json --version 7 --by ingest_stream\n", "once"
    [finding] = [one for one in drivers.findings(Settings.load(), 0) if one.part == "deployment"]
    assert "it could not be undone: slicewise rollback: a schema changed since" in finding.text
    assert finding.now
    assert not [line for line in caplog.messages if line.startswith("deployment_undone dag=")]


LABELS = Monitor("labels", "labels:accuracy_1h", below=0.8, owner="risk team")


UNJUDGED = math.nan
"""A look at a value that is null."""


def monitored(*looks: float | None, monitors: Sequence[Monitor] = (LABELS,)) -> None:
    """A watch that saw these values of a monitor, look after look; None: no API answered."""
    values = iter(looks)

    def judged(_: Settings, monitors: Sequence[Monitor]) -> tuple[Judged, ...] | None:
        value = next(values)
        if value is None:
            return None
        given = None if math.isnan(value) else value
        return tuple(one.judge({"labels:accuracy_1h": given}) for one in monitors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "load_monitors", lambda _: tuple(monitors))
        patch.setattr(looking, "judged", judged)
        instance = instance_of(NAMED)
        watch = looking.Looking(Settings.load(), lambda one: page_monitor(instance, one))
        for _ in looks:
            watch.look()


@pytest.mark.usefixtures("state")
def test_a_feature_that_stays_out_of_its_bounds_is_told_once_and_over_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitored(*[0.5] * (LOOKS - 1), 0.9, *[0.5] * (LOOKS - 1), None)
    assert "feature_out_of_bounds" not in caplog.text, "a moment is nobody's matter"
    monitored(*[0.5] * (2 * LOOKS))
    monitored(*[None] * (2 * LOOKS))  # nobody knows: it lasts
    monitored(*[0.9] * (LOOKS - 1), 0.5)
    paged = [line for line in caplog.messages if "paged=True" in line]
    [alert] = paged
    assert alert.startswith("feature_out_of_bounds ")
    assert "labels:accuracy_1h is 0.5, below 0.8" in alert
    assert 'severity=warning owner="risk team"' in alert
    assert "docs/runbook.md#a-feature-is-out-of-its-bounds" in alert
    monitored(*[0.9] * LOOKS)
    paged = [line for line in caplog.messages if "paged=True" in line]
    assert [line.split()[0] for line in paged] == ["feature_out_of_bounds", "incident_over"]


@pytest.mark.usefixtures("state")
def test_what_is_not_judged_ends_no_incident_and_opens_none_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unjudged = [UNJUDGED] * (2 * LOOKS)
    monitored(*unjudged, *[0.5] * LOOKS, *unjudged, *[0.5] * LOOKS, *unjudged)
    paged = [line.split()[0] for line in caplog.messages if "paged=True" in line]
    assert paged == ["feature_out_of_bounds"]


@pytest.mark.usefixtures("state")
def test_a_monitor_that_is_listed_no_more_has_no_incident(
    caplog: pytest.LogCaptureFixture,
) -> None:
    monitored(*[0.5] * LOOKS)
    monitored(0.5, monitors=())
    paged = [line.split()[0] for line in caplog.messages if "paged=True" in line]
    assert paged == ["feature_out_of_bounds", "incident_over"]


LATE = Missed("fresh.per_card", "per_card: 3.0 s, and 2.0 s are agreed", "per_card")
OVERDUE = Missed("overdue.compact_slices", "compact_slices: overdue")


def deadlines_looked(*looks: Sequence[Missed]) -> None:
    """A watch that saw these deadlines missed, look after look, and ended well."""

    async def look() -> None:
        supervisor = Supervisor(Settings.load(), NAMED)
        for missed in looks:
            await supervisor.look_at_deadlines(missed)
            supervisor.tend(())
            await asyncio.sleep(0.01)
        await supervisor.end()

    asyncio.run(look())


@pytest.fixture
def agreed(state: StateFolder, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """A platform on which a view has a deadline and an owner."""
    monkeypatch.setenv("SLICEWISE_FRESH_WITHIN_MS", "per_card=2000")
    monkeypatch.setattr(record, "owners", lambda: {"per_card": "risk team"})
    monkeypatch.setattr(supervise, "TENDED_EVERY_S", 0.0)
    return state


@pytest.mark.usefixtures("agreed")
def test_a_deadline_that_is_missed_is_told_to_its_owner_once_and_over_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    often = supervise.DEADLINE_LOOKS
    deadlines_looked(*[[LATE]] * (often - 1))
    assert "freshness_missed" not in caplog.text, "a moment is nobody's matter"
    deadlines_looked(*[[LATE, OVERDUE]] * (often + 2))
    deadlines_looked(*[[LATE]] * often, *[[]] * (2 * often))  # the next watch
    lines = [line for line in caplog.messages if " dag=ingest_stream " in line]
    overdue, late, *over = sorted(line for line in lines if "paged=True" in line)
    assert late.startswith("freshness_missed ")
    assert "answers are older than agreed: per_card: 3.0 s, and 2.0 s are agreed" in late
    assert 'severity=critical owner="risk team"' in late
    assert "docs/runbook.md#a-deadline-of-freshness-is-missed" in late
    assert overdue.startswith("deadline_missed ")
    assert "key=overdue.compact_slices state=open severity=warning" in overdue
    assert [line.split()[0] for line in over] == ["incident_over"] * 2
    assert sorted(line.partition(" key=")[2].split()[0] for line in over) == [
        "fresh.per_card",
        "overdue.compact_slices",
    ]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Parts of the status that a store keeps."""
    parts = dict[str, str]()
    monkeypatch.setattr(
        supervise, "read_part", lambda _, part: (parts[part],) if part in parts else ()
    )
    monkeypatch.setattr(supervise, "record_part", lambda _, part, text: parts.update({part: text}))
    return parts


@pytest.mark.parametrize(
    ("since_s", "last_s", "paged"),
    [
        (None, 9 * 3600, []),
        (None, 60, ["deadline_missed"]),
        (2 * 3600, 60, ["deadline_missed"]),
        (1800, 60, []),
    ],
    ids=["a night off", "no gap", "off two hours ago", "off half an hour ago"],
)
@pytest.mark.usefixtures("agreed")
def test_a_job_that_was_due_while_the_platform_was_off_has_an_hour_from_then(
    since_s: int | None,
    last_s: int,
    paged: list[str],
    kept: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_us = time.time_ns() // 1_000
    since_us = 0 if since_s is None else now_us - since_s * 1_000_000
    kept[WATCHED] = Watched(since_us, now_us - last_s * 1_000_000).text()
    for _ in range(2):  # the next watch knows it too
        deadlines_looked(*[[OVERDUE]] * (supervise.DEADLINE_LOOKS + 1))
    assert [line.split()[0] for line in caplog.messages if "paged=True" in line] == paged
    assert Watched.of([kept[WATCHED]]).last_us >= now_us


@pytest.mark.usefixtures("agreed")
def test_a_job_that_has_its_time_anew_is_not_over_for_it(
    kept: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    looks = 2 * supervise.DEADLINE_LOOKS
    deadlines_looked(*[[OVERDUE]] * looks)
    off = Watched(0, time.time_ns() // 1_000 - 3600 * 1_000_000)
    kept[WATCHED] = off.text()
    deadlines_looked(*[[OVERDUE]] * looks)
    assert [line.split()[0] for line in caplog.messages if "paged=True" in line] == [
        "deadline_missed"
    ]
    deadlines_looked(*[[]] * looks)
    assert caplog.messages[-1].startswith("incident_over ")


@pytest.mark.usefixtures("agreed")
def test_where_the_store_keeps_nothing_no_job_has_its_time_anew(
    kept: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise StoreUnavailable("MISCONF")

    kept[WATCHED] = Watched(0, 1).text()
    monkeypatch.setattr(supervise, "record_part", full)
    deadlines_looked(*[[OVERDUE]] * supervise.DEADLINE_LOOKS)
    assert "deadline_missed dag=" in caplog.text


@pytest.mark.parametrize(
    ("key", "paged"),
    [
        ("driver.tail", ["deadline_missed"]),
        ("lag.payments", ["deadline_missed"]),
        ("compact_slices.compact", ["freshness_missed"]),
        ("store", []),
        ("probes", ["deadline_missed", "freshness_missed"]),
    ],
)
def test_a_deadline_that_another_incident_explains_is_no_page_of_its_own(
    key: str, paged: list[str], agreed: StateFolder, caplog: pytest.LogCaptureFixture
) -> None:
    now = time.time_ns() // 1_000
    alert = Alert("task_failed", "d", "t", "r", "e", "", "", cause=key)
    text = incidents.to_text((incidents.Incident(alert, now, now, now),))
    (agreed.path / "incidents.json").write_text(text)
    deadlines_looked(*[[LATE, OVERDUE]] * (supervise.DEADLINE_LOOKS + 1))
    events = [line.split()[0] for line in caplog.messages if "paged=True" in line]
    assert sorted(event for event in events if event != "incident_over") == paged


def test_a_driver_that_was_stopped_on_purpose_is_left_alone(
    state: StateFolder, tmp_path: Path
) -> None:
    calls = program(tmp_path)
    state.pid_file("stream").unlink()
    assert looked(1).ill == {}
    assert not calls.exists()
    assert drivers.kept(state) == {}


@pytest.mark.usefixtures("state")
def test_a_watch_that_ends_while_a_driver_is_lost_is_red_and_words_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slicewise.lifecycle.health.watch.SETTLE_US", 200_000)
    program(tmp_path)
    now = 1_700_000_000_000_000
    silent = json.dumps({"state": "running", "heartbeat_us": now - 600_000_000, "lag": 0})
    manifest = {"sources": [{"name": "plays"}], "units": [{"view": "v", "source": "plays"}]}
    status = StoreStatus(now, {}, manifest, {"stream:plays": silent})
    monkeypatch.setattr("slicewise.stores.online.redis.status.read_status", lambda *_: status)
    task = StreamHealth(task_id="watch", for_s=0.5, every_s=0.05)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({"params": {}})
    trigger = deferred.value.trigger
    trigger.grace_until_s = 0.0

    async def fired() -> Any:
        return await anext(trigger.run())

    event = json.loads(json.dumps(asyncio.run(fired()).payload))
    assert event["outcome"] == "lost"
    assert event["parts"] == {"stream": ["its process is gone"]}, "its old words are told of nobody"
    with pytest.raises(StreamNotWell, match="its process is gone"):
        task.done({}, event)


@pytest.mark.parametrize("spoke_s", [None, 0.8], ids=["silent", "speaks"])
def test_a_watch_whose_time_is_up_while_a_driver_starts_waits_for_its_first_word(
    spoke_s: float | None, state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.pid_file("stream").unlink()  # it runs elsewhere
    monkeypatch.setattr("slicewise.lifecycle.health.watch.SETTLE_US", 1_500_000)
    begun_s = time.time()

    def look(*_: object) -> watching.Look:
        speaks = spoke_s is not None and time.time() - begun_s > spoke_s
        return Health((), starting=() if speaks else ("plays: started just now",)), None, ()

    monkeypatch.setattr(watching, "look", look)
    trigger = StreamHealthTrigger(begun_s + 0.2, begun_s + 0.2, 0.05, 4, 30.0)

    async def fired() -> Any:
        return await anext(trigger.run())

    payload = asyncio.run(fired()).payload
    took_s = time.time() - begun_s
    assert payload["outcome"] == ("lost" if spoke_s is None else "well")
    assert took_s >= (1.7 if spoke_s is None else spoke_s)


class LongWatching(Supervisor):
    """A supervisor that has watched for long: a driver has not its time anew."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._since_us = 0


def test_a_driver_of_another_container_is_started_by_a_task_there_and_the_watch_goes_on(
    state: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "Supervisor", LongWatching)
    monkeypatch.setattr(watching, "look", lambda *_: (Health(()), None, ()))
    calls = program(tmp_path, words="{}")
    elsewhere = json.loads(GONE) | {"namespace": "another pid:[1]"}
    state.pid_file("stream").write_text(json.dumps(elsewhere))
    long_ago = time.time() - 600
    os.utime(state.pid_file("stream"), (long_ago, long_ago))
    task = StreamHealth(task_id="watch", for_s=60)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({"params": {}})
    first = deferred.value.trigger

    async def fired() -> Any:
        return await anext(first.run())

    event = json.loads(json.dumps(asyncio.run(fired()).payload))
    assert event == {"outcome": "ensure", "deadline_s": first.deadline_s}
    assert not calls.exists(), "nothing is started here"
    (tmp_path / "slicewise").write_text(f"#!/bin/sh\necho $@ >> {calls}\necho '{{}}'\n")
    with pytest.raises(TaskDeferred) as again:
        task.done({}, event)
    assert calls.read_text() == "stream ensure\n"
    assert again.value.trigger.deadline_s == first.deadline_s


@pytest.mark.parametrize("behind", [True, False])
def test_a_watch_ends_for_a_run_that_somebody_asked_for(
    behind: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(watching, "RUNS_EVERY_S", 0.01)
    monkeypatch.setattr("slicewise.lifecycle.health.watch.SETTLE_US", 0)  # no store answers
    seen: list[tuple[str, str]] = []

    def is_awaited(dag: str, run: str) -> bool:
        seen.append((dag, run))
        return behind

    monkeypatch.setattr(watching, "is_awaited", is_awaited)
    named = {"dag": "d", "run": "r"}
    trigger = StreamHealthTrigger(
        time.time() + (30 if behind else 2), time.time() + 60, 0.05, 4, 30.0, named=named
    )

    async def fired() -> Any:
        return await anext(trigger.run())

    outcome = asyncio.run(fired()).payload["outcome"]
    assert (outcome == "awaited") is behind
    assert seen[0] == ("d", "r")


def test_a_watch_that_is_cancelled_leaves_nothing_that_asks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    trigger = StreamHealthTrigger(
        time.time() + 60, time.time() + 60, 60, 4, 30.0, named={"dag": "d", "run": "r"}
    )

    async def fired() -> Any:
        return await anext(trigger.run())

    async def left() -> int:
        watch = asyncio.create_task(fired())
        while len(asyncio.all_tasks()) < 3:  # this one, the watch, and what looks for other runs
            await asyncio.sleep(0.01)
        watch.cancel()
        await asyncio.wait([watch])
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) - 1

    assert asyncio.run(left()) == 0


@pytest.mark.parametrize(
    ("run_id", "run_type", "state", "awaited"),
    [
        ("manual__2026-11-27T08", "manual", "queued", True),
        ("manual__2026-11-27T08", "manual", "success", False),
        ("scheduled__2026-11-27T06", "scheduled", "queued", True),
        ("scheduled__2026-11-27T08", "scheduled", "queued", False),
    ],
    ids=["triggered", "over", "cleared", "next"],
)
def test_what_was_triggered_or_cleared_is_awaited_and_the_next_of_the_schedule_is_not(
    run_id: str, run_type: str, state: str, awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = DagRun("d", "scheduled__2026-11-27T07", "scheduled", "running", None, None)
    other = DagRun("d", run_id, run_type, state, None, None)
    monkeypatch.setattr(AirflowApi, "runs", lambda *_, **__: [other, own])
    assert api.is_awaited("d", own.run_id) is awaited


class Runs:
    """Airflow's API of train_model: runs that were triggered, and one that is under way."""

    def __init__(self) -> None:
        self.triggered: list[tuple[str, str, object]] = []
        self.under_way, self.away = False, False

    def __enter__(self) -> Runs:
        if self.away:
            raise ServerError("Airflow does not answer")
        return self

    def __exit__(self, *_: object) -> None: ...

    def runs(self, dag_id: str, **_: object) -> list[DagRun]:
        ids = [run_id for run_id, *_ in self.triggered] + ["other"] * self.under_way
        state = "running" if self.under_way else "success"
        of = {"model": "delay"}
        return [DagRun(dag_id, one, "manual", state, None, None, None, of) for one in ids]

    def trigger(self, dag_id: str, *, conf: dict[str, str], run_id: str) -> DagRun:
        self.triggered.append((run_id, conf["model"], conf["reason"]))
        return DagRun(dag_id, run_id, "manual", "queued", None, None)


@pytest.mark.usefixtures("state")
def test_an_incident_of_a_monitor_trains_its_model_once_over_several_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    airflow, drifting = Runs(), (replace(LABELS, retrain="delay"),)
    monkeypatch.setattr(runs, "AirflowApi", lambda _: airflow)
    monitored(*[0.5] * (LOOKS - 1), monitors=drifting)
    assert airflow.triggered == []
    airflow.away = True
    monitored(*[0.5] * LOOKS, monitors=drifting)  # the watch goes on without Airflow
    airflow.away, airflow.under_way = False, True
    monitored(*[0.5] * LOOKS, monitors=drifting)
    assert airflow.triggered == [], "one run for a model at a time"
    airflow.under_way = False
    for _ in range(2):  # each watch meets the incident anew
        monitored(*[0.5] * 3 * LOOKS, monitors=drifting)
    [(_, model, reason)] = airflow.triggered
    assert (model, reason) == ("delay", "monitor.labels")
    monitored(*[0.9] * LOOKS, monitors=drifting)
    monitored(*[0.5] * LOOKS, monitors=drifting)
    assert len({run_id for run_id, *_ in airflow.triggered}) == 2, "a new incident"
