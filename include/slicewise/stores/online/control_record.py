"""The control record of a store node claims no more than the node holds, and falls back with its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.keys import unit_name


@dataclass(frozen=True)
class ServerRun:
    """One life of a store node; a restart or failover begins another."""

    run_id: str
    replication_id: str


class TotalUntil(NamedTuple):
    """Reach of a unit's totals, for all of its entities."""

    hour: int
    """Hours since the epoch; a day's first."""
    seq: int
    """What archive seq contains of the hours before it is in the totals; 0: what lies below the start cover."""


@dataclass(frozen=True)
class RealtimeStart:
    """Mark of a tail before its first write."""

    incarnation: ServerRun
    """That all its writes are of."""
    start: OffsetVector
    """From where on it writes all events, each place's in offset order."""


@dataclass(frozen=True)
class StoreMetadata:
    """Claims of a node about what it holds; they fall back with the data."""

    generation: int
    epoch: int
    units: str
    """Digest of the deployment; "" before the first."""
    places: frozenset[TopicPartition]
    """Places that have a ledger, also those at 0."""
    ledger: OffsetVector
    starts: Mapping[str, OffsetVector]
    """Unit -> start cover: below it the backfill's, from it on the fold's."""
    ready: frozenset[str]
    building: Mapping[str, tuple[int, int]]
    """Unit -> hours (done, total) of its backfill."""
    aliases: Mapping[str, tuple[str, ...]]
    """View -> fingerprints of the units that answer under its name."""
    topics: Mapping[str, str]
    """Topic name -> topic id."""
    terms: Mapping[str, int]
    """Unit -> epoch with which its present term began; 0 (or not there) before any unit was left out."""
    retired: int
    """Newest epoch that left a unit out; 0: none has."""
    keeps: Mapping[str, EventList] = field(default_factory=dict)
    """Event list -> what it keeps since its term began, or less."""
    horizons: Mapping[str, TotalUntil] = field(default_factory=dict)
    """Unit with a lifetime -> before which hour every entity's compacted hours are in its total."""

    tails: Mapping[str, RealtimeStart] = field(default_factory=dict)
    """Source -> the tail that writes its events beyond what is folded."""
    known: OffsetVector = field(default_factory=OffsetVector)
    """Where the ledger had come by copies kept elsewhere, of the places where it stands before that: they were lost."""
    node: str = ""
    """Of a store of several nodes which of them this is, and of how many: "2/3"."""
    set_id: int = 0
    """And of which set of nodes."""
    behind: tuple[int, ...] = ()
    """Of what several nodes claim together: the nodes, by number, that do not have the newest deployment yet."""
    nodes: tuple[StoreMetadata, ...] = field(default=(), compare=False)
    """And what each of them claims."""

    @property
    def each(self) -> tuple[StoreMetadata, ...]:
        """The metadata of every node by itself; this, where there is one."""
        return self.nodes or (self,)

    def starts_of(self, units: Iterable[str]) -> list[OffsetVector]:
        """Start covers of units on each node that has them."""
        names = list(units)
        return [each.starts[name] for each in self.each for name in names if name in each.starts]

    @property
    def life(self) -> int:
        """In which epochs only grow, but for losses: the generation of one node, the set of several."""
        return self.set_id or self.generation

    def name(self, unit: str) -> str:
        """The unit (a fingerprint) in its keys."""
        return unit_name(unit, self.terms.get(unit, 0))


@dataclass(frozen=True)
class Term:
    """A unit from the deployment that brings it to the one that leaves it out."""

    name: str
    """The unit in the keys of this term."""
    number: int
    """As in `StoreMetadata.terms`."""
    start: OffsetVector
