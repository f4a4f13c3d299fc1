"""A service over a store in memory that can be taken away, with feature sets of each behaviour on
failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.errors import StoreUnavailable
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.answering.answer import Answer
from slicewise.serving.answering.requests import checked
from slicewise.serving.answering.service import FeatureService
from slicewise.serving.connection.connection import SyncConnection
from slicewise.serving.connection.nodes import SyncNodes
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.port import Routed
from slicewise.stores.online.sharded.routing import node_name
from slicewise.stores.online.store import Store

TOPIC = "a" * 32
R = TypeVar("R")


def deployment(where: str | None = None) -> Deployment:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    features = [sw.Feature("n", sw.count(), windows=["10s"])]
    view = sw.FeatureView("v", source=source, entity=["user"], features=features, where=where)
    refs = ["v:n_10s"]
    sets = [
        sw.FeatureSet("declared", features=refs, defaults={"n_10s": -1}, on_failure="default"),
        sw.FeatureSet("remembered", features=refs, on_failure="stale", max_staleness="10m"),
        sw.FeatureSet("strict", features=refs),
    ]
    return plan(Project.of("p", [view, *sets]))


class Gone:
    """A store that may be taken away."""

    def __init__(self, server: MemoryServer) -> None:
        self.server, self.away, self.opened = server, False, 0

    def open(self) -> Store:
        self.opened += 1
        if self.away:
            raise StoreUnavailable("away")
        return open_memory(self.server)


class Readers(SyncNodes):
    """A reader's connections to nodes in memory, any of which may be away."""

    def __init__(self, servers: Sequence[MemoryServer]) -> None:
        super().__init__(",".join(["redis://nowhere"] * len(servers)), 1.0)
        self.servers, self.away = servers, set[int]()

    def _request(self, number: int, part: Routed[R], *, waits: bool) -> R:
        if number in self.away:
            self._open.pop(number, None)
            raise StoreUnavailable(f"node {number + 1} is away")
        if number not in self._open:
            node = self.servers[number].connect()
            self._open[number] = Store(node, node_name(number, len(self.servers)))
        return super()._request(number, part, waits=waits)


class World(NamedTuple):
    """A service, and what it stands on."""

    clock: ManualClock
    server: MemoryServer
    gone: Gone
    service: FeatureService
    connection: SyncConnection


def world(deployed: Deployment) -> World:
    """A service over a new store that has this deployed."""
    clock = ManualClock(1_700_000_000_000_000)
    server = MemoryServer(clock)
    deploy(server, deployed)
    gone = Gone(server)
    return World(clock, server, gone, FeatureService(clock), SyncConnection(gone.open))


def deploy(server: MemoryServer, deployed: Deployment) -> None:
    store = open_memory(server)
    metadata = store.run(Initialise())
    topics = {
        source.topic: letter * 32 for source, letter in zip(deployed.sources, "ab", strict=False)
    }
    metadata = store.run(Deploy(deployed, metadata.deployment_version, topics, OffsetVector()))
    for unit in deployed.units:
        name = unit.storage_fingerprint
        store.run(MarkReady(unit, metadata.starts[name], {unit.view: [name]}))


def read_as(
    service: FeatureService, connection: SyncConnection, name: str, min_token: str | None = None
) -> Answer:
    return connection.run(service.read(checked(None, name, [{"user": "ada"}], min_token=min_token)))
