"""The JVM's real-time writer leaves in a store, to the byte, what the store's own operation
leaves."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.runtime.session import stream_session
from slicewise.stores.online.operations.status import ReadStatus
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.pending_rows import PARTITIONS, TOPIC, Bench, Records, Writer

pytestmark = pytest.mark.timeout(600)
SEED = 20_261_122
SCHEMA = {
    "user": "string",
    "n": "int64",
    "x": "double",
    "b": "boolean",
    "p": "decimal(6,2)",
    "q": "decimal(38,10)",
    "d": "date",
    "s": "string",
    "ts": "array<string>",
    "ns": "array<int64>",
    "ds": "array<date>",
    "ps": "array<decimal(6,2)>",
    "bs": "array<boolean>",
    "t": "timestamp_us",
}
TEXTS = ["", "a", "é😀", "a b,c:d{e}%", "\x00", "\u2028'\"\\", "z" * 300, "}:hot", "A%20", "\ufffd"]
DAYS = ["0001-01-01", "1582-10-10", "1969-12-31", "2024-02-29", "9999-12-31"]
US = 1_000_000
BOUND = 7


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    result = stream_session(settings_of("redis://127.0.0.1:1", tmp_path_factory.mktemp("spark")))
    yield result
    result.stop()


def settings_of(url: str, folder: Path, **more: str) -> Settings:
    return Settings.load({"SLICEWISE_REDIS_URL": url, "SLICEWISE_STATE": str(folder), **more})


def all_views() -> list[sw.FeatureView]:
    """Views that read every column type: keys of all types, a per-partition view, a lifetime, an
    event list, a global view."""
    source = sw.KafkaSource("plays", schema=SCHEMA, timestamp="t", max_lateness="60d")
    scalars = [
        sw.Feature(f"last_{c}", sw.last(c), ["1h"])
        for c in ("n", "x", "b", "p", "q", "d", "s", "t")
    ]
    arrays = [sw.Feature(f"by_{c}", sw.count_by(c), ["1h"]) for c in ("ts", "ns", "ds", "ps", "bs")]
    total = sw.Feature("total", sw.sum("y"), ["1h"])
    exact = sw.Feature("exact", sw.last("s"), [sw.exact_range("30m")])
    counted = sw.Feature("rows", sw.last_k("q", k=2), [sw.rows(5)])
    return [
        sw.FeatureView("wide", source=source, entity=["user"], features=[*scalars, *arrays]),
        sw.FeatureView("keys", source=source, entity=["b", "d", "n", "s"], where="x > 0",
                       columns={"y": "x * -0.0"}, features=[total]),
        sw.FeatureView("instants", source=source, entity=["t"], features=[sw.Feature("n", sw.count(), ["1h"])]),
        sw.FeatureView("spread", source=source, entity=["user"], spread=True,
                       features=[sw.Feature("n", sw.count(), ["1h"])]),
        sw.FeatureView("ever", source=source, entity=["user"],
                       features=[sw.Feature("n", sw.sum("n"), [sw.lifetime()])]),
        sw.FeatureView("everybody", source=source, entity=[], features=[sw.Feature("n", sw.sum("n"), ["1h"])]),
        sw.FeatureView("listed", source=source, entity=["user"], features=[exact]),
        sw.FeatureView("last", source=source, entity=["user"], features=[counted]),
    ]  # fmt: skip


def made(now: int, count: int) -> Records:
    chance, records = random.Random(SEED), Records()
    users = ["u0", "u1", *TEXTS]

    def event(user: str | None, t: int) -> dict[str, Any]:
        pick = chance.choice
        whole = {
            "n": pick([0, -1, 2**63 - 1, -(2**63), chance.randrange(-1000, 1000)]),
            "x": pick([0.0, -0.0, 1.5, -2.5, 5e-324, 1e308, float("nan"), chance.random()]),
            "b": pick([True, False]),
            "p": pick([0, -0.01, 9999.99, 1.5]),
            "q": pick([0, 0.1, -12345678901234567, 3]),
            "d": pick(DAYS),
            "s": pick(TEXTS),
            "ts": pick([[], [pick(TEXTS)], [None, "a", "a"]]),
            "ns": pick([[], [1, -33, 2**40, None]]),
            "ds": [pick(DAYS)],
            "ps": [pick([0, 1.5, -9999.99]), None],
            "bs": [True, None, False],
        }
        return {"user": user, "t": t} | {k: v for k, v in whole.items() if chance.random() > 0.15}

    for user in users:  # what is old comes after what keeps the lists
        for partition in range(PARTITIONS):
            records.add(event(user, now - chance.randrange(60 * US)), partition, now)
    for _ in range(count):
        age = chance.choice([chance.randrange(20 * 60 * US), 61 * 60 * US, 70 * 86_400 * US])
        value: Any = (
            b"{" if chance.random() < 0.05 else event(chance.choice([None, *users]), now - age)
        )
        # what has expired by now was in time when it came
        records.add(value, chance.randrange(PARTITIONS), now - age, chance.choice([0, 0, 0, 7]))
    return records


def contents(url: str, store_id: int) -> dict[bytes, Any]:
    """All that the real-time lane may have written, under keys of no store id, with expiries."""
    results: dict[bytes, Any] = {}
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(match=b"sw:%d:{*" % store_id):
            kind = client.type(key)
            value = (
                client.zrange(key, 0, -1, withscores=True)
                if kind == b"zset"
                else client.hgetall(key)
            )
            results[key.replace(b"sw:%d:" % store_id, b"", 1)] = (value, client.expiretime(key))
    return results


def test_the_store_holds_the_same_bytes_whoever_wrote_the_real_time_lane(
    session: SparkSession, tmp_path: Path
) -> None:
    start = OffsetVector({(TOPIC, 0): 5})
    with running(RedisServer) as one, running(RedisServer) as other:
        benches = [
            Bench.deploy(
                session,
                settings_of(server.url, tmp_path, SLICEWISE_REALTIME_FIELDS=str(BOUND)),
                all_views(),
                start,
            )
            for server in (one, other)
        ]
        records = made(time.time_ns() // 1000, 300)
        frame, placed = benches[0].frame(records)
        assert {placed_unit.unit for placed_unit in placed} == set(benches[0].plan().units)
        for again in range(2):  # the second time changes nothing
            writer = Writer(session, benches[0].spec(placed))
            # of one entity they share the bound: who comes first has it
            for partition in range(PARTITIONS):
                writer.write(frame.filter(frame["partition"] == partition))
            writer.close()
            benches[1].write_python(records, BOUND)
            results = []
            for bench, server in zip(benches, (one, other), strict=True):
                with bench.store() as store:
                    results.append(contents(server.operator_url, store.store_id))
            assert results[0].keys() == results[1].keys()
            differing = [key for key, value in results[0].items() if value != results[1][key]]
            assert differing == []
            print(f"seed {SEED}, time {again + 1}: {len(results[0])} keys")
        fields = [
            name for value, _ in results[0].values() if isinstance(value, dict) for name in value
        ]
        assert any(name.startswith(b"q:") for name in fields)
        assert any(name.startswith(b"x:") for name in fields)
        assert any(isinstance(value, list) and value for value, _ in results[0].values())
        with benches[0].store() as store:
            statuses = [
                json.loads(store.run(ReadStatus(f"tail:plays:{p}")) or "")
                for p in range(PARTITIONS)
            ]
        ends = {p: max(o for _, q, o, _ in records.values if q == p) for p in range(PARTITIONS)}
        assert {status["partition"]: status["acked"] for status in statuses} == ends
        assert sum(status["rows"] for status in statuses) == len(records.values)
        assert all(
            sum(status[name] for status in statuses) for name in ("written", "skipped", "expired")
        ), statuses
