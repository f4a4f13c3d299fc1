"""What training and `sw.evaluate` are given of the events that a test folded into a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from slicewise.cover import Cover, Place
from slicewise.features.unit import Source
from slicewise.training.archive import Archived
from slicewise.training.given import typed_events
from tests.support.served import TOPIC, Event


def given(events: Sequence[Event], timestamp: str) -> list[dict[str, Any]]:
    """Events as `sw.evaluate` takes them."""
    return [{**e.columns, timestamp: e.time_us, "partition": e.partition, "offset": e.offset} for e in events]


class ServedArchive:
    """The archive's port over what was folded, of the store's own topic."""

    def __init__(self, source: Source, events: Sequence[Event], until_us: int) -> None:
        typed, refused = typed_events(source, given(events, source.timestamp))
        assert not refused
        where = typed.column_names.index("topic_id")
        self.table = typed.set_column(where, "topic_id", pa.array([TOPIC] * typed.num_rows))
        ends: dict[Place, int] = {}
        for e in events:
            ends[e.place] = max(ends.get(e.place, 0), e.offset + 1)
        self.archived = Archived(1, Cover(ends), until_us, 1)

    def reaches(self, source: str) -> Archived:  # noqa: ARG002
        return self.archived

    def confirmed(self, source: Source, archived: Archived) -> Archived:  # noqa: ARG002
        return archived

    def events(self, source: Source, columns: Sequence[str], start_us: int, end_us: int, seq: int) -> pa.Table:  # noqa: ARG002
        times = self.table["event_time"].to_numpy()
        kept = self.table.filter(pa.array((times >= start_us) & (times < end_us)))
        return kept.select([*columns, "event_time", "topic_id", "partition", "offset"])
