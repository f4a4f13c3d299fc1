"""The control record of a store node claims no more than the node holds, and falls back with its
data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.keys import unit_name


@dataclass(frozen=True)
class ServerRun:
    """One run of a store node's server; a restart or failover begins another."""

    run_id: str
    replication_id: str


class TotalUntil(NamedTuple):
    """Reach of a unit's totals, for all of its entities."""

    hour: int
    """Hours since the epoch; a day's first."""
    archive_version: int
    """Archive version whose events of the hours before it are in the totals; 0: what lies below the
    start offsets."""


@dataclass(frozen=True)
class RealtimeStart:
    """Mark of the real-time lane before its first write."""

    server_run: ServerRun
    """Server run that all its writes are of."""
    start: OffsetVector
    """From where on it writes all events, each partition's in offset order."""


@dataclass(frozen=True)
class StoreMetadata:
    """Claims of a node about what it holds; they fall back with the data."""

    store_id: int
    deployment_version: int
    units: str
    """Digest of the deployment; "" before the first."""
    topic_partitions: frozenset[TopicPartition]
    """Partitions that have committed offsets, also those at 0."""
    committed: OffsetVector
    starts: Mapping[str, OffsetVector]
    """Unit -> start offsets: below it the backfill's, from it on the micro-batch lane's."""
    ready: frozenset[str]
    building: Mapping[str, tuple[int, int]]
    """Unit -> hours (done, total) of its backfill."""
    aliases: Mapping[str, tuple[str, ...]]
    """View -> fingerprints of the units that answer under its name."""
    topics: Mapping[str, str]
    """Topic name -> topic id."""
    builds: Mapping[str, int]
    """Unit -> deployment version with which its present build began; 0 (or not there) before any
    unit was left out."""
    retired: int
    """Newest deployment version that left a unit out; 0: none has."""
    keeps: Mapping[str, EventList] = field(default_factory=dict)
    """Event list -> what it keeps since its build began, or less."""
    totals_until: Mapping[str, TotalUntil] = field(default_factory=dict)
    """Unit with a lifetime -> before which hour every entity's compacted hours are in its total."""

    realtime_starts: Mapping[str, RealtimeStart] = field(default_factory=dict)
    """Source -> the real-time lane that writes its events beyond what is applied."""
    lost_offsets: OffsetVector = field(default_factory=OffsetVector)
    """Committed offsets as copies kept elsewhere have them, of the partitions that stand before
    that: they were lost."""
    node: str = ""
    """Number of this node, of a store of several, and how many they are: "2/3"."""
    set_id: int = 0
    """Set of nodes that it belongs to."""
    behind: tuple[int, ...] = ()
    """Numbers of the nodes that do not have the newest deployment yet, in what several claim
    together."""
    nodes: tuple[StoreMetadata, ...] = field(default=(), compare=False)
    """Claims of each of them."""

    @property
    def by_node(self) -> tuple[StoreMetadata, ...]:
        """The metadata of every node by itself; this, where there is one."""
        return self.nodes or (self,)

    def starts_of(self, units: Iterable[str]) -> list[OffsetVector]:
        """Start offsets of units on each node that has them."""
        names = list(units)
        return [node.starts[name] for node in self.by_node for name in names if name in node.starts]

    @property
    def set_or_store_id(self) -> int:
        """In which deployment versions only grow, but for losses: the store id of one node, the set
        of several."""
        return self.set_id or self.store_id

    def name(self, unit: str) -> str:
        """The unit (a fingerprint) in its keys."""
        return unit_name(unit, self.builds.get(unit, 0))


@dataclass(frozen=True)
class Build:
    """A unit from the deployment that brings it to the one that leaves it out."""

    name: str
    """The unit in the keys of this build."""
    number: int
    """Number as in `StoreMetadata.builds`."""
    start: OffsetVector
