"""Status is the truth: servers that are up and answers that are refused are not well, and each
reason is told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from slicewise import cli
from slicewise.errors import ServerError
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.lifecycle import incidents
from slicewise.lifecycle.health.alerts import Alert, alert
from slicewise.local.servers import process, supervisor
from slicewise.local.servers.inbox import Inbox
from slicewise.local.servers.process import Birth
from slicewise.settings import Settings
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.readiness import MarkBuilding, MarkReady
from slicewise.stores.online.operations.status import PutStatus
from slicewise.stores.online.redis.status import read_status, record_part
from slicewise.windows.durations import HOUR_US
from tests.integration.serving.support import deployment, everyone
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import TOPIC, Event, Served


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Settings of a platform whose Airflow and broker are somebody else's."""
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_AIRFLOW_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SLICEWISE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    loaded = supervisor.up(Settings.load(), print, only=["redis", "serving"])
    yield loaded
    supervisor.down(loaded, print)


def status(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit status, and the rows by their kind."""
    capsys.readouterr()
    code = cli.main(["status", "--json"])
    rows = json.loads(capsys.readouterr().out)
    return code, {
        kind: [row for row in rows if row["kind"] == kind]
        for kind in ("service", "view", "job", "finding")
    }


def test_all_servers_up_is_not_well_while_a_view_is_refused(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = status(capsys)
    assert code == 0
    assert [(finding["detail"], finding["state"]) for finding in result["finding"]] == [
        ("nothing is deployed", "past")
    ]

    with Served.on(settings.redis_url, plan(Project("tests", (everyone,)))) as served:
        now_us = served.store.run(ReadTime())
        columns = {"user_id": "ann", "country": "no", "seconds": 30.0, "n": 1}
        served.apply([Event(0, 0, now_us - 60_000_000, columns)])
        whole = Served(served.store, deployment())
        topics = {source.topic: TOPIC for source in whole.deployment.sources}
        whole.store.run(
            Deploy(
                whole.deployment, whole.store.run(ReadMetadata()).deployment_version, topics=topics
            )
        )
        running = json.dumps({"state": "running", "heartbeat_us": now_us, "lag": 0})
        for source in whole.deployment.sources:
            record_part(settings.redis_url, f"stream:{source.name}", running)
        left = [
            unit
            for unit in whole.deployment.units
            if unit.storage_fingerprint not in whole.store.run(ReadMetadata()).ready
        ]
        assert left
        whole.store.run(MarkBuilding(left[0], 3, 12))
        building = {unit.storage_fingerprint: "Spark computes hours" for unit in left}
        whole.store.run(
            PutStatus(phases.PART, phases.changed(None, building, whole.store.run(ReadTime())))
        )

        code, result = status(capsys)
        assert code == 3
        assert {
            row["state"] for row in result["service"] if row["name"] in ("redis", "serving")
        } == {"up"}
        views = {row["name"]: row for row in result["view"]}
        assert views["everyone"]["state"] == "ready"
        assert views[left[0].view]["state"] == "building"
        assert "3 of 12 hours; Spark computes hours (for " in views[left[0].view]["detail"]
        reasons = {row["name"]: row for row in result["finding"]}
        assert reasons[f"view {left[0].view}"]["log"] == "docs/runbook.md#a-view-stays-in-building"

        assert cli.main(["status"]) == 3
        output = capsys.readouterr().out
        assert "not well:" in output
        assert (
            f"view {left[0].view}: answers 503: building, 3 of 12 hours; Spark computes hours"
            in output
        )

        for unit in left:
            whole.store.run(
                MarkReady(unit, whole.store.run(ReadMetadata()).starts[unit.storage_fingerprint])
            )
        code, result = status(capsys)
        assert (code, result["finding"]) == (0, [])

        Inbox(settings).change(lambda before, now_us: incidents.met(before, _alert(1), now_us, 1))
        code, result = status(capsys)
        assert code == 0, "what is over is told, and is not wrong now"
        assert [row["state"] for row in result["finding"]] == ["past"]

    serving = Birth.of(next(row["pid"] for row in result["service"] if row["name"] == "serving"))
    assert serving is not None
    os.kill(serving.pid, signal.SIGKILL)
    assert not process.wait_gone([serving], 20)
    code, result = status(capsys)
    assert code == 1
    assert next((row["name"], row["state"]) for row in result["finding"]) == ("serving", "ill")


def test_incidents_that_many_meet_at_once_page_once_each(
    own_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    inbox = Inbox(Settings.load())

    def meet(number: int) -> int:
        return len(
            inbox.change(
                lambda before, now_us: incidents.met(before, _alert(number), now_us, HOUR_US)
            )
        )

    with Served.on(own_redis.url, deployment()):
        with ThreadPoolExecutor(8) as pool:
            pages = sum(pool.map(meet, [i for i in range(8) for _ in range(5)]))
        assert pages == 8
        before = inbox.read()
        assert sorted(one.key for one in before) == sorted(
            f"dag{number}.task" for number in range(8)
        )
        assert {(one.times, one.pages) for one in before} == {(5, 1)}
        stored = incidents.from_text(read_status(own_redis.url).parts[incidents.PART])
        assert stored == before, "other machines read them from the store"
        (tmp_path / "state" / "incidents.json").unlink()
        assert inbox.read() == before, "a state folder that is new knows them too"


def test_incidents_are_kept_while_the_store_is_away_and_copied_once_it_is_back(
    own_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    away = Inbox(Settings.load())
    meet = lambda before, now_us: incidents.met(before, _alert(1), now_us, HOUR_US)  # noqa: E731
    assert [len(away.change(meet)) for _ in range(2)] == [1, 0]
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    with Served.on(own_redis.url, deployment()):
        back = Inbox(Settings.load())
        (page,) = back.change(
            lambda before, now_us: incidents.settled(before, lambda _: True, now_us)
        )
        assert page.event == "incident_over"
        (stored,) = incidents.from_text(read_status(own_redis.url).parts[incidents.PART])
    assert (stored.times, stored.is_open) == (2, False)


def test_an_inbox_that_cannot_be_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "theirs"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", "redis://127.0.0.1:1/0")
    with pytest.raises(ServerError, match="holds something else"):
        Inbox(Settings.load()).change(lambda before, _: (before, ()))


def _alert(number: int) -> Alert:
    return alert(f"dag{number}", "task", "run", "why")
