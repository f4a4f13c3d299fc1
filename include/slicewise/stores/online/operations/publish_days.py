"""An entity's hours are compacted or running, never both: one change moves those of a day.

The change deletes what the compacted hour contains and keeps what lies beyond its offsets; where a
running partial straddles them, the entity is left over for a later archive version. Pending fields
stay until the micro-batch lane passes them: readers know what the hour contains, and a token would
go back without them (docs/adr/0050).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from slicewise import codec
from slicewise.errors import CodecError
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import Build
from slicewise.stores.online.model import metadata
from slicewise.stores.online.operations.archive_versions import check_registered
from slicewise.stores.online.port import (
    ByTag,
    Everywhere,
    NodeContext,
    NodesContext,
    Operation,
    Split,
)
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision, Running
from slicewise.stores.online.sharded.routing import ShardedSteps, entries_by_node, together
from slicewise.stores.online.steps import (
    ABSENT,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    Steps,
    Time,
    Whole,
    begins,
    exact,
)
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.durations import HOUR_US

CHUNK, CHUNK_BYTES = 1024, 4 << 20
"""Entities, and bytes of hours, of one pipeline."""
_HEADER = struct.Struct("<qq")
_VERSION = struct.Struct("<Q")


class HourValues(NamedTuple):
    """Values of a compacted hour, as codec envelopes of one archive version."""

    hour: int
    total: bytes
    slices: bytes
    minutes: bytes | None = None


@dataclass(frozen=True)
class DayEntry:
    """One entity's compacted hours of a day, ascending, at least one, all of one archive version.
    row: the encoded row of all of them together, from which the day's total is made."""

    tag: bytes
    hours: Sequence[HourValues]
    row: bytes | None = None

    @property
    def day(self) -> int:
        """The day since 1970."""
        return self.hours[0].hour // decisions.HOURS_PER_DAY


class Freed(NamedTuple):
    """Figures of a change, for people: running partials that it deleted, their bytes, and the bytes
    of what it wrote in their stead."""

    partials: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def and_(self, other: Freed) -> Freed:
        """The sums of both."""
        return Freed(*(a + b for a, b in zip(self, other, strict=True)))


NO_CHANGE = Freed()


@dataclass(frozen=True)
class PublishOutcome:
    """Entities by what became of them; left_over: indices into the entries."""

    published: int
    stale: int
    expired: int
    left_over: tuple[int, ...]
    change: Freed = field(default=NO_CHANGE, compare=False)


@dataclass(frozen=True)
class DaysOutcome:
    """Outcome of each hour, and the positions of the entries whose day has no total of now."""

    hours: Mapping[int, PublishOutcome]
    untotalled: tuple[int, ...]


@dataclass
class Decided:
    """Decision about an entity's hours of a day, and what it was read from."""

    applied_offsets: dict[bytes, bytes]
    total: bytes | None
    compacted: dict[int, int]
    published: list[int] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    left_over: list[int] = field(default_factory=list)
    deletes: list[bytes] = field(default_factory=list)
    """Running partials that the hours contain."""
    totalled: bool = False
    freed: dict[int, Freed] = field(default_factory=dict)
    """By hour."""

    def without_sets(self) -> Decided:
        """The same where the store left out what it was to set: that had expired."""
        freed = {hour: of._replace(bytes_after=0) for hour, of in self.freed.items()}
        expired = [*self.expired, *self.published]
        return replace(self, published=[], expired=expired, totalled=False, freed=freed)


@dataclass
class HourProgress:
    """Entities of an hour so far, by what became of them."""

    published: int = 0
    stale: int = 0
    expired: int = 0
    left_over: list[int] = field(default_factory=list)
    change: Freed = NO_CHANGE


@dataclass
class DaysProgress:
    """Rest of a chunk of entries, and the outcome of all entries so far."""

    todo: list[int] = field(default_factory=list)
    hours: dict[int, HourProgress] = field(default_factory=dict)
    untotalled: list[int] = field(default_factory=list)

    def of(self, hour: int) -> HourProgress:
        return self.hours.setdefault(hour, HourProgress())

    def note(self, entry: int, decided: Decided) -> None:
        """Counts what became of an entry."""
        for hour in decided.published:
            self.of(hour).published += 1
        for hour in decided.stale:
            self.of(hour).stale += 1
        for hour in decided.expired:
            self.of(hour).expired += 1
        for hour in decided.left_over:
            self.of(hour).left_over.append(entry)
        for hour, freed in decided.freed.items():
            self.of(hour).change = self.of(hour).change.and_(freed)
        if not decided.totalled:
            self.untotalled.append(entry)

    def pass_by(self, positions: Iterable[int], entries: Sequence[DayEntry]) -> None:
        """Counts entries that nobody looks for as stale."""
        for i in positions:
            self.untotalled.append(i)
            for values in entries[i].hours:
                self.of(values.hour).stale += 1

    def add(self, outcome: DaysOutcome, positions: Sequence[int]) -> None:
        """Adds the outcome of a node, whose entries stand at these positions."""
        for hour, of_hour in outcome.hours.items():
            progress = self.of(hour)
            progress.published += of_hour.published
            progress.stale += of_hour.stale
            progress.expired += of_hour.expired
            progress.left_over += [positions[i] for i in of_hour.left_over]
            progress.change = progress.change.and_(of_hour.change)
        self.untotalled += [positions[i] for i in outcome.untotalled]

    def outcome(self) -> DaysOutcome:
        hours = {
            hour: PublishOutcome(
                of.published, of.stale, of.expired, tuple(sorted(of.left_over)), of.change
            )
            for hour, of in sorted(self.hours.items())
        }
        return DaysOutcome(hours, tuple(sorted(self.untotalled)))


@dataclass(frozen=True)
class PublishDays(ByTag[DaysOutcome]):
    """Moves compacted hours in, those of an entity and day in one change.

    The day's total goes with them where they are all of its hours. Idempotent, safe beside batches
    and other runs of itself; read and checked as often as there are entities, not as there are
    hours.
    """

    unit: StoredUnit
    archive_version: int
    offsets: OffsetVector
    """Content of the archive version."""
    entries: Sequence[DayEntry]

    def steps(self, at: NodeContext) -> Steps[DaysOutcome]:
        build = yield from at.build_of(self.unit)
        decisions.check_publish(self.archive_version, self.offsets, build.start)
        yield from check_registered(at, self.unit.source, self.archive_version, self.offsets)
        until = (yield from self._total_until(at)) if self.unit.lifetime else None
        progress = DaysProgress()
        for chunk in self._chunks():
            progress.todo = [i for i in chunk if until is None or self._is_read(i, until)]
            progress.pass_by(set(chunk).difference(progress.todo), self.entries)
            where = f"unit {self.unit.storage_fingerprint}"
            progress = yield from change_while(
                partial(self._publish, at, build, until), progress, where
            )
        return progress.outcome()

    def split(self, count: int) -> Split[DaysOutcome]:
        positions, entries = entries_by_node(self.entries, count)
        return Split({n: replace(self, entries=own) for n, own in entries.items()}, positions)

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        return (yield from nodes.nodes_for(self.unit, self.archive_version, self.offsets))

    def join(self, replies: Mapping[int, DaysOutcome], split: Split[DaysOutcome]) -> DaysOutcome:
        """Outcomes of nodes as one of all entries: those of nodes that were not asked are stale."""
        progress = DaysProgress()
        for n, own in split.positions.items():
            if n in replies:
                progress.add(replies[n], own)
            else:
                progress.pass_by(own, self.entries)
        return progress.outcome()

    def _chunks(self) -> Iterator[list[int]]:
        """Positions of the entries, as many as go together; two of one day of an entity do not: the
        second would find what the first changed."""
        chunk: list[int] = []
        size = 0
        for i, entry in enumerate(self.entries):
            last = self.entries[chunk[-1]] if chunk else None
            if last is not None and (last.tag, last.day) == (entry.tag, entry.day):
                yield chunk
                chunk, size = [], 0
            chunk.append(i)
            size += sum(map(_size, entry.hours))
            if len(chunk) == CHUNK or size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _is_read(self, entry: int, until: int) -> bool:
        """Tells whether an hour of the entry is in no total yet."""
        return self.entries[entry].hours[-1].hour >= until

    def _total_until(self, at: NodeContext) -> Steps[int | None]:
        """The hour before which no reader looks for an hour in its day any more. Read after the
        hours were announced: a total that is marked later is one whose run saw them."""
        totals_until = (yield from at.metadata()).totals_until
        total_until = totals_until.get(self.unit.storage_fingerprint)
        return None if total_until is None else total_until.hour

    def _publish(
        self, at: NodeContext, build: Build, until: int | None, progress: DaysProgress
    ) -> Generator[Sequence[Command], list[Any], Missed[DaysProgress] | DaysProgress]:
        """One read and one write of the entries that are left."""
        reads: list[Command] = []
        for i in progress.todo:
            entry = self.entries[i]
            hot, day = _keys(at.store_id, build.name, entry.hours[0].hour, entry.tag)
            reads += [Whole(hot), Fields(day, [keys.HOURS])]
        now_us = 0
        if self.unit.lifetime:
            replies = yield reads
        else:  # the store's own time: which hours no read can reach any more
            *replies, now_us = yield [*reads, Time()]
        wanted: list[Change] = []
        owners: list[tuple[int, Decided]] = []
        for position, i in enumerate(progress.todo):
            flat, (hours,) = replies[2 * position], replies[2 * position + 1]
            decided = self._decide(self.entries[i], until, now_us, flat, hours)
            change = self._change(at, build, self.entries[i], decided, hours)
            if change is None:
                progress.note(i, decided)
            else:
                wanted.append(change)
                owners.append((i, decided))
        done = (yield wanted) if wanted else []
        progress.todo = []
        for (i, decided), reply in zip(owners, done, strict=True):
            if reply == MISSED:
                progress.todo.append(i)
            else:
                progress.note(i, decided if reply == 0 else decided.without_sets())
        return Missed(progress) if progress.todo else progress

    def _decide(
        self,
        entry: DayEntry,
        until: int | None,
        now_us: int,
        flat: Sequence[bytes],
        raw_hours: bytes | None,
    ) -> Decided:
        """Decides about each hour of an entity, by its hot hash and the compacted hours of the
        day."""
        first = entry.hours[0].hour
        first -= first % decisions.HOURS_PER_DAY
        running, applied_offsets, total = hot_fields(
            flat, self.unit.slice_us, range(first, first + decisions.HOURS_PER_DAY)
        )
        before = max(
            # what is in the total, of all entities or of this one
            first if until is None else until,
            first if total is None else codec.unpack_lifetime(total).total_until,
        )
        compacted = codec.unpack_hours(raw_hours)
        decided = Decided(applied_offsets, total, compacted)
        self._check(entry, first)
        for values in entry.hours:
            if values.hour < before:
                decided.stale.append(values.hour)
                continue
            action, deletes = decisions.publish_decision(
                self.archive_version,
                self.offsets,
                compacted.get(values.hour),
                running.get(values.hour, ()),
            )
            if action is PublishDecision.STALE:
                decided.stale.append(values.hour)
            elif action is PublishDecision.LEAVE_OVER:
                decided.left_over.append(values.hour)
            else:
                expiry = self._expiry(values.hour)
                expired = expiry != 0 and expiry <= now_us // 1_000_000
                (decided.expired if expired else decided.published).append(values.hour)
                decided.deletes += deletes
                decided.freed[values.hour] = Freed(
                    len(deletes), _size_of(deletes, flat), 0 if expired else _size(values)
                )
        return decided

    def _change(
        self,
        at: NodeContext,
        build: Build,
        entry: DayEntry,
        decided: Decided,
        raw_hours: bytes | None,
    ) -> Change | None:
        """The change that a decision makes; None where nothing changes."""
        published = set(decided.published)
        changes = []
        hot, day = _keys(at.store_id, build.name, entry.hours[0].hour, entry.tag)
        if published:
            # one expiry for all: what is written counts as compacted, or nothing is written
            expiry = self._expiry(max(published))
            hours = codec.pack_hours(
                {**decided.compacted, **dict.fromkeys(published, self.archive_version)}
            )
            sets = [(keys.HOURS, hours, expiry)]
            deletes = []
            for values in entry.hours:
                if values.hour in published:
                    total, slices, minutes = keys.hour_fields(values.hour)
                    sets += [(total, values.total, expiry), (slices, values.slices, expiry)]
                    if values.minutes is not None:
                        sets.append((minutes, values.minutes, expiry))
                    elif values.hour in decided.compacted:
                        deletes.append(minutes)
            decided.totalled = entry.row is not None and decisions.is_whole_day(
                published, [values.hour for values in entry.hours], decided.compacted
            )
            if decided.totalled and entry.row is not None:
                sets.append(
                    (keys.TOTAL, codec.pack_day(codec.day_digest(hours), entry.row), expiry)
                )
            elif hours == raw_hours:
                # an hour that is made anew under its own archive version, as from raw events: a
                # total of what stood would still count
                deletes.append(keys.TOTAL)
            changes.append(KeyChange(day, [(keys.HOURS, exact(raw_hours))], sets, deletes))
        elif not decided.deletes:
            return None
        # A micro-batch that brings anything in moves its partition's applied offset: while the
        # applied offsets stand, so do the running partials. Partitions beyond the offset vector
        # cannot matter.
        checks = unmoved_checks(decided.applied_offsets, self.offsets)
        if self.unit.lifetime:
            total_now = decided.total
            head = ABSENT if total_now is None else begins(total_now[: codec.LIFETIME_HEAD])
            checks.append((keys.LIFETIME, head))
        if checks:
            changes.append(KeyChange(hot, checks, (), tuple(decided.deletes)))
        return Change(tuple(changes))

    def _expiry(self, hour: int) -> int:
        if self.unit.lifetime:
            return 0
        return decisions.expiry_s((hour + 1) * HOUR_US, self.unit.retention_us)

    def _check(self, entry: DayEntry, first: int) -> None:
        """Checks that the hours lie in the day that begins with `first`, and are of the archive
        version."""
        version = _VERSION.pack(self.archive_version)
        for hour, total, slices, minutes in entry.hours:
            if not (
                total.startswith(version)
                and slices.startswith(version)
                and (minutes is None or minutes.startswith(version))
            ):
                raise CodecError(
                    f"a value of another archive version than {self.archive_version}",
                    where=f"hour {hour}",
                )
            if not 0 <= hour - first < decisions.HOURS_PER_DAY:
                raise CodecError("an hour of another day", where=f"hour {hour}")


@dataclass(frozen=True)
class MarkHour(Operation[bool]):
    """To be asked after every entity of the hour was published; False if a newer archive version
    stands.

    DeploymentSuperseded when the unit's build is over.
    """

    unit: StoredUnit
    hour: int
    archive_version: int
    start: OffsetVector | None = None
    """Start cover under which a backfill published the hour; GapRefused where the unit has
    another."""

    def steps(self, at: NodeContext) -> Steps[bool]:
        build = yield from at.build_of(self.unit)
        decisions.check_start(self.start, build.start)
        return (
            yield from metadata.mark_published(
                at.store_id, self.unit, build, self.hour, self.archive_version
            )
        )

    def over(self, nodes: NodesContext) -> ShardedSteps[bool]:
        """On the nodes that it was published on."""
        if self.start is not None:
            wanted = yield from nodes.built_for(self.unit, self.start)
        else:
            wanted = yield from self._published_on(nodes)
        return all(
            (yield from together({n: self.steps(nodes.contexts[n]) for n in wanted})).values()
        )

    def _published_on(self, nodes: NodesContext) -> ShardedSteps[list[int]]:
        version = self.archive_version
        by_node = {
            n: node.archive_versions(self.unit.source, [version])
            for n, node in enumerate(nodes.contexts)
        }
        versions = yield from together(by_node)
        registered = [of_node[version] for of_node in versions.values() if version in of_node]
        return (
            (yield from nodes.nodes_for(self.unit, version, registered[0]))
            if registered
            else list(versions)
        )


@dataclass(frozen=True)
class ReadHours(Everywhere[Mapping[int, int]]):
    """Hour -> archive version of which it stands: hours that all nodes have, by the oldest of their
    versions."""

    unit: StoredUnit

    def steps(self, at: NodeContext) -> Steps[Mapping[int, int]]:
        return (yield from metadata.published(at.store_id, (yield from at.build_of(self.unit))))

    def merge(self, replies: Mapping[int, Mapping[int, int]]) -> Mapping[int, int]:
        first, *others = replies.values()
        return {
            hour: min(version, *(hours[hour] for hours in others))
            for hour, version in first.items()
            if all(hour in hours for hours in others)
        }


def _keys(store_id: int, build: str, hour: int, tag: bytes) -> tuple[bytes, bytes]:
    day = hour // decisions.HOURS_PER_DAY
    return keys.hot_key(store_id, tag, build), keys.day_key(store_id, tag, build, day)


def _size(values: HourValues) -> int:
    return len(values.total) + len(values.slices) + len(values.minutes or b"")


def _size_of(names: Collection[bytes], flat: Sequence[bytes]) -> int:
    """Bytes of these fields of a hash, names and values."""
    if not names:
        return 0
    wanted = set(names)
    fields = zip(flat[::2], flat[1::2], strict=True)
    return sum(len(name) + len(value) for name, value in fields if name in wanted)


def unmoved_checks(
    applied_offsets: dict[bytes, bytes], offset_vector: OffsetVector
) -> list[tuple[bytes, bytes]]:
    """Checks that no applied offset moved, of no partition that an offset vector names or the
    entity knows."""
    return [
        (name, exact(applied_offsets.get(name)))
        for name in sorted({*applied_offsets, *map(keys.applied_field, offset_vector)})
    ]


def hot_fields(
    flat: Sequence[bytes], slice_us: int, hours: range
) -> tuple[dict[int, list[Running]], dict[bytes, bytes], bytes | None]:
    """Hour -> its running partials, of these hours; all applied offsets; the total."""
    running: dict[int, list[Running]] = {}
    applied_offsets, total = {}, None
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        kind = name[:2]
        if kind == b"l:":
            applied_offsets[name] = value
        elif kind == b"r:":
            _, number, topic, partition = name.split(b":")
            hour = decisions.hour_of(int(number), slice_us)
            if hour in hours:
                first, last = _HEADER.unpack_from(value)
                running.setdefault(hour, []).append(
                    Running(name, keys.parse_topic_partition(topic, partition), first, last)
                )
        elif name == keys.LIFETIME:
            total = value
    return running, applied_offsets, total
