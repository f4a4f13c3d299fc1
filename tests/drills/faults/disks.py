"""Disks that are full: small file systems that are mounted for a drill, and gone with it however it
ends.

What cannot be written is refused, with a reason, and nothing of what was acknowledged is lost.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.drills.faults.compactions import HOURS, Compaction, late, settled
from tests.drills.stage.run import Run
from tests.drills.stage.scene import MICROBATCH, REALTIME, Scene, signal_all

_ROOM = 64 << 20
"""Bytes beside what stands already: enough for all that a drill writes while the disk is not
full."""
_SHUFFLED = 25_000
"""Events: more than an archive brings in a single task, so that it puts some aside."""
_NO_SPACE = "No space left on device"
_PAGES = 1 << 16
_WRITTEN_S = 2.0
"""The append-only file is written once a second."""


@contextmanager
def small(folder: Path, room: int = _ROOM) -> Iterator[Path]:
    """Nobody may use the folder as this begins, nor as it ends: what it holds is moved to a small
    file system, and back. What still runs in it when a drill breaks loses it."""
    assert os.geteuid() == 0, "a small file system is mounted: this drill needs root"
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder.with_name(f"{folder.name}-whole")
    folder.rename(whole)
    folder.mkdir()
    size = sum(file.stat().st_size for file in whole.rglob("*") if file.is_file()) + room
    with ExitStack() as back:
        back.callback(whole.rename, folder)
        back.callback(folder.rmdir)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)],
            check=True,
        )
        back.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
        shutil.copytree(whole, folder, dirs_exist_ok=True)
        yield folder
        shutil.rmtree(whole)
        shutil.copytree(folder, whole)


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Not a byte more is taken meanwhile."""
    ballast = folder / "ballast"
    page = bytes(_PAGES)
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(page):
            pass
    assert not shutil.disk_usage(folder).free, f"{folder} is not full"
    try:
        yield
    finally:
        ballast.unlink()


# ------------------------------------------------------------ drills
def store_disk(run: Run) -> None:
    """Fills the disk of the append-only file. When there is room again the store is killed: what it
    took before must be in it."""
    scene = run.scene
    with _moved_store(run) as folder:
        begun, before = time.monotonic(), scene.restarts(MICROBATCH)
        with full(folder):
            run.noticed(
                begun, lambda: scene.restarts(MICROBATCH) > before or not scene.runs(MICROBATCH)
            )
            run.some(6, 10)
        run.whole(time.monotonic())
        _nothing_lost(run)


def _nothing_lost(run: Run) -> None:
    """Kills the store; what it had applied a moment before, it must have."""
    scene = run.scene
    scene.feed.pause()
    scene.await_applied()
    with scene.platform.store() as store:
        before = store.run(ReadMetadata()).committed
    time.sleep(_WRITTEN_S)
    begun = time.monotonic()
    signal_all([scene.server("redis")], signal.SIGKILL)
    run.kills += 1
    scene.platform.up("redis")
    with scene.platform.store() as store:
        after = store.run(ReadMetadata()).committed
    assert after.dominates(before), (
        f"the store had applied {dict(before.offsets)}, and has {dict(after.offsets)}"
    )
    scene.feed.resume()
    run.whole(begun)


@contextmanager
def _moved_store(run: Run) -> Iterator[Path]:
    scene = run.scene
    folder = scene.store_data.parent
    _stop_store(run)
    with small(folder):
        scene.platform.up("redis")
        run.whole(time.monotonic())
        yield folder
        _stop_store(run)
    scene.platform.up("redis")
    run.whole(time.monotonic())


def _stop_store(run: Run) -> None:
    """Stops the store, which writes all that it has first."""
    store = run.scene.server("redis")
    store.signal(signal.SIGTERM)
    run.scene.wait(lambda: "it runs" if store.alive() else None, "the store to end")


def checkpoint_disk(run: Run) -> None:
    """Fills the disk of both drivers' checkpoints."""
    scene = run.scene
    with _moved_drivers(
        run,
        [scene.settings[name].state_dir / name / "checkpoints" for name in (MICROBATCH, REALTIME)],
    ) as folders:
        begun, before = (
            time.monotonic(),
            {name: scene.restarts(name) for name in (MICROBATCH, REALTIME)},
        )

        def has_noticed(name: str) -> bool:
            return scene.restarts(name) > before[name] or not scene.runs(name)

        with full(folders[0]), full(folders[1]):
            run.noticed(begun, lambda: has_noticed(MICROBATCH))
            run.noticed(begun, lambda: has_noticed(REALTIME))
            run.some(3, 6)
        run.whole(time.monotonic())


def scratch_disk(run: Run) -> None:
    """Fills the disk of all that Spark puts aside. A compaction says so and commits nothing, and a
    driver that is killed meanwhile begins when there is room."""
    scene = run.scene
    with _moved_drivers(run, [scene.platform.settings.state_dir / "spark" / "tmp"]) as (folder,):
        scene.feed.burst(_SHUFFLED, HOURS)
        scene.await_applied()
        begun = time.monotonic()
        with full(folder):
            _refused(Compaction.of(scene))
            run.detect_s.append(time.monotonic() - begun)
            signal_all(scene.tree(MICROBATCH), signal.SIGKILL)
            run.kills += 1
            run.some(1, 3)
            scene.start(MICROBATCH)
            run.some(6, 10)
        run.whole(time.monotonic())
        settled(run)


def warehouse_disk(run: Run) -> None:
    """Fills the disk of the warehouse, while hours are compacted."""
    scene = run.scene
    late(run)
    with small(scene.platform.settings.state_dir / "warehouse") as folder:
        begun = time.monotonic()
        with full(folder):
            _refused(Compaction.of(scene))
            run.detect_s.append(time.monotonic() - begun)
        late(run)
        settled(run)


def _refused(job: Compaction) -> None:
    assert job.over() is None, "a compaction went on without a place to write to"
    log = job.log.read_text(encoding="utf-8")
    assert _NO_SPACE in log, f"no word of the full disk:\n{log[-3_000:]}"


@contextmanager
def _moved_drivers(run: Run, folders: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """Both drivers go on with these on small file systems."""
    scene = run.scene
    _kill_drivers(scene)
    with ExitStack() as mounted:
        for folder in folders:
            mounted.enter_context(small(folder))
        _start_drivers(run)
        yield folders
        _kill_drivers(scene)
    _start_drivers(run)


def _kill_drivers(scene: Scene) -> None:
    signal_all(
        [
            process
            for name in (MICROBATCH, REALTIME)
            if scene.runs(name)
            for process in scene.tree(name)
        ],
        signal.SIGKILL,
    )


def _start_drivers(run: Run) -> None:
    for name in (MICROBATCH, REALTIME):
        run.scene.start(name)
    run.whole(time.monotonic())
