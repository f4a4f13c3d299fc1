"""Inputs and reads of a store test: units, events, and the rows that batches are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slicewise import codec
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Rows
from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.reading.exchange import ListShape, ReadShape
from slicewise.stores.online import keys
from slicewise.stores.online.memory import pending as memory_pending
from slicewise.stores.online.operations.apply_batch import MicroBatch
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.event_lists import ListBatch
from slicewise.stores.online.operations.pending import PendingBatch
from slicewise.stores.online.operations.publish_days import DayEntry, HourValues
from slicewise.stores.online.operations.reading import Read, ReadReply, TagRead, UnitReply
from slicewise.stores.online.store import Store
from tests.support.stores.identities import Identities as Identities
from tests.support.stores.publish_hour import HourEntry
from tests.support.stores.units import StoreUnit as StoreUnit

Int64 = NDArray[np.int64]
TOPIC = "0123456789abcdef0123456789abcdef"


class Event(NamedTuple):
    """One event as a store test knows it: entity number, time, identity."""

    entity: int
    time_us: int
    partition: int
    offset: int


@dataclass(frozen=True)
class StoreDeployment:
    """`ports.Deployable`."""

    digest: str
    units: tuple[StoreUnit, ...]

    def topic_of(self, source: str) -> str:
        return source

    def to_json(self) -> str:
        return f'{{"digest": "{self.digest}"}}'


def tag(entity: int, name: str = "user") -> bytes:
    return keys.entity_tags([(name, "int64")], [[entity]])[0]


def topic_partition(partition: int = 0) -> TopicPartition:
    return TOPIC, partition


def offset_vector(*offsets: int) -> OffsetVector:
    """First offsets not contained of partitions 0, 1, ..."""
    return OffsetVector({topic_partition(p): o for p, o in enumerate(offsets)})


def rows_of(events: Sequence[Event]) -> Rows:
    n = len(events)
    return Rows(
        time=np.array([e.time_us for e in events], np.int64),
        topic_hi=np.full(n, int(TOPIC[:16], 16), np.uint64),
        topic_lo=np.full(n, int(TOPIC[16:], 16), np.uint64),
        partition=np.array([e.partition for e in events], np.int32),
        offset=np.array([e.offset for e in events], np.int64),
        columns={},
    )


def micro_batch(unit: StoreUnit, events: Sequence[Event], name: str = "user") -> MicroBatch:
    """A batch of events of one partition, in offset order."""
    rows = rows_of(events)
    entities = sorted({e.entity for e in events})
    position = {entity: i for i, entity in enumerate(entities)}

    def accumulate(chosen: Int64, groups: Int64, n_groups: int) -> list[Columns]:
        part = rows.take(chosen)
        return [a.accumulate_columns(part, groups, n_groups) for a in unit.layout.partials]

    return MicroBatch(
        unit=unit,
        topic_partition=topic_partition(events[0].partition),
        tags=[tag(e, name) for e in entities],
        entity=np.array([position[e.entity] for e in events], np.int64),
        offset=rows.offset,
        number=rows.time // unit.slice_us,
        accumulate=accumulate,
    )


def hour_entry(
    unit: StoreUnit, entity: int, archive_version: int, events: Sequence[Event], name: str = "user"
) -> HourEntry:
    """The entry that compaction makes of an entity's events of one hour."""
    numbers, groups = np.unique([e.time_us // unit.slice_us for e in events], return_inverse=True)
    rows = rows_of(events)
    parts = [
        a.accumulate_columns(rows, groups.astype(np.int64), len(numbers))
        for a in unit.layout.partials
    ]
    zero = np.zeros(len(numbers), np.int64)
    whole = [
        a.combine_columns(p, zero, 1) for a, p in zip(unit.layout.partials, parts, strict=True)
    ]
    return HourEntry(
        tag(entity, name),
        codec.pack_total(archive_version, unit.layout.encode_rows(whole)[0]),
        codec.pack_slices(archive_version, numbers, unit.layout.encode_block(parts)),
    )


def day_entry(
    unit: StoreUnit,
    entity: int,
    archive_version: int,
    hours: Mapping[int, Sequence[Event]],
    name: str = "user",
) -> DayEntry:
    """The entry that compaction makes of an entity's events of some hours of a day."""
    values = []
    for hour, events in sorted(hours.items()):
        entry = hour_entry(unit, entity, archive_version, events, name)
        values.append(HourValues(hour, entry.total, entry.slices, entry.minutes))
    every = [event for events in hours.values() for event in events]
    zero = np.zeros(len(every), np.int64)
    parts = [a.accumulate_columns(rows_of(every), zero, 1) for a in unit.layout.partials]
    return DayEntry(tag(entity, name), values, unit.layout.encode_rows(parts)[0])


def seen_in(unit: StoreUnit, rows: Iterable[memoryview | bytes]) -> list[tuple[int, int]]:
    """(partition, offset) of all events in encoded rows, sorted, doubles kept; the count agrees."""
    blocks = list(rows)
    if not blocks:
        return []
    decoded = unit.layout.decode_blocks(blocks, [1] * len(blocks))
    names = [a.kind for a in unit.layout.partials]
    seen = decoded[names.index("identities")].items("seen")
    assert np.array_equal(np.diff(seen.offsets), decoded[names.index("count")].fixed("n"))
    return sorted((int(p), int(o)) for p, o in seen.values.tolist())


def running_of(reply: UnitReply) -> dict[tuple[int, int], codec.Running]:
    """(slice, partition) -> running partial of a hot hash."""
    out = {}
    for name, value in zip(reply.hot[::2], reply.hot[1::2], strict=True):
        if name.startswith(b"r:"):
            _, number, _, partition = name.split(b":")
            out[int(number), int(partition)] = codec.unpack_running(value)
    return out


def applied_offsets_of(reply: UnitReply) -> dict[int, int]:
    """partition -> last applied offset."""
    pairs = zip(reply.hot[::2], reply.hot[1::2], strict=True)
    return {int(name.split(b":")[2]): int(value) for name, value in pairs if name.startswith(b"l:")}


NO_COLUMNS = codec.Members(())
"""Members that are an identity alone."""


def list_unit(
    keeps: EventList, fingerprint: str = "00000000000000ee", view: str = "exact"
) -> StoreUnit:
    """A unit that keeps events."""
    return StoreUnit(
        fingerprint, view=view, slice_us=1, retention_us=keeps.range_us, event_list=keeps
    )


def list_batch(
    unit: StoreUnit,
    events: Sequence[Event],
    *,
    fill: OffsetVector | None = None,
    name: str = "user",
) -> ListBatch:
    """A batch of events: of one partition in offset order, or the backfill's, made for start
    offsets."""
    rows = rows_of(events)
    entities = sorted({e.entity for e in events})
    position = {entity: i for i, entity in enumerate(entities)}
    return ListBatch(
        unit=unit,
        topic_partition=topic_partition(events[0].partition) if fill is None else None,
        tags=[tag(e, name) for e in entities],
        entity=np.array([position[e.entity] for e in events], np.int64),
        offset=rows.offset,
        time=rows.time,
        members=NO_COLUMNS.encode(rows),
        start=fill or OffsetVector(),
    )


def pending_batch(unit: StoreUnit, events: Sequence[Event], name: str = "user") -> PendingBatch:
    """Events of one partition, in offset order, as the real-time lane writes them."""
    rows = rows_of(events)
    entities = sorted({e.entity for e in events})
    position = {entity: i for i, entity in enumerate(entities)}
    return PendingBatch(
        unit=unit,
        topic_partition=topic_partition(events[0].partition),
        tags=[tag(e, name) for e in entities],
        entity=np.array([position[e.entity] for e in events], np.int64),
        offset=rows.offset,
        time=rows.time,
        members=NO_COLUMNS.encode(rows),
    )


def is_pending(name: bytes) -> bool:
    """Tells whether a field of a hot hash is there as long as the real-time lane has events."""
    return name == keys.PENDING_COUNT or name.startswith(
        (keys.PENDING_FIELDS, keys.pending_numbers(b""))
    )


def add_pending(
    hot: dict[bytes, bytes],
    events: Iterable[tuple[TopicPartition, bytes]],
    room: codec.Room = codec.ROOM,
) -> None:
    """Adds events (partition, member) to the pending events of a hot hash, whatever its applied
    offsets are."""
    by_topic_partition: dict[TopicPartition, list[bytes]] = {}
    for at, member in events:
        by_topic_partition.setdefault(at, []).append(member)
    for at, some in by_topic_partition.items():
        memory_pending.append(
            hot, keys.topic_partition_text(at), sorted(some, key=codec.offset_of), room
        )


EVER = 2**53 - 1


def read_list(
    store: Store,
    unit: StoreUnit,
    entity: int,
    ranges: Sequence[tuple[int, int, int]] = ((-EVER, EVER, 0),),
) -> tuple[ReadReply, UnitReply]:
    """A list as a reader gets it."""
    shape = ReadShape(
        store.store_id,
        (ListShape(store.run(ReadMetadata()).name(unit.storage_fingerprint), tuple(ranges)),),
    )
    reply = store.run(Read([TagRead(shape, tag(entity))]))
    return reply, reply.entities[0][0]


def listed(reply: UnitReply, which: int = 0) -> list[tuple[int, int]]:
    """(partition, offset) of the members of a range, in the order of the reply."""
    rows = NO_COLUMNS.decode([member for member in reply.days[which] if member is not None])
    return list(zip(rows.partition.tolist(), rows.offset.tolist(), strict=True))


def low_of(reply: UnitReply) -> tuple[int, int] | None:
    """(event time, offset) of a list's low-water mark."""
    result = dict(zip(reply.hot[::2], reply.hot[1::2], strict=True)).get(keys.LOW)
    return (
        None
        if result is None
        else (codec.identity_time(result), int.from_bytes(result[-8:], "big"))
    )
