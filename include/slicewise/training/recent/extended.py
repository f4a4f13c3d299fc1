"""The archive and the log beyond it, as one archive: what a moment ago was served can be answered
before it is archived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slicewise.errors import BadRequest
from slicewise.features.plan.unit import Source
from slicewise.offsets.vector import OffsetVector
from slicewise.training.archive import Archive, Archived
from slicewise.training.events.rows import IDENTITY_COLUMNS, KAFKA_TIME
from slicewise.training.queries import GivenArchive
from slicewise.training.tables.given.events import typed_events
from slicewise.training.tables.given.records import NotPlain, plain_event

_FOR_EVER_US = 1 << 60


@dataclass
class LogEvents:
    """Events of a source's log, read piece by piece. Records that are no plain event are counted:
    the platform refuses nearly all of them."""

    source: Source
    topic_id: str
    end: OffsetVector
    """First offsets that are not read."""
    table: pa.Table | None = None
    not_plain: int = 0

    def add(self, records: Iterable[tuple[int, int, int, bytes | None]], end: OffsetVector) -> None:
        """Adds the records up to `end`: partition, offset, Kafka time in microseconds, value."""
        given: list[dict[str, Any]] = []
        for partition, offset, time_us, value in records:
            try:
                event = plain_event(self.source, value)
            except NotPlain:
                self.not_plain += 1
                continue
            where = {"partition": partition, "offset": offset, "kafka_time": time_us}
            given.append(event | where)
        typed = self._typed(given)
        self.table = typed if self.table is None else pa.concat_tables([self.table, typed])
        self.end = end

    def _typed(self, given: list[dict[str, Any]]) -> pa.Table:
        """The events that the source takes. One that is no event of its schema spoils no other."""
        try:
            typed, _ = typed_events(self.source, _table(self.source, given), of_log=True)
        except (BadRequest, pa.ArrowException):
            if not given:
                raise
            if len(given) == 1:
                self.not_plain += 1
                return self._typed([])
            half = len(given) // 2
            return pa.concat_tables([self._typed(given[:half]), self._typed(given[half:])])
        where = typed.column_names.index("topic_id")
        topics = pa.array([self.topic_id] * typed.num_rows, pa.string())
        return typed.set_column(where, "topic_id", topics)


@dataclass(frozen=True)
class ExtendedArchive:
    """The archive's port over what is archived of a source and the events of its log beyond that.

    archived: what stands of it; None: nothing of the archive is read.
    """

    archive: Archive
    archived: Archived | None
    log: LogEvents

    def reaches(self, source: str) -> Archived:  # noqa: ARG002
        """See Archive."""
        gaps = () if self.archived is None else self.archived.accepted_gaps
        return Archived(1, self.log.end, _FOR_EVER_US, 1, gaps)

    def confirmed(self, source: Source, archived: Archived) -> Archived:  # noqa: ARG002
        """See Archive."""
        return archived

    def events(
        self,
        source: Source,
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,  # noqa: ARG002
    ) -> pa.Table:
        """See Archive."""
        given = GivenArchive(self.log.table).events(source, columns, start_us, end_us, 1)
        if self.archived is None:
            return given
        version = self.archived.archive_version
        return _both(
            self.archive.events(source, columns, start_us, end_us, version), given, columns
        )

    def below(
        self,
        source: Source,
        columns: Sequence[str],
        offset_vector: OffsetVector,
        kafka_us: int,
        archive_version: int,  # noqa: ARG002
    ) -> pa.Table:
        """See Archive."""
        given = GivenArchive(self.log.table).below(source, columns, offset_vector, kafka_us, 1)
        if self.archived is None:
            return given
        version = self.archived.archive_version
        before = self.archive.below(source, columns, offset_vector, kafka_us, version)
        return _both(before, given, (*columns, KAFKA_TIME))


def _both(before: pa.Table, given: pa.Table, columns: Sequence[str]) -> pa.Table:
    names = list(dict.fromkeys((*columns, *IDENTITY_COLUMNS)))
    chosen = given.select(names)
    return pa.concat_tables([before.select(names).cast(chosen.schema), chosen])


def _table(source: Source, given: list[dict[str, Any]]) -> pa.Table | list[dict[str, Any]]:
    """The events as a table that has a column for each of the source's."""
    if given:
        names = dict.fromkeys((*(name for name, _ in source.columns), "partition", "offset"))
        return [{**dict.fromkeys(names), **event} for event in given]
    kinds = {"partition": pa.int32(), "offset": pa.int64(), "kafka_time": pa.int64()}
    return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
