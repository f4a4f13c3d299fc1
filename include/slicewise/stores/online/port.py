"""What the rest of slicewise asks of the online store; adapters keep one contract suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slicewise.aggregates.kernel.columns import Columns
from slicewise.codec import Layout
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.features.declare.event_list import EventList
from slicewise.features.schema.dedupe import EventIds
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online.keys import unit_name
from slicewise.stores.online.shapes import ReadShape


@dataclass(frozen=True)
class ServerRun:
    """One life of a store node; a restart or failover begins another."""

    run_id: str
    replication_id: str


class TotalUntil(NamedTuple):
    """How far the totals of a unit reach, for all of its entities."""

    hour: int
    """Hours since the epoch; a day's first."""
    seq: int
    """What archive seq contains of the hours before it is in the totals; 0: what lies below the start cover."""


@dataclass(frozen=True)
class RealtimeStart:
    """What a tail says before its first write."""

    incarnation: ServerRun
    """That all its writes are of."""
    start: OffsetVector
    """From where on it writes all events, each place's in offset order."""


@dataclass(frozen=True)
class StoreMetadata:
    """What a node claims about what it holds; it falls back with the data."""

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
        """Of every node by itself; this, where there is one."""
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


@dataclass(frozen=True)
class Renewal:
    """Deployed units that are to be built again from the archive, each in a term of its own."""

    units: frozenset[str] = frozenset()
    ahead: OffsetVector = field(default_factory=OffsetVector)
    """Where the ledger is to go on, beyond what was applied: of topics all of whose units are built again."""


class StoredUnit(Protocol):
    """What a store must know of a unit; `features.unit.Unit` is one."""

    @property
    def storage_fingerprint(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def view(self) -> str: ...
    @property
    def slice_us(self) -> int: ...
    @property
    def retention_us(self) -> int: ...
    @property
    def pentads(self) -> bool:
        """Whether a window is read by totals of pentads."""
        ...

    @property
    def layout(self) -> Layout: ...
    @property
    def lifetime(self) -> bool:
        """Whether a feature holds all events: nothing expires, and hours go into a total."""
        ...

    @property
    def event_list(self) -> EventList | None:
        """What it keeps, if it is an event list."""
        ...


class Deployable(Protocol):
    """What `deploy` writes; `features.plan.Deployment` is one."""

    @property
    def digest(self) -> str: ...
    @property
    def units(self) -> Sequence[StoredUnit]: ...
    def topic_of(self, source: str) -> str:
        """The topic's name of a source."""
        ...

    def to_json(self) -> str: ...


Accumulate = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64], int], Sequence[Columns]]
"""(row numbers of the batch, group of each, number of groups) -> one Columns per partial of the
layout. Asked for the rows that are kept; asked again for the entities whose read no longer stood."""


@dataclass(frozen=True)
class Ids:
    """By what a batch's events are known when they come again. Per row: a hash of its id, whether it has one, and its
    Kafka timestamp (microseconds UTC)."""

    rule: EventIds
    ids: npt.NDArray[np.uint64]
    known: npt.NDArray[np.bool_]
    kafka_us: npt.NDArray[np.int64]
    keep_us: int
    """How long after an event's Kafka time one may come that it decides about and that is not too old itself: what is
    remembered expires then. 0: never."""


@dataclass(frozen=True)
class MicroBatch:
    """Rows of one unit and one place, in offset order."""

    unit: StoredUnit
    place: TopicPartition
    tags: Sequence[bytes]
    """One per entity (`keys.entity_tags`)."""
    entity: npt.NDArray[np.int64]
    """Per row: index into tags."""
    offset: npt.NDArray[np.int64]
    """Per row, ascending."""
    number: npt.NDArray[np.int64]
    """Per row: its slice, counted since the epoch in units of the unit's slice."""
    accumulate: Accumulate
    tail: bool = False
    """Whether the source has a tail (`StoreMetadata.tails`): what it wrote of the rows is deleted unseen. Else it is
    only where one began meanwhile."""
    ids: Ids | None = None
    """Where the source says how an event that comes again is known: it counts once."""


@dataclass(frozen=True)
class ListBatch:
    """Events for one event list: of one place in offset order (a fold), or of any (place None: the backfill's, all
    below the unit's start cover)."""

    unit: StoredUnit
    place: TopicPartition | None
    tags: Sequence[bytes]
    """One per entity (`keys.entity_tags`)."""
    entity: npt.NDArray[np.int64]
    """Per row: index into tags."""
    offset: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    """Per row: its event time."""
    members: Sequence[bytes]
    """Per row: `codec.Members`."""
    start: OffsetVector = field(default_factory=OffsetVector)
    """Of the backfill's, the start cover that it was made for."""


@dataclass(frozen=True)
class PendingBatch:
    """Events of one unit and one place, in offset order: all that the unit keeps since those written before."""

    unit: StoredUnit
    place: TopicPartition
    tags: Sequence[bytes]
    """One per entity (`keys.entity_tags`)."""
    entity: npt.NDArray[np.int64]
    """Per row: index into tags."""
    offset: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    """Per row: its event time."""
    members: Sequence[bytes]
    """Per row: `codec.Members` of the columns that the unit reads."""


@dataclass(frozen=True)
class PendingOutcome:
    """rows: all; written (or standing), known (at or below the guard), below (the unit's start cover), expired (of a
    list: too old for it), skipped at the bound: parts of them. cut: events that a list's capacity left out."""

    rows: int = 0
    written: int = 0
    known: int = 0
    below: int = 0
    expired: int = 0
    skipped: int = 0
    cut: int = 0


@dataclass(frozen=True)
class MicroBatchOutcome:
    """rows: all; applied, known (at or below an entity's last), compacted (below their hour's
    cover), expired, duplicates (the id came before): parts of them. entities: written. misses: reads that no longer
    stood. cut: events that an event list's capacity left out."""

    rows: int = 0
    applied: int = 0
    known: int = 0
    compacted: int = 0
    expired: int = 0
    entities: int = 0
    misses: int = 0
    cut: int = 0
    duplicates: int = 0


@dataclass(frozen=True)
class HourEntry:
    """One entity's compacted hour, as codec envelopes of one seq."""

    tag: bytes
    total: bytes
    slices: bytes
    minutes: bytes | None = None


@dataclass(frozen=True)
class LifetimeEntry:
    """One entity's total of hours before a horizon, as an encoded row: of all of them, or of those from `since` on,
    which is added to what its total holds."""

    tag: bytes
    row: bytes
    since: int | None = None


@dataclass(frozen=True)
class PublishOutcome:
    """Entities by what became of them; left_over: indices into the entries."""

    swapped: int
    stale: int
    expired: int
    left_over: tuple[int, ...]


@dataclass(frozen=True)
class UnitRead:
    """Keys of one unit and entity; per day key its fields."""

    hot: bytes | None
    days: tuple[tuple[bytes, tuple[bytes, ...]], ...] = ()


@dataclass(frozen=True)
class EntityRead:
    """Units under one tag, read in one transaction."""

    units: tuple[UnitRead, ...]


class TagRead(NamedTuple):
    """An `EntityRead` of a shape that many tags are read by."""

    shape: ReadShape
    tag: bytes


class UnitReply(NamedTuple):
    hot: list[bytes]
    """Field, value, field, value, ..."""
    days: list[list[bytes | None]]
    """Per day; of an event list per range the members in it."""


class NodeReply(NamedTuple):
    """What a node said of itself with its data: time and marks were read on the same connection, before it."""

    time_us: int
    marks: StoreMetadata
    incarnation: ServerRun


@dataclass(frozen=True)
class ReadReply:
    """What was read, and under which node's claims: those of another say nothing of it."""

    said: Mapping[int, NodeReply]
    """Node, by its number in the store -> what it said; of those that were asked."""
    entities: list[list[UnitReply]]
    nodes: Sequence[int] = ()
    """Per entity the node that has it; empty: all are of the store's only one."""
    count: int = 1
    """Nodes of the store."""

    @property
    def only(self) -> NodeReply:
        """What the only node said that was asked. ValueError where there are several."""
        (said,) = self.said.values()
        return said


@dataclass(frozen=True)
class LeaderboardReply:
    """A leaderboard as it stands, with time and marks of the same connection, read before it."""

    time_us: int
    marks: StoreMetadata
    board: bytes | None
    """None: none was made yet, or nobody made it anew for two of its periods."""
    written_us: int | None
    """By the store's clock."""


class LeaderboardStore(Protocol):
    """What keeps leaderboards; one connection, as `OnlineStore`."""

    def put_board(self, name: str, epoch: int, every_us: int, board: StoredLeaderboard, held_us: int = 0) -> bool:
        """Writes a leaderboard's rows, to expire after two periods and held_us; False where a board of a newer
        deployment, a later window end or the same end and no smaller cover stands."""
        ...

    def board(self, name: str) -> LeaderboardReply: ...
    def remember_boards(self, epoch: int, past: Sequence[tuple[str, int, StoredLeaderboard]]) -> None:
        """Keeps boards of past window ends for corrections; (name, for how many microseconds, board)."""
        ...

    def remembered_board(self, name: str, end_us: int) -> StoredLeaderboard | None: ...
    def close(self) -> None: ...


class OnlineStore(LeaderboardStore, Protocol):
    """One connection to a store node. It is bound to the incarnation that it found when it was
    opened, and to the generation of its marks; it never reconnects: after StoreUnavailable or
    IncarnationChanged open another, and start again from the marks."""

    @property
    def incarnation(self) -> ServerRun: ...
    @property
    def generation(self) -> int:
        """Generation that this connection's keys name. NotReady before `initialise`."""
        ...

    def close(self) -> None: ...
    def time_us(self) -> int: ...
    def marks(self) -> StoreMetadata: ...
    def initialise(self) -> StoreMetadata:
        """A store without marks gets a new generation; idempotent."""
        ...

    def begin_batch(self, start: OffsetVector, epoch: int, units: str) -> StoreMetadata:
        """To be asked before the first fold of a batch: EpochSuperseded, GapRefused."""
        ...

    def hold(self, terms: Mapping[str, int]) -> None:
        """From now on what this connection writes of these units is of these terms, whatever is
        deployed meanwhile: a job's writes and claims are of one term. Of other units nothing is
        written then. EpochSuperseded where a term is over already, and of a unit that is not held."""
        ...

    def fold(self, batch: MicroBatch) -> MicroBatchOutcome: ...
    def add(self, batch: ListBatch) -> MicroBatchOutcome:
        """Brings events into an event list; no replay adds anything."""
        ...

    def advance_ledger(self, start: OffsetVector, end: OffsetVector, epoch: int, units: str) -> OffsetVector:
        """At the end of a batch; the ledger after it. EpochSuperseded, GapRefused."""
        ...

    def tell_known(self, reached: OffsetVector) -> StoreMetadata:
        """Marks what the ledger is known to have reached, until it has again; the marks afterwards."""
        ...

    def begin_tail(self, source: str, start: OffsetVector, epoch: int, units: str) -> StoreMetadata:
        """To be asked by a tail before its first write, of all events of the source from `start` on: the marks, with
        its own. EpochSuperseded; GapRefused where the start lies beyond the ledger."""
        ...

    def tail(self, batch: PendingBatch, bound: int) -> PendingOutcome:
        """Writes events beyond what is folded, at most `bound` per entity. A tail's batches come in the order of the
        log, from its start on; broken, it goes on from the first that was not acknowledged, on the same incarnation."""
        ...

    def end_tail(self, source: str) -> bool:
        """Removes the mark of a source's tail where it names a life of the store that is over; did it. A mark of this
        life stands: a tail that nobody knows of may write on, and no answer may lose what one had."""
        ...

    def deploy(
        self,
        deployment: Deployable,
        expected_epoch: int,
        topics: Mapping[str, str] = ...,
        earliest: OffsetVector = ...,
        renewal: Renewal = ...,
    ) -> StoreMetadata:
        """One script per node: epoch + 1, digest, start cover := ledger for new units, aliases. A unit that
        was left out once is a new one, in a term of its own.

        earliest: first offsets of the log, where topics are new: ledger and start covers begin
        there. A deployment that stands already changes nothing, unless units are to be built again.
        GapRefused where the ledger would go on beyond what a unit that stands on has."""
        ...

    def manifest(self, digest: str) -> str | None: ...
    def put_cover(self, source: str, seq: int, cover: OffsetVector) -> None:
        """What archive seq stands for, immutable. A run says it of every seq of the hours that it
        committed, before it swaps them, also of seqs that are known: see `trim_covers`."""
        ...

    def covers(self, source: str) -> Mapping[int, OffsetVector]: ...
    def covers_announced(self, source: str) -> int:
        """Calls of `put_cover` so far; to be read before the hours that `trim_covers` is told of."""
        ...

    def trim_covers(self, source: str, count: int, epoch: int, live: Sequence[tuple[int, int]]) -> int:
        """Forgets what no hour can name; how many seqs. live: per kept hour of all the source's
        units the first and the last seq that any entity's may stand at. Nothing where another
        `put_cover` or deployment came after `count` and `epoch` were read."""
        ...

    def swap(
        self, unit: StoredUnit, hour: int, seq: int, cover: OffsetVector, entries: Sequence[HourEntry]
    ) -> PublishOutcome: ...
    def announce_lifetime(self, unit: StoredUnit, horizon: int, seq: int, cover: OffsetVector) -> None:
        """Says that totals will name this seq, so that what it stands for is kept. Before `bring`."""
        ...

    def bring(
        self,
        unit: StoredUnit,
        horizon: int,
        seq: int,
        cover: OffsetVector,
        entries: Sequence[LifetimeEntry],
        days: Sequence[int] = ...,
    ) -> PublishOutcome:
        """Hours before the horizon go into the totals, per entity in one script; days: whose hashes may hold some.
        GapRefused while the ledger lies behind the cover."""
        ...

    def mark_horizon(
        self,
        unit: StoredUnit,
        horizon: int,
        seq: int,
        announced: int,
        *,
        whole: bool = False,
        start: OffsetVector | None = None,
    ) -> bool:
        """After every entity's total was brought; False if anything was announced since `announced` was read, or a
        newer horizon stands. whole: every total was written anew, so that no older seq is named any more. start: as of
        `mark_swapped`."""
        ...

    def lifetime_seqs(self, unit: StoredUnit) -> tuple[int, ...]:
        """Archive seqs that totals may name."""
        ...

    def mark_swapped(self, unit: StoredUnit, hour: int, seq: int, start: OffsetVector | None = None) -> bool:
        """After every entity of the hour was swapped; False if a newer seq stands. start: the start cover that a
        backfill swapped the hour under; GapRefused where the unit has another. EpochSuperseded when the unit's term
        is over."""
        ...

    def swapped(self, unit: StoredUnit) -> Mapping[int, int]: ...
    def total_day(self, unit: StoredUnit, tags: Sequence[bytes], day: int) -> int:
        """Writes the total of each entity's compacted hours; how many were written."""
        ...

    def mark_building(self, unit: StoredUnit, done: int, total: int) -> None: ...
    def mark_ready(self, unit: StoredUnit, start: OffsetVector, views: Mapping[str, Sequence[str]] = ...) -> None:
        """The backfill of all that lies below `start` stands. Refused when the unit's start cover
        or term is another."""
        ...

    def read(self, reads: Sequence[EntityRead | TagRead]) -> ReadReply: ...
    def put_status(self, part: str, text: str) -> None:
        """What a running part says about itself, for people and health checks."""
        ...

    def status(self, part: str) -> str | None: ...
    def statuses(self, part: str) -> Sequence[str | None]:
        """What each node has of it."""
        ...
