"""An entity's hour is in its total, in its day or running, never in two of them: one change moves
it.

The total `t` stands in the hot hash, which of such a unit never expires: until which hour, archive
version, row. It holds exactly the entity's events of hours before that one, of those that the
archive version contains (docs/adr/0042).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from slicewise import codec
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import Build, TotalUntil
from slicewise.stores.online.model import metadata
from slicewise.stores.online.operations.archive_versions import (
    PutArchiveVersion,
    check_registered,
    counts_by_node,
)
from slicewise.stores.online.operations.publish_days import (
    CHUNK,
    PublishOutcome,
    hot_fields,
    unmoved_checks,
)
from slicewise.stores.online.port import (
    ByTag,
    Everywhere,
    NodeContext,
    NodesContext,
    Operation,
    Split,
)
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.rules.decisions import PublishDecision
from slicewise.stores.online.sharded.routing import ShardedSteps, entries_by_node, together
from slicewise.stores.online.steps import (
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    Steps,
    Whole,
    exact,
)
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.durations import HOUR_US

_FIRST_HOUR = -(1 << 40)
"""Before any event."""


@dataclass(frozen=True)
class LifetimeEntry:
    """One entity's total of hours before a total-until hour, as an encoded row: of all of them, or
    of those from `since` on, which is added to what its total holds."""

    tag: bytes
    row: bytes
    since: int | None = None


@dataclass(frozen=True)
class AnnounceTotal(Everywhere[None]):
    """Says that totals will name this archive version, so that what it contains is kept. Before
    `PublishTotal`."""

    unit: StoredUnit
    until: int
    """Hour before which the totals will reach."""
    archive_version: int
    offsets: OffsetVector
    """Content of the archive version."""

    def steps(self, at: NodeContext) -> Steps[None]:
        build = yield from at.build_of(self.unit)
        if self.archive_version != decisions.START_VERSION:
            # named before it is announced: a trim that counted this announcement has seen the name
            yield from metadata.announce_lifetime(
                at.store_id, self.unit, build, self.until, self.archive_version
            )
            yield from PutArchiveVersion(
                self.unit.source, self.archive_version, self.offsets
            ).steps(at)

    def merge(self, replies: Mapping[int, None]) -> None: ...


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
class PublishTotal(ByTag[PublishOutcome]):
    """Hours before `until` go into the entities' totals, and leave their days' hashes and the
    running partials.

    Per entity in one script; idempotent, safe beside batches, hours and other runs of itself.

    GapRefused while the committed offsets lie behind what the archive version contains.
    """

    unit: StoredUnit
    until: int
    archive_version: int
    offsets: OffsetVector
    """Content of the archive version."""
    entries: Sequence[LifetimeEntry]
    days: Sequence[int] = ()
    """Days whose hashes may hold some of the hours."""

    def steps(self, at: NodeContext) -> Steps[PublishOutcome]:
        build = yield from at.build_of(self.unit)
        record = yield from at.metadata()
        decisions.check_lifetime(self.archive_version, self.offsets, build.start, record.committed)
        yield from check_registered(at, self.unit.source, self.archive_version, self.offsets)
        decisions.check_total_until(self.until)
        days = [day for day in self.days if day * decisions.HOURS_PER_DAY < self.until]
        progress = Progress([])
        for begin in range(0, len(self.entries), CHUNK):
            progress.todo = list(range(begin, min(begin + CHUNK, len(self.entries))))
            where = f"totals of unit {self.unit.storage_fingerprint}"
            progress = yield from change_while(
                partial(self._publish, at, build, days), progress, where
            )
        return PublishOutcome(
            progress.published, progress.stale, 0, tuple(sorted(progress.left_over))
        )

    def split(self, count: int) -> Split[PublishOutcome]:
        positions, entries = entries_by_node(self.entries, count)
        return Split({n: replace(self, entries=own) for n, own in entries.items()}, positions)

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        if self.archive_version != decisions.START_VERSION:
            return range(nodes.count)
        return (yield from nodes.built_for(self.unit, self.offsets))

    def join(
        self, replies: Mapping[int, PublishOutcome], split: Split[PublishOutcome]
    ) -> PublishOutcome:
        """Outcomes of nodes as one of all entries: those of nodes that were not asked are stale."""
        left_over = sorted(
            split.positions[n][i] for n, outcome in replies.items() for i in outcome.left_over
        )
        return PublishOutcome(
            sum(outcome.published for outcome in replies.values()),
            sum(len(own) for n, own in split.positions.items() if n not in replies)
            + sum(outcome.stale for outcome in replies.values()),
            sum(outcome.expired for outcome in replies.values()),
            tuple(left_over),
        )

    def _publish(
        self, at: NodeContext, build: Build, days: Sequence[int], progress: Progress
    ) -> Published:
        unit, name, entries = self.unit, build.name, self.entries
        reads: list[Command] = []
        for i in progress.todo:
            reads.append(Whole(keys.hot_key(at.store_id, entries[i].tag, name)))
            reads += [
                Fields(keys.day_key(at.store_id, entries[i].tag, name, day), [keys.HOURS])
                for day in days
            ]
        replies = yield reads
        width = 1 + len(days)
        fit: list[
            tuple[
                int, list[tuple[bytes, bytes]], tuple[bytes, ...], bytes | None, list[bytes | None]
            ]
        ] = []
        for position, i in enumerate(progress.todo):
            flat, *hours = replies[position * width : (position + 1) * width]
            running, applied_offsets, total = hot_fields(
                flat, unit.slice_us, range(_FIRST_HOUR, self.until)
            )
            current = None if total is None else codec.unpack_lifetime(total)[:2]
            compacted = [codec.unpack_hours(raw).values() for (raw,) in hours]
            action, deletes = decisions.lifetime_decision(
                self.until,
                self.archive_version,
                self.offsets,
                entries[i].since,
                current,
                chain.from_iterable(compacted),
                list(chain.from_iterable(running.values())),
            )
            if action is PublishDecision.PUBLISH:
                fit.append(
                    (
                        i,
                        unmoved_checks(applied_offsets, self.offsets),
                        deletes,
                        total,
                        [raw for (raw,) in hours],
                    )
                )
            elif action is PublishDecision.STALE:
                progress.stale += 1
            else:
                progress.left_over.append(i)
        rows = _rows(unit, [(entries[i], total) for i, _, _, total, _ in fit])
        changes = []
        for (i, checks, deletes, total, raws), row in zip(fit, rows, strict=True):
            tag = entries[i].tag
            hot = KeyChange(
                keys.hot_key(at.store_id, tag, name),
                [*checks, (keys.LIFETIME, exact(total))],
                [(keys.LIFETIME, codec.pack_lifetime(self.until, self.archive_version, row), 0)],
                deletes,
            )
            of_days = [
                (keys.day_key(at.store_id, tag, name, d), raw)
                for d, raw in zip(days, raws, strict=True)
                if raw
            ]
            changes.append(Change((hot, *(_emptied(key, raw) for key, raw in of_days))))
        done = (yield changes) if changes else []
        progress.todo = [i for (i, *_), reply in zip(fit, done, strict=True) if reply == MISSED]
        progress.published += len(fit) - len(progress.todo)
        return Missed(progress) if progress.todo else progress


@dataclass(frozen=True)
class MarkTotal(Operation[bool]):
    """To be asked after every entity's total was published; False if anything was announced since
    `announced` was read, or a newer total stands."""

    unit: StoredUnit
    until: int
    archive_version: int
    announced: int
    """`CountArchiveVersions`, read before the hours that the totals were made of."""
    whole: bool = False
    """Tells whether every total was written anew, so that no older archive version is named any
    more."""
    start: OffsetVector | None = None
    """Start cover as of `MarkHour`."""

    def steps(self, at: NodeContext) -> Steps[bool]:
        build = yield from at.build_of(self.unit)
        decisions.check_total_until(self.until)
        decisions.check_start(self.start, build.start)
        counted = keys.offset_vectors_key(at.store_id, self.unit.source), self.announced
        until = TotalUntil(self.until, self.archive_version)
        return (
            yield from metadata.mark_total_until(
                at.store_id, self.unit, build, until, counted, self.whole
            )
        )

    def over(self, nodes: NodesContext) -> ShardedSteps[bool]:
        """True where it stands on all that the totals were brought to; a node that has a newer one
        keeps it."""
        counts = yield from counts_by_node(nodes, self.unit.source, self.announced)
        wanted: Collection[int] = range(nodes.count)
        if self.start is not None:
            wanted = yield from nodes.built_for(self.unit, self.start)
        parts = {n: replace(self, announced=counts[n]).steps(nodes.contexts[n]) for n in wanted}
        return all((yield from together(parts)).values())


@dataclass(frozen=True)
class ReadTotalVersions(Everywhere[tuple[int, ...]]):
    """Archive versions that totals may name, on any node."""

    unit: StoredUnit

    def steps(self, at: NodeContext) -> Steps[tuple[int, ...]]:
        return (
            yield from metadata.lifetime_versions(at.store_id, (yield from at.build_of(self.unit)))
        )

    def merge(self, replies: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(sorted({version for versions in replies.values() for version in versions}))


def _emptied(day: bytes, raw: bytes) -> KeyChange:
    fields = chain.from_iterable(keys.hour_fields(hour) for hour in codec.unpack_hours(raw))
    return KeyChange(
        day, [(keys.HOURS, exact(raw))], (), [*fields, keys.HOURS, keys.TOTAL, keys.FIVE_DAY_TOTAL]
    )


def _rows(unit: StoredUnit, wanted: Sequence[tuple[LifetimeEntry, bytes | None]]) -> list[bytes]:
    """Per entry its row, with what stands where it is of later hours alone."""
    rows = [entry.row for entry, _ in wanted]
    added = [
        (i, total)
        for i, (e, total) in enumerate(wanted)
        if e.since is not None and total is not None
    ]
    if not added:
        return rows
    blocks: list[codec.Raw] = [rows[i] for i, _ in added]
    blocks += [codec.unpack_lifetime(total).row for _, total in added]
    into = np.tile(np.arange(len(added), dtype=np.int64), 2)
    for (i, _), row in zip(added, unit.layout.combine_rows(blocks, into, len(added)), strict=True):
        rows[i] = row
    return rows


def first_total_until(now_us: int, retention_us: int) -> int:
    """The hour before which totals may reach: the first of a day that lies wholly before what a
    read may cut."""
    day_us = decisions.HOURS_PER_DAY * HOUR_US
    return (now_us - retention_us) // day_us * decisions.HOURS_PER_DAY
