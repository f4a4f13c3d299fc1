"""Airflow's parts live and end together, and none of them is reached from outside this machine.

Run by the Airflow environment's Python as
`python -P -m slicewise.local.airflow.head <airflow program> <pool> <slots>`, without the folder
that it is started in, which holds data. It is `airflow standalone` with three differences: the
servers for task logs, which listen on every address and cannot be told otherwise, are left out (on
one machine the pages read the log files themselves); the end of one part ends the whole, where
standalone goes on without it; and what all parts import is imported once, here, before they are
forked, so that they share its memory (docs/adr/0089).
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence, Set

PARTS = (
    ("scheduler", "--skip-serve-logs"),
    ("dag-processor",),
    ("api-server",),
    ("triggerer", "--skip-serve-logs"),
)
PATIENCE_S = 20.0
_SHARED = (
    "airflow.__main__",
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.executors.local_executor",
    "airflow.api_fastapi.app",
)
"""Modules that parts import at their start. None of them starts a thread, opens a database or a
connection: what is forked has no more than memory of them."""
_STOPS = (signal.SIGTERM, signal.SIGINT)
_AWAITED = (*_STOPS, signal.SIGCHLD)


def main(airflow: str, pool: str, slots: str) -> int:
    """Brings the metadata database up to date, sets the pool of Spark jobs, runs the parts; 0 if it
    was asked to stop."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for module in _SHARED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # a part that looks for garbage there would write to every page of it
    stopping = _stop_pending()  # nothing is begun for a platform that goes down again
    if not stopping:
        pool_set = ("pools", "set", pool, slots, "tasks that run a Spark job")
        for command in (("db", "migrate"), pool_set):
            if stopping := _stop_pending():
                break
            child = _begin((airflow, *command), before)
            if (code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) != 0:
                return code
        stopping = stopping or _stop_pending()
    parts: dict[int, str] = {}
    if not stopping:
        parts = {_begin((airflow, *part), before): part[0] for part in PARTS}
    ended: list[str] = []
    while not stopping and not ended:
        stopping = signal.sigwait(_AWAITED) in _STOPS
        ended = _ended(parts)
    if not stopping:
        sys.stderr.write(f"airflow_part_ended parts={','.join(ended)}\n")
    for pid in parts:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_S
    while parts and (left_s := deadline - time.monotonic()) > 0:
        signal.sigtimedwait([signal.SIGCHLD], min(left_s, 1.0))
        _ended(parts)
    for pid in parts:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return 0 if stopping else 1


def _stop_pending() -> bool:
    """Tells whether a signal to stop came while nobody waited for one."""
    return not signal.sigpending().isdisjoint(_STOPS)


def _begin(command: Sequence[str], mask: Set[int]) -> int:
    """Forks a process that does what `airflow ...` does; its pid. mask: signals that it blocks."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    # both of Airflow's environment, which types are not checked in
    title = importlib.import_module("setproctitle").setproctitle
    title(" ".join(("airflow", *command[1:])))
    sys.argv = list(command)
    importlib.import_module("airflow.__main__").main()
    sys.exit(0)


def _ended(parts: dict[int, str]) -> list[str]:
    """Names of the parts that have ended, which are taken out."""
    return [parts.pop(pid) for pid in list(parts) if os.waitpid(pid, os.WNOHANG)[0]]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
