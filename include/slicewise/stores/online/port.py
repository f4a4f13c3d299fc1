"""Port of the online store for the rest of slicewise; adapters keep one contract suite.

An operation is a value in the file of its rule, under `operations`, and a store runs it:
`store.run(MarkHour(unit, hour, …))`. `steps` runs on one node. `over` runs on all nodes of a
store; four combinators give it by default: everywhere and merge, by tag, one after another, the
owner of a name. What a connection is bound to is a frozen context; an operation that binds it to
more says what the context is afterwards (docs/adr/0081).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from slicewise.errors import DeploymentSuperseded, NotReady
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import Build, ServerRun, StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.routing import ShardedSteps, node_of, on_node, together
from slicewise.stores.online.steps import Fields, Steps
from slicewise.stores.online.stored_unit import StoredUnit

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


# ------------------------------------------------------------------ what a connection is bound to
@dataclass
class Cache:
    """Replies that a connection need not ask for twice: they never change within a store id."""

    archive_versions: dict[str, dict[int, OffsetVector]] = field(default_factory=dict)
    """Source -> archive version -> the offsets that it contains."""
    parsed: tuple[list[bytes], StoreMetadata] | None = None
    """The control record that a read brought last, as it came and parsed."""


@dataclass(frozen=True)
class NodeContext:
    """Context that a connection to one node is bound to.

    A connection that outlives its store id writes under keys that nobody reads, and is refused by
    the metadata.
    """

    server_run: ServerRun
    node: str = ""
    """Name as in `StoreMetadata`, of one of several."""
    bound_to: int | None = None
    """The store id; None before the node has metadata."""
    builds: Mapping[str, Build] = field(default_factory=dict)
    """Unit -> the build that this connection writes; of no other unit then."""
    cache: Cache = field(default_factory=Cache, compare=False, repr=False)

    @property
    def store_id(self) -> int:
        """The identity of the contents. NotReady where the node has none yet."""
        if self.bound_to is None:
            raise NotReady(
                "the store has no metadata yet", progress=0.0, next_step="initialise it and deploy"
            )
        return self.bound_to

    def metadata(self) -> Steps[StoreMetadata]:
        """The control record. ServerRunChanged where it is of another store id."""
        return (yield from metadata.read(self.store_id))

    def build_of(self, unit: StoredUnit) -> Steps[Build]:
        """The build that is held; the current one, on a connection that holds none."""
        name = unit.storage_fingerprint
        build = self.builds.get(name)
        if build is not None:
            return build
        if self.builds:  # one operation would go to the build of its begin, the next to another
            raise DeploymentSuperseded(
                f"unit {name} was not deployed when this job was planned",
                next_step="read the deployment again",
            )
        return decisions.build_of((yield from self.metadata()), name)

    def archive_versions(
        self, source: str, versions: Iterable[int]
    ) -> Steps[Mapping[int, OffsetVector]]:
        """Offsets of these archive versions, of those that are still registered."""
        cached = self.cache.archive_versions.setdefault(source, {})
        unknown = sorted(
            {version for version in versions if version != decisions.START_VERSION} - cached.keys()
        )
        if unknown:
            key = keys.offset_vectors_key(self.store_id, source)
            (values,) = yield [Fields(key, [b"%d" % version for version in unknown])]
            for version, raw in zip(unknown, values, strict=True):
                if raw is not None:
                    cached[version] = OffsetVector.unpack(raw)
        return cached


@dataclass(frozen=True)
class NodesContext:
    """Context that a connection to every node of a store is bound to."""

    server_run: ServerRun
    """One name for the runs of all of them."""
    contexts: tuple[NodeContext, ...]
    builds: Mapping[str, int] = field(default_factory=dict)
    """Unit -> the newest build of all nodes, where this connection holds it."""
    announced: dict[tuple[str, int], tuple[int, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """A cache: (source, announcements in all) -> per node, as they were counted last."""

    @property
    def count(self) -> int:
        return len(self.contexts)

    @property
    def store_id(self) -> int:
        """The newest of the nodes'."""
        return max(node.store_id for node in self.contexts)

    @property
    def is_bound(self) -> bool:
        """Tells whether every node has metadata."""
        return all(node.bound_to is not None for node in self.contexts)

    def everywhere(self, operation: Operation[R]) -> ShardedSteps[dict[int, R]]:
        """An operation on every node, side by side."""
        return (
            yield from together({n: operation.steps(node) for n, node in enumerate(self.contexts)})
        )

    def metadata_of_nodes(self) -> ShardedSteps[list[StoreMetadata]]:
        """Control records in the order of the nodes."""
        if not self.is_bound:
            raise NotReady(
                "a node of the store has no metadata yet",
                progress=0.0,
                next_step="initialise it and deploy",
            )
        records = yield from together({n: node.metadata() for n, node in enumerate(self.contexts)})
        return list(records.values())

    def builds_of(self, unit: StoredUnit) -> ShardedSteps[dict[int, Build]]:
        """Node -> its build of the unit."""
        return (
            yield from together({n: node.build_of(unit) for n, node in enumerate(self.contexts)})
        )

    def built_for(self, unit: StoredUnit, start: OffsetVector) -> ShardedSteps[list[int]]:
        """The nodes whose unit begins at `start`, and all of them only if none does: they refuse
        it."""
        builds = yield from self.builds_of(unit)
        return [n for n, build in builds.items() if build.start == start] or list(builds)

    def nodes_for(
        self, unit: StoredUnit, version: int, offsets: OffsetVector
    ) -> ShardedSteps[list[int]]:
        """The nodes that an hour of this archive version is for: those that the backfill was made
        for, or whose start it contains. One whose unit begins beyond has the hour from another
        version."""
        if version == decisions.START_VERSION:
            return (yield from self.built_for(unit, offsets))
        builds = yield from self.builds_of(unit)
        return [n for n, build in builds.items() if offsets.dominates(build.start)] or list(builds)


# ------------------------------------------------------------------ operations
class Operation(ABC, Generic[R_co]):
    """A request to the store with its rule; `Store.run` runs it to its end."""

    @abstractmethod
    def steps(self, at: NodeContext) -> Steps[R_co]:
        """Runs it on one node."""

    @abstractmethod
    def over(self, nodes: NodesContext) -> ShardedSteps[R_co]:
        """Runs it on all nodes of a store."""


class Rebinding(Operation[R]):
    """An operation after which its connection is bound to more."""

    @abstractmethod
    def after(self, at: NodeContext, result: R) -> NodeContext:
        """The context of a connection to one node afterwards."""

    @abstractmethod
    def after_over(self, nodes: NodesContext, result: R) -> NodesContext:
        """The context of a connection to all nodes afterwards."""


@dataclass(frozen=True)
class Route(Generic[R]):
    """Parts of an operation by node, and the way in which one reply is made of theirs."""

    parts: Mapping[int, Routed[R]]
    join: Callable[[Mapping[int, R]], R]
    needs_all: bool = True
    """Tells whether a reader needs every part; else the nodes that answer are enough."""


class Routed(Operation[R]):
    """An operation whose parts are known before anything is read: readers route it by
    themselves."""

    @abstractmethod
    def route(self, count: int) -> Route[R]:
        """The operation's parts in a store of so many nodes."""

    def over(self, nodes: NodesContext) -> ShardedSteps[R]:
        route = self.route(nodes.count)
        replies = yield from together(
            {n: part.steps(nodes.contexts[n]) for n, part in route.parts.items()}
        )
        return route.join(replies)


class OnlineStore(Protocol):
    """One connection to a store, of one node or of several.

    It is bound to the server run that it found when it was opened, and to the store id of its
    metadata; it never reconnects: after StoreUnavailable or ServerRunChanged open another, and
    start again from the metadata.
    """

    @property
    def server_run(self) -> ServerRun: ...
    @property
    def store_id(self) -> int:
        """The store id that this connection's keys name. NotReady before `Initialise`."""
        ...

    def run(self, operation: Operation[R]) -> R:
        """The result of an operation."""
        ...

    def close(self) -> None: ...


# ------------------------------------------------------------------ over several nodes
class Everywhere(Routed[R]):
    """Runs on every node side by side; their replies are merged."""

    @abstractmethod
    def merge(self, replies: Mapping[int, R]) -> R:
        """One reply of every node's."""

    def merge_answered(self, replies: Mapping[int, R]) -> R:
        """One reply of those of the nodes that answered a reader."""
        return self.merge(replies)

    def route(self, count: int) -> Route[R]:
        return Route(dict.fromkeys(range(count), self), self.merge_answered, needs_all=False)

    def over(self, nodes: NodesContext) -> ShardedSteps[R]:
        return self.merge((yield from nodes.everywhere(self)))


class InTurn(Operation[R]):
    """Runs on one node after another: where one refuses, no later one gets it."""

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        """The nodes that it concerns: all."""
        yield from ()
        return range(nodes.count)

    @abstractmethod
    def merge(self, replies: Mapping[int, R]) -> R:
        """One reply of those of the nodes that were asked."""

    def over(self, nodes: NodesContext) -> ShardedSteps[R]:
        replies: dict[int, R] = {}
        for n in (yield from self.chosen(nodes)):
            replies[n] = yield from on_node(n, self.steps(nodes.contexts[n]))
        return self.merge(replies)


@dataclass(frozen=True)
class Split(Generic[R]):
    """An operation cut by the nodes that have its entities."""

    parts: Mapping[int, Operation[R]]
    positions: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Node -> where its entities stand in the whole."""


class ByTag(Operation[R]):
    """Runs on each node with the entities that it has; the replies are put together."""

    @abstractmethod
    def split(self, count: int) -> Split[R]:
        """The part of each node that it concerns, in a store of so many."""

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        """The nodes that may be asked: all."""
        yield from ()
        return range(nodes.count)

    @abstractmethod
    def join(self, replies: Mapping[int, R], split: Split[R]) -> R:
        """One reply of those of the nodes that were asked; parts of others were left out."""

    def over(self, nodes: NodesContext) -> ShardedSteps[R]:
        split, chosen = self.split(nodes.count), (yield from self.chosen(nodes))
        chosen_parts = {n: part for n, part in split.parts.items() if n in chosen}
        replies = yield from together(
            {n: part.steps(nodes.contexts[n]) for n, part in chosen_parts.items()}
        )
        return self.join(replies, split)


class Owner(Routed[R]):
    """Runs on the node that keeps what has this name."""

    name: str

    def route(self, count: int) -> Route[R]:
        node = node_of(self.name.encode(), count)
        return Route({node: self}, lambda replies: replies[node])
