"""Harm to drivers, store and log: faults that production knows, which it recovers from by its own
means."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.process import Birth
from tests.drills.stage.run import POLL_S, Run
from tests.drills.stage.scene import MICROBATCH, REALTIME, signal_all
from tests.support.platform.cutting import cutting

_HUNG_S = 30.0
_LOST, _LEAST_LOST = 0.05, 20


# ------------------------------------------------------------ drivers
def kill_realtime(run: Run) -> None:
    run.kill(REALTIME)


def kill_microbatch(run: Run) -> None:
    run.kill(MICROBATCH)


def kill_both(run: Run) -> None:
    run.kill(REALTIME, MICROBATCH)


def zombie_realtime(run: Run) -> None:
    run.zombie(REALTIME)


def zombie_microbatch(run: Run) -> None:
    run.zombie(MICROBATCH)


def checkpoints_deleted(run: Run) -> None:
    for name in (MICROBATCH, REALTIME):
        shutil.rmtree(run.scene.settings[name].state_dir / name / "checkpoints", ignore_errors=True)
    begun = time.monotonic()
    run.some(5, 10)
    run.whole(begun)


def checkpoints_old(run: Run) -> None:
    """Both drivers die, and begin with checkpoints of some seconds ago."""
    _checkpoints(run, lambda kept, current: shutil.copytree(kept, current))


def checkpoints_torn(run: Run) -> None:
    """Both drivers die, and begin with checkpoints of which every file is half of what it was."""

    def torn(kept: Path, current: Path) -> None:
        shutil.copytree(kept, current)
        for file in current.rglob("*"):
            if file.is_file():
                os.truncate(file, file.stat().st_size // 2)

    _checkpoints(run, torn)


def _checkpoints(run: Run, put: Callable[[Path, Path], object]) -> None:
    scene = run.scene
    folders = [
        scene.settings[name].state_dir / name / "checkpoints" for name in (MICROBATCH, REALTIME)
    ]
    folders = [folder for folder in folders if folder.exists()]
    assert folders, "no driver keeps a checkpoint"
    for folder in folders:
        shutil.copytree(folder, _kept(folder), copy_function=_copied)
    run.some(3, 6)
    begun = time.monotonic()
    signal_all(
        [process for name in (MICROBATCH, REALTIME) for process in scene.tree(name)], signal.SIGKILL
    )
    run.kills += 2
    for folder in folders:
        shutil.rmtree(folder)
        put(_kept(folder), folder)
        shutil.rmtree(_kept(folder))
    run.noticed(begun, lambda: not (scene.runs(MICROBATCH) or scene.runs(REALTIME)))
    for name in (MICROBATCH, REALTIME):
        scene.start(name)
    run.whole(begun)


def _kept(folder: Path) -> Path:
    return folder.with_name("checkpoints-kept")


def _copied(source: str, target: str) -> None:
    """A file that is gone before it is copied belongs to no older copy."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


def twins(run: Run) -> None:
    """A second driver of each lane begins in the state folder of the first, which ends for it.

    Nobody ensured it. It begins by forgetting all checkpoints there, and is what runs from then on.
    """
    scene = run.scene
    for name in (MICROBATCH, REALTIME):
        first = scene.tree(name)[0]
        begun = time.monotonic()
        twin = scene.twin(name)
        run.noticed(begun, partial(_is_gone, first))
        run.some(5, 10)
        scene.start(name)
        assert scene.tree(name)[0] == twin, f"another {name} was started"
        run.whole(begun)


def _is_gone(process: Birth) -> bool:
    return not process.alive()


def realtime_off_and_on(run: Run) -> None:
    """Off while its process stands still; that one wakes and writes on, as nobody knows; and on
    again."""
    scene = run.scene
    tree = scene.tree(REALTIME)
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
    """The Python processes of the micro-batch lane's tasks; the task is tried again within its
    batch."""
    for _ in range(run.times):
        run.some(1, 3)
        while not (killed := workers(run.scene.tree(MICROBATCH))):
            time.sleep(POLL_S)
        begun = time.monotonic()
        signal_all(killed, signal.SIGKILL)
        run.kills += len(killed)
        run.whole(begun)


def workers(tree: Sequence[Birth]) -> list[Birth]:
    """Workers of the daemon that forks them."""
    workers = []
    for child in tree:
        try:
            process = psutil.Process(child.pid)
            parent = process.parent()
            if parent is not None and all(
                "slicewise.spark.runtime.daemon" in p.cmdline() for p in (process, parent)
            ):
                workers.append(child)
        except psutil.Error:
            continue
    return workers


# ------------------------------------------------------------ the store and the log
def hung_store(run: Run) -> None:
    scene = run.scene
    before, begun = scene.watch.refused, time.monotonic()
    with run.still([scene.server("redis")]):
        run.noticed(begun, lambda: run.refused_since(before))
        time.sleep(max(0.0, begun + _HUNG_S - time.monotonic()))
    run.whole(time.monotonic())


def emptied_store(run: Run) -> None:
    before, begun = run.scene.watch.refused, time.monotonic()
    with run.scene.operator() as client:
        client.flushall()
    run.noticed(begun, lambda: run.refused_since(before))
    run.kills += 1
    run.whole(begun)


def store_killed(run: Run) -> None:
    """Kills the store, which comes back with all that it was told, while the micro-batch lane
    stands still. The pending events in answers, then of another server run, are in no committed
    offsets yet."""
    scene = run.scene
    with run.still(scene.tree(MICROBATCH)):
        run.some(2, 3)
        before, begun = scene.watch.refused, time.monotonic()
        signal_all([scene.server("redis")], signal.SIGKILL)
        run.kills += 1
        run.noticed(begun, lambda: run.refused_since(before))
        scene.platform.up("redis")
        run.some(2, 4)
    run.whole(begun)


def store_and_serving_killed(run: Run) -> None:
    """Kills the store as before, while no real-time lane begins anew; and who answers afterwards
    has seen no answer."""
    scene = run.scene
    with run.still([*scene.tree(MICROBATCH), *scene.tree(REALTIME)]):
        run.some(2, 3)
        scene.watch.pause()
        begun = time.monotonic()
        signal_all([scene.server("redis"), scene.server("serving")], signal.SIGKILL)
        run.kills += 2
        scene.platform.up("redis")
        scene.platform.up("serving")
        before = scene.watch.refused
        scene.watch.resume()
        run.noticed(time.monotonic(), lambda: run.refused_since(before))
        run.some(2, 4)
    run.whole(begun)


def store_without_its_last_second(run: Run) -> None:
    sizes = {file: file.stat().st_size for file in run.scene.store_data.glob("*.aof")}
    time.sleep(1.0)

    def cut() -> None:
        for file, size in sizes.items():
            os.truncate(file, size)

    _killed_store(run, cut)


def store_torn(run: Run) -> None:
    """Ends its append-only file in the middle of a command."""

    def tear() -> None:
        newest = max(
            run.scene.store_data.glob("*.incr.aof"), key=lambda file: file.stat().st_mtime_ns
        )
        os.truncate(newest, newest.stat().st_size - run.rng.randint(1, 20_000))

    _killed_store(run, tear)


def store_set_back(run: Run) -> None:
    data = run.scene.store_data
    kept = data.with_name("kept")
    shutil.copytree(data, kept)
    run.some(6, 10)

    def back() -> None:
        shutil.rmtree(data)
        kept.rename(data)

    _killed_store(run, back)


def store_lost(run: Run) -> None:
    """Loses the store's disk: it comes back with nothing."""
    _killed_store(run, lambda: shutil.rmtree(run.scene.store_data))


def _killed_store(run: Run, harm: Callable[[], None]) -> None:
    scene = run.scene
    store = scene.server("redis")
    before, begun = scene.watch.refused, time.monotonic()
    signal_all([store], signal.SIGKILL)
    harm()
    run.kills += 1
    run.noticed(begun, lambda: run.refused_since(before))
    scene.platform.up("redis")
    run.whole(begun)


def cut_connections(run: Run) -> None:
    """Cuts connections: commands that were sent may have been done, and their replies are lost."""
    with run.scene.operator() as client:
        for _ in range(20):
            run.some(0.1, 0.8)
            run.kills += int(client.client_kill_filter(_type="normal", skipme=True))
    run.whole(time.monotonic())


def replies_lost(run: Run) -> None:
    """Leads both drivers to the store by a way that loses one of twenty answers to their scripts.
    The connection is lost with it: what was asked is done, and is asked again."""
    scene, rng = run.scene, random.Random(run.rng.random())
    lost = 0

    def loses() -> bool:
        nonlocal lost
        if rng.random() >= _LOST:
            return False
        lost += 1
        return True

    direct = dict(scene.settings)
    with cutting(scene.state.ports()[redis_server.NAME], loses) as port:
        for name in (MICROBATCH, REALTIME):
            scene.by_way_of(name, port)
            again(run, name)
        run.some(10, 15)
        run.whole(time.monotonic())
        scene.settings |= direct
        for name in (MICROBATCH, REALTIME):
            again(run, name)
    assert lost >= _LEAST_LOST, f"{lost} answers were lost"


def again(run: Run, name: str) -> None:
    """A driver begins anew, by the settings that it has now."""
    begun = time.monotonic()
    signal_all(run.scene.tree(name), signal.SIGKILL)
    run.kills += 1
    run.scene.start(name)
    run.whole(begun)


def full_store(run: Run) -> None:
    scene = run.scene
    with scene.operator() as client:
        limit = client.config_get("maxmemory")["maxmemory"] or "0"
        before, begun = scene.restarts(MICROBATCH), time.monotonic()
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) // 2)
        try:
            run.noticed(
                begun, lambda: scene.restarts(MICROBATCH) > before or not scene.runs(MICROBATCH)
            )
            run.some(5, 8)
        finally:
            client.config_set("maxmemory", limit)
    run.whole(time.monotonic())


def aborted(run: Run) -> None:
    """Events of transactions that were aborted, and the gaps in the offsets that all of them
    leave."""
    run.kills += run.scene.feed.transactions(20, 50)
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
