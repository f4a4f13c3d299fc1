"""Events applied into a real store as the stream applies them, for tests and benchmarks that
read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slicewise.aggregates import Columns, Rows
from slicewise.codec import pack_slices, pack_total
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import ListUnit, SliceUnit, StorageUnit
from slicewise.features.schema.types import arrow_type
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch, MicroBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList, ListBatch
from slicewise.stores.online.operations.pending import BeginRealtime, PendingBatch, WritePending
from slicewise.stores.online.operations.publish_days import MarkHour
from slicewise.stores.online.operations.readiness import MarkReady
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis.adapter import open_store
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.stores.publish_hour import HourEntry, PublishHour

TOPIC = "5" * 32


@dataclass(frozen=True)
class Event:
    """One event: where it stands in the log, when it happened, and its columns."""

    partition: int
    offset: int
    time_us: int
    columns: Mapping[str, Any]
    topic: str = TOPIC

    @property
    def topic_partition(self) -> TopicPartition:
        return (self.topic, self.partition)


@dataclass
class Served:
    """A store under one deployment of one source, whose committed offsets this feeder advances."""

    store: OnlineStore
    deployment: Deployment
    archive_versions: int = 0
    log: list[Event] = field(default_factory=list)

    @staticmethod
    @contextmanager
    def on(url: str, deployment: Deployment, *, deploy: bool = True) -> Iterator[Served]:
        """Over a connection of its own; deployed, unless told not to."""
        with open_store(url) as store:
            served = Served(store, deployment)
            if deploy:
                served.deploy()
            yield served

    def deploy(self) -> None:
        """Initialises and deploys; every unit is ready, since nothing lies below its start."""
        metadata = self.store.run(Initialise())
        topics = {source.topic: TOPIC for source in self.deployment.sources}
        metadata = self.store.run(
            Deploy(self.deployment, metadata.deployment_version, topics=topics)
        )
        views: dict[str, list[str]] = {}
        for unit in self.deployment.units:
            views.setdefault(unit.view, []).append(unit.storage_fingerprint)
        for unit in self.deployment.units:
            start = metadata.starts[unit.storage_fingerprint]
            self.store.run(MarkReady(unit, start, views))

    def apply(self, events: Sequence[Event], *, advance: bool = True) -> None:
        """Applies events (in offset order per partition) and, as a batch does, then advances."""
        metadata = self.store.run(ReadMetadata())
        for unit in {unit.storage_fingerprint: unit for unit in self.deployment.units}.values():
            for partition in sorted({e.partition for e in events}):
                own = sorted((e for e in events if e.partition == partition), key=_offset)
                if isinstance(unit, ListUnit):
                    self.store.run(AddToList(list_batch(unit, own)))
                else:
                    self.store.run(ApplyBatch(batch(unit, own)))
        self.log.extend(events)
        if advance:
            ends: dict[TopicPartition, int] = {}
            for e in events:
                ends[e.topic_partition] = max(ends.get(e.topic_partition, 0), e.offset + 1)
            start = OffsetVector(
                {
                    topic_partition: metadata.committed.get(topic_partition)
                    for topic_partition in ends
                }
            )
            self.store.run(
                AdvanceCommitted(
                    start, OffsetVector(ends), metadata.deployment_version, metadata.units
                )
            )

    def begin_realtime(self) -> None:
        """The entries of real-time lanes that begin at the committed offsets."""
        for source in self.deployment.sources:
            metadata = self.store.run(ReadMetadata())
            self.store.run(
                BeginRealtime(
                    source.name, metadata.committed, metadata.deployment_version, metadata.units
                )
            )

    def write_pending(self, events: Sequence[Event], bound: int = 1_000) -> None:
        """Writes events row by row, as the real-time lane does that has begun."""
        for unit in {unit.storage_fingerprint: unit for unit in self.deployment.units}.values():
            for partition in sorted({e.partition for e in events}):
                own = sorted((e for e in events if e.partition == partition), key=_offset)
                of = list_batch(unit, own)
                rows = PendingBatch(
                    unit, own[0].topic_partition, of.tags, of.entity, of.offset, of.time, of.members
                )
                self.store.run(WritePending(rows, bound))

    @property
    def _sliced(self) -> Sequence[SliceUnit]:
        return self.deployment.sliced

    def compact(self, hour: int, offset_vector: OffsetVector) -> None:
        """Compacts an hour up to an offset vector, as the job does: all entities, every level, then
        metadata."""
        self.archive_versions += 1
        for source in self.deployment.sources:
            self.store.run(PutArchiveVersion(source.name, self.archive_versions, offset_vector))
        inside = [
            e
            for e in self.log
            if e.time_us // HOUR_US == hour and offset_vector.contains(e.topic_partition, e.offset)
        ]
        for unit in self._sliced:
            parts = {e.partition for e in inside} if unit.per_partition else {None}
            for partition in parts:
                own = [e for e in inside if partition in (None, e.partition)]
                entries = hour_entries(unit, own, self.archive_versions, partition)
                outcome = self.store.run(
                    PublishHour(unit, hour, self.archive_versions, offset_vector, entries)
                )
                assert not outcome.left_over
            self.store.run(MarkHour(unit, hour, self.archive_versions))

    def total(self, day: int) -> None:
        """Writes the day's total of every entity."""
        for unit in self._sliced:
            for partition in (
                sorted({e.partition for e in self.log}) if unit.per_partition else [None]
            ):
                self.store.run(
                    WriteDayTotals(unit, sorted(set(tags_of(unit, self.log, partition))), day)
                )


def _offset(event: Event) -> int:
    return event.offset


def tags_of(unit: StorageUnit, events: Sequence[Event], partition: int | None) -> list[bytes]:
    """Per event the tag of its entity."""
    values = [[e.columns[column] for e in events] for column, _ in unit.entity]
    return keys.entity_tags(unit.entity, values, partition, len(events))


def rows_of(unit: StorageUnit, events: Sequence[Event]) -> Rows:
    """Events in column form, with the columns that the unit's aggregates read."""
    halves = {
        topic: (int(topic[:16], 16), int(topic[16:], 16)) for topic in {e.topic for e in events}
    }
    return Rows(
        np.array([e.time_us for e in events], np.int64),
        np.array([halves[e.topic][0] for e in events], np.uint64),
        np.array([halves[e.topic][1] for e in events], np.uint64),
        np.array([e.partition for e in events], np.int32),
        np.array([e.offset for e in events], np.int64),
        {
            name: pa.array([e.columns[name] for e in events], arrow_type(kind))
            for name, kind in unit.input_types
        },
    )


def accumulated(
    unit: StorageUnit, rows: Rows, groups: npt.NDArray[np.int64], n: int
) -> list[Columns]:
    """Partials of each group."""
    return [partial.accumulate_columns(rows, groups, n) for partial in unit.layout.partials]


def batch(unit: StorageUnit, events: Sequence[Event]) -> MicroBatch:
    """A batch of one partition, in offset order."""
    event_tags = tags_of(unit, events, events[0].partition if unit.per_partition else None)
    tags = sorted(set(event_tags))
    number = {tag: i for i, tag in enumerate(tags)}
    rows = rows_of(unit, events)

    def accumulate(
        chosen: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], n: int
    ) -> list[Columns]:
        return accumulated(unit, rows.take(chosen), groups, n)

    return MicroBatch(
        unit=unit,
        topic_partition=events[0].topic_partition,
        tags=tags,
        entity=np.array([number[tag] for tag in event_tags], np.int64),
        offset=rows.offset,
        number=rows.time // unit.slice_us,
        accumulate=accumulate,
    )


def list_batch(unit: StorageUnit, events: Sequence[Event]) -> ListBatch:
    """The same for an event list."""
    event_tags = tags_of(unit, events, events[0].partition if unit.per_partition else None)
    tags = sorted(set(event_tags))
    number = {tag: i for i, tag in enumerate(tags)}
    rows = rows_of(unit, events)
    entity = np.array([number[tag] for tag in event_tags], np.int64)
    return ListBatch(
        unit,
        events[0].topic_partition,
        tags,
        entity,
        rows.offset,
        rows.time,
        unit.members.encode(rows),
    )


def hour_entries(
    unit: StorageUnit, events: Sequence[Event], archive_version: int, partition: int | None
) -> list[HourEntry]:
    """One entry per entity of an hour's events."""
    by_tag: dict[bytes, list[Event]] = {}
    for tag, event in zip(tags_of(unit, events, partition), events, strict=True):
        by_tag.setdefault(tag, []).append(event)
    entries = []
    for tag, own in by_tag.items():
        rows = rows_of(unit, own)
        whole = accumulated(unit, rows, np.zeros(len(own), np.int64), 1)
        minutes = None
        if MINUTE_US in unit.levels and unit.slice_us != MINUTE_US:
            minutes = _levelled(unit, rows, MINUTE_US, archive_version)
        entries.append(
            HourEntry(
                tag,
                pack_total(archive_version, unit.layout.encode_rows(whole)[0]),
                _levelled(unit, rows, unit.slice_us, archive_version),
                minutes,
            )
        )
    return entries


def _levelled(unit: StorageUnit, rows: Rows, level_us: int, archive_version: int) -> bytes:
    numbers, groups = np.unique(rows.time // level_us, return_inverse=True)
    columns = accumulated(unit, rows, groups.astype(np.int64), len(numbers))
    return pack_slices(archive_version, numbers, unit.layout.encode_block(columns))
