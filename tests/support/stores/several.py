"""A store of several nodes in memory."""

from __future__ import annotations

from slicewise.clock import ManualClock
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.sharded.routing import node_name, node_of
from slicewise.stores.online.store import Store
from tests.support.stores.stored import TOPIC, StoreDeployment, StoreUnit, offset_vector, tag

NOW_US = 1_700_000_000_000_000
UNIT = StoreUnit()
NAME = UNIT.storage_fingerprint
COUNT = 2
ON = [next(e for e in range(20) if node_of(tag(e), COUNT) == number) for number in range(COUNT)]


def servers(count: int = COUNT) -> list[MemoryServer]:
    clock = ManualClock(NOW_US)
    return [MemoryServer(clock, name=f"n{number}") for number in range(count)]


def deployed(nodes: list[MemoryServer], digest: str = "one", *units: StoreUnit) -> Store:
    store = open_memory(*nodes)
    metadata = store.run(Initialise())
    store.run(
        Deploy(
            StoreDeployment(digest, units or (UNIT,)),
            metadata.deployment_version,
            {"plays": TOPIC},
            offset_vector(),
        )
    )
    return store


def one_node(nodes: list[MemoryServer], number: int) -> Store:
    """A connection to one of them."""
    return Store(nodes[number].connect(), node_name(number, len(nodes)))


def advance(store: Store, *ends: int) -> OffsetVector:
    metadata = store.run(ReadMetadata())
    return store.run(
        AdvanceCommitted(
            metadata.committed, offset_vector(*ends), metadata.deployment_version, metadata.units
        )
    )
