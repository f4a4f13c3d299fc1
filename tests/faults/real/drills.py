"""What is done to the platform, each a fault that production knows; it comes back by its own means alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from slicewise.local.process import Birth, descendants
from tests.faults.real.scene import FOLD, TAIL, Scene, signal_all

NOTICED_S = 60.0
"""In which a fault that the platform tells of must be told."""
_POLL_S = 0.02
_BURST = 10_000
"""Events of the hour before now that are produced at once: what a driver is behind by that stood still for long."""
_HUNG_S = 30.0


@dataclass
class Run:
    """One drill while it is played: what it was seen to take."""

    scene: Scene
    rng: random.Random
    times: int
    """How often those are killed that may be killed again and again."""
    kills: int = 0
    detect_s: list[float] = field(default_factory=list)
    recover_s: list[float] = field(default_factory=list)

    def some(self, least_s: float, most_s: float) -> None:
        """Until a random moment."""
        time.sleep(self.rng.uniform(least_s, most_s))

    def noticed(self, since: float, seen: Callable[[], bool]) -> None:
        """Waits until the platform tells of the fault."""
        while not seen():
            assert time.monotonic() - since < NOTICED_S, f"the fault was not told within {NOTICED_S:.0f} s"
            time.sleep(_POLL_S)
        self.detect_s.append(time.monotonic() - since)

    def whole(self, since: float) -> None:
        """Waits until nothing is left of the fault, which ended then."""
        self.scene.await_whole()
        self.recover_s.append(time.monotonic() - since)

    def refused_since(self, before: int) -> bool:
        return self.scene.watch.refused > before

    def kill(self, *names: str) -> None:
        """Drivers at once, at a random moment of whatever they do, again and again; each comes back."""
        scene = self.scene
        for _ in range(self.times):
            self.some(0.5, 3)
            trees = [each for name in names for each in scene.tree(name)]
            begun = time.monotonic()
            signal_all(trees, signal.SIGKILL)
            self.kills += len(names)
            self.noticed(begun, lambda: not any(map(scene.runs, names)))
            for name in names:
                scene.start(name)
            self.whole(begun)

    @contextmanager
    def still(self, processes: Sequence[Birth]) -> Iterator[None]:
        """They stand still meanwhile, and wake."""
        signal_all(processes, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(list(reversed(processes)), signal.SIGCONT)

    def zombie(self, name: str) -> None:
        """A driver stops, another takes its place on another machine, and the first wakes and goes on beside it."""
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
        """It and all that it has by now."""
        signal_all([zombie, *descendants(zombie)], signal.SIGKILL)
        self.kills += 1

    @contextmanager
    def loss(self) -> Iterator[None]:
        """The store loses something meanwhile, and answers nothing when it is over: what it answers afterwards is of
        another life."""
        self.scene.watch.lost()
        try:
            yield
        finally:
            self.scene.watch.lost()


# ------------------------------------------------------------ drivers
def kill_tail(run: Run) -> None:
    run.kill(TAIL)


def kill_fold(run: Run) -> None:
    run.kill(FOLD)


def kill_both(run: Run) -> None:
    run.kill(TAIL, FOLD)


def zombie_tail(run: Run) -> None:
    run.zombie(TAIL)


def zombie_fold(run: Run) -> None:
    run.zombie(FOLD)


def fold_behind(run: Run) -> None:
    with run.still(run.scene.tree(FOLD)):
        run.scene.feed.burst(_BURST)
        run.some(8, 12)
    run.whole(time.monotonic())


def tail_behind(run: Run) -> None:
    with run.still(run.scene.tree(TAIL)):
        run.scene.feed.burst(_BURST)
        run.scene.await_applied()
        run.some(1, 3)
    run.whole(time.monotonic())


def checkpoints_deleted(run: Run) -> None:
    for name in (FOLD, TAIL):
        shutil.rmtree(run.scene.settings[name].state_dir / name / "checkpoints", ignore_errors=True)
    begun = time.monotonic()
    run.some(5, 10)
    run.whole(begun)


def tail_off_and_on(run: Run) -> None:
    """Off while its process stands still; that one wakes and writes on, as nobody knows; and on again."""
    scene = run.scene
    tree = scene.tree(TAIL)
    begun = time.monotonic()
    with run.still(tree):
        scene.switch("off")
        run.whole(begun)
    run.some(5, 8)
    run.bury(tree[0])
    run.some(2, 4)
    scene.await_whole()
    begun = time.monotonic()
    scene.switch("on")
    run.whole(begun)


def kill_worker(run: Run) -> None:
    """The Python processes of the fold's tasks; the task is tried again within its batch."""
    for _ in range(run.times):
        run.some(1, 3)
        while not (workers := _workers(run.scene.tree(FOLD))):
            time.sleep(_POLL_S)
        begun = time.monotonic()
        signal_all(workers, signal.SIGKILL)
        run.kills += len(workers)
        run.whole(begun)


def _workers(tree: Sequence[Birth]) -> list[Birth]:
    """Of the daemon that forks them."""
    found = []
    for each in tree:
        try:
            process = psutil.Process(each.pid)
            parent = process.parent()
            if parent is not None and all("slicewise.spark.daemon" in p.cmdline() for p in (process, parent)):
                found.append(each)
        except psutil.Error:
            continue
    return found


# ------------------------------------------------------------ the store and the log
def hung_store(run: Run) -> None:
    scene = run.scene
    before, begun = scene.watch.refused, time.monotonic()
    with run.still([scene.server("redis")]):
        run.noticed(begun, lambda: run.refused_since(before))
        time.sleep(max(0.0, begun + _HUNG_S - time.monotonic()))
    run.whole(time.monotonic())


def emptied_store(run: Run) -> None:
    with run.loss():
        before, begun = run.scene.watch.refused, time.monotonic()
        with run.scene.operator() as client:
            client.flushall()
        run.noticed(begun, lambda: run.refused_since(before))
    run.kills += 1
    run.whole(begun)


def store_without_its_last_second(run: Run) -> None:
    sizes = {file: file.stat().st_size for file in run.scene.store_data.glob("*.aof")}
    time.sleep(1.0)

    def cut() -> None:
        for file, size in sizes.items():
            os.truncate(file, size)

    _killed_store(run, cut)


def store_set_back(run: Run) -> None:
    data = run.scene.store_data
    kept = data.with_name("kept")
    shutil.copytree(data, kept)
    run.some(6, 10)

    def back() -> None:
        shutil.rmtree(data)
        kept.rename(data)

    _killed_store(run, back)


def _killed_store(run: Run, harm: Callable[[], None]) -> None:
    scene = run.scene
    store = scene.server("redis")
    with run.loss():
        before, begun = scene.watch.refused, time.monotonic()
        signal_all([store], signal.SIGKILL)
        harm()
        run.kills += 1
        run.noticed(begun, lambda: run.refused_since(before))
    scene.platform.up("redis")
    run.whole(begun)


def cut_connections(run: Run) -> None:
    """What was sent may have been done, and its reply is lost."""
    with run.scene.operator() as client:
        for _ in range(20):
            run.some(0.1, 0.8)
            run.kills += int(client.client_kill_filter(_type="normal", skipme=True))
    run.whole(time.monotonic())


def full_store(run: Run) -> None:
    scene = run.scene
    with scene.operator() as client:
        stood = client.config_get("maxmemory")["maxmemory"] or "0"
        before, begun = scene.restarts(FOLD), time.monotonic()
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) // 2)
        try:
            run.noticed(begun, lambda: scene.restarts(FOLD) > before or not scene.runs(FOLD))
            run.some(5, 8)
        finally:
            client.config_set("maxmemory", stood)
    run.whole(time.monotonic())


def partition_added(run: Run) -> None:
    number, begun = run.scene.add_partition(), time.monotonic()
    for _ in range(5):
        run.scene.await_visible(number)
        run.some(0, 1)
    run.whole(begun)


def kill_broker(run: Run) -> None:
    scene = run.scene
    for _ in range(run.times):
        run.some(0.5, 3)
        broker = scene.server("kafka")
        begun = time.monotonic()
        signal_all([broker], signal.SIGKILL)
        run.kills += 1
        run.noticed(begun, lambda: not scene.is_up("kafka"))
        scene.platform.up("kafka")
        run.whole(begun)


# ------------------------------------------------------------ all of them
@dataclass(frozen=True)
class Drill:
    """A fault, and what holds through it (the invariants are named in docs/faults.md)."""

    name: str
    fault: str
    inject: Callable[[Run], None]
    invariants: tuple[str, ...] = ("I1", "I2", "I3", "I6")
    times: int = 1
    """Kills in the whole set; among the quick ones, one."""
    quick: bool = False
    """Whether it is one of those that say the most in the least time."""


_LOSS = ("I1", "I2", "I3", "I6", "I7")
SCENES: tuple[tuple[Drill, ...], ...] = (
    (
        Drill("kill-tail", "SIGKILL of the tail's driver: its open batch comes again", kill_tail, times=2, quick=True),
        Drill("kill-fold", "SIGKILL of the fold's driver", kill_fold, times=2, quick=True),
        Drill("zombie-tail", "a tail that wakes beside its successor", zombie_tail, quick=True),
        Drill("kill-both", "SIGKILL of both drivers at once", kill_both),
        Drill("zombie-fold", "a fold that wakes beside its successor", zombie_fold),
        Drill("checkpoints", "all checkpoints deleted under the drivers", checkpoints_deleted),
        Drill("off-and-on", "the tail switched off beside a zombie of it, and on again", tail_off_and_on),
        Drill("fold-behind", "the fold stands still for an hour of events", fold_behind),
        Drill("tail-behind", "the tail stands still for an hour of events", tail_behind),
    ),
    (
        Drill("emptied-store", "FLUSHALL under load", emptied_store, _LOSS),
        Drill("store-set-back", "SIGKILL of Redis, which comes back as it was before", store_set_back, _LOSS),
        Drill("last-second", "SIGKILL of Redis, its last second lost", store_without_its_last_second, _LOSS),
        Drill("hung-store", "Redis hangs for 30 s (SIGSTOP)", hung_store, _LOSS),
        Drill("cut-connections", "all connections to Redis cut, again and again, replies lost", cut_connections),
        Drill("full-store", "Redis takes no more (maxmemory, noeviction)", full_store),
        Drill("kill-broker", "SIGKILL of the broker", kill_broker),
        Drill("kill-worker", "SIGKILL of the Python workers of the fold's tasks", kill_worker, times=2),
        Drill("partition-added", "a partition is added to the topic", partition_added),
    ),
)
DRILLS = {drill.name: drill for drills in SCENES for drill in drills}
