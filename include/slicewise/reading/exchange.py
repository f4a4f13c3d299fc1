"""Requests to a node of the store, and what it claims with its reply.

Data is merged under the claims of the node that gave it, in its reply: never under another's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from slicewise.offsets.vector import OffsetVector, TopicPartition

_ENTRY_BYTES, _VALUE_BYTES, _POSITION_BYTES = 400, 120, 8
START_VERSION = 0
"""Archive version of a backfilled hour: its offset vector is the unit's start offsets."""


class UnitShape(NamedTuple):
    """One unit: its hot hash whole, and fields of its day hashes."""

    unit: str
    """Name in keys (`StoreMetadata.name`)."""
    days: tuple[tuple[int, tuple[bytes, ...]], ...]
    """(day since the epoch, field names)."""


class ListShape(NamedTuple):
    """One event list: its hash whole, and ranges of its members."""

    unit: str
    """Name in keys (`StoreMetadata.name`)."""
    ranges: tuple[tuple[int, int, int], ...]
    """(first score, last score, newest) as `steps.Members` has them."""


@dataclass(frozen=True, eq=False)
class ReadShape:
    """Units under one tag, read in one transaction."""

    store_id: int
    units: tuple[UnitShape | ListShape, ...]
    packed: dict[int, list[bytes]] = field(default_factory=dict, repr=False)
    """Kept by an adapter: what it sends, cut where the tag stands, by the length of the tag."""

    @cached_property
    def count(self) -> int:
        """The number of commands."""
        return sum(1 + len(ranges) for _, ranges in self.units)


class TagRead(NamedTuple):
    """Units under one tag, by a shape that many tags are read by."""

    shape: ReadShape
    tag: bytes


@dataclass(eq=False)
class NodeClaims:
    """Claims of the store for a unit, read with the data: never from another reply.

    Whoever answers keeps it for as long as replies bring equal metadata; what follows from it is
    remembered in it.
    """

    committed: OffsetVector
    """Committed offsets of the source's partitions."""
    start: OffsetVector
    offset_vectors: Mapping[int, OffsetVector]
    """Archive version -> offset vector. An archive version that is not there raises KeyError: load
    the map again."""
    pending: bool = False
    """Tells whether the real-time lane counts: the source's began at or below the committed
    offsets, on the server run that replied."""
    pending_left: str = ""
    """Id of the topic whose fields of pending events are of another server run: they counted then,
    and do not now. "" where those of this server run count; of a topic that is gone nothing comes
    again."""
    _floors: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    _compacted_beyond: dict[tuple[int, int | None], OffsetVector | None] = field(
        default_factory=dict
    )
    _by_partition: dict[int | None, OffsetVector] = field(default_factory=dict)
    behind: set[int] = field(default_factory=set)
    """Archive versions seen so far whose whole offset vector the committed offsets contain."""

    def offset_vector(self, archive_version: int) -> OffsetVector:
        """The offset vector of an hour compacted by `archive_version`."""
        return (
            self.start if archive_version == START_VERSION else self.offset_vectors[archive_version]
        )

    def floor(self, archive_version: int, topic_partition: TopicPartition) -> int:
        """First offset at `topic_partition` that an hour compacted by `archive_version` may still
        have running."""
        key = (archive_version, topic_partition)
        floor = self._floors.get(key)
        if floor is None:
            floor = self._floors[key] = max(
                self.offset_vector(archive_version).get(topic_partition),
                self.start.get(topic_partition),
            )
        return floor

    def compacted_beyond(self, archive_version: int, partition: int | None) -> OffsetVector | None:
        """The offset vector of `archive_version`, where the committed offsets do not contain all of
        it; else None.

        partition: of this one alone, if given.
        """
        key = (archive_version, partition)
        if key not in self._compacted_beyond:
            offset_vector = self.offset_vector(archive_version)
            compacted_beyond = (
                None if self.committed.dominates(offset_vector) else _only(offset_vector, partition)
            )
            self._compacted_beyond[key] = compacted_beyond
            if compacted_beyond is None:
                self.behind.add(archive_version)
        return self._compacted_beyond[key]

    def committed_of(self, partition: int | None) -> OffsetVector:
        """The committed offsets (of one partition alone, if given)."""
        committed = self._by_partition.get(partition)
        if committed is None:
            committed = self._by_partition[partition] = _only(self.committed, partition)
        return committed


class CachedHours(NamedTuple):
    """Partials of whole hours, of all running partials with one digest."""

    values: Mapping[int, bytes]
    """hour -> a sealed running partial of all events of its slices."""
    positions: Mapping[int, Sequence[int]]
    """hour -> positions of its slices among the fields that were digested."""

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        return _ENTRY_BYTES + sum(
            _VALUE_BYTES + len(value) + _POSITION_BYTES * len(self.positions[hour])
            for hour, value in self.values.items()
        )


class EarlierHours(NamedTuple):
    """Running partials of hours that are over, as stored, and what each hour comes to."""

    names: Sequence[bytes]
    values: Sequence[bytes]
    hours: CachedHours

    def fields_of(self, hour: int) -> tuple[list[bytes], list[bytes]]:
        """Names and values of an hour's slices."""
        positions = self.hours.positions[hour]
        return [self.names[i] for i in positions], [self.values[i] for i in positions]


Target = tuple[int, int, int | None]
"""(group, entity, partition) that a tag is of."""


class Stored(NamedTuple):
    """Data that the store gave for one entity, or for one partition's part of it in a per-partition
    unit."""

    entity: int
    """Number of the entity in the read."""
    partition: int | None
    """Partition of this part, in a per-partition unit; its hours are compacted for this partition
    alone."""
    hot: Sequence[bytes]
    """Field, value, field, value, ..."""
    days: Sequence[Sequence[bytes | None]]
    """Values in the order of the plan's `days` and their `names`."""
    claims: NodeClaims | None = None
    """Claims of its node, where parts are of several nodes; None: what is given for the plan."""
    earlier: EarlierHours | None = None
    """Running partials that are not in `hot`, since their hours are over and cached."""
    times: int = 1
    """Number of entities of the read that have this tag: the others are answered as this one."""


def _only(offset_vector: OffsetVector, partition: int | None) -> OffsetVector:
    if partition is None:
        return offset_vector
    return OffsetVector(
        {
            topic_partition: o
            for topic_partition, o in offset_vector.offsets.items()
            if topic_partition[1] == partition
        }
    )


class PendingSeen(NamedTuple):
    """Events of the pending events in an answer: how many, and the time of the latest."""

    events: int
    newest_us: int
    left: int = 0
    """Offsets up to which pending events of another server run brought events that this answer does
    not contain."""

    def and_of(self, other: PendingSeen) -> PendingSeen:
        """The events of both."""
        newest_us = max(self.newest_us, other.newest_us)
        return PendingSeen(self.events + other.events, newest_us, self.left + other.left)


NO_EVENTS = PendingSeen(0, -(1 << 62))
