"""A process is named by its pid and its birth, so that a recycled pid is never signalled.

Every process that slicewise starts carries SLICEWISE_STATE and SLICEWISE_SERVICE, and
SLICEWISE_ROOT with its own pid; its children inherit them. What lost its parent or its pid file is
found by them.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

STATE = "SLICEWISE_STATE"
SERVICE = "SLICEWISE_SERVICE"
ROOT = "SLICEWISE_ROOT"
_GONE = (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied, OSError)


@dataclass(frozen=True)
class Birth:
    """One process of one boot of this machine."""

    pid: int
    born: str

    @staticmethod
    def of(pid: int) -> Birth | None:
        """The process that now has this pid; None if there is none, or only its corpse."""
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return None
            return Birth(pid, _born(pid))
        except _GONE:
            return None

    def alive(self) -> bool:
        return Birth.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if the process is still the one that was meant."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def this_process() -> Birth:
    """Process of the caller."""
    return Birth(os.getpid(), _born(os.getpid()))


def _born(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return repr(psutil.Process(pid).create_time())
    # Ticks since boot, unlike a wall-clock time of birth, do not move when the clock is set.
    ticks = stat.read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{ticks}"


def write_pid_file(file: Path, birth: Birth) -> None:
    """Replaces the file in one step: a reader sees the old one or the new one."""
    _replace(file, {"pid": birth.pid, "born": birth.born, "namespace": namespace()})


def mark_stopping(file: Path, stopper: Birth) -> None:
    """Notes in a pid file who ends its process on purpose: until that is done nobody is to take it
    for one that died."""
    if named := _named(file):
        by = {"pid": stopper.pid, "born": stopper.born, "namespace": namespace()}
        _replace(file, named | {"stopped_by": by})


def is_stopping(file: Path) -> bool:
    """Tells whether the process that a pid file names is being ended on purpose. Whoever does so
    lives, or cannot be seen from here."""
    by = _named(file).get("stopped_by")
    if not isinstance(by, dict):
        return False
    if by.get("namespace") != namespace():
        return True
    stopper = _birth(by)
    return stopper is not None and stopper.alive()


def _replace(file: Path, named: Mapping[str, object]) -> None:
    # Several may replace it at once, each from a file of its own.
    part = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    part.write_text(json.dumps(named))
    part.replace(file)


def _named(file: Path) -> dict[str, object]:
    try:
        named = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}  # none, or cut short by a crash: the variables find the process, if any
    return named if isinstance(named, dict) else {}


def _birth(named: Mapping[str, object]) -> Birth | None:
    pid, born = named.get("pid"), named.get("born")
    return Birth(pid, born) if isinstance(pid, int) and isinstance(born, str) else None


def namespace() -> str:
    """The machine, and the part of it whose processes this one can see: a container has one of its
    own, although it may share the state folder."""
    try:
        return f"{os.uname().nodename} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return os.uname().nodename


def written_here(file: Path) -> bool:
    """Tells whether a pid file names a process that could be seen here if it lived."""
    return _named(file).get("namespace", namespace()) == namespace()


def read_pid_file(file: Path) -> Birth | None:
    """The process that the file names, if it still lives."""
    birth = _birth(_named(file))
    return birth if birth is not None and birth.alive() else None


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> Birth:
    """Starts a process in a session of its own, its output appended to `log`.

    It outlives its starter, gets no signal of the starter's terminal, and inherits no ignored
    signal. The starter need not wait for it.
    """
    # The shell only changes folder, notes the pid and becomes the program: posix_spawn does
    # neither.
    script = f'cd "$0" && export {ROOT}=$$ && exec "$@"'
    shell = ["/bin/sh", "-c", script, str(cwd), *argv]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        "/bin/sh",
        shell,
        dict(env),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE],
    )
    return Birth.of(pid) or Birth(pid, "ended")


def marked(state_dir: Path, service: str | None = None) -> list[Birth]:
    """The processes started for this state folder (and service), their descendants included.

    Never this process or one that it descends from.
    """
    return [birth for birth, _ in _marked(state_dir, service)]


def root_of(state_dir: Path, service: str) -> Birth | None:
    """The process that was started as the service, if it lives; not one that it started."""
    for birth, root in _marked(state_dir, service):
        if root == str(birth.pid):
            return birth
    return None


def _marked(state_dir: Path, service: str | None) -> list[tuple[Birth, str]]:
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    births: list[tuple[Birth, str]] = []
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        try:
            env = process.environ()
        except _GONE:
            continue
        of_service = env.get(SERVICE) == service if service else SERVICE in env
        if of_service and env.get(STATE) == str(state_dir):
            birth = Birth.of(process.pid)
            if birth:
                births.append((birth, env.get(ROOT, "")))
    return births


def descendants(root: Birth) -> list[Birth]:
    """All that the process started and that still hangs below it."""
    try:
        children = psutil.Process(root.pid).children(recursive=True) if root.alive() else []
    except _GONE:
        return []
    births = (Birth.of(child.pid) for child in children)
    return [birth for birth in births if birth]


def wait_gone(processes: Iterable[Birth], timeout_s: float) -> list[Birth]:
    """Waits until none lives, at most timeout_s; returns those that still do."""
    left = list(processes)
    deadline = time.monotonic() + timeout_s
    while True:
        for birth in left:
            _reap(birth.pid)
        left = [birth for birth in left if birth.alive()]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.05)


def _reap(pid: int) -> None:
    # Only a child of this very process can be waited for; others are init's.
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
