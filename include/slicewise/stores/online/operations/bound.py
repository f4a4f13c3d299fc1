"""Every operation of the online store, bound to the generation that its connection found.

A connection that outlives its generation writes under keys that nobody reads, and is refused by
the marks. What is remembered here never changes within a generation: what an archive seq stands
for, and the terms that the connection was told to hold.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from slicewise import codec
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.errors import DataLoss, EpochSuperseded, NotReady
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.model import archive_versions as covers
from slicewise.stores.online.model import leaderboards as boards
from slicewise.stores.online.model import lost_offsets as known
from slicewise.stores.online.model import metadata as marks
from slicewise.stores.online.operations import apply_batch as fold
from slicewise.stores.online.operations import deploying
from slicewise.stores.online.operations import event_lists as lists
from slicewise.stores.online.operations import pending as tail
from slicewise.stores.online.operations import publish_hour as swap
from slicewise.stores.online.operations import publish_total as lifetime
from slicewise.stores.online.port import (
    Deployable,
    EntityRead,
    HourEntry,
    LeaderboardReply,
    LifetimeEntry,
    ListBatch,
    MicroBatch,
    MicroBatchOutcome,
    NodeReply,
    PendingBatch,
    PendingOutcome,
    PublishOutcome,
    ReadReply,
    RealtimeStart,
    Renewal,
    ServerRun,
    StoredUnit,
    StoreMetadata,
    TagRead,
    Term,
    TotalUntil,
    UnitReply,
)
from slicewise.stores.online.rules import days, decisions
from slicewise.stores.online.rules import five_days as pentads
from slicewise.stores.online.steps import (
    STANDING,
    TIME,
    WHOLE_MARKS,
    Command,
    Fields,
    PutText,
    Steps,
    Tagged,
    Text,
    Time,
    Together,
    Whole,
)
from slicewise.windows.slices import PENTAD_DAYS

NOTHING = OffsetVector()
NO_RENEWAL = Renewal()


class Operations:
    """Operations of one connection, as steps."""

    def __init__(self, incarnation: ServerRun, node: str = "") -> None:
        """node: as in `StoreMetadata`, of one of several."""
        self.incarnation = incarnation
        self.node = node
        self._generation: int | None = None
        self._held: dict[str, Term] = {}
        self._covers: dict[str, dict[int, OffsetVector]] = {}
        self._marks: tuple[list[bytes], StoreMetadata] | None = None

    @property
    def generation(self) -> int:
        if self._generation is None:
            raise NotReady("the store has no marks yet", progress=0.0, next_step="initialise it and deploy")
        return self._generation

    def bind(self) -> Steps[None]:
        """To be run when the connection opens."""
        (flat,) = yield [Whole(keys.MARKS)]
        found = marks.parse(flat)
        if found is not None:
            decisions.check_node(found, self.node)
        self._generation = None if found is None else found.generation

    # ------------------------------------------------------------ marks
    def time_us(self) -> Steps[int]:
        (now,) = yield [Time()]
        return int(now)

    def marks(self) -> Steps[StoreMetadata]:
        return (yield from marks.read(self.generation))

    def initialise(self, set_id: int = 0, after: int = 0, same: int = 0) -> Steps[StoreMetadata]:
        found = yield from marks.initialise(self.node, set_id, after, same)
        decisions.check_node(found, self.node)
        if self._generation is None:
            self._generation = found.generation
        return marks.bound(found, self._generation)

    def begin_batch(self, start: OffsetVector, epoch: int, units: str) -> Steps[StoreMetadata]:
        found = yield from marks.read(self.generation)
        decisions.check_batch(found.ledger, (found.epoch, found.units), start, epoch, units)
        return found

    def advance_ledger(self, start: OffsetVector, end: OffsetVector, epoch: int, units: str) -> Steps[OffsetVector]:
        return (yield from marks.advance_ledger(self.generation, start, end, epoch, units))

    def tell_known(self, reached: OffsetVector) -> Steps[StoreMetadata]:
        return (yield from known.tell(self.generation, reached))

    def begin_tail(self, source: str, start: OffsetVector, epoch: int, units: str) -> Steps[StoreMetadata]:
        begun = RealtimeStart(self.incarnation, start)
        return (yield from marks.begin_tail(self.generation, source, begun, epoch, units))

    def end_tail(self, source: str) -> Steps[bool]:
        return (yield from marks.end_tail(self.generation, source, self.incarnation))

    def deploy(
        self,
        deployment: Deployable,
        expected_epoch: int,
        topics: Mapping[str, str],
        earliest: OffsetVector,
        renewal: Renewal = NO_RENEWAL,
        epoch: int = 0,
        since: OffsetVector = NOTHING,
    ) -> Steps[StoreMetadata]:
        change = deploying.deploy(self.generation, deployment, expected_epoch, topics, earliest, renewal, epoch, since)
        return (yield from change)

    def manifest(self, digest: str) -> Steps[str | None]:
        (raw,) = yield [Text(keys.manifest_key(digest))]
        return None if raw is None else raw.decode()

    def mark_building(self, unit: StoredUnit, done: int, total: int) -> Steps[None]:
        term = yield from self.term(unit)
        yield from marks.mark_building(self.generation, unit, term, done, total)

    def mark_ready(self, unit: StoredUnit, start: OffsetVector, views: Mapping[str, Sequence[str]]) -> Steps[None]:
        term = yield from self.term(unit)
        yield from marks.mark_ready(self.generation, unit, term, start, views)

    # ------------------------------------------------------------ covers
    def put_cover(self, source: str, seq: int, cover: OffsetVector) -> Steps[None]:
        yield from covers.put_cover(self.generation, source, seq, cover)
        self._covers.setdefault(source, {})[seq] = cover

    def covers(self, source: str) -> Steps[Mapping[int, OffsetVector]]:
        found = yield from covers.covers(self.generation, source)
        self._covers[source] = dict(found)
        return found

    def covers_announced(self, source: str) -> Steps[int]:
        return (yield from covers.announced(self.generation, source))

    def trim_covers(self, source: str, count: int, epoch: int, live: Sequence[tuple[int, int]]) -> Steps[int]:
        return (yield from covers.trim(self.generation, source, count, epoch, live))

    def covers_of(
        self, source: str, seqs: Iterable[int]
    ) -> Generator[Sequence[Command], list[Any], Mapping[int, OffsetVector]]:
        """Covers of these archive seqs, of those that are still known; what was learned once is not
        asked again."""
        known = self._covers.setdefault(source, {})
        unknown = sorted({seq for seq in seqs if seq != decisions.START_SEQ} - known.keys())
        if unknown:
            key = keys.covers_key(self.generation, source)
            (found,) = yield [Fields(key, [b"%d" % seq for seq in unknown])]
            for seq, raw in zip(unknown, found, strict=True):
                if raw is not None:
                    known[seq] = OffsetVector.unpack(raw)
        return known

    # ------------------------------------------------------------ terms
    def hold(self, terms: Mapping[str, int]) -> Steps[None]:
        if all((held := self._held.get(unit)) is not None and held.number == n for unit, n in terms.items()):
            return
        found = yield from marks.read(self.generation)
        for unit, number in terms.items():
            term = decisions.term_of(found, unit)
            if term.number != number:
                raise EpochSuperseded(
                    f"term {number} of unit {unit} is over, {term.number} stands",
                    next_step="read the deployment again",
                )
            self._held[unit] = term

    def term(self, unit: StoredUnit) -> Steps[Term]:
        """The term that is held; the one that stands now, on a connection that holds none."""
        held = self._held.get(unit.storage_fingerprint)
        if held is not None:
            return held
        if self._held:  # one operation would go to the term of its begin, the next to another
            raise EpochSuperseded(
                f"unit {unit.storage_fingerprint} was not deployed when this job was planned",
                next_step="read the deployment again",
            )
        found = yield from marks.read(self.generation)
        return decisions.term_of(found, unit.storage_fingerprint)

    # ------------------------------------------------------------ data
    def fold(self, batch: MicroBatch) -> Steps[MicroBatchOutcome]:
        term = yield from self.term(batch.unit)

        def covers_of(seqs: Iterable[int]) -> Any:
            return self.covers_of(batch.unit.source, seqs)

        return (yield from fold.fold(self.generation, term, covers_of, batch))

    def add(self, batch: ListBatch) -> Steps[MicroBatchOutcome]:
        term = yield from self.term(batch.unit)
        if batch.place is None:
            decisions.check_start(batch.start, term.start)
        return (yield from lists.add(self.generation, term, batch))

    def tail(self, batch: PendingBatch, bound: int, room: codec.Room = codec.ROOM) -> Steps[PendingOutcome]:
        term = yield from self.term(batch.unit)
        return (yield from tail.tail(self.generation, term, batch, bound, room))

    def swap(
        self,
        unit: StoredUnit,
        hour: int,
        seq: int,
        cover: OffsetVector,
        entries: Sequence[HourEntry],
    ) -> Steps[PublishOutcome]:
        term = yield from self.term(unit)
        decisions.check_swap(seq, cover, term.start)
        yield from self._check_known(unit, seq, cover)
        if unit.lifetime and (yield from self._below_horizon(unit, hour)):
            return PublishOutcome(0, len(entries), 0, ())
        return (yield from swap.swap(self.generation, term.name, unit, hour, seq, cover, entries))

    def _below_horizon(self, unit: StoredUnit, hour: int) -> Steps[bool]:
        """Whether no reader looks for the hour in its day any more. Read after the hour was announced: a horizon
        that is marked later is one whose run saw the hour."""
        found = (yield from marks.read(self.generation)).horizons.get(unit.storage_fingerprint)
        return found is not None and hour < found.hour

    def _check_known(self, unit: StoredUnit, seq: int, cover: OffsetVector) -> Steps[None]:
        if seq == decisions.START_SEQ:
            return
        known = yield from self.covers_of(unit.source, [seq])
        if seq not in known:
            raise decisions.unknown_seq(seq, unit.source)
        if known[seq] != cover:
            raise DataLoss(
                f"archive seq {seq} of {unit.source} is registered with another cover",
                next_step="see which archive this store belongs to",
            )

    def announce_lifetime(self, unit: StoredUnit, horizon: int, seq: int, cover: OffsetVector) -> Steps[None]:
        term = yield from self.term(unit)
        if seq != decisions.START_SEQ:
            # named before it is announced: a trim that counted this announcement has seen the name
            yield from marks.announce_lifetime(self.generation, unit, term, horizon, seq)
            yield from self.put_cover(unit.source, seq, cover)

    def bring(
        self,
        unit: StoredUnit,
        horizon: int,
        seq: int,
        cover: OffsetVector,
        entries: Sequence[LifetimeEntry],
        days: Sequence[int],
    ) -> Steps[PublishOutcome]:
        term = yield from self.term(unit)
        found = yield from marks.read(self.generation)
        decisions.check_lifetime(seq, cover, term.start, found.ledger)
        yield from self._check_known(unit, seq, cover)
        return (yield from lifetime.bring(self.generation, term.name, unit, horizon, seq, cover, entries, days))

    def mark_horizon(
        self, unit: StoredUnit, horizon: int, seq: int, announced: int, whole: bool, start: OffsetVector | None = None
    ) -> Steps[bool]:
        term = yield from self.term(unit)
        decisions.check_horizon(horizon)
        decisions.check_start(start, term.start)
        counted = keys.covers_key(self.generation, unit.source), announced
        return (yield from marks.mark_horizon(self.generation, unit, term, TotalUntil(horizon, seq), counted, whole))

    def lifetime_seqs(self, unit: StoredUnit) -> Steps[tuple[int, ...]]:
        term = yield from self.term(unit)
        return (yield from marks.lifetime_seqs(self.generation, term))

    def mark_swapped(self, unit: StoredUnit, hour: int, seq: int, start: OffsetVector | None = None) -> Steps[bool]:
        term = yield from self.term(unit)
        decisions.check_start(start, term.start)
        return (yield from marks.mark_swapped(self.generation, unit, term, hour, seq))

    def swapped(self, unit: StoredUnit) -> Steps[Mapping[int, int]]:
        term = yield from self.term(unit)
        return (yield from marks.swapped(self.generation, term))

    def total_day(self, unit: StoredUnit, tags: Sequence[bytes], day: int) -> Steps[int]:
        term = yield from self.term(unit)
        written = yield from days.total_day(self.generation, term.name, unit, tags, day)
        if unit.pentads:
            yield from pentads.total_pentad(self.generation, term.name, unit, tags, day // PENTAD_DAYS)
        return written

    # ------------------------------------------------------------ reading
    def read(self, reads: Sequence[EntityRead | TagRead]) -> Steps[ReadReply]:
        replies = yield read_commands(reads)
        return self.read_reply(reads, replies)

    def read_reply(self, reads: Sequence[EntityRead | TagRead], replies: Sequence[Any]) -> ReadReply:
        """Replies to `read_commands`, in the shape of the reads."""
        flat = replies[1]
        if self._marks is None or self._marks[0] != flat:
            found = marks.bound(marks.parse(flat), self.generation)
            self._marks = (flat, found)
        entities = []
        decisions.check_standing(replies[-1], self.generation, self._marks[1].epoch)
        for entity, found_fields in zip(reads, replies[2:-1], strict=True):
            position = 0
            units = []
            if type(entity) is TagRead:
                for _, days in entity.shape.units:
                    end = position + 1 + len(days)
                    units.append(UnitReply(found_fields[position], found_fields[position + 1 : end]))
                    position = end
                entities.append(units)
                continue
            assert isinstance(entity, EntityRead)
            for unit in entity.units:
                hot: list[bytes] = []
                if unit.hot is not None:
                    hot = found_fields[position]
                    position += 1
                end = position + len(unit.days)
                units.append(UnitReply(hot, found_fields[position:end]))
                position = end
            entities.append(units)
        return ReadReply({0: NodeReply(replies[0], self._marks[1], self.incarnation)}, entities)

    def put_board(
        self, name: str, epoch: int, every_us: int, board: StoredLeaderboard, held_us: int = 0
    ) -> Steps[bool]:
        return (yield from boards.put_board(self.generation, name, epoch, every_us, board, held_us))

    def board(self, name: str) -> Steps[LeaderboardReply]:
        return (yield from boards.board(self.generation, name))

    def remember_boards(self, epoch: int, past: Sequence[tuple[str, int, StoredLeaderboard]]) -> Steps[None]:
        yield from boards.remember_boards(self.generation, epoch, past)

    def remembered_board(self, name: str, end_us: int) -> Steps[StoredLeaderboard | None]:
        return (yield from boards.remembered_board(self.generation, name, end_us))

    def put_status(self, part: str, text: str) -> Steps[None]:
        yield [PutText(keys.status_key(part), text.encode())]

    def status(self, part: str) -> Steps[str | None]:
        (raw,) = yield [Text(keys.status_key(part))]
        return None if raw is None else raw.decode()

    def statuses(self, part: str) -> Steps[Sequence[str | None]]:
        return [(yield from self.status(part))]


def read_commands(reads: Sequence[EntityRead | TagRead]) -> list[Command]:
    """Time and marks first, then one transaction per tag; last, whether generation and epoch still stand."""
    commands: list[Command] = [TIME, WHOLE_MARKS]
    for entity in reads:
        if type(entity) is TagRead:
            commands.append(Tagged(entity.shape, entity.tag))
            continue
        assert isinstance(entity, EntityRead)
        inside: list[Fields | Whole] = []
        for unit in entity.units:
            if unit.hot is not None:
                inside.append(Whole(unit.hot))
            inside += [Fields(key, fields) for key, fields in unit.days]
        commands.append(Together(inside))
    commands.append(STANDING)
    return commands
