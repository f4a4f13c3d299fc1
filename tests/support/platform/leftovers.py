"""Every process that a run started ends with it, also where it was interrupted before its fixtures
ended.

Run side by side, tests are in processes that an interrupted pytest does not wait for. All that they
start carries the run's variable, by which it is found and ended here. What this process itself
started is its fixtures' to stop.
"""

from __future__ import annotations

import os
import time
import uuid

import psutil

# none of ours begins so: a service is not given the others of its starter
VARIABLE = "TEST_RUN_OF_SERVERS"
PATIENCE_S = 15.0


def pytest_configure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[VARIABLE] = uuid.uuid4().hex


def pytest_unconfigure() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        ended = end_all(os.environ[VARIABLE], grace_s=5.0)
        if ended:
            print(f"ended what tests left running: {', '.join(ended)}")


def end_all(run: str, grace_s: float) -> list[str]:
    """Ends every process that carries this run's variable, but this one and its own. They have a
    grace to end by themselves. Gives their names."""
    deadline = time.monotonic() + grace_s
    while (left := _left(run)) and time.monotonic() < deadline:
        time.sleep(0.2)
    names = []
    for process in left:
        try:
            names.append(f"{process.name()} {process.pid}")
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    _, stubborn = psutil.wait_procs(left, PATIENCE_S)
    for process in stubborn:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    return names


def _left(run: str) -> list[psutil.Process]:
    this = psutil.Process()
    own = {this, *this.children(recursive=True)}
    return [
        process
        for process in psutil.process_iter()
        if process not in own and _run_of(process) == run
    ]


def _run_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(VARIABLE)
    except (psutil.Error, OSError):
        return None  # ended meanwhile, or somebody else's
