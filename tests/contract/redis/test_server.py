"""A real server can do what the store in memory cannot: die, forget, refuse, evict, answer many at
once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from slicewise.errors import ServerRunChanged, StoreUnavailable
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.reading import EntityRead, Read, UnitRead
from slicewise.stores.online.redis import AsyncReader, open_store
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.contract.conftest import Bench, new_unit
from tests.support.platform.servers import RedisServer
from tests.support.stores.publish_hour import PublishHour
from tests.support.stores.stored import (
    Event,
    StoreUnit,
    hour_entry,
    micro_batch,
    offset_vector,
    running_of,
    seen_in,
    tag,
)


@pytest.fixture
def deployed(contract_redis: RedisServer) -> Iterator[Bench]:
    with redis.Redis.from_url(contract_redis.operator_url) as client:
        client.flushall()

    def connect() -> Store:
        return open_store(contract_redis.url)

    with connect() as store:
        store.run(Initialise())
        bench = Bench(connect, store, new_unit(), store.run(ReadTime()) // HOUR_US - 3)
        bench.deploy(store, bench.unit)
        yield bench


def key_of(bench: Bench, entity: int, unit: StoreUnit | None = None) -> bytes:
    return keys.hot_key(bench.store.store_id, tag(entity), (unit or bench.unit).storage_fingerprint)


def test_a_connection_dies_with_the_server_and_never_comes_back(own_redis: RedisServer) -> None:
    store = open_store(own_redis.url)
    metadata, old = store.run(Initialise()), store.server_run
    own_redis.kill()
    with pytest.raises(StoreUnavailable):
        store.run(ReadMetadata())
    with pytest.raises(StoreUnavailable):
        open_store(own_redis.url)
    own_redis.start()
    with pytest.raises(StoreUnavailable):
        store.run(ReadMetadata())
    with open_store(own_redis.url) as again:
        assert again.server_run != old
        assert again.store_id == metadata.store_id


def test_after_a_loss_metadata_and_data_fall_back_together(own_redis: RedisServer) -> None:
    unit = StoreUnit()
    with open_store(own_redis.url) as store:
        store.run(Initialise())
        bench = Bench(lambda: store, store, unit, store.run(ReadTime()) // HOUR_US)
        bench.deploy(store, unit)
        metadata = store.run(ReadMetadata())
        events = [Event(1, bench.hour_us, 0, o) for o in range(4)]
        store.run(ApplyBatch(micro_batch(unit, events[:2])))
        store.run(
            AdvanceCommitted(
                offset_vector(), offset_vector(2), metadata.deployment_version, metadata.units
            )
        )
        log = own_redis.data
        kept = {path: path.stat().st_size for path in log.rglob("*.incr.aof")}
        assert len(kept) == 1
        deadline = time.monotonic() + 60  # what was written so far reaches the file
        (path,) = kept
        while b"g:" not in path.read_bytes():
            assert time.monotonic() < deadline
        size = path.stat().st_size
        store.run(ApplyBatch(micro_batch(unit, events)))
        store.run(
            AdvanceCommitted(
                offset_vector(2), offset_vector(4), metadata.deployment_version, metadata.units
            )
        )
    own_redis.kill()
    with path.open("r+b") as file:
        file.truncate(size)  # the last second is gone
    own_redis.start()
    with open_store(own_redis.url) as again:
        assert again.run(ReadMetadata()).committed == offset_vector(2)
        read = EntityRead(
            (UnitRead(keys.hot_key(again.store_id, tag(1), unit.storage_fingerprint)),)
        )
        reply = again.run(Read([read])).entities[0][0]
        assert seen_in(unit, [p.row for p in running_of(reply).values()]) == [(0, 0), (0, 1)]
        again.run(ApplyBatch(micro_batch(unit, events)))
        reply = again.run(Read([read])).entities[0][0]
        assert seen_in(unit, [p.row for p in running_of(reply).values()]) == [
            (0, o) for o in range(4)
        ]


def test_a_change_meets_a_wrong_type_before_its_first_write(deployed: Bench) -> None:
    # The day's key is of another type: nothing of the hot key may be written.
    events = [Event(1, deployed.hour_us, 0, 0)]
    day = keys.day_key(
        deployed.store.store_id, tag(1), deployed.unit.storage_fingerprint, deployed.hour // 24
    )
    with redis.Redis.from_url(_url(deployed)) as client:
        client.set(day, b"no hash")
        with pytest.raises(StoreUnavailable):
            deployed.store.run(ApplyBatch(micro_batch(deployed.unit, events)))
        assert client.exists(key_of(deployed, 1)) == 0


def _url(bench: Bench) -> str:
    address = bench.store.node._connection.address  # type: ignore[attr-defined]
    return f"redis://{address.host}:{address.port}/0"


def test_keys_expire_with_the_latest_slice_that_a_read_can_reach(deployed: Bench) -> None:
    unit = deployed.unit
    later = Event(1, deployed.hour_us + 2 * unit.slice_us, 0, 0)
    earlier = Event(1, deployed.hour_us, 0, 1)
    with redis.Redis.from_url(_url(deployed)) as client:
        for event in (later, earlier):
            deployed.store.run(ApplyBatch(micro_batch(unit, [event])))
            end = deployed.hour_us + 3 * unit.slice_us + unit.retention_us
            assert client.expiretime(key_of(deployed, 1)) == end // 1_000_000
        deployed.store.run(PutArchiveVersion("plays", 1, offset_vector(2)))
        entry = hour_entry(unit, 1, 1, [later, earlier])
        deployed.store.run(PublishHour(unit, deployed.hour, 1, offset_vector(2), [entry]))
        day = keys.day_key(
            deployed.store.store_id, tag(1), unit.storage_fingerprint, deployed.hour // 24
        )
        # the last day of a five-day total would also hold the five-day total, which is reached for
        # longer
        deployed.store.run(
            WriteDayTotals(replace(unit, five_day_totals=False), [tag(1)], deployed.hour // 24)
        )
        assert client.hexists(day, keys.TOTAL)
        end = deployed.hour_us + HOUR_US + unit.retention_us
        assert client.expiretime(day) == end // 1_000_000
        assert client.ttl(keys.METADATA) == -1
        client.persist(day)
        deployed.store.run(PublishHour(unit, deployed.hour, 1, offset_vector(2), [entry]))
        assert client.expiretime(day) == end // 1_000_000, "a key that lost its expiry gets one"


def test_a_server_that_evicts_is_refused(own_redis: RedisServer) -> None:
    with redis.Redis.from_url(own_redis.operator_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(StoreUnavailable, match="evicts"):
        open_store(own_redis.url)


def test_nobody_there_is_an_error_that_says_where() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        open_store("redis://127.0.0.1:1/0")


def test_two_processes_that_apply_the_same_log_bring_it_in_once(deployed: Bench) -> None:
    program = """
import sys
from slicewise.stores.online.operations.apply_batch import ApplyBatch
from slicewise.stores.online.redis import open_store
from tests.support.stores.stored import Event, StoreUnit, micro_batch
url, fingerprint, hour_us, width = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
unit = StoreUnit(storage_fingerprint=fingerprint)
events = [Event(o % 5, hour_us + o % 3 * unit.slice_us, 0, o) for o in range(600)]
misses = 0
with open_store(url) as store:
    for begin in range(0, 600, width):
        misses += store.run(ApplyBatch(micro_batch(unit, events[begin:begin + width]))).misses
"""
    arguments = [_url(deployed), deployed.unit.storage_fingerprint, str(deployed.hour_us)]
    running = [
        subprocess.Popen([sys.executable, "-c", program, *arguments, str(width)])
        for width in (7, 11, 13)
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    for entity in range(5):
        reply = deployed.store.run(
            Read([EntityRead((UnitRead(key_of(deployed, entity)),))])
        ).entities[0][0]
        seen = seen_in(deployed.unit, [part.row for part in running_of(reply).values()])
        assert seen == [(0, o) for o in range(entity, 600, 5)]


def test_many_reads_in_flight_get_their_own_answers(
    deployed: Bench, contract_redis: RedisServer
) -> None:
    events = [Event(o, deployed.hour_us, 0, o) for o in range(50)]
    deployed.store.run(ApplyBatch(micro_batch(deployed.unit, events)))

    async def scenario() -> None:
        reader = await AsyncReader.open(contract_redis.url)
        assert reader.store_id == deployed.store.store_id

        async def one(entity: int) -> None:
            reply = await reader.run(Read([EntityRead((UnitRead(key_of(deployed, entity)),))]))
            seen = seen_in(
                deployed.unit, [p.row for p in running_of(reply.entities[0][0]).values()]
            )
            assert seen == [(0, entity)]
            assert reply.only.metadata == deployed.store.run(ReadMetadata())

        cancelled = [asyncio.ensure_future(one(1)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*[one(i % 50) for i in range(300)])
        reader.close()
        with pytest.raises(StoreUnavailable):
            await one(1)

    asyncio.run(scenario())


def test_an_asynchronous_reader_dies_with_the_server(own_redis: RedisServer) -> None:
    with open_store(own_redis.url) as store:
        store.run(Initialise())

    async def scenario() -> None:
        reader = await AsyncReader.open(own_redis.url)
        await reader.run(Read([]))
        own_redis.kill()
        with pytest.raises(StoreUnavailable):
            await reader.run(Read([]))
        assert reader.closed
        own_redis.start()
        with pytest.raises(StoreUnavailable):
            await reader.run(Read([]))
        again = await AsyncReader.open(own_redis.url)
        assert again.server_run != reader.server_run
        again.close()

    asyncio.run(scenario())


def test_a_read_of_an_emptied_store_is_refused(
    deployed: Bench, contract_redis: RedisServer
) -> None:
    async def scenario() -> None:
        reader = await AsyncReader.open(contract_redis.url)
        with redis.Redis.from_url(contract_redis.operator_url) as client:
            client.flushall()
        with pytest.raises(ServerRunChanged):
            await reader.run(Read([]))
        reader.close()

    asyncio.run(scenario())
    with pytest.raises(ServerRunChanged):
        deployed.store.run(Read([]))
