"""Cost of an event to the store where it lies in 1, 10, 60 or 1,440 overlapping windows.

Three ways over the same plays: slicewise's micro-batch lane (the code that its executors run, in
batches as small as the stream makes them at 2,000 events/s), a write per window, and Spark's own
stateful windows. Each counts what its server executed, commands inside scripts included. What the
streams keep on disk is that of the running drivers.
"""

from __future__ import annotations

import json
import subprocess
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import redis

import slicewise as sw
from benchmarks.whole.figures import Figure
from benchmarks.whole.options import Options
from benchmarks.whole.servers import HOME, Recipe, notify, pair, spark_env
from benchmarks.whole.streaming import our_stream
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.local import deploy
from slicewise.replay.songs import Plays
from slicewise.spark.microbatch.apply import Placed, SourceRows, batch_of
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.connecting import ReadMetadata, ReadTime
from slicewise.stores.online.port import OnlineStore
from slicewise.windows.durations import MINUTE_US
from tests.support.platform.stack import Stack

COUNTS = (1, 10, 60, 1440)
BATCH = 150
"""Events of one partition in one batch: 2,000/s, two partitions, a batch each 150 ms."""
PARTITIONS = 2
MANY = 60
"""Above so many windows the ways that write each of them are given fewer events."""
KEEP_S = 2 * 86_400

plays = sw.KafkaSource(
    "windowed",
    schema={"user_id": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
)


def definitions() -> Deployment:
    """A view per number of windows: an event lies in so many hopping windows, one per minute."""
    views = tuple(
        sw.FeatureView(
            f"w{count}",
            source=plays,
            entity=["user_id"],
            slice="1m",
            features=[
                sw.Feature("plays", sw.count(), windows=[sw.hopping(f"{count}m", every="1m")]),
                sw.Feature(
                    "seconds", sw.sum("seconds"), windows=[sw.hopping(f"{count}m", every="1m")]
                ),
            ],
        )
        for count in COUNTS
    )
    return plan(Project("windows", views))


@dataclass(frozen=True)
class Cost:
    """Cost of one event."""

    commands: float
    bytes_in: float
    """Bytes that the store received."""
    bytes_grown: float
    """By which its data grew."""


class Meter:
    """Reads what a server did between two moments."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._begin = self._now()

    def _now(self) -> tuple[int, int, int]:
        stats: Any = self._client.info("everything")
        return (
            stats["total_commands_processed"],
            stats["total_net_input_bytes"],
            stats["used_memory_dataset"],
        )

    def cost(self, events: int) -> Cost:
        """Since the start, per event."""
        spent = [(b - a) / events for a, b in zip(self._begin, self._now(), strict=True)]
        return Cost(*(round(max(0.0, figure), 3) for figure in spent))


def made(events: int, now_us: int, users: int = 20_000) -> pa.Table:
    """Plays at 2,000/s, up to now, with their partitions."""
    batch = Plays(seed=3, users=users, rate=2_000.0, start_us=now_us - events * 500).batch(
        0, events
    )
    columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
    names: list[str] = columns["user_id"].to_pylist()
    partition = [zlib.crc32(name.encode()) % PARTITIONS for name in names]
    return pa.table(
        {
            "user_id": columns["user_id"],
            "seconds": columns["seconds"],
            "event_time": columns["played_at"],
            "partition": pa.array(partition, pa.int32()),
        }
    )


def apply(store: OnlineStore, topic_id: str, unit: StorageUnit, table: pa.Table) -> None:
    """The events into one unit, in the stream's small batches, as its tasks do it."""
    placed = Placed(unit.storage_fingerprint, "keep", ("user_id",), {"seconds": "seconds"})
    for partition in range(PARTITIONS):
        own = table.filter(pa.compute.equal(table["partition"], partition))
        own = own.append_column("offset", pa.array(np.arange(own.num_rows)))
        own = own.append_column("keep", pa.array(np.zeros(own.num_rows, np.int32)))
        for begin in range(0, own.num_rows, BATCH):
            some = own.slice(begin, BATCH).combine_chunks()
            batch = batch_of(unit, placed, SourceRows.of(some, topic_id, partition))
            assert batch is not None
            outcome = store.run(ApplyBatch(batch))
            assert outcome.applied == some.num_rows, outcome


def write_windows(client: redis.Redis, table: pa.Table, windows: int) -> None:
    """A write per event and window, pipelined: two increments and an expiry."""
    pipeline = client.pipeline(transaction=False)
    columns = [table[name].to_pylist() for name in ("user_id", "seconds", "event_time")]
    for user, seconds, at in zip(*columns, strict=True):
        last = at // MINUTE_US
        for start in range(last - windows + 1, last + 1):
            key = f"w{windows}:{user}:{start}"
            pipeline.hincrby(key, "plays", 1)
            pipeline.hincrbyfloat(key, "seconds", seconds)
            pipeline.expire(key, KEEP_S)
        if len(pipeline) >= 3000:
            pipeline.execute()
    pipeline.execute()


@dataclass(frozen=True)
class Kept:
    """Bytes per event that a stream keeps outside of Redis."""

    state_bytes: float
    checkpoint_bytes: float


def kept_by_stream(stack: Stack, table: pa.Table) -> Kept:
    """Bytes of slicewise's driver, with all the views at once, after the same plays of other users
    through the log."""
    records = [_record(row | {"user_id": f"s{row['user_id']}"}) for row in table.to_pylist()]
    stack.produce("windowed", records)
    with our_stream(stack):
        stack.wait_applied("windowed")
        files = [
            path
            for path in (stack.settings.state_dir / "stream" / "checkpoints").rglob("*")
            if path.is_file()
        ]
        state = sum(file.stat().st_size for file in files if "state" in file.parts[-5:-1])
        whole = sum(file.stat().st_size for file in files)
    assert files, "the driver keeps a checkpoint while it runs"
    return Kept(round(state / len(records), 1), round(whole / len(records), 1))


def stateful(
    stack: Stack, recipe: Recipe, table: pa.Table, part: int, log: Any
) -> dict[int, dict[str, float]]:
    """Spark's windows over the same plays from topics of the same log."""
    topics = {"windows-all": table, "windows-few": table.slice(0, part)}
    with KafkaLog(stack.settings.kafka_bootstrap) as kafka:
        for topic, rows in topics.items():
            kafka.create(topic, PARTITIONS)
            stack.produce(topic, [_record(row) for row in rows.to_pylist()])
    argv = [str(stack.settings.spark_python), "-m", "benchmarks.baseline.stateful_windows"]
    argv += [
        "--bootstrap",
        stack.settings.kafka_bootstrap,
        "--redis-url",
        recipe.settings.redis_url,
    ]
    argv += ["--jars", str(stack.settings.spark_jars), "--batch", str(BATCH * PARTITIONS)]
    argv += [f"{count}:{'windows-few' if count > MANY else 'windows-all'}" for count in COUNTS]
    env = stack.settings.to_env() | spark_env(stack.settings)
    with (log / "stateful.log").open("w") as errors:
        done = subprocess.run(
            argv,
            cwd=HOME,
            env=env,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=1200,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(
            f"the stateful job ended with {done.returncode}: "
            f"{(log / 'stateful.log').read_text()[-3000:]}"
        )
    document: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return {int(count): costs for count, costs in document.items()}


def _record(row: dict[str, Any]) -> tuple[int, bytes, int]:
    value = {"user_id": row["user_id"], "seconds": row["seconds"], "played_at": row["event_time"]}
    return row["partition"], json.dumps(value).encode(), row["event_time"] // 1000


def run(options: Options) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    with pair("plays", {"SLICEWISE_MAX_EVENTS_PER_BATCH": str(BATCH * PARTITIONS)}) as (
        stack,
        recipe,
        logs,
    ):
        planned = definitions()
        with deploy.connected(stack.settings) as store:
            deploy.deploy(
                stack.settings, store, planned, deploy.current(store).metadata.deployment_version
            )
            topic_id = store.run(ReadMetadata()).topics["windowed"]
            table = made(options.windows_events, store.run(ReadTime()))
            part = max(50, options.windows_events // 15)
            ours: dict[int, Cost] = {}
            theirs: dict[int, Cost] = {}
            client = redis.Redis.from_url(stack.settings.redis_url)
            for count in COUNTS:
                notify(f"an event in {count} windows: applied, and written per window")
                meter = Meter(client)
                apply(store, topic_id, planned.view(f"w{count}")[0], table)
                ours[count] = meter.cost(table.num_rows)
                some = table.slice(0, part) if count > MANY else table
                meter = Meter(recipe.redis)
                write_windows(recipe.redis, some, count)
                theirs[count] = meter.cost(some.num_rows)
                recipe.redis.close()
        notify("what slicewise's stream keeps on disk")
        kept = kept_by_stream(stack, table)
        notify("an event in Spark's stateful windows")
        spark = stateful(stack, recipe, table, part, logs)
    figures = []
    for name, unit in (
        ("commands", "per event"),
        ("bytes_in", "per event"),
        ("bytes_grown", "per event"),
    ):
        for count in COUNTS:
            others = {"stateful job": spark[count][name]} if name in spark[count] else {}
            own, other = getattr(ours[count], name), getattr(theirs[count], name)
            label = {
                "commands": "commands",
                "bytes_in": "bytes to Redis",
                "bytes_grown": "bytes held",
            }[name]
            figures.append(
                Figure(
                    f"{label} per event (baseline: a write per window)",
                    f"{count} windows",
                    unit,
                    own,
                    other,
                    others=others,
                )
            )
    for name in ("state_bytes", "checkpoint_bytes"):
        for count in COUNTS:
            figures.append(
                Figure(
                    f"{name.replace('_', ' ')} per event (baseline: Spark's stateful windows)",
                    f"{count} windows",
                    "per event",
                    getattr(kept, name),
                    spark[count][name],
                )
            )
    details = {
        "events": table.num_rows,
        "events_of_1440": part,
        "fold": {count: vars(cost) for count, cost in ours.items()},
        "write_per_window": {count: vars(cost) for count, cost in theirs.items()},
        "stateful": spark,
        "kept_by_stream": vars(kept),
    }
    return figures, details
