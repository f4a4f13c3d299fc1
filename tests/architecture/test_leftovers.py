"""Processes that a run of the tests started and left are found by its variable and ended; nothing
else is."""

from __future__ import annotations

import os
import subprocess
import time

import psutil

from tests.support.platform import leftovers


def orphan(run: str) -> psutil.Process:
    """A process that outlived the one that started it."""
    env = {**os.environ, leftovers.VARIABLE: run}
    done = subprocess.run(
        ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"],
        env=env,
        capture_output=True,
        check=True,
    )
    return psutil.Process(int(done.stdout))


def test_what_a_run_left_is_ended_and_what_another_left_is_not() -> None:
    ours, others = orphan("this"), orphan("another")
    child = subprocess.Popen(["sleep", "300"], env={**os.environ, leftovers.VARIABLE: "this"})
    try:
        begun = time.monotonic()
        assert leftovers.end_all("this", grace_s=0.5) == [f"sleep {ours.pid}"]
        assert time.monotonic() - begun >= 0.5, "it might have ended by itself"
        assert not ours.is_running()
        assert others.is_running()
        assert child.poll() is None, "what this process started is not left to anybody"
    finally:
        for process in (others, child):
            process.kill()
            process.wait(5)
