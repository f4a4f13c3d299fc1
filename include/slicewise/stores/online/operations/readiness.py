"""A unit is ready once everything below its start stands; what is claimed of a build is claimed
while it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import InTurn, NodeContext, NodesContext
from slicewise.stores.online.sharded.routing import ShardedSteps
from slicewise.stores.online.steps import Steps
from slicewise.stores.online.stored_unit import StoredUnit


@dataclass(frozen=True)
class MarkBuilding(InTurn[None]):
    """Marks how many hours of a unit's backfill are done, of how many."""

    unit: StoredUnit
    done: int
    total: int

    def steps(self, at: NodeContext) -> Steps[None]:
        build = yield from at.build_of(self.unit)
        yield from metadata.mark_building(at.store_id, self.unit, build, self.done, self.total)

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        """The nodes on which the unit is not ready; all where it is on every one."""
        records = yield from nodes.metadata_of_nodes()
        unready = [
            n
            for n, record in enumerate(records)
            if self.unit.storage_fingerprint not in record.ready
        ]
        return unready or range(nodes.count)

    def merge(self, replies: Mapping[int, None]) -> None: ...


@dataclass(frozen=True)
class MarkReady(InTurn[None]):
    """Marks that the backfill of everything below `start` stands. Refused when the unit's start or
    build is another."""

    unit: StoredUnit
    start: OffsetVector
    views: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """View -> fingerprints of the units that answer under its name."""

    def steps(self, at: NodeContext) -> Steps[None]:
        build = yield from at.build_of(self.unit)
        yield from metadata.mark_ready(at.store_id, self.unit, build, self.start, self.views)

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        """The nodes that the backfill was made for; those that begin elsewhere are not ready by
        it."""
        return (yield from nodes.built_for(self.unit, self.start))

    def merge(self, replies: Mapping[int, None]) -> None: ...
