"""Drivers as their own machine shows them: pid files, signs of life, and what is kept of their
faults from look to look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slicewise.errors import BadRequest, SlicewiseError
from slicewise.lifecycle import deployed as deployments
from slicewise.lifecycle import lagging, restarts, supervision
from slicewise.lifecycle.absence import Absence
from slicewise.lifecycle.deployed import Deployments
from slicewise.lifecycle.findings import Finding
from slicewise.lifecycle.health.alerts import runbook_link
from slicewise.lifecycle.health.overview import store_reasons
from slicewise.lifecycle.lagging import Lag
from slicewise.lifecycle.supervision import MICROBATCH, NAMED, DriverLook, Supervised
from slicewise.local.servers import health, process
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.online.model.status import Status
from slicewise.stores.online.redis.status import read_status

_KAFKA_PORT = 9092
_KEPT, _ABSENCE, _LAGS = "supervised.json", "absence.json", "lags.json"
_DEPLOYMENTS = "deployments.json"


def looks(state: StateFolder) -> dict[str, DriverLook | None]:
    """A look at each driver; none where one was stopped on purpose, or never started here."""
    return {name: look(state, name) for name in NAMED}


def look(state: StateFolder, name: str) -> DriverLook | None:
    """A look at one driver; none where it was stopped on purpose, or is being so. Changes
    nothing."""
    file = state.pid_file(name)
    if process.is_stopping(file):
        return None
    try:
        started_us = int(file.stat().st_mtime * 1e6)
    except OSError:
        return None
    age_s, heartbeat = heartbeat_of(state, name)
    beat_us = None if age_s is None else int((time.time() - age_s) * 1e6)
    running = process.read_pid_file(file) is not None
    elsewhere = not running and not process.written_here(file)
    return DriverLook(running, started_us, beat_us, _statuses(heartbeat), elsewhere)


def _statuses(heartbeat: Mapping[str, Any]) -> tuple[Status, ...]:
    sources = heartbeat.get("sources")
    if not isinstance(sources, dict):
        return ()
    try:
        return tuple(Status.parse(name, json.dumps(raw)) for name, raw in sources.items())
    except BadRequest:
        return ()  # another version's words: its signs of life count all the same


def heartbeat_file(state: StateFolder, name: str) -> Path:
    """The driver writes it at the end of each batch and while it idles, replacing it in one
    step."""
    return state.path / name / "heartbeat.json"


def heartbeat_of(state: StateFolder, name: str) -> tuple[float | None, dict[str, Any]]:
    """Age in seconds of a driver's last sign of life, and the words that came with it."""
    file = heartbeat_file(state, name)
    try:
        age, heartbeat = time.time() - file.stat().st_mtime, json.loads(file.read_text())
    except (OSError, ValueError):
        return None, {}
    return max(0.0, age), heartbeat if isinstance(heartbeat, dict) else {}


def server_away(settings: Settings) -> str:
    """The server that drivers need and that does not answer; empty where both do."""
    return store_away(settings) or broker_away(settings)


def store_away(settings: Settings) -> str:
    """Reason why the store does not answer; empty where it does."""
    try:
        read_status(settings.redis_url)
    except SlicewiseError as error:
        return f"the store: {error.what}"
    return ""


def store_ill(settings: Settings) -> str:
    """Reasons why the store is not well, whether or not it answers; empty where it is."""
    try:
        return "; ".join(store_reasons(read_status(settings.redis_url)))
    except SlicewiseError as error:
        return f"the store: {error.what}"


def broker_away(settings: Settings) -> str:
    """Reasons why no broker answers; empty where one does."""
    reasons = []
    for given in settings.kafka_bootstrap.split(","):
        # as librdkafka reads it: the protocol and the port may be left out
        address = urlsplit(f"//{given.strip().rpartition('//')[2]}")
        try:
            reason = health.kafka(address.port or _KAFKA_PORT, address.hostname or "")
        except ValueError as error:
            reason = str(error)
        if reason is None:
            return ""
        reasons.append(f"{given.strip()}: {reason}")
    return f"the broker: {'; '.join(reasons)}"


def kept(state: StateFolder) -> dict[str, Supervised]:
    """State of each driver from the last look; none where nobody looked, or the file is torn."""
    try:
        return supervision.from_json(json.loads((state.path / _KEPT).read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def keep(state: StateFolder, supervised: Mapping[str, Supervised]) -> None:
    """Replaces what is kept in one step. Raises OSError."""
    _replace(state.path / _KEPT, supervision.to_json(supervised))


def kept_absence(state: StateFolder) -> Absence:
    """The broker's absence as the last look left it; none where nobody looked, or the file is
    torn."""
    try:
        return Absence(**json.loads((state.path / _ABSENCE).read_text()))
    except (OSError, ValueError, TypeError):
        return Absence()


def keep_absence(state: StateFolder, absence: Absence) -> None:
    """Replaces what is kept in one step. Raises OSError."""
    _replace(state.path / _ABSENCE, asdict(absence))


def kept_lags(state: StateFolder) -> dict[str, Lag]:
    """Sources that the micro-batch lane is behind with, as the last look left them."""
    try:
        return lagging.from_json(json.loads((state.path / _LAGS).read_text()))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def keep_lags(state: StateFolder, lags: Mapping[str, Lag]) -> None:
    """Replaces what is kept in one step. Raises OSError."""
    _replace(state.path / _LAGS, lagging.to_json(lags))


def kept_deployments(state: StateFolder) -> Deployments:
    """Deployments as the last look left them; none where nobody looked, or the file is torn."""
    try:
        return deployments.from_json(json.loads((state.path / _DEPLOYMENTS).read_text()))
    except (OSError, ValueError, TypeError):
        return Deployments()


def keep_deployments(state: StateFolder, kept: Deployments) -> None:
    """Replaces what is kept in one step. Raises OSError."""
    _replace(state.path / _DEPLOYMENTS, deployments.to_json(kept))


def findings(settings: Settings, now_us: int, *, broker: bool = True) -> tuple[Finding, ...]:
    """Findings about drivers of this machine and what they wait for: what the watch of Airflow
    keeps, as far as a look bears it out. broker: whether to look at the broker too."""
    state = StateFolder(settings.state_dir)
    present = {name for name, one in looks(state).items() if one is not None}
    results = []
    if broker and present and (reason := broker_away(settings)):
        since_us = kept_absence(state).since_us
        lasting = f", for {(now_us - since_us) / 1e6:.0f} s" if since_us else ""
        text = f"it does not answer{lasting}: {reason.removeprefix('the broker: ')}"
        results.append(Finding("broker", text, runbook_link("broker_away")))
    for name, supervised in kept(state).items():
        again = restarts.summary(supervised.restarts, now_us)
        if not again or name not in present:
            continue
        fault = f"{supervised.fault}; " if supervised.ill else ""
        matter = "driver_loops" if supervised.restarts.loops else "driver_lost"
        results.append(
            Finding(f"driver {name}", f"{fault}{again}", runbook_link(matter), now=supervised.ill)
        )
    return (*results, *_deployment_findings(state), *_lag_findings(settings, state, now_us))


def _deployment_findings(state: StateFolder) -> Iterator[Finding]:
    kept = kept_deployments(state)
    look = runbook_link("deployment_undone")
    if kept.undone_version:
        text = f"version {kept.undone_version} was undone, version {kept.version} stands: "
        yield Finding("deployment", f"{text}{kept.undone}", look, now=False)
    elif kept.undone:
        yield Finding("deployment", f"version {kept.version}: {kept.undone}", look)


def _lag_findings(settings: Settings, state: StateFolder, now_us: int) -> Iterator[Finding]:
    lags, shown = kept_lags(state), look(state, MICROBATCH)
    for status in () if shown is None else shown.statuses:
        behind_s, lag = lagging.behind_s(status), lags.get(status.source)
        if lag is None or not lag.notified or not behind_s or behind_s <= settings.lag_limit_s:
            continue
        text = (
            f"{status.lag_events:,} events behind, {behind_s:.0f} s at its rate, and falling behind "
            f"since {(now_us - lag.first_us) / 60e6:.0f} min"
        )
        yield Finding(f"source {status.source}", text, runbook_link("lagging"))


def _replace(file: Path, kept: Mapping[str, object]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(kept))
    part.replace(file)
