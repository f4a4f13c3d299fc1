"""A drill while it is played: harm is done at random moments, and what it took is kept."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from slicewise.local.servers.process import Birth, descendants
from tests.drills.judging.records import Part
from tests.drills.stage.scene import Scene, signal_all

NOTICED_S = 60.0
"""In which a fault that the platform tells of must be told."""
POLL_S = 0.02


def await_that(seen: Callable[[], bool], what: str, most_s: float) -> None:
    """Waits until it is seen. Raises AssertionError."""
    deadline = time.monotonic() + most_s
    while not seen():
        assert time.monotonic() < deadline, f"{what}: not within {most_s:.0f} s"
        time.sleep(POLL_S)


@dataclass
class Run:
    """One drill while it is played: what it was seen to take."""

    scene: Scene
    rng: random.Random
    times: int
    """Number of kills of those that may be killed again and again."""
    kills: int = 0
    detect_s: list[float] = field(default_factory=list)
    recover_s: list[float] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    """Parts of a drill that plants several defects at once."""

    def some(self, least_s: float, most_s: float) -> None:
        """Until a random moment."""
        time.sleep(self.rng.uniform(least_s, most_s))

    def noticed(self, since: float, seen: Callable[[], bool]) -> None:
        """Waits until the platform tells of the fault."""
        while not seen():
            assert time.monotonic() - since < NOTICED_S, (
                f"the fault was not told within {NOTICED_S:.0f} s"
            )
            time.sleep(POLL_S)
        self.detect_s.append(time.monotonic() - since)

    def whole(self, since: float) -> None:
        """Waits until nothing is left of the fault, which ended then."""
        self.scene.await_whole()
        self.recover_s.append(time.monotonic() - since)

    def refused_since(self, before: int) -> bool:
        return self.scene.watch.refused > before

    def kill(self, *names: str) -> None:
        """Drivers at once, at a random moment of whatever they do, again and again; each comes
        back."""
        scene = self.scene
        for _ in range(self.times):
            self.some(0.5, 3)
            trees = [process for name in names for process in scene.tree(name)]
            begun = time.monotonic()
            signal_all(trees, signal.SIGKILL)
            self.kills += len(names)
            self.noticed(begun, lambda: not any(map(scene.runs, names)))
            for name in names:
                scene.start(name)
            self.whole(begun)

    @contextmanager
    def still(self, processes: Sequence[Birth]) -> Iterator[None]:
        """Stops the processes meanwhile, and wakes them."""
        signal_all(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(list(reversed(processes)), signal.SIGCONT)

    def zombie(self, name: str) -> None:
        """A driver stops, another takes its place on another machine, and the first wakes and goes
        on beside it."""
        scene = self.scene
        tree = scene.tree(name)
        begun = time.monotonic()
        with self.still(tree):
            scene.elsewhere(name)
            scene.start(name)
            self.whole(begun)
            self.some(0, 2)
        self.some(3, 6)
        scene.await_whole()
        self.bury(tree[0])
        self.some(1, 2)
        scene.await_whole()

    def bury(self, zombie: Birth) -> None:
        """Kills the zombie and all that it has by now."""
        signal_all([zombie, *descendants(zombie)], signal.SIGKILL)
        self.kills += 1
