"""An archive as the hourly job leaves it, written by PyIceberg from the producer's events: tables
without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import GOOD, OFFSET_VECTOR, log_table
from slicewise.windows.durations import HOUR_US


def offset_vector_of(events: Sequence[Mapping[str, Any]], topic_id: str) -> OffsetVector:
    """The offset vector of all these events."""
    offsets: dict[TopicPartition, int] = {}
    for event in events:
        topic_partition = (topic_id, event["partition"])
        offsets[topic_partition] = max(offsets.get(topic_partition, 0), event["offset"] + 1)
    return OffsetVector(offsets)


def archive(
    catalog: SqlCatalog,
    source: Source,
    topic_id: str,
    archive_version: int,
    events: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    taken_us: int,
) -> OffsetVector:
    """One commit of archive `archive_version`: good rows and offset vector rows; `before` is what
    earlier archive versions hold.

    events: the source's columns (instants in microseconds), partition, offset and optionally
    kafka_time; where the event time is the record's, `kafka`. Returns the offset vector.
    """
    offset_vector = offset_vector_of([*before, *events], topic_id)
    common = {"archive_seq": archive_version, "topic_id": topic_id, "archive_time": taken_us}
    rows = [
        {
            **common,
            **event,
            "kind": GOOD,
            "kafka_time": event.get("kafka_time", event[source.timestamp]),
            "event_time": event[source.timestamp],
            "hour": event[source.timestamp] // HOUR_US,
        }
        for event in events
    ]
    offset_vectors = [
        {**common, "kind": OFFSET_VECTOR, "partition": partition, "offset": offset}
        for (_, partition), offset in offset_vector.offsets.items()
    ]
    append(catalog, log_table(source), [*rows, *offset_vectors])
    return offset_vector
