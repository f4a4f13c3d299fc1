"""Operations over several nodes: each node's marks follow that node's writes, and what all claim is what each claims.

Every operation is that of one node, run on those that it concerns. A batch is applied on all nodes or its ledger moves
on none beyond what that node holds: ledgers move one after another, a node that lost commands is brought them again
from the smallest, and the guards of the others' entities make that a no-op (docs/adr/0068).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slicewise import codec
from slicewise.codec.leaderboards import StoredLeaderboard
from slicewise.errors import EpochSuperseded, NotReady
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.model import gaps as holes
from slicewise.stores.online.model.metadata import bound
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
    StoredUnit,
    StoreMetadata,
    TagRead,
)
from slicewise.stores.online.routing import (
    Joint,
    Nodes,
    at,
    by_node,
    check_one_set,
    joined,
    node_name,
    node_of,
    tag_of,
    together,
)
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded import metadata as joint_marks
from slicewise.stores.online.sharded.splitting import added, fold_parts, listed_parts


class ShardedOperations(Operations):
    """Operations of one connection to every node of a store, as steps whose commands say whose they are."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes.incarnation)
        count = len(nodes.nodes)
        self.each = [Operations(node.incarnation, node_name(i, count)) for i, node in enumerate(nodes.nodes)]
        self._terms: dict[str, int] = {}
        self._announced: dict[tuple[str, int], tuple[int, ...]] = {}

    @property
    def count(self) -> int:
        return len(self.each)

    @property
    def generation(self) -> int:
        """The newest of the nodes'."""
        return max(each.generation for each in self.each)

    def bind(self) -> Joint[None]:
        yield from together({number: each.bind() for number, each in enumerate(self.each)})
        with_marks = {n: each for n, each in enumerate(self.each) if each._generation is not None}
        check_one_set((yield from together({n: each.marks() for n, each in with_marks.items()})))

    # ------------------------------------------------------------ marks
    def time_us(self) -> Joint[int]:
        """The latest of the nodes'."""
        return int(max((yield from self._all("time_us")).values()))

    def marks(self) -> Joint[StoreMetadata]:
        return joint_marks.merged((yield from self._marks_of_each()))

    def _marks_of_each(self) -> Joint[list[StoreMetadata]]:
        if any(each._generation is None for each in self.each):
            raise NotReady("a node of the store has no marks yet", progress=0.0, next_step="initialise it and deploy")
        return list((yield from self._all("marks")).values())

    def _all(self, name: str, *arguments: Any) -> Joint[dict[int, Any]]:
        """An operation of every node, side by side."""
        return (yield from together({n: getattr(each, name)(*arguments) for n, each in enumerate(self.each)}))

    def initialise(self, set_id: int = 0, after: int = 0, same: int = 0) -> Joint[StoreMetadata]:
        """Nodes without marks get a generation later than any that stands, and the set that the others are of; those
        of a new store begin in one generation."""
        standing = {n: each for n, each in enumerate(self.each) if each._generation is not None}
        found: dict[int, StoreMetadata] = yield from together({n: each.marks() for n, each in standing.items()})
        set_id = max((marks.set_id for marks in found.values()), default=set_id)
        after = max((marks.generation for marks in found.values()), default=after)
        for number, each in enumerate(self.each):
            if number not in found:
                first = yield from at(number, each.initialise(set_id, after, same))
                found[number], set_id = first, first.set_id
                same = 0 if standing else first.generation
        check_one_set(found)
        marks = [bound(found[n], each.generation) for n, each in enumerate(self.each)]
        return joint_marks.merged(marks)

    def begin_batch(self, start: OffsetVector, epoch: int, units: str) -> Joint[StoreMetadata]:
        found = yield from self._all("begin_batch", start, epoch, units)
        return joint_marks.merged(list(found.values()))

    def advance_ledger(self, start: OffsetVector, end: OffsetVector, epoch: int, units: str) -> Joint[OffsetVector]:
        """One node after another, as a deployment goes: what the first refuses, none gets."""
        reached = []
        for number, each in enumerate(self.each):
            reached.append((yield from at(number, each.advance_ledger(start, end, epoch, units))))
        return joint_marks.least(reached, frozenset.intersection(*(frozenset(cover) for cover in reached)))

    def tell_known(self, reached: OffsetVector) -> Joint[StoreMetadata]:
        return joint_marks.merged(list((yield from self._all("tell_known", reached)).values()))

    def begin_tail(self, source: str, start: OffsetVector, epoch: int, units: str) -> Joint[StoreMetadata]:
        found = yield from self._all("begin_tail", source, start, epoch, units)
        return joint_marks.merged(list(found.values()))

    def end_tail(self, source: str) -> Joint[bool]:
        return any((yield from self._all("end_tail", source)).values())

    def deploy(
        self,
        deployment: Deployable,
        expected_epoch: int,
        topics: Mapping[str, str],
        earliest: OffsetVector,
        renewal: Renewal = NO_RENEWAL,
        epoch: int = 0,
        since: OffsetVector = NOTHING,
    ) -> Joint[StoreMetadata]:
        """One node after another, to one epoch; who finds that it stopped between two nodes goes on with it."""
        found = yield from self._marks_of_each()
        newest = found[joint_marks.newest(found)]
        unknown = any(newest.topics.get(name) != topic for name, topic in topics.items())
        if newest.units == deployment.digest and not unknown and not renewal.units:
            others = [each for each in found if (each.epoch, each.units) != (newest.epoch, newest.units)]
            if not others:
                return joint_marks.merged(found)
            if all(each.epoch < newest.epoch for each in others):
                epoch = newest.epoch
        if newest.epoch != expected_epoch:
            raise EpochSuperseded(
                f"epoch {newest.epoch} stands, the deployment was planned on {expected_epoch}",
                next_step="plan again and apply",
            )
        anew = not epoch
        epoch = epoch or newest.epoch + 1
        since = joint_marks.joined([since, *(each.ledger for each in found)])
        for number, (each, marks) in enumerate(zip(self.each, found, strict=True)):
            mine = replace(renewal, ahead=OffsetVector()) if marks.ledger.dominates(renewal.ahead) else renewal
            if renewal.ahead and not mine.ahead:
                mine = NO_RENEWAL  # it holds all that the others lost: its units stand on
            # a node that was emptied is brought everything again: what the log has needs no backfill
            begin = since if anew and marks.places else NOTHING
            steps = each.deploy(deployment, marks.epoch, topics, earliest, mine, epoch, begin)
            since = since.join((yield from at(number, steps)).ledger)
        return (yield from self.marks())

    def manifest(self, digest: str) -> Joint[str | None]:
        found = (yield from self._all("manifest", digest)).values()
        return next((text for text in found if text is not None), None)

    def mark_building(self, unit: StoredUnit, done: int, total: int) -> Joint[None]:
        for number in (yield from self._unready(unit)) or range(self.count):
            yield from at(number, self.each[number].mark_building(unit, done, total))

    def mark_ready(self, unit: StoredUnit, start: OffsetVector, views: Mapping[str, Sequence[str]]) -> Joint[None]:
        """On the nodes that the backfill was made for; those that begin elsewhere are not ready by it."""
        for number in (yield from self._built_for(unit, start)):
            yield from at(number, self.each[number].mark_ready(unit, start, views))

    def _unready(self, unit: StoredUnit) -> Joint[list[int]]:
        found = yield from self._marks_of_each()
        return [number for number, each in enumerate(found) if unit.storage_fingerprint not in each.ready]

    def _built_for(self, unit: StoredUnit, start: OffsetVector) -> Joint[list[int]]:
        """The nodes whose unit begins there, and the others only if none does: they refuse it."""
        terms = yield from self._all("term", unit)
        found = [number for number, term in terms.items() if term.start == start]
        return found or list(terms)

    def _reached_by(self, unit: StoredUnit, seq: int, cover: OffsetVector) -> Joint[list[int]]:
        """The nodes that an hour of this cover is for: those that the backfill was made for, or whose start cover the
        archive contains. One whose unit begins beyond holds what it must by another."""
        if seq == decisions.START_SEQ:
            return (yield from self._built_for(unit, cover))
        terms = yield from self._all("term", unit)
        found = [number for number, term in terms.items() if cover.dominates(term.start)]
        return found or list(terms)

    # ------------------------------------------------------------ covers
    def put_cover(self, source: str, seq: int, cover: OffsetVector) -> Joint[None]:
        yield from self._all("put_cover", source, seq, cover)

    def covers(self, source: str) -> Joint[Mapping[int, OffsetVector]]:
        """What all of them know."""
        first, *others = (yield from self._all("covers", source)).values()
        return {seq: cover for seq, cover in first.items() if all(seq in each for each in others)}

    def covers_announced(self, source: str) -> Joint[int]:
        """On all nodes together; it only grows, so that an equal sum is of equal counts."""
        counts = tuple((yield from self._all("covers_announced", source)).values())
        self._announced = {(source, sum(counts)): counts}
        return sum(counts)

    def _counts(self, source: str, total: int) -> Joint[tuple[int, ...]]:
        """Of each node, what came to this together. Where more was announced since, none that stands."""
        if (source, total) not in self._announced:
            yield from self.covers_announced(source)
        return self._announced.get((source, total), (-1,) * self.count)

    def trim_covers(self, source: str, count: int, epoch: int, live: Sequence[tuple[int, int]]) -> Joint[int]:
        counts = yield from self._counts(source, count)
        each = {n: one.trim_covers(source, counts[n], epoch, live) for n, one in enumerate(self.each)}
        return max((yield from together(each)).values())

    # ------------------------------------------------------------ terms
    def hold(self, terms: Mapping[str, int]) -> Joint[None]:
        """On each node the term that stands there, where the newest of all nodes' are these."""
        if all(self._terms.get(unit) == number for unit, number in terms.items()):
            return
        found = yield from self._marks_of_each()
        together_are = joint_marks.merged(found).terms
        for unit, number in terms.items():
            if together_are.get(unit, 0) != number:
                raise EpochSuperseded(
                    f"term {number} of unit {unit} is over, {together_are.get(unit, 0)} stands",
                    next_step="read the deployment again",
                )
        for number, marks in enumerate(found):
            yield from at(number, self.each[number].hold({unit: marks.terms.get(unit, 0) for unit in terms}))
        self._terms |= terms

    # ------------------------------------------------------------ data
    def fold(self, batch: MicroBatch) -> Joint[MicroBatchOutcome]:
        parts = fold_parts(batch, self.count)
        found = yield from together({node: self.each[node].fold(part) for node, part in parts.items()})
        return added(list(found.values()), MicroBatchOutcome())

    def add(self, batch: ListBatch) -> Joint[MicroBatchOutcome]:
        """A backfill's is of the nodes that it was made for: others may have applied less than it holds."""
        parts = listed_parts(batch, self.count)
        wanted = range(self.count) if batch.place is not None else (yield from self._built_for(batch.unit, batch.start))
        steps = {node: self.each[node].add(part) for node, part in parts.items() if node in wanted}
        left_out = sum(len(part.offset) for node, part in parts.items() if node not in wanted)
        found = yield from together(steps)
        return added([MicroBatchOutcome(rows=left_out, known=left_out), *found.values()], MicroBatchOutcome())

    def tail(self, batch: PendingBatch, bound: int, room: codec.Room = codec.ROOM) -> Joint[PendingOutcome]:
        parts = listed_parts(batch, self.count)
        found = yield from together({node: self.each[node].tail(part, bound, room) for node, part in parts.items()})
        return added(list(found.values()), PendingOutcome())

    def swap(
        self, unit: StoredUnit, hour: int, seq: int, cover: OffsetVector, entries: Sequence[HourEntry]
    ) -> Joint[PublishOutcome]:
        wanted = yield from self._reached_by(unit, seq, cover)
        places = by_node([entry.tag for entry in entries], self.count)
        steps = {
            node: self.each[node].swap(unit, hour, seq, cover, [entries[i] for i in places.get(node, ())])
            for node in wanted
        }
        found = yield from together(steps)
        left_out = sum(len(mine) for node, mine in places.items() if node not in found)
        return _swapped(found, places, stale=left_out)

    def announce_lifetime(self, unit: StoredUnit, horizon: int, seq: int, cover: OffsetVector) -> Joint[None]:
        yield from self._all("announce_lifetime", unit, horizon, seq, cover)

    def bring(
        self,
        unit: StoredUnit,
        horizon: int,
        seq: int,
        cover: OffsetVector,
        entries: Sequence[LifetimeEntry],
        days: Sequence[int],
    ) -> Joint[PublishOutcome]:
        wanted: Sequence[int] = range(self.count)
        if seq == decisions.START_SEQ:
            wanted = yield from self._built_for(unit, cover)
        places = by_node([entry.tag for entry in entries], self.count)
        steps = {
            node: self.each[node].bring(unit, horizon, seq, cover, [entries[i] for i in places.get(node, ())], days)
            for node in wanted
        }
        found = yield from together(steps)
        left_out = sum(len(mine) for node, mine in places.items() if node not in found)
        return _swapped(found, places, stale=left_out)

    def mark_horizon(
        self, unit: StoredUnit, horizon: int, seq: int, announced: int, whole: bool, start: OffsetVector | None = None
    ) -> Joint[bool]:
        """True where it stands on all that the totals were brought to; a node that has a newer one keeps it."""
        counts = yield from self._counts(unit.source, announced)
        wanted = range(self.count) if start is None else (yield from self._built_for(unit, start))
        each = {n: self.each[n].mark_horizon(unit, horizon, seq, counts[n], whole, start) for n in wanted}
        return all((yield from together(each)).values())

    def lifetime_seqs(self, unit: StoredUnit) -> Joint[tuple[int, ...]]:
        """What totals on any of them may name."""
        found = (yield from self._all("lifetime_seqs", unit)).values()
        return tuple(sorted({seq for each in found for seq in each}))

    def mark_swapped(self, unit: StoredUnit, hour: int, seq: int, start: OffsetVector | None = None) -> Joint[bool]:
        """On the nodes that it was swapped on."""
        if start is not None:
            wanted = yield from self._built_for(unit, start)
        else:
            covers = yield from self._all("covers_of", unit.source, [seq])
            known = [each[seq] for each in covers.values() if seq in each]
            wanted = (yield from self._reached_by(unit, seq, known[0])) if known else list(covers)
        found = yield from together({node: self.each[node].mark_swapped(unit, hour, seq, start) for node in wanted})
        return all(found.values())

    def swapped(self, unit: StoredUnit) -> Joint[Mapping[int, int]]:
        """Hours that all of them have, by the oldest of their seqs."""
        first, *others = (yield from self._all("swapped", unit)).values()
        return {
            hour: min(seq, *(each[hour] for each in others))
            for hour, seq in first.items()
            if all(hour in each for each in others)
        }

    def total_day(self, unit: StoredUnit, tags: Sequence[bytes], day: int) -> Joint[int]:
        places = by_node(tags, self.count)
        steps = {node: self.each[node].total_day(unit, [tags[i] for i in mine], day) for node, mine in places.items()}
        return sum((yield from together(steps)).values())

    # ------------------------------------------------------------ reading
    def read(self, reads: Sequence[EntityRead | TagRead]) -> Joint[ReadReply]:
        """Of the nodes that have what is read; of all where nothing is."""
        places = by_node([tag_of(each) for each in reads], self.count)
        asked = places or {number: [] for number in range(self.count)}
        steps = {node: self.each[node].read([reads[i] for i in mine]) for node, mine in asked.items()}
        return joined((yield from together(steps)), places, len(reads), self.count)

    def _of(self, name: str) -> tuple[int, Operations]:
        """The node that keeps what has this name."""
        number = node_of(name.encode(), self.count)
        return number, self.each[number]

    def put_board(
        self, name: str, epoch: int, every_us: int, board: StoredLeaderboard, held_us: int = 0
    ) -> Joint[bool]:
        number, each = self._of(name)
        return (yield from at(number, each.put_board(name, epoch, every_us, board, held_us)))

    def board(self, name: str) -> Joint[LeaderboardReply]:
        number, each = self._of(name)
        return (yield from at(number, each.board(name)))

    def remember_boards(self, epoch: int, past: Sequence[tuple[str, int, StoredLeaderboard]]) -> Joint[None]:
        places = by_node([name.encode() for name, _, _ in past], self.count)
        steps = {node: self.each[node].remember_boards(epoch, [past[i] for i in mine]) for node, mine in places.items()}
        yield from together(steps)

    def remembered_board(self, name: str, end_us: int) -> Joint[StoredLeaderboard | None]:
        number, each = self._of(name)
        return (yield from at(number, each.remembered_board(name, end_us)))

    def put_status(self, part: str, text: str) -> Joint[None]:
        yield from self._all("put_status", part, text)

    def status(self, part: str) -> Joint[str | None]:
        return holes.of_nodes(part, (yield from self.statuses(part)))

    def statuses(self, part: str) -> Joint[Sequence[str | None]]:
        return list((yield from self._all("status", part)).values())


def _swapped(found: Mapping[int, PublishOutcome], places: Mapping[int, Sequence[int]], stale: int) -> PublishOutcome:
    """Outcomes of nodes as one of all entries; stale: of nodes that were not asked."""
    left_over = sorted(places[node][i] for node, each in found.items() for i in each.left_over)
    return PublishOutcome(
        sum(each.swapped for each in found.values()),
        stale + sum(each.stale for each in found.values()),
        sum(each.expired for each in found.values()),
        tuple(left_over),
    )
