"""Every entity's rows of a batch go in once and whole, or not at all, whoever else writes.

Per entity: read its applied offset, the running partials that it touches and the offset vectors of
its hours; drop what stands already; combine in whole columns over all entities; write under a check
that all that was read still stands. Entities whose read no longer stood are read and aggregated
again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from slicewise import codec
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import added, applied_in_runs, require_order
from slicewise.stores.online.control_record import Build
from slicewise.stores.online.operations import ids as remembered_ids
from slicewise.stores.online.operations.ids import Ids
from slicewise.stores.online.port import ByTag, NodeContext, Split
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.splitting import Part, parts_of
from slicewise.stores.online.steps import (
    ABSENT,
    MISSED,
    Change,
    Command,
    Fields,
    KeyChange,
    MicroBatchChange,
    Passed,
    Steps,
    Time,
    begins,
    exact,
)
from slicewise.stores.online.stored_unit import StoredUnit
from slicewise.windows.durations import DAY_US

CHUNK = 4096
"""Entities of one pipeline."""
MAX_SLICES = 512
"""Slices of one entity in one atomic run: bounds the arguments and the time of a script."""

Accumulate = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64], int], Sequence[Columns]]
"""(row numbers of the batch, group of each, number of groups) -> one Columns per partial of the
layout. Asked for the rows that are kept; asked again for the entities whose read no longer
stood."""


@dataclass(frozen=True)
class MicroBatch:
    """Rows of one unit and one partition, in offset order."""

    unit: StoredUnit
    topic_partition: TopicPartition
    tags: Sequence[bytes]
    """One per entity (`keys.entity_tags`)."""
    entity: npt.NDArray[np.int64]
    """Per row: index into tags."""
    offset: npt.NDArray[np.int64]
    """Per row, ascending."""
    number: npt.NDArray[np.int64]
    """Per row: its slice, counted since the epoch in units of the unit's slice."""
    accumulate: Accumulate
    realtime: bool = False
    """Tells whether the source has the real-time lane (`StoreMetadata.realtime_starts`): what it
    wrote of the rows is deleted unseen. Else it is only where one began meanwhile."""
    ids: Ids | None = None
    """Ids where the source says how an event that comes again is known: it counts once."""


@dataclass(frozen=True)
class MicroBatchOutcome:
    """rows: all; applied, already_applied (at or below an entity's last), compacted (below their
    hour's offset vector), expired, duplicates (the id came before): parts of them. entities:
    written. misses: reads that no longer stood. cut: events that an event list's capacity left
    out."""

    rows: int = 0
    applied: int = 0
    already_applied: int = 0
    compacted: int = 0
    expired: int = 0
    entities: int = 0
    misses: int = 0
    cut: int = 0
    duplicates: int = 0

    def __add__(self, other: MicroBatchOutcome) -> MicroBatchOutcome:
        """The outcome of two parts of a batch together."""
        return added([self, other], self)


@dataclass(frozen=True)
class ApplyBatch(ByTag[MicroBatchOutcome]):
    """Brings a batch in. Any replay, in any batch boundaries, by any number of writers, adds
    nothing.

    Requires rows in offset order and offsets below 2^53.
    """

    batch: MicroBatch

    def steps(self, at: NodeContext) -> Steps[MicroBatchOutcome]:
        batch = self.batch
        build = yield from at.build_of(batch.unit)
        require_order(batch.offset)
        attempt, where = (
            partial(_attempt, at, build, batch),
            f"unit {batch.unit.storage_fingerprint}",
        )
        return (
            yield from applied_in_runs(
                runs(batch), batch.entity, attempt, MicroBatchOutcome(), where
            )
        )

    def split(self, count: int) -> Split[MicroBatchOutcome]:
        parts = parts_of(self.batch.tags, self.batch.entity, count)
        return Split(
            {
                n: self if part is None else ApplyBatch(_part(self.batch, part))
                for n, part in parts.items()
            }
        )

    def join(
        self,
        replies: Mapping[int, MicroBatchOutcome],
        split: Split[MicroBatchOutcome],  # noqa: ARG002
    ) -> MicroBatchOutcome:
        return added(list(replies.values()), MicroBatchOutcome())


def _part(batch: MicroBatch, part: Part) -> MicroBatch:
    """The entities of one node, in the order of the batch."""
    tags, rows, entity = part

    def accumulate(chosen: Int64, groups: Int64, n_groups: int) -> Sequence[Columns]:
        return batch.accumulate(rows[chosen], groups, n_groups)

    ids = batch.ids
    if ids is not None:
        ids = replace(
            ids, ids=ids.ids[rows], present=ids.present[rows], kafka_us=ids.kafka_us[rows]
        )
    offset, number = batch.offset[rows], batch.number[rows]
    return replace(
        batch,
        tags=tags,
        entity=entity,
        offset=offset,
        number=number,
        accumulate=accumulate,
        ids=ids,
    )


def _first(sorted_values: Int64) -> npt.NDArray[np.bool_]:
    """Marks where a value differs from the one before it."""
    starts = np.ones(len(sorted_values), np.bool_)
    starts[1:] = sorted_values[1:] != sorted_values[:-1]
    return starts


@dataclass(frozen=True)
class Groups:
    """Rows of some entities by (entity, slice), each group's in offset order."""

    rows: Int64
    """Row numbers of the batch, sorted by entity, slice, offset."""
    group: Int64
    """Per sorted row: its group."""
    entities: Int64
    """Distinct entities [n]."""
    bounds: Int64
    """Groups of entity i: bounds[i] .. bounds[i + 1]."""
    owner: Int64
    """Per group: position of its entity in `entities`."""
    number: Int64
    """Per group: its slice."""

    @staticmethod
    def of(batch: MicroBatch, rows: Int64) -> Groups:
        entity, number = batch.entity[rows], batch.number[rows]
        order = np.lexsort((number, entity))
        entity, number = entity[order], number[order]
        starts_entity = _first(entity)
        starts_group = starts_entity | _first(number)
        owner = (np.cumsum(starts_entity) - 1)[starts_group]
        entities = entity[starts_entity]
        return Groups(
            rows=rows[order],
            group=np.cumsum(starts_group) - 1,
            entities=entities,
            bounds=np.searchsorted(owner, np.arange(len(entities) + 1)),
            owner=owner,
            number=number[starts_group],
        )


def runs(batch: MicroBatch, chunk: int = CHUNK, max_slices: int = MAX_SLICES) -> Iterator[Int64]:
    """Rows in the order in which they are brought in: a chunk of entities at a time, and of an
    entity that touches too many slices consecutive runs, each atomic."""
    n = len(batch.offset)
    if not n:
        return
    order = np.argsort(batch.entity, kind="stable")
    ends = np.searchsorted(batch.entity[order], np.arange(len(batch.tags) + 1))
    sizes = np.diff(ends)
    hot = [
        int(entity)
        for entity in np.flatnonzero(sizes > max_slices)
        if len(np.unique(batch.number[order[ends[entity] : ends[entity + 1]]])) > max_slices
    ]
    for one in hot:
        rows = order[ends[one] : ends[one + 1]]
        seen: set[int] = set()
        begin = 0
        for at, number in enumerate(batch.number[rows].tolist()):
            if number not in seen and len(seen) == max_slices:
                yield rows[begin:at]
                seen, begin = set(), at
            seen.add(number)
        yield rows[begin:]
    rest = order if not hot else order[~np.isin(batch.entity[order], hot)]
    entity = batch.entity[rest]
    distinct = np.flatnonzero(_first(entity))
    for begin, end in pairwise([*distinct[::chunk].tolist(), len(rest)]):
        yield rest[begin:end]


def _attempt(
    at: NodeContext, build: Build, batch: MicroBatch, rows: Int64
) -> Generator[Sequence[Command], list[Any], tuple[MicroBatchOutcome, Int64]]:
    """One read and one write of all entities of these rows; the entities to take again."""
    unit, topic_partition, groups = batch.unit, batch.topic_partition, Groups.of(batch, rows)
    applied_field = keys.applied_field(topic_partition)
    names = keys.running_fields(groups.number.tolist(), topic_partition)
    bounds = groups.bounds.tolist()
    entities = groups.entities.tolist()
    hot_keys = [keys.hot_key(at.store_id, batch.tags[e], build.name) for e in entities]
    days = _days(at.store_id, build.name, batch, groups)
    ids_keys = (
        [keys.ids_key(at.store_id, batch.tags[e], build.name) for e in entities]
        if batch.ids
        else []
    )

    replies = yield [
        *[
            Fields(
                hot_keys[i], [applied_field, keys.PENDING_COUNT, *names[bounds[i] : bounds[i + 1]]]
            )
            for i in range(len(entities))
        ],
        *[Fields(key, [keys.HOURS]) for _, _, key in days],
        *remembered_ids.reads(topic_partition, ids_keys),
    ]
    applied_offsets = [reply[0] for reply in replies[: len(entities)]]
    pending = [None if reply[1] is None else int(reply[1]) for reply in replies[: len(entities)]]
    running = [value for reply in replies[: len(entities)] for value in reply[2:]]
    hours = [reply[0] for reply in replies[len(entities) : len(entities) + len(days)]]
    stored_ids = remembered_ids.RememberedIds.of(
        topic_partition, ids_keys, [reply[0] for reply in replies[len(entities) + len(days) :]]
    )

    floors = yield from _floors(at, build.start, batch, groups, days, hours)
    last = np.array([-1 if raw is None else int(raw) for raw in applied_offsets], np.int64)
    if batch.ids is not None:
        last = np.maximum(last, stored_ids.last)
    offset, owner = batch.offset[groups.rows], groups.owner[groups.group]
    already_applied = offset <= last[owner]
    kept = decisions.rows_to_keep(offset, last[owner], floors[groups.group])
    compacted = ~already_applied & ~kept
    # what is compacted already is remembered all the same: what comes after it may be the same
    # event
    duplicate, remembered = _duplicates(batch, groups, stored_ids, already_applied, owner, offset)
    kept &= ~duplicate
    new_last = np.maximum(
        last, np.maximum.reduceat(offset, np.searchsorted(groups.group, groups.bounds[:-1]))
    )
    values = _combine(batch, groups, kept, floors, running)

    wanted: list[Change] = []
    owners: list[int] = []
    expiries = [
        0 if unit.lifetime else decisions.expiry_s((number + 1) * unit.slice_us, unit.retention_us)
        for number in groups.number.tolist()
    ]
    day_checks: dict[int, list[KeyChange]] = {}
    for (i, _, key), raw in zip(days, hours, strict=True):
        day_checks.setdefault(i, []).append(KeyChange(key, ((keys.HOURS, exact(raw)),)))
    partition = keys.topic_partition_text(topic_partition)
    for i, last_applied in enumerate(new_last.tolist()):
        low, high = bounds[i], bounds[i + 1]
        checks = [(applied_field, exact(applied_offsets[i]))]
        sets = []
        for g in range(low, high):
            value = values.get(g)
            if value is not None:
                state = running[g]
                checks.append((names[g], ABSENT if state is None else begins(state[:16])))
                sets.append((names[g], value, expiries[g]))
        if not sets and last_applied == last[i]:
            continue
        sets.append((applied_field, b"%d" % last_applied, expiries[high - 1]))
        passed = None
        if batch.realtime or pending[i] is not None:
            passed = Passed(partition, last_applied, pending[i] or 0)
        if passed is None:
            checks.append((keys.PENDING_COUNT, ABSENT))
        hot = KeyChange(hot_keys[i], checks, sets, (), passed)
        changed = (hot, *day_checks[i])
        wanted.append(
            Change((*changed, remembered[i])) if i in remembered else MicroBatchChange(changed)
        )
        owners.append(i)
    done = (yield wanted) if wanted else []

    missed = np.zeros(len(entities), np.bool_)
    missed[[i for i, reply in zip(owners, done, strict=True) if reply == MISSED]] = True
    expired = sum(
        min(reply, len(change.keys[0].sets) - 1)
        for change, reply in zip(wanted, done, strict=True)
        if reply > 0
    )
    applied = ~missed[owner]
    outcome = MicroBatchOutcome(
        rows=int(applied.sum()),
        applied=int((applied & kept).sum()),
        already_applied=int((applied & already_applied).sum()),
        compacted=int((applied & compacted).sum()),
        expired=expired,
        entities=len(owners) - int(missed.sum()),
        misses=int(missed.sum()),
        duplicates=int((applied & duplicate & ~compacted).sum()),
    )
    return outcome, groups.entities[missed]


def _duplicates(
    batch: MicroBatch,
    groups: Groups,
    remembered: remembered_ids.RememberedIds,
    already_applied: npt.NDArray[np.bool_],
    owner: Int64,
    offset: Int64,
) -> tuple[npt.NDArray[np.bool_], dict[int, KeyChange]]:
    """Per sorted row whether it is a duplicate; and what is remembered from now on, by position of
    the entity."""
    duplicates = np.zeros(len(offset), np.bool_)
    if batch.ids is None:
        return duplicates, {}
    new = np.flatnonzero(~already_applied)
    duplicates[new], changes = remembered_ids.judged(
        remembered, batch.ids, groups.rows[new], owner[new], offset[new]
    )
    return duplicates, changes


def _days(
    store_id: int, name: str, batch: MicroBatch, groups: Groups
) -> list[tuple[int, int, bytes]]:
    """Distinct (position of entity, day, key of the day's hash) that the groups touch."""
    day = groups.number * batch.unit.slice_us // DAY_US
    first = _first(day) | _first(groups.owner)
    return [
        (i, d, keys.day_key(store_id, batch.tags[e], name, d))
        for i, e, d in zip(
            groups.owner[first].tolist(),
            groups.entities[groups.owner[first]].tolist(),
            day[first].tolist(),
            strict=True,
        )
    ]


@lru_cache(maxsize=65_536)
def _hours(raw: bytes) -> Mapping[int, int]:
    return decisions.unpack_hours(raw)


def _floors(
    at: NodeContext,
    start: OffsetVector,
    batch: MicroBatch,
    groups: Groups,
    days: list[tuple[int, int, bytes]],
    stored: list[bytes | None],
) -> Generator[Sequence[Command], list[Any], Int64]:
    """Per group: the first offset that may still come in."""
    floors = np.full(len(groups.number), start.get(batch.topic_partition), np.int64)
    if not any(stored):
        return floors
    by_entity: dict[int, dict[int, int]] = {}
    for (i, _, _), raw in zip(days, stored, strict=True):
        if raw is not None:
            by_entity.setdefault(i, {}).update(_hours(raw))
    read = {(i, day): (key, raw) for (i, day, key), raw in zip(days, stored, strict=True)}
    archive_versions = {
        archive_version for hours in by_entity.values() for archive_version in hours.values()
    }
    offset_vectors = yield from at.archive_versions(batch.unit.source, archive_versions)
    slice_us, bounds = batch.unit.slice_us, groups.bounds
    for i, hours in by_entity.items():
        for g in range(bounds[i], bounds[i + 1]):
            hour = decisions.hour_of(int(groups.number[g]), slice_us)
            if (archive_version := hours.get(hour)) and archive_version not in offset_vectors:
                # Forgotten because no read reaches the hour, and no write of it is kept; or because
                # the hour stands at another archive version by now, so that the write will miss.
                key, raw = read[i, hour // 24]
                (current,), now_us = yield [Fields(key, [keys.HOURS]), Time()]
                if current == raw and batch.unit.lifetime:  # nothing of it expires
                    raise decisions.unknown_version(archive_version, batch.unit.source)
                if current == raw:
                    decisions.check_forgotten(
                        archive_version, batch.unit.source, hour, batch.unit.retention_us, now_us
                    )
                continue
            floors[g] = decisions.hour_floor(
                batch.topic_partition, start, hours, offset_vectors, hour
            )
    return floors


def _combine(
    batch: MicroBatch,
    groups: Groups,
    kept: npt.NDArray[np.bool_],
    floors: Int64,
    running: list[bytes | None],
) -> dict[int, bytes]:
    """group -> its new running partial, for the groups that keep a row."""
    rows, group = groups.rows[kept], groups.group[kept]
    if not len(rows):
        return {}
    begins = _first(group)
    starts = np.flatnonzero(begins)
    present = group[starts]
    dense = np.cumsum(begins) - 1
    offset = batch.offset[rows]
    first = np.minimum.reduceat(offset, starts)
    last = np.maximum.reduceat(offset, starts)
    partials = batch.accumulate(rows, dense, len(present))

    olds: list[Any] = []
    at: list[int] = []
    for position, g in enumerate(present.tolist()):
        state = running[g]
        if state is None:
            continue
        old = codec.unpack_running(state)
        if old.last < floors[g]:
            # in the compacted hour already; the publish deletes such, this only makes sure
            continue
        olds.append(old.row)
        at.append(position)
        first[position] = min(first[position], old.first)
        last[position] = max(last[position], old.last)
    layout = batch.unit.layout
    if olds:
        stored = layout.decode_blocks(olds, [1] * len(olds))
        into = np.concatenate([np.arange(len(present)), np.array(at, np.int64)])
        partials = [
            aggregate.combine_columns(Columns.concat([new, old_part]), into, len(present))
            for aggregate, new, old_part in zip(layout.partials, partials, stored, strict=True)
        ]
    encoded = layout.encode_rows(partials)
    return {
        g: codec.pack_running(low, high, row)
        for g, low, high, row in zip(
            present.tolist(), first.tolist(), last.tolist(), encoded, strict=True
        )
    }
