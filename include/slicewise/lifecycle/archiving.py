"""Archive and log decide what an archive takes next; only a person's word skips what is gone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewise.errors import DataLoss
from slicewise.features.plan.unit import Source
from slicewise.offsets.gaps import AcceptedGap
from slicewise.offsets.vector import OffsetVector, TopicPartition

_ACCEPT = "accept the loss, recorded and flagged (slicewise hole), and keep the log longer"


@dataclass(frozen=True)
class Missing:
    """Offsets [first, end) of a place that are neither archived nor in the log."""

    topic_partition: TopicPartition
    first: int
    end: int


@dataclass(frozen=True)
class Loss:
    """Consequence of accepting all that is missing of a source: the partitions, and the offset
    vector that holds then."""

    missing: tuple[Missing, ...]
    offset_vector: OffsetVector

    @property
    def digest(self) -> str:
        """By which a person accepts exactly this loss and no other: 12 hex digits."""
        named = [
            (*lost_range.topic_partition, lost_range.first, lost_range.end)
            for lost_range in self.missing
        ]
        return hashlib.sha256(
            json.dumps([named, sorted(self.offset_vector.offsets.items())]).encode()
        ).hexdigest()[:12]


def loss(
    offset_vector: OffsetVector,
    earliest: OffsetVector,
    goal: OffsetVector,
    starts: Sequence[OffsetVector],
) -> Loss:
    """The loss that `next_extent` of the same values would refuse; nothing missing where it would
    not."""
    archived = {topic for topic, _ in offset_vector}
    begins = {topic_partition: earliest.get(topic_partition) for topic_partition in goal.offsets}
    missing = []
    for topic_partition, first in begins.items():
        wanted = _wanted(topic_partition, offset_vector, first, starts)
        if wanted < first:
            missing.append(Missing(topic_partition, wanted, first))
    topics = {lost_range.topic_partition[0] for lost_range in missing}
    beyond = {p: first for p, first in begins.items() if p in {m.topic_partition for m in missing}}
    # a topic that nothing is archived of begins at the log's beginning in all of its partitions
    beyond |= {p: first for p, first in begins.items() if p[0] in topics - archived}
    return Loss(
        tuple(sorted(missing, key=lambda m: m.topic_partition)),
        offset_vector.join(OffsetVector(beyond)),
    )


def accepted_gap_of(
    source: Source,
    lost: Missing,
    before_us: int | None,
    after_us: int,
    by: str,
    why: str,
    at_us: int,
) -> AcceptedGap:
    """The accepted gap that a person accepts.

    before_us, after_us: Kafka timestamps of the records on both sides (before_us None: there is
    none, so that its events may be of any earlier time).
    """
    times = [after_us] if before_us is None else [before_us, after_us]
    from_us = 0 if before_us is None else min(times) - source.most_lateness_us
    return AcceptedGap(
        source=source.name,
        topic_id=lost.topic_partition[0],
        partition=lost.topic_partition[1],
        first=lost.first,
        end=lost.end,
        from_us=from_us,
        until_us=max(times) + source.most_ahead_us + 1,
        by=by,
        why=why,
        at_us=at_us,
    )


@dataclass(frozen=True)
class Extent:
    """Offsets of one archive: partition -> first, and partition -> first one beyond."""

    start: Mapping[int, int]
    end: Mapping[int, int]

    @property
    def offsets(self) -> int:
        """The number of offsets, transaction markers included."""
        return sum(self.end[partition] - first for partition, first in self.start.items())


def next_extent(
    offset_vector: OffsetVector,
    earliest: OffsetVector,
    goal: OffsetVector,
    starts: Sequence[OffsetVector],
    most: int,
) -> Extent:
    """The extent that follows `offset_vector`, up to `goal`, about `most` offsets; empty where
    nothing is left.

    offset_vector: of what is archived; earliest, goal: where the topic's log begins, and where it
    ended when the run began. Another run may have archived beyond the goal since: there nothing is
    left to take. starts: start offsets of the source's deployed units. A topic that was never
    archived begins where its log begins, but not behind what the stream has applied: an offset
    vector would claim what it lacks, and the publish would delete it.

    Raises DataLoss where the log no longer holds what is missing.
    """
    archived = {topic for topic, _ in offset_vector}
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for topic_partition, until in goal.offsets.items():
        first = earliest.get(topic_partition)
        wanted = _wanted(topic_partition, offset_vector, first, starts)
        if topic_partition[0] in archived:
            begin = wanted
            _refuse_gone(topic_partition, wanted, first, f"nothing brings them back; {_ACCEPT}")
        else:
            begin = first
            _refuse_gone(
                topic_partition,
                wanted,
                first,
                "the online store alone has them: deploy its views under new names, whose history "
                "begins "
                f"with what the log still holds; or {_ACCEPT}",
            )
        start[topic_partition[1]] = begin
        end[topic_partition[1]] = max(begin, min(until, begin + max(1, most // len(goal.offsets))))
    return Extent(start, end)


def refuse_lost_end(offset_vector: OffsetVector, latest: OffsetVector, topic_id: str) -> None:
    """Refuses a log that ends before what is archived of it: later records would get archived
    offsets again.

    latest: where the log ends, asked after `offset_vector` was read. Raises DataLoss.
    """
    for topic_partition, offset in offset_vector.offsets.items():
        if topic_partition[0] == topic_id and latest.get(topic_partition) < offset:
            raise DataLoss(
                f"the log ends at {latest.get(topic_partition)}, archived is up to {offset}",
                where=f"topic {topic_partition[0]} partition {topic_partition[1]}",
                expected="a log that holds what was archived, or has dropped it by its retention",
                next_step=(
                    "the broker lost acknowledged records: bring its data back, or make the topic "
                    "anew"
                ),
            )


def _wanted(
    topic_partition: TopicPartition,
    offset_vector: OffsetVector,
    first: int,
    starts: Sequence[OffsetVector],
) -> int:
    """The first offset that an archive must take at a place whose log begins at `first`."""
    if any(topic == topic_partition[0] for topic, _ in offset_vector):
        return offset_vector.get(topic_partition)
    return min((start.get(topic_partition) for start in starts), default=first)


def _refuse_gone(
    topic_partition: TopicPartition, wanted: int, earliest: int, next_step: str
) -> None:
    if earliest > wanted:
        raise DataLoss(
            f"{earliest - wanted} offsets are gone from the log before they were archived",
            where=(
                f"topic {topic_partition[0]} partition {topic_partition[1]}: wanted from "
                f"{wanted}, log begins at {earliest}"
            ),
            expected="a retention longer than the longest pause of the archive",
            next_step=next_step,
        )
