"""A read by shape and tag is the read of the same keys, and no reader waits for ever."""

from __future__ import annotations

import asyncio
import random
import time

import redis

from slicewise.errors import StoreUnavailable
from slicewise.stores.online import keys
from slicewise.stores.online.port import EntityRead, TagRead, UnitRead
from slicewise.stores.online.redis import AsyncReader, open_store
from slicewise.stores.online.shapes import ReadShape, UnitShape
from slicewise.windows.slices import DAY_US, HOUR_US
from tests.contract.conftest import Bench
from tests.support.servers import RedisServer
from tests.support.stored import Event, fold_batch, tag

SEED = 20_260_102


def test_a_read_by_shape_gives_what_a_read_by_keys_gives(bench: Bench) -> None:
    rng = random.Random(SEED)
    events = [Event(rng.randrange(12), bench.hour_us + rng.randrange(HOUR_US), 0, offset) for offset in range(60)]
    bench.store.fold(fold_batch(bench.unit, events))
    unit, generation, day = bench.unit.storage_fingerprint, bench.store.generation, bench.hour_us // DAY_US
    names = (b"c", b"d", b"h:%d" % (bench.hour_us // HOUR_US))
    shape = ReadShape(generation, (UnitShape(unit, ((day, names), (day + 1, names))), UnitShape(unit, ())))
    # Tags of several lengths, one that nothing is stored of, and one of no length at all.
    tags = [*(tag(entity) for entity in range(12)), b"nobody:string:x", b""]
    by_keys = []
    for each in tags:
        hot = keys.hot_key(generation, each, unit)
        days = tuple((keys.day_key(generation, each, unit, d), names) for d in (day, day + 1))
        by_keys.append(EntityRead((UnitRead(hot, days), UnitRead(hot))))
    want = bench.store.read(by_keys)
    for _ in range(2):  # the second time from what was kept of the first
        found = bench.store.read([TagRead(shape, each) for each in tags])
        assert found.entities == want.entities
        assert {n: said.marks for n, said in found.said.items()} == {n: said.marks for n, said in want.said.items()}
    assert any(units[0].hot for units in found.entities)
    mixed = bench.store.read([by_keys[0], TagRead(shape, tags[1])])
    assert mixed.entities == want.entities[:2]


def test_a_reader_that_is_not_answered_in_time_tells_all_who_wait_and_is_dead(own_redis: RedisServer) -> None:
    with open_store(own_redis.url) as store:
        store.initialise()

    async def scenario() -> None:
        reader = await AsyncReader.open(own_redis.url, timeout_s=0.3)
        await reader.read([])
        with redis.Redis.from_url(own_redis.operator_url) as operator:
            operator.client_pause(60_000)
            begin = time.monotonic()
            found = await asyncio.gather(*[reader.read([]) for _ in range(3)], return_exceptions=True)
        assert all(isinstance(error, StoreUnavailable) and "no answer within 0.3 s" in error.what for error in found)
        assert 0.25 < time.monotonic() - begin < 20
        assert reader.closed

    asyncio.run(scenario())
