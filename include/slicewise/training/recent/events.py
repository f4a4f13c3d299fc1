"""Events of a source are read without Spark: from its archive and the log beyond it.

Where that is long, the end of the log is read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.types import DATE, TIMESTAMP, arrow_type
from slicewise.offsets.token import Token
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.log.topics import KafkaLog
from slicewise.training.archive import Archived, NothingArchived
from slicewise.training.archiving.offline import Offline
from slicewise.training.dataset import build_training_set
from slicewise.training.events.rows import row_logic
from slicewise.training.recent.extended import ExtendedArchive, LogEvents
from slicewise.windows.durations import HOUR_US, MINUTE_US

MOST_RECORDS = 200_000
"""Records of a source's log that are read at most: seconds of one core."""
REACH_US = 24 * HOUR_US
"""Time for which archived events are read."""
_SPANS_US = tuple(minutes * MINUTE_US for minutes in (60, 30, 15, 8, 4, 2, 1))
Entity = Mapping[str, Any]


@dataclass
class RecentEvents:
    """Events of a source, as far as they are known without Spark."""

    offline: Offline
    log: KafkaLog
    source: Source
    events: LogEvents
    archive: ExtendedArchive
    from_us: int
    """Event time from which on every event is known."""
    now_us: int

    @staticmethod
    def of(
        offline: Offline, log: KafkaLog, source: Source, most_records: int = MOST_RECORDS
    ) -> RecentEvents | str:
        """The archive, and the log beyond it; where that is long, the end of the log alone. Why
        nothing is known, where even a minute is too long, or what is read has records of an earlier
        schema. Raises StoreUnavailable."""
        now_us = offline.clock.now_us()
        archived = _archived(offline, source)
        end = log.latest(source.topic)
        start = log.earliest(source.topic) if archived is None else archived.offset_vector
        from_us = now_us - REACH_US
        if _count(start, end) > most_records:
            for span_us in _SPANS_US:
                start = log.offsets_since(source.topic, now_us - span_us)
                from_us = now_us - span_us + source.most_ahead_us
                if _count(start, end) <= most_records:
                    break
            else:
                return f"more than {most_records:,} records came in a minute"
            archived = None
        until = source.earlier[-1].until if source.earlier else None
        if source.is_opening or (until is not None and not start.dominates(until)):
            return "its schema changed in what is not archived"
        events = LogEvents(source, log.topic_id(source.topic), start)
        archive = ExtendedArchive(offline.archive, archived, events)
        recent = RecentEvents(offline, log, source, events, archive, from_us, now_us)
        recent._read_until(end)
        return recent

    @property
    def not_plain(self) -> int:
        """Records that were left to the platform's own reader."""
        return self.events.not_plain

    def entities(self, unit: StorageUnit) -> list[dict[str, Any]]:
        """Entities of a unit that have events in the open hour."""
        names = [name for name, _ in unit.entity]
        table = self.events.table
        assert table is not None, "the log was read"
        start_us = self.now_us // HOUR_US * HOUR_US
        recent = table.filter(pc.greater_equal(table["event_time"], start_us))
        rows = row_logic(unit, recent)[0].select(names)
        distinct: list[dict[str, Any]] = rows.group_by(names).aggregate([]).to_pylist()
        return [row for row in distinct if None not in row.values()]

    def extend(self, tokens: Iterable[Token]) -> None:
        """Reads the log on, up to what these tokens contain."""
        if any(
            not self.events.end.dominates(offset_vector)
            for token in tokens
            for offset_vector in (token.base, *token.compacted_beyond.values())
        ):
            self._read_until(self.log.latest(self.source.topic))

    def values(
        self, unit: StorageUnit, refs: Sequence[str], answers: Sequence[tuple[Entity, str]]
    ) -> pa.Table:
        """The values of features by token, as a training set has them. answers: entity, as a
        request writes it, and token."""
        columns = {
            name: _typed([entity[name] for entity, _ in answers], kind)
            for name, kind in unit.entity
        }
        columns["at"] = pa.array([self.now_us] * len(answers)).cast(pa.timestamp("us", "UTC"))
        columns["token"] = pa.array([text for _, text in answers], pa.string())
        spine = pa.table(columns)
        return build_training_set(
            self.offline.deployment, self.archive, spine, list(refs), "token"
        ).table

    def _read_until(self, end: OffsetVector) -> None:
        start = self.events.end
        self.events.add(self.log.records_between(self.source.topic, start, end), end)


def _archived(offline: Offline, source: Source) -> Archived | None:
    try:
        return offline.archive.reaches(source.name)
    except NothingArchived:
        return None


def _count(start: OffsetVector, end: OffsetVector) -> int:
    return sum(max(0, last - start.get(key)) for key, last in end.offsets.items())


def _typed(values: Sequence[Any], kind: str) -> pa.Array:
    """Values as a request writes them, in the column's type."""
    if kind.startswith("decimal"):
        return pa.array([Decimal(value) for value in values], arrow_type(kind))
    if kind in (DATE, TIMESTAMP):
        return pa.array(values).cast(arrow_type(kind))
    return pa.array(values, arrow_type(kind))
