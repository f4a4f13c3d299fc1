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
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.lifecycle import alerted
from slicewise.lifecycle.health.alerts import alert
from slicewise.local.servers import process, supervisor
from slicewise.local.servers.process import Birth
from slicewise.settings import Settings
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.readiness import MarkBuilding, MarkReady
from slicewise.stores.online.operations.status import PutStatus
from slicewise.stores.online.redis.status import amend_part, read_status, record_part
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

        amend_part(
            settings.redis_url,
            alerted.PART,
            lambda text: alerted.remembered(text, _alert(1), now_us),
        )
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


def test_a_part_that_many_change_at_once_has_what_each_of_them_said(own_redis: RedisServer) -> None:
    now_us = read_status(own_redis.url).now_us

    def remember(number: int) -> None:
        amend_part(
            own_redis.url,
            alerted.PART,
            lambda text: alerted.remembered(text, _alert(number), now_us),
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(remember, [i for i in range(8) for _ in range(5)]))
    with Served.on(own_redis.url, deployment()):
        alerts = alerted.recent(read_status(own_redis.url).parts[alerted.PART], now_us)
    assert sorted(reported_alert.subject for reported_alert in alerts) == sorted(
        f"dag{number}.task" for number in range(8)
    )
    assert {reported_alert.times for reported_alert in alerts} == {5}


def _alert(number: int) -> dict[str, str]:
    return alert(f"dag{number}", "task", "run", "why").fields()
