"""A reader of a real server waits for no answer longer than its time."""

from __future__ import annotations

import asyncio
import time

import redis

from slicewise.errors import StoreUnavailable
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.reading import Read
from slicewise.stores.online.redis import AsyncReader, open_store
from tests.support.platform.servers import RedisServer


def test_a_reader_that_is_not_answered_in_time_tells_all_who_wait_and_is_dead(
    own_redis: RedisServer,
) -> None:
    with open_store(own_redis.url) as store:
        store.run(Initialise())

    async def scenario() -> None:
        reader = await AsyncReader.open(own_redis.url, timeout_s=0.3)
        await reader.run(Read([]))
        with redis.Redis.from_url(own_redis.operator_url) as operator:
            operator.client_pause(60_000)
            begin = time.monotonic()
            result = await asyncio.gather(
                *[reader.run(Read([])) for _ in range(3)], return_exceptions=True
            )
        assert all(
            isinstance(error, StoreUnavailable) and "no answer within 0.3 s" in error.what
            for error in result
        )
        assert 0.25 < time.monotonic() - begin < 20
        assert reader.closed

    asyncio.run(scenario())
