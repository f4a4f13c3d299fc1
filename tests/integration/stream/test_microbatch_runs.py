"""A batch applied in parts, because its events are large, leaves the bytes that it leaves as a
whole."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pyarrow as pa
import pytest
import redis

import slicewise as sw
from slicewise.errors import DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.spark.microbatch import apply as microbatch
from slicewise.spark.microbatch.apply import MicroBatchTask, Placed, runs
from slicewise.windows.durations import HOUR_US
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Served

ROWS, FRAME = 3_000, 100
SEED = 61
SOURCE = sw.KafkaSource(
    "plays",
    schema={"user": "string", "seconds": "double", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1d",
)


def deployment() -> Deployment:
    features = [
        sw.Feature("n", sw.count(), ["1h"]),
        sw.Feature("seconds", sw.sum("seconds"), ["1h", "6h"]),
        sw.Feature("latest", sw.last_k("seconds", k=4), ["1h"]),
    ]
    view = sw.FeatureView("users", source=SOURCE, entity=["user"], features=features)
    listed = sw.FeatureView("listed", source=SOURCE, entity=["user"], features=[
        sw.Feature("few", sw.sum("seconds"), [sw.rows(5)])])  # fmt: skip
    return plan(Project("test", (view, listed)))


def frames(now_us: int) -> list[pa.RecordBatch]:
    """One partition's rows, as Spark gives them to a task."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    times = [now_us - chance.randrange(2 * HOUR_US) for _ in range(ROWS)]
    table = pa.table(
        {
            "partition": pa.array([0] * ROWS, pa.int32()),
            "offset": pa.array(range(ROWS), pa.int64()),
            "kafka_time": pa.array(times, pa.int64()),
            "event_time": pa.array(times, pa.int64()),
            "reason": pa.array([None] * ROWS, pa.string()),
            "keep": pa.array([0] * ROWS, pa.int32()),
            "user": pa.array([f"u{chance.randrange(20)}" for _ in range(ROWS)]),
            "seconds": pa.array([chance.uniform(-1e9, 1e9) for _ in range(ROWS)]),
        }
    )
    return list(table.to_batches(max_chunksize=FRAME))


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr(microbatch, "log_of", lambda _: made)
    return made


class Log:
    """Log as a task asks it: whether the topic is still the one that it reads."""

    current_id = TOPIC

    def check_topic(self, topic: str, expected_id: str) -> None:
        if expected_id != self.current_id:
            raise DataLoss(f"{topic} was made anew")


def applied(
    server: RedisServer, batches: list[pa.RecordBatch]
) -> tuple[list[dict[str, Any]], dict[bytes, Any]]:
    """Micro-batches; gives what the task said, and all that the store then holds of entities."""
    planned = deployment()
    with Served.on(server.url, planned) as served:
        task = MicroBatchTask(
            redis_url=server.url,
            kafka_bootstrap="",
            server_run=served.store.server_run,
            store_id=served.store.store_id,
            builds={},
            manifest=planned.to_json(),
            topic="plays",
            topic_id=TOPIC,
            placed=tuple(
                Placed(unit.storage_fingerprint, "keep", ("user",), {"seconds": "seconds"})
                for unit in planned.units
            ),
        )
        try:
            outcomes = [
                json.loads(text)
                for batch in task(iter(batches))
                for text in batch["outcome"].to_pylist()
            ]
        finally:
            microbatch.drop(server.url)
    stored: dict[bytes, Any] = {}
    with redis.Redis.from_url(server.operator_url) as client:
        for key in client.scan_iter(match="sw:*{user:*"):
            stored[key] = (
                client.zrange(key, 0, -1) if client.type(key) == b"zset" else client.hgetall(key)
            )
    return outcomes, stored


def test_the_same_bytes_stand_however_many_runs_a_task_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = frames(time.time_ns() // 1_000)
    with running(RedisServer) as one, running(RedisServer) as other:
        whole, stored = applied(one, batches)
        monkeypatch.setattr(microbatch, "RUN_BYTES", 4 * batches[0].nbytes)
        parts, stored_in_parts = applied(other, batches)
    assert (len(whole), len(parts)) == (1, -(-len(batches) // 4))
    assert whole[0]["records"] == sum(part["records"] for part in parts) == ROWS
    assert len(stored) >= 40

    def contents(store: dict[bytes, Any]) -> dict[bytes, Any]:
        return {key.partition(b":{")[2]: value for key, value in store.items()}

    assert contents(stored_in_parts) == contents(stored)


def test_nothing_is_written_of_rows_after_which_another_topic_stands_under_the_name(
    log: Log,
) -> None:
    with running(RedisServer) as server:
        log.current_id = "f" * 32
        with pytest.raises(DataLoss, match="made anew"):
            applied(server, frames(time.time_ns() // 1_000))
        with redis.Redis.from_url(server.operator_url) as client:
            assert not list(client.scan_iter(match="sw:*{user:*"))


def test_a_run_ends_with_the_frame_that_fills_it(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pa.RecordBatch.from_pydict({"x": pa.array(range(100), pa.int64())})
    monkeypatch.setattr(microbatch, "RUN_BYTES", 2 * frame.nbytes - 1)
    empty = frame.slice(0, 0)
    taken = []

    def given() -> Any:
        for batch in (frame, empty, frame, frame, empty):
            taken.append(batch.num_rows)
            yield batch

    first, *rest = (table.num_rows for table in _noting(runs(given()), taken))
    assert (first, rest) == (200, [100])
    # nothing is taken before the run before it is over
    assert taken == [100, 0, 100, -1, 100, 0, -1]


def _noting(tables: Any, taken: list[int]) -> Any:
    for table in tables:
        taken.append(-1)
        yield table
