"""Sizes by unit are estimated from random keys of a real store."""

from __future__ import annotations

import pytest
import redis

from slicewise.errors import StoreUnavailable
from slicewise.stores.online.keys import hot_key, unit_name
from slicewise.stores.online.redis.sizes import read_sizes
from tests.support.platform.servers import RedisServer

BIG, SMALL = "b" * 16, "5" * 16


def test_sizes_of_units_are_near_what_they_take(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.operator_url) as client:
        client.flushall()
        assert not read_sizes(redis_server.url).keys
        used = {BIG: 0, SMALL: 0}
        for n in range(600):
            unit, build, length = (BIG, 7, 2_000) if n % 3 else (SMALL, 0, 10)
            key = hot_key(1, b"%d" % n, unit_name(unit, build))
            client.set(key, b"x" * length)
            used[unit] += int(client.memory_usage(key) or 0)
        client.set("sw:status:stream:plays", "{}")
        sizes = read_sizes(redis_server.url, sample=2_000)
        client.flushall()
    assert sizes.keys == {BIG: pytest.approx(400, rel=0.2), SMALL: pytest.approx(200, rel=0.2)}
    assert sizes.bytes == {unit: pytest.approx(size, rel=0.2) for unit, size in used.items()}


def test_a_store_that_is_away_says_so() -> None:
    with pytest.raises(StoreUnavailable):
        read_sizes("redis://127.0.0.1:1/0", timeout_s=1.0)
