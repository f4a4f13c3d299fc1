"""What a run of the tests started is found by its variable and ended, and nothing else is."""

from __future__ import annotations

import os
import subprocess

from tests.support import leftovers


def test_what_a_run_started_is_ended_and_what_another_started_is_not() -> None:
    ours, others = (
        subprocess.Popen(["sleep", "300"], env={**os.environ, leftovers.VARIABLE: run}, start_new_session=True)
        for run in ("this", "another")
    )
    try:
        assert leftovers.end_all("this") == [f"sleep {ours.pid}"]
        assert ours.wait(5) is not None
        assert others.poll() is None
    finally:
        others.kill()
        others.wait(5)
