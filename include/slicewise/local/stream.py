"""The stream's driver outlives whoever starts it, and at most one runs per state folder."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from slicewise.local import control
from slicewise.local.process import Birth
from slicewise.local.service import Service
from slicewise.local.state import StateFolder
from slicewise.log import warning
from slicewise.settings import Settings

NAME = "stream"
# The driver writes it at the end of each batch and while it idles, replacing it in one step.
HEARTBEAT = "stream/heartbeat.json"
HEARTBEAT_LIMIT_S = 60.0
START_LIMIT_S = 120.0
_HUNG_STOP_S = 5.0
"""A driver that hangs finishes no batch: it is not waited for as one that drains."""


@dataclass(frozen=True)
class DriverProcess:
    """What is known of the driver as a process; what it says of its sources is lifecycle.health.StreamStatus."""

    running: bool
    pid: int | None
    heartbeat_age_s: float | None
    """Seconds since its last sign of life, None before the first."""
    heartbeat: dict[str, Any]
    """What it said with it."""

    @property
    def well(self) -> bool:
        """Runs, and has shown life lately."""
        age = self.heartbeat_age_s
        return self.running and age is not None and age < HEARTBEAT_LIMIT_S


def service(settings: Settings, state: StateFolder) -> Service:
    """The driver as a service: started by the DAG ingest_stream, stopped by SIGTERM (it drains)."""
    return Service(
        name=NAME,
        argv=(str(settings.spark_python), str(settings.home / "spark_jobs" / "stream.py")),
        cwd=state.path,
        health=lambda _: _reason(_beat(state)),
        address="",
        env={
            "PYSPARK_PYTHON": str(settings.spark_python),
            "PYSPARK_DRIVER_PYTHON": str(settings.spark_python),
        },
        prepare=lambda: _prepare(state),
        stop_order=20,
        start_timeout_s=START_LIMIT_S,
        stop_timeout_s=60.0,
        always_on=False,
    )


def ensure_stream(settings: Settings) -> DriverProcess:
    """Starts the driver unless it runs; does not wait for it to be well. Any number may call.

    One that has shown no life for long, or none since its start, hangs: it is replaced, which is safe at
    any moment. One that lives but whose batch does not end is left to a person: a batch may be slow for a reason.
    """
    state = StateFolder(settings.state_dir)
    state.create()
    spec = service(settings, state)
    with state.locked(NAME):
        silent_s, limit_s = _beat(state)[0], HEARTBEAT_LIMIT_S
        if silent_s is None:
            silent_s, limit_s = _started_s_ago(state), spec.start_timeout_s
        if silent_s > limit_s and control.running(spec, state) is not None:
            warning("driver_hangs", silent_s=round(silent_s, 1))
            control.stop(replace(spec, stop_timeout_s=_HUNG_STOP_S), state)
        if control.running(spec, state) is None:
            control.start(spec, state, settings)
    return stream_status(settings)


def stop_stream(settings: Settings) -> bool:
    """Lets the driver drain and end; was there one."""
    state = StateFolder(settings.state_dir)
    state.create()
    with state.locked(NAME):
        return control.stop(service(settings, state), state)


def stream_status(settings: Settings) -> DriverProcess:
    """Changes nothing."""
    state = StateFolder(settings.state_dir)
    birth: Birth | None = control.running(service(settings, state), state)
    age, said = _beat(state)
    return DriverProcess(birth is not None, birth.pid if birth else None, age, said)


def _prepare(state: StateFolder) -> None:
    # the last driver's sign of life is not the new one's
    (state.path / "stream").mkdir(exist_ok=True)
    (state.path / HEARTBEAT).unlink(missing_ok=True)


def _started_s_ago(state: StateFolder) -> float:
    file = state.pid_file(NAME)
    return time.time() - file.stat().st_mtime if file.exists() else 0.0


def _beat(state: StateFolder) -> tuple[float | None, dict[str, Any]]:
    file = state.path / HEARTBEAT
    try:
        age, said = time.time() - file.stat().st_mtime, json.loads(file.read_text())
    except (OSError, ValueError):
        return None, {}
    return max(0.0, age), said if isinstance(said, dict) else {}


def _reason(beat: tuple[float | None, dict[str, Any]]) -> str | None:
    age = beat[0]
    if age is None:
        return "no sign of life yet"
    return None if age < HEARTBEAT_LIMIT_S else f"last sign of life {age:.0f} s ago"
