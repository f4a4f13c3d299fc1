"""Servers that die come back by themselves: a small process looks at their pid files, and has the
dead ones started.

A pid file whose process is gone means a death; `down` removes the file, so what was stopped on
purpose has none and is left alone. Each start is a process of its own (`local/servers/revive.py`),
which takes the lock that `up` and `down` take: this one stays small, and outlives whatever goes
wrong there. A server that lives and hangs is left to a person.

    python -m slicewise.local.servers.watch redis kafka serving airflow
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slicewise.clock import Clock, SystemClock
from slicewise.lifecycle import restarts
from slicewise.lifecycle.restarts import Restarts
from slicewise.local.servers import process
from slicewise.local.servers.state import StateFolder
from slicewise.log import event, to_stderr, warning
from slicewise.settings import Settings

NAME = "watch"
EVERY_S = 0.5
NEEDLESS = 3
"""Exit status of a start that somebody else made needless."""

Revive = Callable[[str], str | None]
"""Starts a dead server by its name; why that failed, or "". None: somebody else stopped or started
it meanwhile."""


class Watcher:
    """Looks at servers, one look after another."""

    def __init__(
        self, state: StateFolder, names: Sequence[str], revive: Revive, clock: Clock
    ) -> None:
        self._state, self._names, self._revive, self._clock = state, names, revive, clock
        self._kept = read(state)
        self._unkept = ""
        """Reason for which what was done could not be written last."""

    def look(self) -> None:
        """Has what died and is due started again, in the given order: those first that others come
        after."""
        for name in self._names:
            kept = self._seen(name, self._kept.get(name, Restarts()))
            self._keep(name, kept)
            if not kept.due(self._clock.now_us()):
                continue
            begun_us = self._clock.now_us()
            begun = restarts.started(kept, begun_us)
            self._keep(name, begun)  # before it is tried: a watcher that ends meanwhile has tried
            error = self._revive(name)
            if error is None:  # `down` ends a server before it removes the file
                self._keep(name, restarts.needless(kept))
                continue
            warning("server_died", service=name, in_a_row=kept.in_a_row)
            if error:
                warning("start_failed", service=name, error=error)
                self._keep(name, restarts.started(kept, begun_us, error))
            else:
                event("server_started", service=name)
            if begun.in_a_row == restarts.LOOP:
                warning("dies_again_and_again", service=name, starts=begun.in_a_row)

    def _keep(self, name: str, kept: Restarts) -> None:
        if self._kept.get(name, Restarts()) != kept:
            self._kept = {**self._kept, name: kept}
            try:
                _write(self._state, self._kept)
                self._unkept = ""
            except OSError as error:
                # a full disk keeps nobody down: it is known while this process lives
                if str(error) != self._unkept:
                    warning("restarts_not_kept", error=str(error))
                self._unkept = str(error)

    def _seen(self, name: str, kept: Restarts) -> Restarts:
        file = self._state.pid_file(name)
        if process.read_pid_file(file) is not None:
            return restarts.alive(kept, self._clock.now_us())
        return (
            restarts.dead(kept, self._clock.now_us()) if file.exists() else restarts.stopped(kept)
        )


def read(state: StateFolder) -> dict[str, Restarts]:
    """The restarts of each server; none where nobody watched yet, or the file is torn."""
    try:
        return restarts.from_json(json.loads(_file(state).read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(state: StateFolder, kept: Mapping[str, Restarts]) -> None:
    file = _file(state)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(restarts.to_json(kept)))
    part.replace(file)


def _file(state: StateFolder) -> Path:
    return state.path / NAME / "restarts.json"


def _revived(name: str) -> str | None:
    """By a process of its own, which inherits what this one was started with."""
    argv = [sys.executable, "-m", "slicewise.local.servers.revive", name]
    done = subprocess.run(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    lines = done.stderr.strip().splitlines()
    sys.stderr.write(done.stderr)
    if done.returncode == NEEDLESS:
        return None
    return "" if done.returncode == 0 else (lines[0] if lines else f"exit status {done.returncode}")


def main(names: Sequence[str]) -> int:
    """Looks until it is stopped, or its state folder is gone."""
    to_stderr()
    state = StateFolder(Settings.load().state_dir)
    watcher = Watcher(state, names, _revived, SystemClock())
    event("watching", services=",".join(names))
    failed = ""
    while state.exists():
        try:
            watcher.look()
            failed = ""
        except Exception as error:  # noqa: BLE001
            if repr(error) != failed:
                failed = repr(error)
                warning("look_failed", error=failed)
        time.sleep(EVERY_S)
    event("state_is_gone", state=str(state.path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
