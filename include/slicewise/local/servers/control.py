"""Starting is idempotent, stopping leaves nothing: both go by what runs, not by what was noted."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

from slicewise.errors import ServerError
from slicewise.local.servers import process
from slicewise.local.servers.process import Birth
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings

Notify = Callable[[str], None]


def running(service: Service, state: StateFolder) -> Birth | None:
    """The service's process, by its pid file or, where that is lost, by its variables."""
    file = state.pid_file(service.name)
    birth = process.read_pid_file(file)
    if birth is None:
        # a starter that was killed between the start and its note
        birth = process.root_of(state.path, service.name)
        if birth is not None:
            process.write_pid_file(file, birth)
    return birth


def start(service: Service, state: StateFolder, settings: Settings) -> Birth:
    """Starts the service; the caller holds the lock and knows that it does not run."""
    # what a killed service left behind would hold its ports and files
    _end(process.marked(state.path, service.name), 5.0)
    service.prepare()
    _require_program(service)
    state.turn_log(service.name)
    birth = process.spawn(
        service.argv, service.environment(settings), service.cwd, state.log(service.name)
    )
    process.write_pid_file(state.pid_file(service.name), birth)
    return birth


def _require_program(service: Service) -> None:
    program = Path(service.argv[0])
    if program.is_absolute() and not program.exists():
        raise ServerError(
            f"{service.name} cannot start: its program is missing",
            where=str(program),
            next_step="make setup installs it",
        )


def await_well(service: Service, birth: Birth, state: StateFolder, notify: Notify) -> float:
    """Waits until the service is well; gives the seconds it took. Raises ServerError."""
    begun = time.monotonic()
    notified = begun
    reason: str | None = "not asked yet"
    while time.monotonic() - begun < service.start_timeout_s:
        if not birth.alive():
            raise ServerError(
                f"{service.name} ended while it started",
                where=f"{state.log(service.name)}\n{state.last_lines(service.name)}",
                next_step="read its log, then start again",
            )
        reason = service.health(birth.pid)
        if reason is None:
            return time.monotonic() - begun
        if time.monotonic() - notified > 10:
            notified = time.monotonic()
            notify(f"{service.name:<8} starting, {notified - begun:.0f} s: {reason}")
        time.sleep(0.1)
    raise ServerError(
        f"{service.name} is not well after {service.start_timeout_s:.0f} s: {reason}",
        where=f"{state.log(service.name)}\n{state.last_lines(service.name)}",
        next_step="read its log; starting again finds what runs",
    )


def stop(service: Service, state: StateFolder) -> bool:
    """Stops the service and every descendant of it; was there anything to stop."""
    root = running(service, state)
    process.mark_stopping(state.pid_file(service.name), process.this_process())
    everything = _tree(root) | set(process.marked(state.path, service.name))
    if everything:
        if root is not None:
            root.signal(service.stop_signal)
            left = process.wait_gone(everything, service.stop_timeout_s)
        else:
            left = list(everything)
        # what was started meanwhile belongs to it too
        _end({*left, *process.marked(state.path, service.name)}, 10.0)
    state.pid_file(service.name).unlink(missing_ok=True)
    return bool(everything)


def kill(service: Service, state: StateFolder) -> bool:
    """Ends the service and all that it started at once, by SIGKILL: for one that answers nothing.
    It counts as one that died. Was there anything to end."""
    ended = False
    # again for what was started meanwhile
    while everything := _tree(running(service, state)) | set(
        process.marked(state.path, service.name)
    ):
        ended = True
        for birth in everything:
            birth.signal(signal.SIGKILL)
        _require_gone(process.wait_gone(everything, 10.0))
    return ended


def sweep(state: StateFolder) -> int:
    """Ends whatever still carries this state folder's variables; how many there were."""
    left = process.marked(state.path)
    _end(left, 5.0)
    return len(left)


def _tree(root: Birth | None) -> set[Birth]:
    return {root, *process.descendants(root)} if root is not None else set()


def _end(processes: set[Birth] | list[Birth], patience_s: float) -> None:
    for birth in processes:
        birth.signal(signal.SIGTERM)
    left = process.wait_gone(processes, patience_s)
    for birth in left:
        birth.signal(signal.SIGKILL)
    _require_gone(process.wait_gone(left, 10.0))


def _require_gone(left: Collection[Birth]) -> None:
    if left:
        raise ServerError(
            "processes do not end",
            where=", ".join(str(birth.pid) for birth in left),
            next_step="they wait for the kernel or belong to someone else: see ps",
        )
