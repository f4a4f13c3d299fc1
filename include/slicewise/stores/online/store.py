"""One connection's operations, run to their end; the server behind it is a `Node`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from slicewise import codec
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.operations.bound import NO_RENEWAL, NOTHING, Operations
from slicewise.stores.online.port import (
    Deployable,
    EntityRead,
    HourEntry,
    LeaderboardReply,
    LifetimeEntry,
    ListBatch,
    MicroBatch,
    MicroBatchOutcome,
    PendingBatch,
    PendingOutcome,
    PublishOutcome,
    ReadReply,
    Renewal,
    ServerRun,
    StoredUnit,
    StoreMetadata,
    TagRead,
)
from slicewise.stores.online.steps import Steps, drive

T = TypeVar("T")


class Connected(Protocol):
    """A connection to a store node, or to all of its nodes. It answers commands in order, and never reconnects."""

    @property
    def incarnation(self) -> ServerRun: ...
    def run(self, commands: Sequence[Any]) -> list[Any]: ...
    def close(self) -> None: ...


class Store:
    """The online store over one connection: `ports.OnlineStore`."""

    def __init__(self, node: Connected, steps: Operations | None = None) -> None:
        """steps: what it is asked; where it is one node, those of the only one."""
        self.node = node
        self.steps = Operations(node.incarnation) if steps is None else steps
        self._run(self.steps.bind())

    def _run(self, steps: Steps[T]) -> T:
        return drive(steps, self.node.run)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def incarnation(self) -> ServerRun:
        return self.steps.incarnation

    @property
    def generation(self) -> int:
        return self.steps.generation

    def close(self) -> None:
        self.node.close()

    def time_us(self) -> int:
        return self._run(self.steps.time_us())

    def marks(self) -> StoreMetadata:
        return self._run(self.steps.marks())

    def initialise(self) -> StoreMetadata:
        return self._run(self.steps.initialise())

    def begin_batch(self, start: OffsetVector, epoch: int, units: str) -> StoreMetadata:
        return self._run(self.steps.begin_batch(start, epoch, units))

    def hold(self, terms: Mapping[str, int]) -> None:
        self._run(self.steps.hold(terms))

    def fold(self, batch: MicroBatch) -> MicroBatchOutcome:
        return self._run(self.steps.fold(batch))

    def add(self, batch: ListBatch) -> MicroBatchOutcome:
        return self._run(self.steps.add(batch))

    def advance_ledger(self, start: OffsetVector, end: OffsetVector, epoch: int, units: str) -> OffsetVector:
        return self._run(self.steps.advance_ledger(start, end, epoch, units))

    def tell_known(self, reached: OffsetVector) -> StoreMetadata:
        return self._run(self.steps.tell_known(reached))

    def begin_tail(self, source: str, start: OffsetVector, epoch: int, units: str) -> StoreMetadata:
        return self._run(self.steps.begin_tail(source, start, epoch, units))

    def tail(self, batch: PendingBatch, bound: int, room: codec.Room = codec.ROOM) -> PendingOutcome:
        return self._run(self.steps.tail(batch, bound, room))

    def end_tail(self, source: str) -> bool:
        return self._run(self.steps.end_tail(source))

    def deploy(
        self,
        deployment: Deployable,
        expected_epoch: int,
        topics: Mapping[str, str] | None = None,
        earliest: OffsetVector = NOTHING,
        renewal: Renewal = NO_RENEWAL,
    ) -> StoreMetadata:
        return self._run(self.steps.deploy(deployment, expected_epoch, topics or {}, earliest, renewal))

    def manifest(self, digest: str) -> str | None:
        return self._run(self.steps.manifest(digest))

    def put_cover(self, source: str, seq: int, cover: OffsetVector) -> None:
        self._run(self.steps.put_cover(source, seq, cover))

    def covers(self, source: str) -> Mapping[int, OffsetVector]:
        return self._run(self.steps.covers(source))

    def covers_announced(self, source: str) -> int:
        return self._run(self.steps.covers_announced(source))

    def trim_covers(self, source: str, count: int, epoch: int, live: Sequence[tuple[int, int]]) -> int:
        return self._run(self.steps.trim_covers(source, count, epoch, live))

    def swap(
        self, unit: StoredUnit, hour: int, seq: int, cover: OffsetVector, entries: Sequence[HourEntry]
    ) -> PublishOutcome:
        return self._run(self.steps.swap(unit, hour, seq, cover, entries))

    def announce_lifetime(self, unit: StoredUnit, horizon: int, seq: int, cover: OffsetVector) -> None:
        self._run(self.steps.announce_lifetime(unit, horizon, seq, cover))

    def bring(
        self,
        unit: StoredUnit,
        horizon: int,
        seq: int,
        cover: OffsetVector,
        entries: Sequence[LifetimeEntry],
        days: Sequence[int] = (),
    ) -> PublishOutcome:
        return self._run(self.steps.bring(unit, horizon, seq, cover, entries, days))

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
        return self._run(self.steps.mark_horizon(unit, horizon, seq, announced, whole, start))

    def lifetime_seqs(self, unit: StoredUnit) -> tuple[int, ...]:
        return self._run(self.steps.lifetime_seqs(unit))

    def mark_swapped(self, unit: StoredUnit, hour: int, seq: int, start: OffsetVector | None = None) -> bool:
        return self._run(self.steps.mark_swapped(unit, hour, seq, start))

    def swapped(self, unit: StoredUnit) -> Mapping[int, int]:
        return self._run(self.steps.swapped(unit))

    def total_day(self, unit: StoredUnit, tags: Sequence[bytes], day: int) -> int:
        return self._run(self.steps.total_day(unit, tags, day))

    def mark_building(self, unit: StoredUnit, done: int, total: int) -> None:
        self._run(self.steps.mark_building(unit, done, total))

    def mark_ready(
        self,
        unit: StoredUnit,
        start: OffsetVector,
        views: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._run(self.steps.mark_ready(unit, start, views or {}))

    def read(self, reads: Sequence[EntityRead | TagRead]) -> ReadReply:
        return self._run(self.steps.read(reads))

    def put_board(self, name: str, epoch: int, every_us: int, board: StoredLeaderboard, held_us: int = 0) -> bool:
        return self._run(self.steps.put_board(name, epoch, every_us, board, held_us))

    def board(self, name: str) -> LeaderboardReply:
        return self._run(self.steps.board(name))

    def remember_boards(self, epoch: int, past: Sequence[tuple[str, int, StoredLeaderboard]]) -> None:
        self._run(self.steps.remember_boards(epoch, past))

    def remembered_board(self, name: str, end_us: int) -> StoredLeaderboard | None:
        return self._run(self.steps.remembered_board(name, end_us))

    def put_status(self, part: str, text: str) -> None:
        self._run(self.steps.put_status(part, text))

    def status(self, part: str) -> str | None:
        return self._run(self.steps.status(part))

    def statuses(self, part: str) -> Sequence[str | None]:
        return self._run(self.steps.statuses(part))
