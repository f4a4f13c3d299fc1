"""A test alert is sent by Airflow's own environment, with the variables and connections that its
tasks have."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from slicewise.errors import ServerError
from slicewise.lifecycle.reports import ReportReader
from slicewise.local.servers import airflow as airflow_server
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

_TIMEOUT_S = 180.0


def send(settings: Settings) -> dict[str, Any]:
    """Sends one alert to each configured channel: its text, and per channel what came back. Raises
    ServerError."""
    python = settings.airflow_bin.parent / "python"
    if not python.exists():
        raise ServerError(
            "a test alert is sent by Airflow's environment, which is not here",
            where=str(python),
            expected="the machine, or container, where Airflow's workers run",
            next_step="make setup installs it; SLICEWISE_AIRFLOW_BIN names another",
        )
    command = [str(python), "-m", "slicewise_airflow.channels"]
    try:
        done = subprocess.run(
            command,
            env=_environment(settings),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(
            f"no channel had answered after {_TIMEOUT_S:.0f} s", next_step="is one of them away?"
        ) from error
    reader = ReportReader()
    for _ in reader.read(done.stdout.splitlines()):
        pass
    if reader.report is None:
        raise ServerError(
            "no test alert could be sent",
            where=done.stderr.strip().splitlines()[-1]
            if done.stderr.strip()
            else f"exit code {done.returncode}",
            expected="what came back from each channel",
            next_step="does Airflow itself run? slicewise status",
        )
    return dict(reader.report)


def _environment(settings: Settings) -> dict[str, str]:
    """The environment of Airflow's tasks: of the embedded one what the supervisor gives it, else
    what is set here."""
    env = os.environ | settings.to_env()
    state = StateFolder(settings.state_dir)
    port = state.ports().get(airflow_server.NAME)
    if "AIRFLOW_HOME" not in env and port is not None:
        env |= airflow_server.environment(settings, state, port)
    plugins = str(settings.home / "plugins")
    env["PYTHONPATH"] = os.pathsep.join([plugins, *filter(None, [env.get("PYTHONPATH")])])
    # connections that were added in Airflow's UI stand in its database
    return {**env, "_AIRFLOW_PROCESS_CONTEXT": "server"}
