"""A connection is bound to the contents that it found, and to the builds that its job was planned
by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slicewise.errors import DeploymentSuperseded
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import Build, StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import Everywhere, NodeContext, NodesContext, Rebinding
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded.routing import ShardedSteps, check_one_set, on_node, together
from slicewise.stores.online.steps import TIME, Steps, Whole

StoreIds = tuple[int | None, ...]
"""Per node its store id; None where it has no metadata."""
Builds = tuple[Mapping[str, Build], ...]
"""Per node: unit -> its build there."""


@dataclass(frozen=True)
class Bind(Rebinding[StoreIds]):
    """To be run when a connection opens: it finds the identity of the contents. SettingsError where
    a node is another than the connection takes it for."""

    def steps(self, at: NodeContext) -> Steps[StoreIds]:
        (flat,) = yield [Whole(keys.METADATA)]
        record = metadata.parse(flat)
        if record is not None:
            decisions.check_node(record, at.node)
        return (None if record is None else record.store_id,)

    def over(self, nodes: NodesContext) -> ShardedSteps[StoreIds]:
        replies = yield from nodes.everywhere(self)
        store_ids = tuple(store_id for (store_id,) in replies.values())
        bound = {n: store_id for n, store_id in enumerate(store_ids) if store_id is not None}
        check_one_set(
            (yield from together({n: metadata.read(store_id) for n, store_id in bound.items()}))
        )
        return store_ids

    def after(self, at: NodeContext, result: StoreIds) -> NodeContext:
        return replace(at, bound_to=result[0])

    def after_over(self, nodes: NodesContext, result: StoreIds) -> NodesContext:
        pairs = zip(nodes.contexts, result, strict=True)
        return replace(
            nodes, contexts=tuple(replace(node, bound_to=store_id) for node, store_id in pairs)
        )


@dataclass(frozen=True)
class Initialise(Rebinding[StoreMetadata]):
    """Gives a store without metadata a new store id; idempotent. The metadata.

    set_id: of a store of several nodes (0: this store id names a new set). after: the store id is
    later than this one; same: it is this one, which a node of the same new set got.
    """

    set_id: int = 0
    later_than: int = 0
    same: int = 0

    def steps(self, at: NodeContext) -> Steps[StoreMetadata]:
        record = yield from metadata.initialise(at.node, self.set_id, self.later_than, self.same)
        decisions.check_node(record, at.node)
        return metadata.bound(record, record.store_id if at.bound_to is None else at.bound_to)

    def over(self, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
        """Nodes without metadata get a store id later than any other's, and the set that the others
        are of; those of a new store begin with one store id."""
        bound = {n: node for n, node in enumerate(nodes.contexts) if node.bound_to is not None}
        records = yield from together({n: node.metadata() for n, node in bound.items()})
        set_id = max((record.set_id for record in records.values()), default=self.set_id)
        later_than = max((record.store_id for record in records.values()), default=self.later_than)
        same = self.same
        for n, node in enumerate(nodes.contexts):
            if n not in records:
                first = yield from on_node(n, Initialise(set_id, later_than, same).steps(node))
                records[n], set_id = first, first.set_id
                same = 0 if bound else first.store_id
        check_one_set(records)
        return sharded_metadata.merged([records[n] for n in range(nodes.count)])

    def after(self, at: NodeContext, result: StoreMetadata) -> NodeContext:
        return replace(at, bound_to=result.store_id)

    def after_over(self, nodes: NodesContext, result: StoreMetadata) -> NodesContext:
        pairs = zip(nodes.contexts, result.nodes, strict=True)
        return replace(nodes, contexts=tuple(self.after(node, record) for node, record in pairs))


@dataclass(frozen=True)
class HoldBuilds(Rebinding[Builds]):
    """From now on what this connection writes of these units is of these builds, whatever is
    deployed meanwhile: a job's writes and claims are of one build. Of other units nothing is
    written then.

    DeploymentSuperseded where a build is over already, and from then on of a unit that is not held.
    """

    builds: Mapping[str, int]
    """Unit -> its build, as `StoreMetadata.builds` has it."""

    def steps(self, at: NodeContext) -> Steps[Builds]:
        own = {unit: at.builds[unit] for unit in self.builds if unit in at.builds}
        if {unit: build.number for unit, build in own.items()} == dict(self.builds):
            return (own,)
        record = yield from at.metadata()
        builds: dict[str, Build] = {}
        for unit, number in self.builds.items():
            builds[unit] = decisions.build_of(record, unit)
            if builds[unit].number != number:
                raise _over(unit, number, builds[unit].number)
        return (builds,)

    def over(self, nodes: NodesContext) -> ShardedSteps[Builds]:
        """On each node the current build there, where the newest of all nodes' are these."""
        if all(nodes.builds.get(unit) == number for unit, number in self.builds.items()):
            return tuple(
                {unit: node.builds[unit] for unit in self.builds} for node in nodes.contexts
            )
        records = yield from nodes.metadata_of_nodes()
        newest = sharded_metadata.merged(records).builds
        for unit, number in self.builds.items():
            if newest.get(unit, 0) != number:
                raise _over(unit, number, newest.get(unit, 0))
        builds: list[Mapping[str, Build]] = []
        for n, record in enumerate(records):
            of_node = HoldBuilds({unit: record.builds.get(unit, 0) for unit in self.builds})
            builds += yield from on_node(n, of_node.steps(nodes.contexts[n]))
        return tuple(builds)

    def after(self, at: NodeContext, result: Builds) -> NodeContext:
        return replace(at, builds={**at.builds, **result[0]})

    def after_over(self, nodes: NodesContext, result: Builds) -> NodesContext:
        pairs = zip(nodes.contexts, result, strict=True)
        contexts = tuple(replace(node, builds={**node.builds, **builds}) for node, builds in pairs)
        return replace(nodes, contexts=contexts, builds={**nodes.builds, **self.builds})


def _over(unit: str, number: int, current: int) -> DeploymentSuperseded:
    return DeploymentSuperseded(
        f"build {number} of unit {unit} is over, {current} stands",
        next_step="read the deployment again",
    )


@dataclass(frozen=True)
class ReadMetadata(Everywhere[StoreMetadata]):
    """The control record of the store; ServerRunChanged where the store was emptied meanwhile."""

    def steps(self, at: NodeContext) -> Steps[StoreMetadata]:
        return (yield from at.metadata())

    def merge(self, replies: Mapping[int, StoreMetadata]) -> StoreMetadata:
        return sharded_metadata.merged(list(replies.values()))

    def over(self, nodes: NodesContext) -> ShardedSteps[StoreMetadata]:
        return sharded_metadata.merged((yield from nodes.metadata_of_nodes()))


@dataclass(frozen=True)
class ReadTime(Everywhere[int]):
    """Microseconds UTC by the store's clock: the latest of the nodes'."""

    def steps(self, at: NodeContext) -> Steps[int]:  # noqa: ARG002
        (now_us,) = yield [TIME]
        return int(now_us)

    def merge(self, replies: Mapping[int, int]) -> int:
        return max(replies.values())
