"""An archive as the hourly job leaves it, written by PyIceberg from the producer's events: tables without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.lake.records import append
from slicewise.stores.lake.schemas import COVER, GOOD, log_table
from slicewise.windows.durations import HOUR_US


def cover_of(events: Sequence[Mapping[str, Any]], topic_id: str) -> OffsetVector:
    """The cover of all these events."""
    offsets: dict[TopicPartition, int] = {}
    for event in events:
        place = (topic_id, event["partition"])
        offsets[place] = max(offsets.get(place, 0), event["offset"] + 1)
    return OffsetVector(offsets)


def archive(
    catalog: SqlCatalog,
    source: Source,
    topic_id: str,
    seq: int,
    events: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    taken_us: int,
) -> OffsetVector:
    """One commit of archive `seq`: good rows and cover rows; `before` is what earlier seqs hold.

    events: the source's columns (instants in microseconds), partition, offset and optionally
    kafka_time; where the event time is the record's, `kafka`. Returns the cover.
    """
    cover = cover_of([*before, *events], topic_id)
    common = {"archive_seq": seq, "topic_id": topic_id, "archive_time": taken_us}
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
    covers = [
        {**common, "kind": COVER, "partition": partition, "offset": offset}
        for (_, partition), offset in cover.offsets.items()
    ]
    append(catalog, log_table(source), [*rows, *covers])
    return cover
