"""Processes of a platform by what they are for, with what each has used so far.

Two looks make a use: processor time of what ended between them went to the process that waited for
it, so that short tasks count as long ones do.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from slicewise.local.servers import process

_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (psutil.Error, OSError)
_NAMES = {
    "redis": "Redis",
    "kafka": "Kafka",
    "serving": "API",
    "watch": "watcher",
    "stream": "micro-batch lane",
    "tail": "real-time lane",
    "emit": "emission",
    "probes": "prober",
    "airflow": "Airflow",
}
_AIRFLOW = {
    "scheduler": "scheduler",
    "LocalExecutor": "executor and tasks",
    "dag-processor": "dag processor",
    "api-server": "API server",
    "api_server": "API server",
    "triggerer": "triggerer",
    "slicewise.local.airflow.head": "head",
}


@dataclass(frozen=True)
class Look:
    """One process, as it was once."""

    parent: int
    born: str
    """Start of the process in ticks: a pid may have another process later."""
    role: str
    cpu_s: float
    """Processor seconds of its own, and of all its children that have ended."""
    wakeups: Mapping[int, int]
    """Thread -> how often it has waited for something and went on."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one role. pss: a shared page is divided among those that share it."""

    pss: int = 0
    rss: int = 0
    processes: int = 0


@dataclass(frozen=True)
class Use:
    """Use of one role between two looks. cpu_s: processor seconds."""

    cpu_s: float = 0.0
    wakeups: int = 0


def looks(state: Path) -> dict[int, Look]:
    """All processes that were started for the state folder, by pid."""
    seen: dict[int, Look] = {}
    for running in psutil.process_iter():
        with suppress(*_GONE, ValueError, IndexError):
            env = running.environ()
            if env.get(process.STATE) != str(state) or process.SERVICE not in env:
                continue
            seen[running.pid] = _look(
                running.pid, role_of(env[process.SERVICE], " ".join(running.cmdline()))
            )
    return seen


def role_of(service: str, command: str) -> str:
    """A readable name of what a process is for. command: its arguments, or its title."""
    name = _NAMES.get(service, service)
    if service == "airflow":
        part = next((part for sign, part in _AIRFLOW.items() if sign in command), "tasks")
        return f"{name}: {part}"
    if service in ("stream", "tail", "emit"):
        return f"{name}: {_of_driver(command)}"
    return name


def _of_driver(command: str) -> str:
    if "org.apache.spark.deploy.SparkSubmit" in command or "io.slicewise.log" in command:
        return "JVM"
    return "workers" if "slicewise.spark.runtime.daemon" in command else "driver"


def _look(pid: int, role: str) -> Look:
    # after the name, which may hold blanks and brackets
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(int(fields[at]) for at in (11, 12, 13, 14))  # own and of ended children
    return Look(int(fields[1]), fields[19], role, ticks / _TICKS, _wakeups(pid))


def _wakeups(pid: int) -> dict[int, int]:
    return {
        int(status.parent.name): int(line.split()[1])
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in _lines(status)
        if line.startswith("voluntary_ctxt_switches")
    }


def _lines(file: Path) -> list[str]:
    with suppress(OSError):  # a thread that ended
        return file.read_text().splitlines()
    return []


def used(before: Mapping[int, Look], after: Mapping[int, Look]) -> dict[str, Use]:
    """Use of each role between two looks."""
    cpu_s: dict[str, float] = defaultdict(float)
    wakeups: dict[str, int] = defaultdict(int)
    for pid, look in after.items():
        cpu_s[look.role] += look.cpu_s
        earlier = before.get(pid)
        same = earlier is not None and earlier.born == look.born
        first = earlier.wakeups if earlier is not None and same else {}
        wakeups[look.role] += sum(
            max(0, count - first.get(thread, 0)) for thread, count in look.wakeups.items()
        )
    for pid, look in before.items():
        heir = _heir(pid, before, after)
        if heir is not None:
            cpu_s[heir] -= look.cpu_s
    return {role: Use(max(0.0, cpu_s[role]), wakeups[role]) for role in sorted(cpu_s)}


def _heir(pid: int, before: Mapping[int, Look], after: Mapping[int, Look]) -> str | None:
    """Role of the process that counts what this one used: itself, or the nearest above it that
    still lives. None where no such process is ours."""
    while (look := before.get(pid)) is not None:
        now = after.get(pid)
        if now is not None and now.born == look.born:
            return now.role
        pid = look.parent
    return None


def memory(pids: Mapping[int, Look]) -> dict[str, Memory]:
    """Memory of each role."""
    sizes: dict[str, Memory] = {}
    for pid, look in sorted(pids.items(), key=lambda pair: pair[1].role):
        with suppress(*_GONE):
            full = psutil.Process(pid).memory_full_info()
            others = sizes.get(look.role, Memory())
            sizes[look.role] = Memory(
                others.pss + int(getattr(full, "pss", 0) or full.rss),
                others.rss + int(full.rss),
                others.processes + 1,
            )
    return sizes


def total(sizes: Iterable[Memory]) -> Memory:
    """The sum of several roles."""
    listed = list(sizes)
    return Memory(
        sum(size.pss for size in listed),
        sum(size.rss for size in listed),
        sum(size.processes for size in listed),
    )
