"""All drills, by the platforms that they are played on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.drills.faults import (
    changes,
    clocks,
    cluster,
    compactions,
    disks,
    loads,
    paged,
    planted,
    scheduled,
    schemas,
    supervised,
    versions,
    watched,
)
from tests.drills.faults import processes as drills
from tests.drills.stage.run import Run
from tests.drills.stage.scene import Scene, scene


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
    """Tells whether it is one of those that say the most in the least time."""


_RUNS = ("I1", "I2", "I3", "I4", "I5", "I6")
_LOSS = ("I1", "I2", "I3", "I6", "I7")


@dataclass(frozen=True)
class Stage:
    """Drills that are played on one platform, one after another."""

    scene: Callable[[Random], AbstractContextManager[Scene]]
    drills: tuple[Drill, ...]


STAGES = (
    Stage(
        scene,
        (
            Drill(
                "kill-tail",
                "SIGKILL of the real-time lane's driver: its open batch comes again",
                drills.kill_realtime,
                times=2,
                quick=True,
            ),
            Drill(
                "kill-fold",
                "SIGKILL of the micro-batch lane's driver",
                drills.kill_microbatch,
                times=2,
                quick=True,
            ),
            Drill(
                "zombie-tail",
                "a real-time lane that wakes beside its successor",
                drills.zombie_realtime,
                quick=True,
            ),
            Drill(
                "kill-store",
                (
                    "SIGKILL of Redis, which comes back with all it had, while the micro-batch "
                    "lane stands still"
                ),
                drills.store_killed,
                _LOSS,
                quick=True,
            ),
            Drill(
                "kill-store-and-serving",
                "SIGKILL of Redis and of serving, which has seen no answer then",
                drills.store_and_serving_killed,
                _LOSS,
            ),
            Drill("kill-both", "SIGKILL of both drivers at once", drills.kill_both),
            Drill(
                "zombie-fold",
                "a micro-batch lane that wakes beside its successor",
                drills.zombie_microbatch,
            ),
            Drill(
                "checkpoints",
                "all checkpoints deleted under the drivers",
                drills.checkpoints_deleted,
            ),
            Drill(
                "old-checkpoints",
                "older copies of all checkpoints put back",
                drills.checkpoints_old,
            ),
            Drill(
                "torn-checkpoints", "all files of checkpoints cut in half", drills.checkpoints_torn
            ),
            Drill(
                "twins",
                (
                    "a second micro-batch lane, and a second real-time lane, in the state folder "
                    "of the first"
                ),
                drills.twins,
            ),
            Drill("hot-card", "90 % of 1,000 events/s are of one card", loads.hot_card),
            Drill("aborted", "Kafka transactions, half of them aborted", drills.aborted),
            Drill(
                "off-and-on",
                "the real-time lane switched off beside a zombie of it, and on again",
                drills.realtime_off_and_on,
            ),
            Drill(
                "fold-behind",
                "the micro-batch lane stands still for an hour of events",
                loads.microbatch_behind,
            ),
            Drill(
                "tail-behind",
                "the real-time lane stands still for an hour of events",
                loads.realtime_behind,
            ),
            Drill(
                "clock-off",
                "the clock of real-time lane, micro-batch lane or serving is off by 90 minutes",
                clocks.clock_off,
            ),
            Drill(
                "checkpoint-disk",
                "the disk of all checkpoints is full",
                disks.checkpoint_disk,
                _LOSS,
            ),
            Drill(
                "redefined",
                "features changed and a view added (`slicewise apply`), and back",
                changes.redefined,
            ),
            Drill(
                "schema-changed",
                (
                    "columns added, widened, removed (`slicewise apply`) while producers send all "
                    "shapes"
                ),
                schemas.schema_changed,
                ("I1", "I2", "I3", "I4", "I6"),
            ),
        ),
    ),
    Stage(
        scene,
        (
            Drill("emptied-store", "FLUSHALL under load", drills.emptied_store, _LOSS),
            Drill(
                "store-set-back",
                "SIGKILL of Redis, which comes back as it was before",
                drills.store_set_back,
                _LOSS,
            ),
            Drill(
                "last-second",
                "SIGKILL of Redis, its last second lost",
                drills.store_without_its_last_second,
                _LOSS,
            ),
            Drill("lost-store", "SIGKILL of Redis, its disk lost", drills.store_lost, _LOSS),
            Drill(
                "torn-store",
                "SIGKILL of Redis, its file torn in a command",
                drills.store_torn,
                _LOSS,
            ),
            Drill("hung-store", "Redis hangs for 30 s (SIGSTOP)", drills.hung_store, _LOSS),
            Drill(
                "cut-connections",
                "all connections to Redis cut, again and again, replies lost",
                drills.cut_connections,
            ),
            Drill(
                "lost-replies",
                "answers of Redis to scripts lost on their way, one of twenty",
                drills.replies_lost,
            ),
            Drill("full-store", "Redis takes no more (maxmemory, noeviction)", drills.full_store),
            Drill(
                "store-disk",
                "the disk of Redis's append-only file is full",
                disks.store_disk,
                _LOSS,
            ),
            Drill("kill-broker", "SIGKILL of the broker", drills.kill_broker),
            Drill(
                "watched-servers",
                "SIGKILL of Redis, then of the broker, which the watcher starts again",
                watched.servers_watched,
                times=2,
                quick=True,
            ),
            Drill(
                "kill-worker",
                "SIGKILL of the Python workers of the micro-batch lane's tasks",
                drills.kill_worker,
                times=2,
            ),
            Drill(
                "kill-executor",
                "SIGKILL of an executor of the micro-batch lane, on a cluster",
                cluster.kill_executor,
                times=2,
            ),
            Drill("partition-added", "a partition is added to the topic", drills.partition_added),
            Drill(
                "topic-again",
                "the topic deleted and made again under load",
                changes.topic_made_anew,
                _LOSS,
            ),
        ),
    ),
    Stage(
        scene,
        (
            Drill(
                "kill-compaction",
                "SIGKILL of a compaction at any moment",
                compactions.kill_compaction,
                _RUNS,
                times=3,
            ),
            Drill(
                "two-compactions",
                "two compactions of one hour at once",
                compactions.two_compactions,
                _RUNS,
            ),
            Drill(
                "zombie-compaction",
                "a compaction that wakes after its successor",
                compactions.zombie_compaction,
                _RUNS,
            ),
            Drill(
                "late-meanwhile",
                "late events while their hours are compacted",
                compactions.late_meanwhile,
                _RUNS,
            ),
            Drill(
                "store-meanwhile",
                "SIGKILL of Redis under a compaction",
                compactions.store_killed_meanwhile,
                _RUNS,
            ),
            Drill(
                "paused",
                "six hours that nobody compacted, then all at once",
                compactions.paused,
                _RUNS,
            ),
            Drill(
                "compaction-off",
                "the clock of a compaction is off by 90 minutes",
                clocks.compaction_off,
                (*_RUNS, "I7"),
            ),
            Drill(
                "warehouse-disk",
                "the disk of the warehouse is full",
                disks.warehouse_disk,
                (*_RUNS, "I7"),
            ),
            Drill(
                "scratch-disk",
                "the disk of all that Spark puts aside is full",
                disks.scratch_disk,
                (*_RUNS, "I7"),
            ),
            Drill(
                "old-dump",
                "an hour-old dump of Redis restored",
                compactions.old_dump,
                (*_RUNS, "I7"),
            ),
            Drill(
                "retention",
                "the log drops what no archive has read",
                changes.retention_passed,
                ("I1", "I2", "I3", "I4", "I6", "I7"),
            ),
        ),
    ),
    Stage(
        scene,
        (
            Drill(
                "planted",
                "wrong values planted in the store, six kinds, found by the check",
                planted.planted,
                ("I2", "I6", "I7"),
            ),
        ),
    ),
    Stage(
        scene,
        (
            Drill(
                "killed-apply",
                "SIGKILL of `slicewise apply` of a view's next version",
                versions.killed_apply,
                times=3,
            ),
            Drill(
                "killed-promote",
                "SIGKILL of `slicewise promote`, to and fro",
                versions.killed_promote,
                times=3,
            ),
            Drill(
                "retire-under-load",
                "SIGKILL of `slicewise retire` under load, and the sweep after it",
                versions.retire_under_load,
                times=2,
            ),
            Drill(
                "killed-build",
                "SIGKILL of a version's build at any moment",
                versions.killed_build,
                times=2,
            ),
            Drill(
                "two-promotions",
                "two versions of a view promoted at once, again and again",
                versions.two_promotions,
            ),
            Drill(
                "build-beside-compaction",
                "a version is built beside a compaction and late events",
                versions.build_beside_compaction,
                _RUNS,
            ),
        ),
    ),
    Stage(
        partial(scene, SLICEWISE_REDIS_MAXMEMORY="12gb"),
        (Drill("many-keys", "a million keys, of cards that come once", loads.many_keys),),
    ),
    Stage(
        scheduled.with_airflow,
        (
            Drill(
                "kill-scheduler",
                "SIGKILL of Airflow's scheduler in a compaction",
                scheduled.kill_scheduler,
                _RUNS,
            ),
            Drill(
                "kill-triggerer",
                "SIGKILL of Airflow's triggerer in a compaction",
                scheduled.kill_triggerer,
                _RUNS,
            ),
            Drill(
                "kill-task",
                "SIGKILL of the task's process; its job goes on",
                scheduled.kill_task,
                _RUNS,
            ),
            Drill(
                "kill-airflow",
                "SIGKILL of all of Airflow in a compaction, a training set and a watch",
                scheduled.kill_all,
                _RUNS,
            ),
            Drill(
                "forget-airflow",
                "Airflow's metadata database is lost",
                scheduled.forget,
                _RUNS,
            ),
            Drill(
                "dag-paused",
                "`compact_slices` paused for six hours of events, then catching up",
                scheduled.paused,
                _RUNS,
            ),
        ),
    ),
    Stage(
        supervised.with_all_drivers,
        (
            Drill(
                "supervised-kill",
                "SIGKILL of each driver in turn, under `ingest_stream` alone",
                supervised.killed,
                ("I1", "I2", "I3", "I6", "I7"),
            ),
            Drill(
                "supervised-hang",
                "each driver hangs in turn (SIGSTOP), under `ingest_stream` alone",
                supervised.hung,
                ("I1", "I2", "I3", "I6", "I7"),
            ),
            Drill(
                "supervised-stuck",
                "drivers live and do not get on, one after another, under `ingest_stream` alone",
                supervised.stuck,
                ("I1", "I2", "I3", "I6", "I7"),
            ),
            Drill(
                "supervised-undone",
                "a deployment under which no driver gets on, under `ingest_stream` alone",
                supervised.undone,
                ("I1", "I2", "I3", "I6", "I7"),
            ),
            Drill(
                "supervised-pages",
                "broker, store, a training set, a compaction, a value and the API break in turn: "
                "each is paged once, and over once",
                paged.paged,
                ("I1", "I2", "I3", "I6", "I7"),
            ),
        ),
    ),
    Stage(
        supervised.with_a_lane_that_lags,
        (
            Drill(
                "supervised-lagging",
                "more events than the micro-batch lane can apply, under `ingest_stream` alone",
                supervised.lagging,
                ("I1", "I2", "I3", "I6", "I7"),
            ),
        ),
    ),
)
DRILLS = {drill.name: drill for stage in STAGES for drill in stage.drills}
