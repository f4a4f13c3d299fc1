"""A store of several nodes for any world: one at a time they lose their last writes or all, and the
log forgets.

Between any two commands of whoever is at work on all of them. One of the nodes has no entity.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun, StoreMetadata
from slicewise.stores.online.memory.store import open_memory
from slicewise.stores.online.model import metadata
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy, Renewal
from slicewise.stores.online.port import NodesContext
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded.routing import (
    node_name,
    node_of,
    on_node,
    sharded_server_run,
    together,
)
from slicewise.stores.online.steps import Whole
from slicewise.stores.online.store import Store
from tests.simulation.actors import slices as actors
from tests.simulation.histories.choices import Choices
from tests.simulation.histories.play import EXPECTED, finish, joins
from tests.simulation.worlds import history
from tests.simulation.worlds.world import ENTITIES, Actor, Server, World, Wrong
from tests.support.stores.stored import TOPIC, StoreUnit, offset_vector, tag

NODES = 3
NODE_OF = [node_of(tag(entity), NODES) for entity in range(ENTITIES)]
assert len(set(NODE_OF)) == ENTITIES, "each entity is on a node of its own"


class Several(World):
    """Mixin that makes the store of a world several servers; to stand before that world."""

    def __init__(self, choices: Choices) -> None:
        super().__init__(choices)
        self.servers: list[Server] = [
            self.server,
            *(type(self.server)(self) for _ in range(NODES - 1)),
        ]
        for number, server in enumerate(self.servers):
            server.name = f"node {number}"
        self.bases: dict[tuple[ServerRun, str, int], list[int]] = {}
        """(server run of a node, unit under its store id, entity) -> the base of the newest
        answer."""
        self.metadata_first = False
        """Removed rule: a node's committed offsets move before what is written to it."""
        self.from_archive = 0.5
        """Share of cases in which a node that was emptied begins where the archive ends."""
        self._looked_at: int | None = None
        self._parsed: list[tuple[list[bytes], StoreMetadata | None]] = [([], None)] * NODES
        self._merged: tuple[list[StoreMetadata], StoreMetadata | None] = ([], None)

    def connect(self) -> Store:
        return open_memory(*self.servers)

    @property
    def server_run(self) -> ServerRun:
        return sharded_server_run([server.server_run for server in self.servers])

    def pass_time(self, us: int) -> None:
        for server in self.servers:
            server.time.advance(us)

    def earliest(self) -> OffsetVector:
        """A node that was emptied begins where the log does, or where the archive ends."""
        first = super().earliest()
        deployed = [
            node_metadata is not None and node_metadata.deployment_version > 0
            for node_metadata in map(self.metadata_of, range(NODES))
        ]
        if not any(deployed) or all(deployed) or self.rng.random() >= self.from_archive:
            return first
        return first.join(offset_vector(*self.archived()[1]))

    def to_sweep(self) -> tuple[Server, Store]:
        number = self.rng.randrange(NODES)
        server = self.servers[number]
        return server, Store(server.connect(), node_name(number, NODES))

    def node(self, entity: int) -> int:
        return NODE_OF[entity]

    def plans(self, store: Store) -> Generator[None, None, Mapping[int, StoreMetadata]]:
        assert isinstance(store.context, NodesContext)
        records = {number: node.metadata() for number, node in enumerate(store.context.contexts)}
        return (yield from self.on(store, together(records)))

    def early(
        self, store: Store, start: Sequence[int], end: Sequence[int], actual: StoreMetadata
    ) -> Actor:
        if self.metadata_first and isinstance(store.context, NodesContext):
            advance = AdvanceCommitted(
                offset_vector(*start), offset_vector(*end), actual.deployment_version, actual.units
            )
            steps = advance.steps(store.context.contexts[NODE_OF[0]])
            yield from self.on(store, on_node(NODE_OF[0], steps))

    def recover(self) -> None:
        finish(self, bridge(self))

    @contextmanager
    def on_node(self, number: int) -> Iterator[None]:
        """Looks at this node meanwhile."""
        before = self.server, self.here, self._looked_at
        self.server, self.here = (
            self.servers[number],
            [e for e, of in enumerate(NODE_OF) if of == number],
        )
        self._looked_at = number
        try:
            yield
        finally:
            self.server, self.here, self._looked_at = before

    def metadata_of(self, number: int) -> StoreMetadata | None:
        flat = self.servers[number].execute(Whole(keys.METADATA))
        if flat != self._parsed[number][0]:
            self._parsed[number] = flat, metadata.parse(flat)
        return self._parsed[number][1]

    def metadata(self) -> StoreMetadata | None:
        """The claims of all nodes together, or of the one that is looked at."""
        if self._looked_at is not None:
            return self.metadata_of(self._looked_at)
        results = [
            node_metadata
            for number in range(NODES)
            if (node_metadata := self.metadata_of(number)) is not None
        ]
        if len(results) < NODES:
            return None
        if list(map(id, results)) != list(map(id, self._merged[0])):
            self._merged = results, sharded_metadata.merged(results)
        return self._merged[1]

    def check(self) -> None:
        for number in NODE_OF:
            with self.on_node(number):
                super().check()

    def no_way_back(
        self, unit: StoreUnit, entity: int, actual: StoreMetadata, base: list[int]
    ) -> None:
        """No token of a node goes back while it lives."""
        name = f"{actual.store_id}:{actual.name(unit.storage_fingerprint)}"
        before = self.bases.get((self.server.server_run, name, entity), [])
        if any(new < old for new, old in zip(base, before, strict=False)):
            raise Wrong(
                f"{unit.view} entity {entity}: a token went back from {before} to {base} "
                "within one server run"
            )
        self.bases[self.server.server_run, name, entity] = base


# ------------------------------------------------------------ what happens
def lose_some(world: Several) -> None:
    """One node restarts without its last writes."""
    number = world.rng.randrange(NODES)
    lost = world.servers[number].restart(world.rng.randint(0, world.rng.choice((0, 3, 10, 40, 64))))
    world.note(f"node {number} restarts", f"its last {lost} writes are lost")
    world.check()
    if world.metadata_of(number) is None or world.rng.random() < 0.3:
        finish(world, actors.operator(world))
    if world.rng.random() < 0.5:
        del world.groups["streams"][1:]


def empty_one(world: Several) -> None:
    """One node is emptied; its server run stays."""
    number = world.rng.randrange(NODES)
    world.servers[number].flush()
    world.note(f"node {number} is emptied")
    if world.rng.random() < 0.7:
        finish(world, actors.operator(world))


def forget_log(world: Several) -> None:
    """Retention passes what is archived of what all nodes hold."""
    world.archived()
    history.forget_log(world)


def bridge(world: Several) -> Actor:
    """Bridges as the stream's driver does. Where the log no longer reaches back to a node's
    committed offsets, that goes on where the archive ends, and the node's units are built again."""
    store = world.connect()
    result = yield from world.on(store, store.steps(ReadMetadata()))
    if (
        result.committed.dominates(offset_vector(*world.log_start))
        or result.units != world.deployment().digest
    ):
        return
    _, offsets = world.archived()
    units = frozenset(unit.storage_fingerprint for unit in world.units)
    renewal = Renewal(units, offset_vector(*offsets))
    steps = store.steps(
        Deploy(
            world.deployment(),
            result.deployment_version,
            {"plays": TOPIC},
            offset_vector(),
            renewal,
        )
    )
    result = yield from world.on(store, steps)
    world.note(
        "committed offsets moved",
        f"deployment version {result.deployment_version}, builds {result.builds}",
    )


def another_bridge(world: Several) -> None:
    joins(world, "operators", bridge(world), keeping=1)


def another_operator(world: Several) -> None:
    joins(world, "operators", actors.operator(world), keeping=1)


def healed(heal: Callable[[Any], None]) -> Callable[[Several], None]:
    """Heals as in a world of one node, until each node by itself comes to claim all."""

    def end(world: Several) -> None:
        try:
            heal(world)
        except EXPECTED as error:
            raise Wrong(f"not healed: {error}") from error
        wanted = {unit.storage_fingerprint for unit in world.units}
        for number in range(NODES):
            result = world.metadata_of(number)
            if (
                result is None
                or result.units != world.deployment().digest
                or not result.ready.issuperset(wanted)
            ):
                raise Wrong(f"node {number} is not whole: {result}")

    return end
