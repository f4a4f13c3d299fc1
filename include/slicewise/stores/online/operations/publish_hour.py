"""An entity's hour is compacted or running, never both: one change moves it.

The change deletes what the compacted hour contains and keeps what lies beyond its offsets; where a
running partial straddles them, the entity is left over for a later archive version. Pending fields
stay until the micro-batch lane passes them: readers know what the hour contains, and a token would
go back without them (docs/adr/0050).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

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
from slicewise.stores.online.sharded.routing import ShardedSteps, by_node, together
from slicewise.stores.online.steps import (
    ABSENT,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    Steps,
    Whole,
    begins,
    exact,
)
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.durations import DAY_US, HOUR_US

CHUNK = 1024
"""Entities of one pipeline."""
_HEADER = struct.Struct("<qq")
_VERSION = struct.Struct("<Q")


@dataclass(frozen=True)
class HourEntry:
    """One entity's compacted hour, as codec envelopes of one archive version."""

    tag: bytes
    total: bytes
    slices: bytes
    minutes: bytes | None = None


@dataclass(frozen=True)
class PublishOutcome:
    """Entities by what became of them; left_over: indices into the entries."""

    published: int
    stale: int
    expired: int
    left_over: tuple[int, ...]


def in_all(outcomes: Mapping[int, PublishOutcome], split: Split[PublishOutcome]) -> PublishOutcome:
    """Outcomes of nodes as one of all entries: those of nodes that were not asked are stale."""
    left_over = sorted(
        split.positions[n][i] for n, outcome in outcomes.items() for i in outcome.left_over
    )
    return PublishOutcome(
        sum(outcome.published for outcome in outcomes.values()),
        sum(len(own) for n, own in split.positions.items() if n not in outcomes)
        + sum(outcome.stale for outcome in outcomes.values()),
        sum(outcome.expired for outcome in outcomes.values()),
        tuple(left_over),
    )


@dataclass
class Progress:
    """Rest of a chunk of entries, and the outcome of all entries so far."""

    todo: list[int]
    published: int = 0
    stale: int = 0
    expired: int = 0
    left_over: list[int] = field(default_factory=list)


Published = Generator[Sequence[Command], list[Any], Missed[Progress] | Progress]
"""One read and one write of the entries that are left."""


@dataclass(frozen=True)
class PublishHour(ByTag[PublishOutcome]):
    """Moves the entries of one compacted hour in; idempotent, safe beside batches and other runs of
    itself."""

    unit: StoredUnit
    hour: int
    archive_version: int
    offsets: OffsetVector
    """Content of the archive version."""
    entries: Sequence[HourEntry]

    def steps(self, at: NodeContext) -> Steps[PublishOutcome]:
        build = yield from at.build_of(self.unit)
        decisions.check_publish(self.archive_version, self.offsets, build.start)
        yield from check_registered(at, self.unit.source, self.archive_version, self.offsets)
        if self.unit.lifetime and (yield from self._is_in_totals(at)):
            return PublishOutcome(0, len(self.entries), 0, ())
        progress = Progress([])
        for begin in range(0, len(self.entries), CHUNK):
            progress.todo = list(range(begin, min(begin + CHUNK, len(self.entries))))
            where = f"unit {self.unit.storage_fingerprint} hour {self.hour}"
            progress = yield from change_while(partial(self._publish, at, build), progress, where)
        return PublishOutcome(
            progress.published, progress.stale, progress.expired, tuple(sorted(progress.left_over))
        )

    def split(self, count: int) -> Split[PublishOutcome]:
        positions = by_node([entry.tag for entry in self.entries], count)
        parts = {
            n: replace(self, entries=[self.entries[i] for i in positions.get(n, ())])
            for n in range(count)
        }
        return Split(parts, positions)

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        return (yield from nodes.nodes_for(self.unit, self.archive_version, self.offsets))

    def join(
        self, replies: Mapping[int, PublishOutcome], split: Split[PublishOutcome]
    ) -> PublishOutcome:
        return in_all(replies, split)

    def _is_in_totals(self, at: NodeContext) -> Steps[bool]:
        """Tells whether no reader looks for the hour in its day any more. Read after the hour was
        announced: a total that is marked later is one whose run saw the hour."""
        total_until = (yield from at.metadata()).totals_until.get(self.unit.storage_fingerprint)
        return total_until is not None and self.hour < total_until.hour

    def _publish(self, at: NodeContext, build: Build, progress: Progress) -> Published:
        reads: list[Command] = []
        for i in progress.todo:
            hot, day = _keys(at.store_id, build.name, self.hour, self.entries[i])
            reads += [Whole(hot), Fields(day, [keys.HOURS])]
        replies = yield reads
        wanted: list[Change] = []
        owners: list[int] = []
        for position, i in enumerate(progress.todo):
            flat, (hours,) = replies[2 * position], replies[2 * position + 1]
            action, change = self._entity(at, build, self.entries[i], flat, hours)
            if change is not None:
                wanted.append(change)
                owners.append(i)
            elif action is PublishDecision.STALE:
                progress.stale += 1
            else:
                progress.left_over.append(i)
        done = (yield wanted) if wanted else []
        progress.todo = [i for i, reply in zip(owners, done, strict=True) if reply == MISSED]
        progress.published += sum(reply == 0 for reply in done)
        progress.expired += sum(reply not in (0, MISSED) for reply in done)
        return Missed(progress) if progress.todo else progress

    def _entity(
        self,
        at: NodeContext,
        build: Build,
        entry: HourEntry,
        flat: Sequence[bytes],
        raw_hours: bytes | None,
    ) -> tuple[PublishDecision, Change | None]:
        """Decides about one entity, by its hot hash and the compacted hours of the day."""
        hour = self.hour
        named = [value for value in (entry.total, entry.slices, entry.minutes) if value is not None]
        if any(_VERSION.unpack_from(value)[0] != self.archive_version for value in named):
            raise CodecError(
                f"a value of another archive version than {self.archive_version}",
                where=f"hour {self.hour}",
            )
        hours = codec.unpack_hours(raw_hours)
        running, applied_offsets, total = hot_fields(
            flat, self.unit.slice_us, range(hour, hour + 1)
        )
        if total is not None and hour < codec.unpack_lifetime(total).total_until:
            return PublishDecision.STALE, None  # it is in the total
        action, deletes = decisions.publish_decision(
            self.archive_version, self.offsets, hours.get(hour), running
        )
        if action is not PublishDecision.PUBLISH:
            return action, None
        # A micro-batch that brings anything in moves its partition's applied offset: while the
        # applied offsets stand, so do the running partials. Partitions beyond the offset vector
        # cannot matter.
        checks = unmoved_checks(applied_offsets, self.offsets)
        if self.unit.lifetime:
            checks.append(
                (keys.LIFETIME, ABSENT if total is None else begins(total[: codec.LIFETIME_HEAD]))
            )
        total, slices, minutes = keys.hour_fields(hour)
        expiry = (
            0
            if self.unit.lifetime
            else decisions.expiry_s((hour + 1) * HOUR_US, self.unit.retention_us)
        )
        sets = [
            (total, entry.total, expiry),
            (slices, entry.slices, expiry),
            (keys.HOURS, codec.pack_hours({**hours, hour: self.archive_version}), expiry),
        ]
        if entry.minutes is not None:
            sets.append((minutes, entry.minutes, expiry))
        hot, day = _keys(at.store_id, build.name, hour, entry)
        changes = [
            KeyChange(
                day,
                [(keys.HOURS, exact(raw_hours))],
                sets,
                [minutes] if entry.minutes is None else [],
            )
        ]
        if checks:
            changes.append(KeyChange(hot, checks, (), deletes))
        return action, Change(tuple(changes))


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


def _keys(store_id: int, build: str, hour: int, entry: HourEntry) -> tuple[bytes, bytes]:
    day = hour * HOUR_US // DAY_US
    return keys.hot_key(store_id, entry.tag, build), keys.day_key(store_id, entry.tag, build, day)


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
) -> tuple[list[Running], dict[bytes, bytes], bytes | None]:
    """Running partials of these hours, all applied offsets, and the total."""
    running, applied_offsets, total = [], {}, None
    for name, value in zip(flat[::2], flat[1::2], strict=True):
        kind = name[:2]
        if kind == b"l:":
            applied_offsets[name] = value
        elif kind == b"r:":
            _, number, topic, partition = name.split(b":")
            if decisions.hour_of(int(number), slice_us) in hours:
                first, last = _HEADER.unpack_from(value)
                running.append(
                    Running(name, keys.parse_topic_partition(topic, partition), first, last)
                )
        elif name == keys.LIFETIME:
            total = value
    return running, applied_offsets, total
