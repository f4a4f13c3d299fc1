"""Offline answers come from the archive alone, up to a stated archive version, and never beyond
what that covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from slicewise.errors import BadRequest, DataLoss
from slicewise.features.plan.unit import Source
from slicewise.offsets.gaps import AcceptedGap
from slicewise.offsets.vector import OffsetVector
from slicewise.training.tables.instants import text_of
from slicewise.training.tables.spine import AlikeTokens


class NothingArchived(DataLoss):
    """A source has no archive yet: archive it, then ask again."""


@dataclass(frozen=True)
class Archived:
    """Reach of the archive of a source.

    archive_version: the newest archive version. offset_vector: per partition the first offset that
    is not archived. until_us: when that archive was taken; what came before then is in it.
    snapshot_id: the table's.
    """

    archive_version: int
    offset_vector: OffsetVector
    until_us: int
    snapshot_id: int
    accepted_gaps: tuple[AcceptedGap, ...] = ()
    """Events that were lost before they were archived, up to archive version."""


class Archive(Protocol):
    """The events of sources, as the hourly archive keeps them."""

    def reaches(self, source: str) -> Archived:
        """Reads how far the archive of this source reaches now. Raises NothingArchived if there is
        none."""
        ...

    def confirmed(self, source: Source, archived: Archived) -> Archived:
        """The same with a later `until_us`, if the log holds nothing now that is not archived.

        A quiet source brings no archives, and is complete all the same.
        """
        ...

    def events(
        self,
        source: Source,
        columns: Sequence[str],
        start_us: int,
        end_us: int,
        archive_version: int,
    ) -> pa.Table:
        """Good events with time in [start_us, end_us) of archive versions up to `archive_version`.

        Gives the columns, and event_time (int64 microseconds), topic_id (maybe as a dictionary),
        partition, offset, in any order; kafka_time where it is among the columns. What an archive
        version holds never changes, so that the same archive version gives the same events for
        ever.
        """
        ...

    def below(
        self,
        source: Source,
        columns: Sequence[str],
        offset_vector: OffsetVector,
        kafka_us: int,
        archive_version: int,
    ) -> pa.Table:
        """Good events that the offset vector contains, by which an event that comes again is known.

        Their Kafka times are at or after `kafka_us`, their archive versions at most
        `archive_version`. The columns are those of `events`, with kafka_time.

        """
        ...


def refuse_beyond(source: str, archived: Archived, latest_us: int) -> None:
    """Refuse an `at` after the archive was taken: events before it may not be archived yet."""
    if latest_us > archived.until_us:
        raise BadRequest(
            f"`at` of {text_of(latest_us)} is later than the archive of {source!r}",
            where="at",
            expected=f"`at` up to {text_of(archived.until_us)}",
            next_step=ARCHIVE_NOW,
        )


def refuse_unarchived(source: str, archived: Archived, tokens: Sequence[AlikeTokens]) -> None:
    """Refuse tokens that contain events that are not archived yet."""
    behind = [
        (int(alike.row[at]), alike, at) for alike in tokens for at in _beyond(archived, alike)
    ]
    if not behind:
        return
    row, alike, at = min(behind, key=lambda item: item[0])
    wanted = alike.chosen(np.arange(len(alike.row)) == at).joined()
    topic_partition = next(p for p in wanted if archived.offset_vector.get(p) < wanted.get(p))
    topic, partition = topic_partition
    raise BadRequest(
        f"the token of row {row} reaches beyond the archive of {source!r}: it contains "
        f"offsets up to {wanted.get(topic_partition)} of partition {partition} (topic {topic}), "
        f"archived are those below {archived.offset_vector.get(topic_partition)}",
        where="token",
        expected=f"tokens of answers up to {text_of(archived.until_us)}",
        next_step=ARCHIVE_NOW,
    )


def refuse_unapplied(source: str, archived: Archived, applied: OffsetVector) -> None:
    """Refuse instants by which events had been applied that are not archived yet."""
    if not archived.offset_vector.dominates(applied):
        raise BadRequest(
            f"events of {source!r} had been applied by these instants that are not archived yet",
            where="at",
            expected=f"instants up to {text_of(archived.until_us)}",
            next_step=ARCHIVE_NOW,
        )


def _beyond(archived: Archived, alike: AlikeTokens) -> list[int]:
    """The first of these tokens that contains more than is archived."""
    ends = np.array([archived.offset_vector.get(p) for p in alike.topic_partitions], np.int64)
    some = np.flatnonzero((alike.base > ends).any(axis=1))[:1].tolist()
    some += [at for at, _, p, offset in alike.beyond if archived.offset_vector.get(p) < offset]
    return sorted(some, key=lambda at: int(alike.row[at]))[:1]


ARCHIVE_NOW = (
    "ask without --no-archive (archive=False), or run the DAG compact_slices, which archives first"
)
