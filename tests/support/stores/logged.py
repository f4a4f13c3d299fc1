"""Inputs of training and `sw.evaluate`: the events that a test applied into a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.archive import Archived
from slicewise.training.queries import GivenArchive
from slicewise.training.tables.given.events import typed_events
from tests.support.stores.served import TOPIC, Event


def given(events: Sequence[Event], timestamp: str) -> list[dict[str, Any]]:
    """Events as `sw.evaluate` takes them."""
    return [
        {**e.columns, timestamp: e.time_us, "partition": e.partition, "offset": e.offset}
        for e in events
    ]


class LoggedArchive:
    """The archive's port over typed events, all of which were archived at once."""

    def __init__(self, table: pa.Table, offset_vector: OffsetVector, until_us: int) -> None:
        self._given = GivenArchive(table)
        self._archived = Archived(1, offset_vector, until_us, 1)

    def reaches(self, source: str) -> Archived:  # noqa: ARG002
        return self._archived

    def confirmed(self, source: Source, archived: Archived) -> Archived:
        return self._given.confirmed(source, archived)

    def events(
        self,
        source: Source,
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,
    ) -> pa.Table:
        return self._given.events(source, columns, start_us, end_us, archive_version)

    def below(
        self,
        source: Source,
        columns: Sequence[str],
        offset_vector: OffsetVector,
        kafka_us: int,
        archive_version: int,
    ) -> pa.Table:
        return self._given.below(source, columns, offset_vector, kafka_us, archive_version)


def typed_of(source: Source, topic: str, events: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Events of one topic as its archive holds them; none of them may be bad."""
    typed, refused = typed_events(source, events)
    assert not refused, refused
    where = typed.column_names.index("topic_id")
    return typed.set_column(where, "topic_id", pa.array([topic] * typed.num_rows, pa.string()))


def served_archive(source: Source, events: Sequence[Event], until_us: int) -> LoggedArchive:
    """The archive of what was applied, of the store's own topic."""
    ends: dict[TopicPartition, int] = {}
    for e in events:
        ends[e.topic_partition] = max(ends.get(e.topic_partition, 0), e.offset + 1)
    return LoggedArchive(
        typed_of(source, TOPIC, given(events, source.timestamp)), OffsetVector(ends), until_us
    )
