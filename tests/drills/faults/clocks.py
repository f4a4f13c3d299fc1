"""Clocks that are off by an hour and a half, one process at a time: what an event counts for is no
clock's affair.

A process is lied to by a library of our own (clock_off.c), about the time of day only: what it
measures by is as it was. Debian's libfaketime moves that too, or lets the waits of Python 3.11
fail.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from slicewise.serving.answering.memory.fallback import CLOCK_OFF
from tests.drills.faults.compactions import Compaction, late, settled
from tests.drills.faults.processes import again
from tests.drills.stage.run import Run
from tests.drills.stage.scene import MICROBATCH, REALTIME, Scene

SOURCE = Path(__file__).with_name("clock_off.c")
_MINUTES = 90
_PRINT_CLOCKS = """
import asyncio, threading, time
begun = time.monotonic()
threading.Event().wait(0.2)
time.sleep(0.2)
asyncio.run(asyncio.sleep(0.2))
print(time.time(), time.time_ns() // 10**9, time.monotonic() - begun)
"""


@contextmanager
def off(scene: Scene, minutes: int) -> Iterator[None]:
    """Sets the clocks of all processes that are started meanwhile wrong."""
    library = built(scene.platform.settings.state_dir.parent)
    with mock.patch.dict(os.environ, lying(library, minutes)):
        yield


def lying(library: Path, minutes: int) -> dict[str, str]:
    """Variables of a process whose clock is to be off."""
    return {"LD_PRELOAD": str(library), "CLOCK_OFF_S": str(minutes * 60)}


def built(folder: Path) -> Path:
    """The library, made in this folder where it is not there yet."""
    compiler = shutil.which("cc")
    assert compiler is not None, (
        "no C compiler, by which a clock is set off: install one (Debian: apt-get install gcc)"
    )
    library = folder / "clock_off.so"
    if not library.exists():
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"],
            check=True,
        )
        for minutes in (-_MINUTES, 0, _MINUTES):
            _hold(library, minutes)
    return library


def _hold(library: Path, minutes: int) -> None:
    """A process takes another time of day for the present, and waits as long as it means to."""
    environment = os.environ | lying(library, minutes)
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_CLOCKS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    now, whole, waited = (float(part) for part in done.stdout.split())
    assert abs(now - time.time() - 60 * minutes) < 30, (
        f"{minutes} minutes off, and the time of day is {now}"
    )
    assert abs(whole - now) < 5, "two clocks say two times of day"
    assert 0.6 <= waited < 30, f"0.6 s of waits took {waited} s"


# ------------------------------------------------------------ drills
def clock_off(run: Run) -> None:
    """Sets the clocks of the real-time lane, the micro-batch lane and serving wrong, one after
    another, each ahead or behind."""
    for name in (REALTIME, MICROBATCH):
        with off(run.scene, _some_minutes(run)):
            again(run, name)
        run.some(4, 6)
        again(run, name)
    before, watch = time.monotonic(), run.scene.watch
    assert not watch.flagged[CLOCK_OFF], "answers were flagged before any clock of serving was off"
    with off(run.scene, _some_minutes(run)):
        _serving_again(run)
    run.noticed(before, lambda: watch.flagged[CLOCK_OFF] > 0)
    # what it answers is of its own time, which each answer says: no event of now is in it
    run.some(4, 6)
    run.scene.await_applied()
    begun = time.monotonic()
    _serving_again(run)
    run.whole(begun)


def _serving_again(run: Run) -> None:
    """While nobody asks."""
    scene = run.scene
    serving = scene.server("serving")
    scene.watch.pause()
    serving.signal(signal.SIGTERM)
    scene.wait(lambda: "it runs" if serving.alive() else None, "serving to end")
    scene.platform.up("serving")
    scene.watch.resume()


def compaction_off(run: Run) -> None:
    """Two compactions, one ahead and one behind: each refuses to date a snapshot, with the reason,
    and leaves nothing that would keep the next from its work."""
    for minutes in (_MINUTES, -_MINUTES):
        late(run)
        begun = time.monotonic()
        with off(run.scene, minutes):
            job = Compaction.of(run.scene)
        assert job.over() is None, f"a compaction went on whose clock is off by {minutes} minutes"
        run.detect_s.append(time.monotonic() - begun)
        log = job.log.read_text(encoding="utf-8")
        assert "the clock of this process is" in log, f"no word of the clock:\n{log[-3_000:]}"
    settled(run)


def _some_minutes(run: Run) -> int:
    return run.rng.choice((-_MINUTES, _MINUTES))
