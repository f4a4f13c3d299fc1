"""Real servers for tests, started by the platform's own code, each in a folder and on ports of its
own.

    def test_x(redis_server): client = redis.Redis.from_url(redis_server.url)
    def test_y(kafka_broker): Producer({"bootstrap.servers": kafka_broker.bootstrap})
    def test_z(own_redis): own_redis.kill(); own_redis.start()

`redis_server` and `kafka_broker` are shared by the whole run: a test uses keys and topics of its
own names. `own_redis` and `own_kafka` belong to one test, which may kill, stop and restart them.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from slicewise.local.servers import control, services
from slicewise.local.servers import kafka as broker
from slicewise.local.servers import redis as store
from slicewise.local.servers.ports import HOST
from slicewise.local.servers.process import Birth, wait_gone
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings


def listening(processes: Iterable[Birth]) -> set[tuple[str, int]]:
    """Every address and port that the processes listen on."""
    return {
        (connection.laddr.ip, connection.laddr.port)
        for birth in processes
        for connection in psutil.Process(birth.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


class RunningServer:
    """One embedded server that a test may stop, kill and start again on the same port and data."""

    def __init__(self, name: str, folder: Path) -> None:
        self.state = StateFolder(folder)
        self.state.create()
        # Records may be as old as a test wants them: a broker that looks for old ones, every five
        # minutes, drops none.
        loaded = Settings.load(
            {"SLICEWISE_STATE": str(folder), "SLICEWISE_KAFKA_RETENTION_MS": "-1"}
        )
        platform = services.build(loaded, services.chooser({}, folder), env={})
        self.settings: Settings = platform.settings
        self.service: Service = platform.services[name]
        self.port: int = self.state.ports()[services.PORTS[name][0]]
        self.birth: Birth | None = None

    def start(self) -> None:
        """Starts it and waits until it is well."""
        self.birth = control.start(self.service, self.state, self.settings)
        control.await_well(self.service, self.birth, self.state, print)

    def stop(self) -> None:
        """Stops the server as an operator does: it may write what it still holds."""
        control.stop(self.service, self.state)
        self.birth = None

    def kill(self) -> None:
        """Stops the server as a crash does."""
        assert self.birth is not None, "it does not run"
        self.birth.signal(signal.SIGKILL)
        assert not wait_gone([self.birth], 10.0)
        self.birth = None

    @property
    def data(self) -> Path:
        """Folder of its configuration and data."""
        return self.state.path / self.service.name

    @property
    def pid(self) -> int:
        assert self.birth is not None, "it does not run"
        return self.birth.pid


class RedisServer(RunningServer):
    """A Redis (or Valkey) with the platform's users and limits."""

    def __init__(self, folder: Path) -> None:
        super().__init__(store.NAME, folder)

    @property
    def url(self) -> str:
        """The address by which the platform connects: may not flush, swap, restore."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def operator_url(self) -> str:
        """The address by which an operator connects: may do everything."""
        return store.operator_url(self.state, self.port)


class KafkaBroker(RunningServer):
    """A Kafka broker of one node."""

    def __init__(self, folder: Path) -> None:
        super().__init__(broker.NAME, folder)

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"


Server = TypeVar("Server", RedisServer, KafkaBroker)


@contextmanager
def running(kind: type[Server]) -> Iterator[Server]:
    """One server in a folder of its own, gone with all its processes and data afterwards."""
    with tempfile.TemporaryDirectory(prefix="slicewise-test-") as folder:
        server = kind(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Shared by the run; use keys of your own."""
    with running(RedisServer) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """Shared by the run; use topics of your own."""
    with running(KafkaBroker) as server:
        yield server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """One test's own: to be killed, stopped and started."""
    with running(RedisServer) as server:
        yield server


@pytest.fixture
def own_kafka() -> Iterator[KafkaBroker]:
    """One test's own: to be killed, stopped and started."""
    with running(KafkaBroker) as server:
        yield server
