"""A test alert is sent by Airflow's own environment, with the variables and connections that its
tasks have."""

from __future__ import annotations

import subprocess
from typing import Any

from slicewise.errors import ServerError
from slicewise.lifecycle.reports import ReportReader
from slicewise.local.servers import services
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
            env=services.environment_of_tasks(settings),
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
