"""Every operation of the online store, bound to the generation that its connection found.

A connection that outlives its generation writes under keys that nobody reads, and is refused by
the marks. What is remembered here never changes within a generation: start covers and what an
archive seq stands for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

from slicewise.cover import Cover
from slicewise.errors import DataLoss, EpochSuperseded, NotReady
from slicewise.stores import days, decisions, fold, keys, marks, swap
from slicewise.stores.ports import (
    Deployable,
    EntityRead,
    FoldBatch,
    FoldOutcome,
    HourEntry,
    Incarnation,
    Marks,
    ReadReply,
    StoredUnit,
    SwapOutcome,
    TagRead,
    UnitReply,
)
from slicewise.stores.steps import (
    MARKED_GENERATION,
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

NOTHING = Cover()


class Operations:
    """Operations of one connection, as steps."""

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation
        self._generation: int | None = None
        self._starts: dict[str, Cover] = {}
        self._covers: dict[str, dict[int, Cover]] = {}
        self._marks: tuple[list[bytes], Marks] | None = None

    @property
    def generation(self) -> int:
        if self._generation is None:
            raise NotReady("the store has no marks yet", progress=0.0, next_step="initialise it and deploy")
        return self._generation

    def bind(self) -> Steps[None]:
        """To be run when the connection opens."""
        (flat,) = yield [Whole(keys.MARKS)]
        found = marks.parse(flat)
        self._generation = None if found is None else found.generation

    # ------------------------------------------------------------ marks
    def time_us(self) -> Steps[int]:
        (now,) = yield [Time()]
        return int(now)

    def marks(self) -> Steps[Marks]:
        return (yield from marks.read(self.generation))

    def initialise(self) -> Steps[Marks]:
        found = yield from marks.initialise()
        if self._generation is None:
            self._generation = found.generation
        return marks.bound(found, self._generation)

    def begin_batch(self, start: Cover, epoch: int, units: str) -> Steps[Marks]:
        found = yield from marks.read(self.generation)
        decisions.check_batch(found.ledger, (found.epoch, found.units), start, epoch, units)
        return found

    def advance_ledger(self, start: Cover, end: Cover, epoch: int, units: str) -> Steps[Cover]:
        return (yield from marks.advance_ledger(self.generation, start, end, epoch, units))

    def deploy(
        self,
        deployment: Deployable,
        expected_epoch: int,
        topics: Mapping[str, str],
        earliest: Cover,
    ) -> Steps[Marks]:
        return (yield from marks.deploy(self.generation, deployment, expected_epoch, topics, earliest))

    def manifest(self, digest: str) -> Steps[str | None]:
        (raw,) = yield [Text(keys.manifest_key(digest))]
        return None if raw is None else raw.decode()

    def mark_building(self, unit: StoredUnit, done: int, total: int) -> Steps[None]:
        yield from marks.mark_building(self.generation, unit, done, total)

    def mark_ready(self, unit: StoredUnit, start: Cover, views: Mapping[str, Sequence[str]]) -> Steps[None]:
        yield from marks.mark_ready(self.generation, unit, start, views)

    def forget_retired(self, unit: str) -> Steps[None]:
        yield from marks.forget_retired(self.generation, unit)
        self._starts.pop(unit, None)

    # ------------------------------------------------------------ covers
    def put_cover(self, source: str, seq: int, cover: Cover) -> Steps[None]:
        yield from marks.put_cover(self.generation, source, seq, cover)
        self._covers.setdefault(source, {})[seq] = cover

    def covers(self, source: str) -> Steps[Mapping[int, Cover]]:
        found = yield from marks.covers(self.generation, source)
        self._covers.setdefault(source, {}).update(found)
        return found

    def covers_of(
        self, source: str, seqs: Iterable[int]
    ) -> Generator[Sequence[Command], list[Any], Mapping[int, Cover]]:
        """Covers of these archive seqs; what is known is not asked again."""
        known = self._covers.setdefault(source, {})
        unknown = sorted({seq for seq in seqs if seq != decisions.START_SEQ} - known.keys())
        if unknown:
            key = keys.covers_key(self.generation, source)
            (found,) = yield [Fields(key, [b"%d" % seq for seq in unknown])]
            for seq, raw in zip(unknown, found, strict=True):
                if raw is None:
                    raise DataLoss(
                        f"nothing says what archive seq {seq} of {source} stands for",
                        next_step="register the archive's covers again, then swap its hours",
                    )
                known[seq] = Cover.unpack(raw)
        return known

    def start_cover(self, unit: StoredUnit) -> Steps[Cover]:
        name = unit.storage_fingerprint
        if name not in self._starts:
            found = yield from marks.read(self.generation)
            if name not in found.starts or name in found.retired:
                raise EpochSuperseded(
                    f"unit {name} is not deployed on this store",
                    next_step="read the deployment again",
                )
            self._starts[name] = found.starts[name]
        return self._starts[name]

    # ------------------------------------------------------------ data
    def fold(self, batch: FoldBatch) -> Steps[FoldOutcome]:
        start = yield from self.start_cover(batch.unit)

        def covers_of(seqs: Iterable[int]) -> Any:
            return self.covers_of(batch.unit.source, seqs)

        return (yield from fold.fold(self.generation, start, covers_of, batch))

    def swap(
        self,
        unit: StoredUnit,
        hour: int,
        seq: int,
        cover: Cover,
        entries: Sequence[HourEntry],
    ) -> Steps[SwapOutcome]:
        start = yield from self.start_cover(unit)
        decisions.check_swap(seq, cover, start)
        if seq != decisions.START_SEQ:
            known = yield from self.covers_of(unit.source, [seq])
            if known[seq] != cover:
                raise DataLoss(
                    f"archive seq {seq} of {unit.source} is registered with another cover",
                    next_step="see which archive this store belongs to",
                )
        return (yield from swap.swap(self.generation, unit, hour, seq, cover, entries))

    def mark_swapped(self, unit: StoredUnit, hour: int, seq: int) -> Steps[bool]:
        return (yield from marks.mark_swapped(self.generation, unit, hour, seq))

    def swapped(self, unit: StoredUnit) -> Steps[Mapping[int, int]]:
        return (yield from marks.swapped(self.generation, unit))

    def total_day(self, unit: StoredUnit, tags: Sequence[bytes], day: int) -> Steps[int]:
        return (yield from days.total_day(self.generation, unit, tags, day))

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
        if replies[-1] != [b"%d" % self.generation]:
            # Emptied in between: the marks would claim what the data no longer holds.
            marks.bound(None, self.generation)
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
        return ReadReply(replies[0], self._marks[1], self.incarnation, entities)

    def put_status(self, part: str, text: str) -> Steps[None]:
        yield [PutText(keys.status_key(part), text.encode())]

    def status(self, part: str) -> Steps[str | None]:
        (raw,) = yield [Text(keys.status_key(part))]
        return None if raw is None else raw.decode()


def read_commands(reads: Sequence[EntityRead | TagRead]) -> list[Command]:
    """Time and marks first, then one transaction per tag; last, whether the marks still stand."""
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
    commands.append(MARKED_GENERATION)
    return commands
