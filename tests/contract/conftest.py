"""Every adapter of the online store, each with a server of which a test may use names of its
own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
import redis

from slicewise.clock import SystemClock
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.sharded.routing import Nodes, On, node_of
from slicewise.stores.online.steps import Change, Command, Steps, drive
from slicewise.stores.online.store import Store
from slicewise.windows.durations import HOUR_US
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.stored import StoreDeployment, StoreUnit

T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """A store with its metadata, one deployed unit, and a way to open further connections."""

    connect: Callable[[], Store]
    store: Store
    unit: StoreUnit
    hour: int
    """An hour that the store's clock has passed lately."""

    @property
    def nodes(self) -> int:
        """The number of the store's nodes."""
        return len(getattr(self.store.node, "nodes", "1"))

    @property
    def hour_us(self) -> int:
        return self.hour * HOUR_US

    def deploy(self, store: Store, *units: StoreUnit, **options: object) -> StoreDeployment:
        """Deploys these units beside nothing else; its digest is new."""
        deployment = StoreDeployment(uuid.uuid4().hex, units)
        store.run(Deploy(deployment, store.run(ReadMetadata()).deployment_version, **options))  # type: ignore[arg-type]
        return deployment


def racing(store: Store, steps: Steps[T], race: Callable[[Sequence[Command]], None]) -> T:
    """Runs an operation; `race` acts after each exchange, before its replies are looked at."""

    def run(commands: Sequence[Command]) -> list[Any]:
        replies = store.node.run(commands)
        race([command.command if isinstance(command, On) else command for command in commands])
        return replies

    return drive(steps, run)


class AnyNodes(Nodes):
    """Two nodes whose keys a test may also read and write by themselves: their tags say where they
    are."""

    def run(self, commands: Sequence[Any]) -> list[Any]:
        return super().run(
            [
                command if isinstance(command, On) else On(self._of(command), command)
                for command in commands
            ]
        )

    def _of(self, command: Command) -> int:
        key = command.keys[0].key if isinstance(command, Change) else getattr(command, "key", b"{}")
        return of_key(key, len(self.nodes))


def of_key(key: bytes, count: int) -> int:
    return node_of(key[key.index(b"{") + 1 : key.index(b"}")], count)


def node_with(store: Store, key: bytes) -> Any:
    """The connection to the node that has a key."""
    nodes = getattr(store.node, "nodes", (store.node,))
    return nodes[of_key(key, len(nodes))]


def two_in_memory(servers: Sequence[MemoryServer]) -> Store:
    return Store(AnyNodes([server.connect() for server in servers]))


def new_unit(**changes: object) -> StoreUnit:
    return StoreUnit(storage_fingerprint=uuid.uuid4().hex[:16], **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Backend:
    """One empty store of one adapter."""

    connect: Callable[[], Store]
    empty: Callable[[], None]


@pytest.fixture(
    params=[
        "memory",
        "two in memory",
        *(pytest.param(name, marks=pytest.mark.server) for name in ("redis", "two redis")),
    ]
)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    opened: list[Store] = []
    if request.param == "memory":
        server = MemoryServer(SystemClock())
        empty = server.flush

        def open_one() -> Store:
            return open_memory(server)

    elif request.param == "two in memory":
        servers = [MemoryServer(SystemClock(), name=f"memory {n}") for n in (1, 2)]

        def empty() -> None:
            for node in servers:
                node.flush()

        def open_one() -> Store:
            return two_in_memory(servers)

    elif request.param == "two redis":
        both: Sequence[RedisServer] = request.getfixturevalue("contract_two_redis")

        def empty() -> None:
            for node in both:
                with redis.Redis.from_url(node.operator_url) as client:
                    client.flushall()

        def open_one() -> Store:
            store = open_store(",".join(node.url for node in both))
            assert isinstance(store.node, Nodes)
            return Store(AnyNodes(store.node.nodes))

    else:
        real: RedisServer = request.getfixturevalue("contract_redis")

        def empty() -> None:
            with redis.Redis.from_url(real.operator_url) as client:
                client.flushall()

        def open_one() -> Store:
            return open_store(real.url)

    def connect() -> Store:
        opened.append(open_one())
        return opened[-1]

    empty()
    yield Backend(connect, empty)
    for store in opened:
        store.close()


@pytest.fixture
def connect(backend: Backend) -> Callable[[], Store]:
    """Opens connections to one empty store."""
    return backend.connect


@pytest.fixture
def empty(backend: Backend) -> Callable[[], None]:
    """Empties the store, as only an operator can."""
    return backend.empty


@pytest.fixture(scope="session")
def contract_redis() -> Iterator[RedisServer]:
    """A server of the suite's own: it is emptied for every test."""
    with running(RedisServer) as server:
        yield server


@pytest.fixture(scope="session")
def contract_two_redis() -> Iterator[tuple[RedisServer, RedisServer]]:
    """Two servers that are the nodes of one store."""
    with running(RedisServer) as one, running(RedisServer) as other:
        yield one, other


@pytest.fixture
def bench(connect: Callable[[], Store]) -> Bench:
    store = connect()
    store.run(Initialise())
    unit = new_unit()
    bench = Bench(connect, store, unit, store.run(ReadTime()) // HOUR_US - 3)
    bench.deploy(store, unit)
    return bench


@pytest.fixture(scope="session")
def contract_store(contract_redis: RedisServer) -> Backend:
    """A real store that a test empties itself, as often as it likes."""

    def empty() -> None:
        with redis.Redis.from_url(contract_redis.operator_url) as client:
            client.flushall()

    return Backend(lambda: open_store(contract_redis.url), empty)
