"""A reader of a real server waits for no answer longer than its time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

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


def test_whoever_cannot_take_a_reply_takes_none_from_those_behind(own_redis: RedisServer) -> None:
    with open_store(own_redis.url) as store:
        store.run(Initialise())

    async def scenario() -> None:
        failures: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        reader = await AsyncReader.open(own_redis.url)
        behind: asyncio.Future[Any] = loop.create_future()

        def fails(_: Any, __: Exception | None) -> None:
            raise RuntimeError("cannot take it")

        reader.start(Read([]), fails)
        reader.start(Read([]), lambda reply, _: behind.set_result(reply))
        assert await asyncio.wait_for(behind, 5) is not None
        assert [str(context["exception"]) for context in failures] == ["cannot take it"]
        assert not reader.closed
        reader.close()

    asyncio.run(scenario())
