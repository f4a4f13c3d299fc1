"""Servers die while somebody watches over them: they are back with no hand, and nothing is lost by
it."""

from __future__ import annotations

import signal
import time

from slicewise.lifecycle.restarts import Restarts
from slicewise.local.servers import supervisor, watch
from tests.drills.stage.run import Run
from tests.drills.stage.scene import signal_all


def servers_watched(run: Run) -> None:
    """The store and the broker, one after the other, at a random moment of the load."""
    scene = run.scene
    scene.platform.up(watch.NAME)
    try:
        for _ in range(run.times):
            for name in ("redis", "kafka"):
                run.some(0.5, 3)
                before, begun = _starts(run, name), time.monotonic()
                signal_all([scene.server(name)], signal.SIGKILL)
                run.kills += 1
                run.noticed(begun, lambda name=name, before=before: _starts(run, name) > before)  # type: ignore[misc]
                scene.wait(lambda name=name: None if scene.is_up(name) else "it is not up", name)  # type: ignore[misc]
                run.whole(begun)
    finally:
        supervisor.down(scene.platform.settings, print, only=[watch.NAME])


def _starts(run: Run, name: str) -> int:
    return len(watch.read(run.scene.state).get(name, Restarts()).at_us)
