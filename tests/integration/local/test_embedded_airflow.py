"""Airflow's parts outlive the process that started them; down leaves none, and start-up takes our
folders."""

from __future__ import annotations

import http.client
import json
import signal
from pathlib import Path

import pytest

from slicewise.local.servers import process, services, supervisor
from slicewise.settings import Settings
from tests.support.platform.servers import listening

pytestmark = pytest.mark.timeout(900)


def _get(port: int, path: str) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/auth/token")
    token = json.loads(connection.getresponse().read())["access_token"]
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    document: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return document


def test_airflow_runs_on_our_settings_and_leaves_no_orphan_when_its_head_is_killed(
    tmp_path: Path,
) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")})
    try:
        settings = supervisor.up(settings, print, only=["airflow"])
        state = services.build(settings, env={}).state
        port = state.ports()["airflow"]
        version = _get(port, "/api/v2/version")
        assert str(version["version"]).startswith("3.3.")
        errors = _get(port, "/api/v2/importErrors")
        assert errors["total_entries"] == 0, errors
        for birth in process.marked(state.path, "airflow"):
            env = Path(f"/proc/{birth.pid}/environ").read_text(errors="replace").split("\0")
            assert f"SLICEWISE_STATE={state.path}" in env
        assert listening(process.marked(state.path, "airflow")) == {("127.0.0.1", port)}

        head = process.root_of(state.path, "airflow")
        assert head is not None
        head.signal(signal.SIGKILL)
        assert process.wait_gone([head], 10) == []
        assert len(process.marked(state.path)) > 3, "the parts live on"
        [row] = [service for service in supervisor.status(settings) if service.name == "airflow"]
        assert row.state == "down"
    finally:
        supervisor.down(settings, print)
    assert process.marked(tmp_path / "state") == []
