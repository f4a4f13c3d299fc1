"""Every adapter of the online store, each with a server of which a test may use names of its own."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from slicewise.clock import ManualClock
from slicewise.slices import HOUR_US
from slicewise.stores.memory import MemoryServer, open_memory
from slicewise.stores.redis import open_store
from slicewise.stores.store import Store
from tests.support.servers import RedisServer
from tests.support.stored import StoreDeployment, StoreUnit

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Bench:
    """A store with its marks, one deployed unit, and a way to open further connections."""

    connect: Callable[[], Store]
    store: Store
    unit: StoreUnit
    hour: int
    """An hour that the store's clock has passed lately."""

    @property
    def hour_us(self) -> int:
        return self.hour * HOUR_US

    def deploy(self, store: Store, *units: StoreUnit, **known: object) -> StoreDeployment:
        """Deploys these units beside nothing else; its digest is new."""
        deployment = StoreDeployment(uuid.uuid4().hex, units)
        store.deploy(deployment, store.marks().epoch, **known)  # type: ignore[arg-type]
        return deployment


def new_unit(**changes: object) -> StoreUnit:
    return StoreUnit(storage_fingerprint=uuid.uuid4().hex[:16], **changes)  # type: ignore[arg-type]


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.server)])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[], Store]]:
    """Opens connections to one empty store."""
    opened: list[Store] = []
    if request.param == "memory":
        server = MemoryServer(ManualClock(time.time_ns() // 1_000))

        def connect() -> Store:
            opened.append(open_memory(server))
            return opened[-1]

    else:
        real: RedisServer = request.getfixturevalue("contract_redis")
        real_empty(real)

        def connect() -> Store:
            opened.append(open_store(real.url))
            return opened[-1]

    yield connect
    for store in opened:
        store.close()


@pytest.fixture(scope="session")
def contract_redis() -> Iterator[RedisServer]:
    """A server of the suite's own: it is emptied for every test."""
    from tests.support.servers import running

    with running(RedisServer) as server:
        yield server


def real_empty(server: RedisServer) -> None:
    import redis

    with redis.Redis.from_url(server.operator_url) as client:
        client.flushall()


@pytest.fixture
def bench(connect: Callable[[], Store]) -> Bench:
    store = connect()
    store.initialise()
    unit = new_unit()
    bench = Bench(connect, store, unit, store.time_us() // HOUR_US - 3)
    bench.deploy(store, unit)
    return bench
