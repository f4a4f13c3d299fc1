"""The JVM's real-time writer loses and doubles nothing where a connection breaks or a store hangs;
it writes into one server run.

The store is real, and so is what breaks.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise import codec
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.runtime.session import stream_session
from slicewise.stores.online import keys
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.status import ReadStatus
from tests.support.platform.cutting import cutting
from tests.support.platform.servers import RedisServer
from tests.support.stores.pending_rows import TOPIC, Bench, Records, Writer

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    result = stream_session(settings_of("redis://127.0.0.1:1", tmp_path_factory.mktemp("spark")))
    yield result
    result.stop()


def settings_of(url: str, folder: Path, **more: str) -> Settings:
    return Settings.load({"SLICEWISE_REDIS_URL": url, "SLICEWISE_STATE": str(folder), **more})


def one_view() -> list[sw.FeatureView]:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "n": "int64", "t": "timestamp_us"}, timestamp="t"
    )
    return [
        sw.FeatureView(
            "v", source=source, entity=["user"], features=[sw.Feature("n", sw.sum("n"), ["1h"])]
        )
    ]


def some(count: int) -> Records:
    now, records = time.time_ns() // 1000, Records()
    for i in range(count):
        records.add({"user": f"u{i % 3}", "n": i, "t": now}, 0, now)
    return records


def offsets(url: str) -> list[int]:
    """Offsets of all events in pending fields of the store."""
    with redis.Redis.from_url(url) as client:
        results = [
            item
            for key in client.scan_iter(match=b"sw:*:hot")
            for item in client.hgetall(key).items()
        ]
    fields = [
        codec.unpack_pending(value)[1]
        for name, value in results
        if name.startswith(keys.PENDING_FIELDS)
    ]
    return sorted(codec.offset_of(member) for members in fields for member in members)


def test_an_answer_that_is_lost_is_asked_for_again_and_changes_nothing(
    session: SparkSession, own_redis: RedisServer, tmp_path: Path
) -> None:
    bench = Bench.deploy(session, settings_of(own_redis.url, tmp_path), one_view(), OffsetVector())
    frame, placed = bench.frame(some(60))
    left = iter(range(3))
    with cutting(own_redis.port, lambda: next(left, None) is not None) as port:
        writer = Writer(session, bench.spec(placed, redis_url=f"redis://127.0.0.1:{port}"))
        writer.write(frame)
        writer.close()
    assert offsets(own_redis.operator_url) == list(range(60))
    with bench.store() as store:
        status = json.loads(store.run(ReadStatus("tail:plays:0")) or "")
    assert (status["acked"], status["reconnects"]) == (59, 3)


def test_a_store_that_hangs_is_waited_for_and_loses_nothing(
    session: SparkSession, own_redis: RedisServer, tmp_path: Path
) -> None:
    bench = Bench.deploy(session, settings_of(own_redis.url, tmp_path), one_view(), OffsetVector())
    frame, placed = bench.frame(some(60))
    writer = Writer(session, bench.spec(placed, timeout_ms=500))
    assert own_redis.birth is not None
    own_redis.birth.signal(signal.SIGSTOP)
    threading.Timer(2.0, own_redis.birth.signal, [signal.SIGCONT]).start()
    begun = time.monotonic()
    writer.write(frame)
    writer.close()
    assert 1.0 < time.monotonic() - begun < 30
    assert offsets(own_redis.operator_url) == list(range(60))
    with bench.store() as store:
        assert json.loads(store.run(ReadStatus("tail:plays:0")) or "")["reconnects"] >= 1


def finish(writer: Writer, frame: Any) -> None:
    if frame is not None:
        writer.write(frame)
    writer.close()


def failure(writer: Writer, frame: Any = None) -> str:
    with pytest.raises(Py4JJavaError) as caught:
        finish(writer, frame)
    return str(caught.value.java_exception.getMessage())


def test_no_other_server_run_is_written_to(
    session: SparkSession, own_redis: RedisServer, tmp_path: Path
) -> None:
    bench = Bench.deploy(session, settings_of(own_redis.url, tmp_path), one_view(), OffsetVector())
    frame, placed = bench.frame(some(20))
    spec = bench.spec(placed)
    waiting = Writer(session, spec)
    own_redis.stop()
    own_redis.start()
    assert "another server run" in failure(waiting, frame)
    with pytest.raises(Py4JJavaError) as caught:
        Writer(session, spec)
    assert "another server run" in str(caught.value.java_exception.getMessage())
    assert offsets(own_redis.operator_url) == []

    emptied = Writer(session, bench.spec(placed))
    with redis.Redis.from_url(own_redis.operator_url) as client:
        client.flushall()
    assert "the store was emptied" in failure(emptied)


def test_what_the_store_refuses_and_a_new_deployment_end_the_real_time_lane_with_the_partition_named(
    session: SparkSession, own_redis: RedisServer, tmp_path: Path
) -> None:
    bench = Bench.deploy(session, settings_of(own_redis.url, tmp_path), one_view(), OffsetVector())
    frame, placed = bench.frame(some(20))
    writer = Writer(session, bench.spec(placed))
    with bench.store() as store, redis.Redis.from_url(own_redis.operator_url) as client:
        unit = bench.deployment.units[0]
        name = store.run(ReadMetadata()).name(unit.storage_fingerprint)
        client.set(keys.hot_key(store.store_id, b"user:string:u1", name), "x")
    message = failure(writer, frame)
    assert "WRONGTYPE" in message
    assert f"unit {name}, partition 0, offset 1" in message
    assert "next step" in message
    other = Writer(session, bench.spec(placed))
    with redis.Redis.from_url(own_redis.operator_url) as client:
        client.hincrby(keys.METADATA, "epoch", 1)
        assert "another deployment" in failure(other)


def test_the_real_time_lane_waits_for_the_committed_offsets(
    session: SparkSession, own_redis: RedisServer, tmp_path: Path
) -> None:
    bench = Bench.deploy(session, settings_of(own_redis.url, tmp_path), one_view(), OffsetVector())
    frame, placed = bench.frame(some(60))
    writer = Writer(session, bench.spec(placed, ahead=20))
    writer.write(frame)
    deadline = time.monotonic() + 30
    while offsets(own_redis.operator_url) != list(range(20)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with bench.store() as store:
        metadata = store.run(ReadMetadata())
        for begin, end in ((0, 30), (30, 60)):
            store.run(
                AdvanceCommitted(
                    OffsetVector({(TOPIC, 0): begin}),
                    OffsetVector({(TOPIC, 0): end}),
                    metadata.deployment_version,
                    metadata.units,
                )
            )
    writer.close()
    assert offsets(own_redis.operator_url) == list(range(60))
