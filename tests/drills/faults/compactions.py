"""Harm to compactions while everything else goes on: killed anywhere, two at once, woken after a
successor.

Each drill ends with nothing left to compact, and then with the same again: a run that has nothing
new to do, and one that makes the hour anew from its raw events, leave the same bytes (I5).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import redis

from slicewise.local.servers.process import Birth, descendants
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.schemas import unit_entity
from slicewise.stores.lake.slices import load
from slicewise.stores.online.operations.connecting import ReadMetadata
from tests.drills.stage.run import Run
from tests.drills.stage.scene import Scene, signal_all

HOURS = 4
"""Before now, of which late events come: all but the last have been over for long."""
_LATE = 1_500
_HOUR = 10_000
"""Events of an hour."""
_ENDS_S = 300.0
_TRIES = 4
"""Runs until nothing is left over: events that come meanwhile leave some for the next."""
_OF_THE_RUN = ("seq", "cover", "late")
"""Columns that say which run made an hour, from how much of the log, and what was late for it."""


@dataclass
class Compaction:
    """One run of the job that `compact_slices` starts, in processes of its own."""

    process: subprocess.Popen[str]
    log: Path
    begun: float

    @staticmethod
    def of(scene: Scene, *arguments: str) -> Compaction:
        log = scene.platform.settings.state_dir / "logs" / f"compact-{time.monotonic_ns()}.log"
        with log.open("w", encoding="utf-8") as out:
            process = scene.platform.begin_job("compact", "--hour", hour(), *arguments, out=out)
        return Compaction(process, log, time.monotonic())

    @property
    def tree(self) -> list[Birth]:
        """The process and all below it; nothing once it has ended."""
        birth = Birth.of(self.process.pid)
        return [] if birth is None else [birth, *descendants(birth)]

    def kill(self) -> None:
        """SIGKILL, to all of it."""
        signal_all(self.tree, signal.SIGKILL)
        self.process.wait(20)

    def over(self) -> Mapping[str, Any] | None:
        """The report when it has ended; None where it failed, which it has said."""
        code = self.process.wait(_ENDS_S)
        lines = [
            line
            for line in self.log.read_text(encoding="utf-8").splitlines()
            if line.startswith("{")
        ]
        if code == 0:
            report: dict[str, Any] = json.loads(lines[-1])
            return report
        print(
            f"a compaction ended with {code}: {lines[-1] if lines else self._last()}"[:500],
            flush=True,
        )
        return None

    def done(self) -> Mapping[str, Any]:
        """The report; the compaction must not fail."""
        report = self.over()
        assert report is not None, f"a compaction failed that nobody harmed:\n{self._last()}"
        return report

    def _last(self) -> str:
        return self.log.read_text(encoding="utf-8")[-3_000:]


def hour() -> str:
    """The last hour that is over."""
    return (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H")


def late(run: Run) -> None:
    """Events of hours that are over, which are dirty then."""
    run.scene.feed.burst(_LATE, HOURS)


def settle(run: Run) -> None:
    """Nothing comes any more, and nothing is left to compact."""
    scene = run.scene
    scene.feed.pause()
    scene.await_applied()
    scene.await_none_pending()
    for _ in range(_TRIES):
        if not Compaction.of(scene).done()["dirty"]:
            break
    else:
        raise AssertionError(f"hours stay dirty after {_TRIES} runs with nothing new in the log")


def settled(run: Run) -> None:
    """Nothing comes any more and nothing is left to compact; and a run more changes no byte."""
    scene = run.scene
    begun = time.monotonic()
    settle(run)
    run.recover_s.append(time.monotonic() - begun)
    store, rows = in_store(scene), live_rows(scene)
    assert any(rows.values()), "nothing was compacted"
    Compaction.of(scene).done()
    differ(*in_both(store, in_store(scene)), "the store, after a run that had nothing to do")
    differ(rows, live_rows(scene), "slices.*, after a run that had nothing to do")
    Compaction.of(scene, "--only", "--from", "raw").done()
    differ(without(rows), without(live_rows(scene)), "slices.*, made anew from raw events")


def in_store(scene: Scene) -> dict[str, Any]:
    """Every field of every key of an entity, in the store id that stands: (key, field) -> bytes."""
    with scene.platform.store() as store:
        store_id = store.run(ReadMetadata()).store_id
    client = redis.Redis.from_url(scene.platform.settings.redis_url)
    try:
        keys = [bytes(key) for key in client.scan_iter(match=f"sw:{store_id}:*", count=1000)]
        hashes = {
            key: client.hgetall(key) for key in keys if client.type(key) == b"hash" and _entity(key)
        }
        return {
            f"{key!r} {name!r}": value
            for key, fields in hashes.items()
            for name, value in fields.items()
        }
    finally:
        client.close()


def in_both(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Without what has expired meanwhile."""
    return {key: value for key, value in before.items() if key in after}, after


def _entity(key: bytes) -> bool:
    """Not one of the node's own, which say when something was done."""
    return b"{0}" not in key


def live_rows(scene: Scene) -> dict[str, Any]:
    """Rows of each unit's table, by what they are of."""
    catalog = open_catalog(scene.platform.settings)
    results = {}
    for unit in scene.deployment.units:
        table = load(catalog, unit.storage_fingerprint)
        for row in [] if table is None else table.scan().to_arrow().to_pylist():
            entity = tuple(row[name] for name, _ in unit_entity(unit))
            # a header has none
            key = f"{unit.view} {unit.storage_fingerprint} {row['hour']} {entity} {row['slice']}"
            assert key not in results, f"two rows of {key}"
            results[key] = row
    return results


def without(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Rows but for what says which run made them."""
    return {
        key: {name: v for name, v in row.items() if name not in _OF_THE_RUN}
        for key, row in rows.items()
    }


def differ(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> None:
    """Fails where anything does."""
    wrong = [key for key in {*before, *after} if before.get(key) != after.get(key)]
    assert not wrong, f"{what}: {len(wrong)} of {len(before)} differ, {wrong[:5]}"


# ------------------------------------------------------------ drills
def kill_compaction(run: Run) -> None:
    late(run)
    took = time.monotonic()
    Compaction.of(run.scene).done()
    took = time.monotonic() - took
    for _ in range(run.times):
        late(run)
        job = Compaction.of(run.scene)
        run.some(took / 5, took)
        job.kill()
        run.kills += 1
    settled(run)


def two_compactions(run: Run) -> None:
    late(run)
    both = [Compaction.of(run.scene), Compaction.of(run.scene)]
    reports = [compaction.over() for compaction in both]
    assert any(report is not None for report in reports), (
        "of two compactions at once neither came to its end"
    )
    settled(run)


def zombie_compaction(run: Run) -> None:
    """One stands still at a random moment, another does its work, and it wakes."""
    late(run)
    zombie = Compaction.of(run.scene)
    run.some(8, 30)
    with run.still(zombie.tree):
        late(run)
        Compaction.of(run.scene).done()
    zombie.over()
    settled(run)


def late_meanwhile(run: Run) -> None:
    """Late events for the hours that are being compacted, all the time and after it."""
    late(run)
    job = Compaction.of(run.scene)
    while job.process.poll() is None:
        late(run)
        run.some(1, 3)
    job.done()
    late(run)
    settled(run)


def store_killed_meanwhile(run: Run) -> None:
    """Redis dies under a compaction, and comes back with what its file has."""
    scene = run.scene
    late(run)
    job = Compaction.of(scene)
    run.some(8, 30)
    signal_all([scene.server("redis")], signal.SIGKILL)
    run.kills += 1
    run.some(0, 2)
    scene.platform.up("redis")
    job.over()
    scene.await_whole()
    settled(run)


def old_dump(run: Run) -> None:
    """Redis begins again with a dump from before an hour of events and a compaction."""
    scene = run.scene
    dump = _dumped(scene)
    late(run)
    Compaction.of(scene).done()
    scene.feed.burst(_HOUR)
    scene.await_applied()
    data = scene.store_data
    before, begun = scene.watch.refused, time.monotonic()
    signal_all([scene.server("redis")], signal.SIGKILL)
    run.kills += 1
    shutil.rmtree(data)
    data.mkdir()
    dump.rename(data / "appendonly.aof.1.base.rdb")  # beside an append-only file a dump is not read
    (data / "appendonly.aof.manifest").write_text("file appendonly.aof.1.base.rdb seq 1 type b\n")
    run.noticed(begun, lambda: run.refused_since(before))
    scene.platform.up("redis")
    run.whole(begun)
    settled(run)


def _dumped(scene: Scene) -> Path:
    """A dump of the store as it is now."""
    with scene.operator() as client:
        last = client.lastsave()
        time.sleep(1.0)  # it is told in seconds
        client.bgsave()
        scene.wait(lambda: "it is being written" if client.lastsave() == last else None, "the dump")
    return scene.store_data.with_name("dump.rdb")


def paused(run: Run) -> None:
    """Nothing was compacted for six hours, and then all at once."""
    run.scene.feed.burst(6 * _LATE, 6)
    run.scene.await_applied()
    settled(run)
