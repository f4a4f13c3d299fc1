"""Committed offsets move without a gap, for the newest deployment, and a loss of them is marked.

A batch is applied on all nodes or its offsets are committed on none beyond what that node holds:
they move on one node after another, a node that lost commands is brought them again from the
smallest, and the applied offsets of the others' entities make that a no-op (docs/adr/0068).

What they were is entered for instants, by which training knows what was known then
(docs/adr/0122).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.codec.store_fields.fields import ENTERED
from slicewise.features.own import is_of_topic
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import Missed, change_while
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import Everywhere, InTurn, NodeContext, Owner
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.steps import (
    ABSENT,
    TIME,
    Change,
    Command,
    KeyChange,
    Steps,
    Whole,
    exact,
)
from slicewise.windows.durations import DAY_US, HOUR_US

ENTERED_KEPT_US = 2 * DAY_US
"""An entry goes by itself after so long; the hourly compaction has brought it to `ops.ledger`."""


@dataclass(frozen=True)
class BeginBatch(Everywhere[StoreMetadata]):
    """To be asked before the first write of a micro-batch: the metadata. DeploymentSuperseded,
    GapRefused."""

    start: OffsetVector
    deployment_version: int
    digest: str

    def steps(self, at: NodeContext) -> Steps[StoreMetadata]:
        record = yield from at.metadata()
        deployed = record.deployment_version, record.units
        decisions.check_batch(
            record.committed, deployed, self.start, self.deployment_version, self.digest
        )
        return record

    def merge(self, replies: Mapping[int, StoreMetadata]) -> StoreMetadata:
        return sharded_metadata.merged(list(replies.values()))


@dataclass(frozen=True)
class AdvanceCommitted(InTurn[OffsetVector]):
    """To be asked at the end of a micro-batch: the committed offsets after it.
    DeploymentSuperseded, GapRefused."""

    start: OffsetVector
    end: OffsetVector
    deployment_version: int
    digest: str

    def steps(self, at: NodeContext) -> Steps[OffsetVector]:
        change = metadata.advance_committed(
            at.store_id, self.start, self.end, self.deployment_version, self.digest
        )
        return (yield from change)

    def merge(self, replies: Mapping[int, OffsetVector]) -> OffsetVector:
        committed = list(replies.values())
        return sharded_metadata.least(committed, frozenset.intersection(*map(frozenset, committed)))


@dataclass(frozen=True)
class MarkLostOffsets(Everywhere[StoreMetadata]):
    """Metadata offsets that the committed ones are known to have reached and are not at any more.
    Takes back the entries of what they have reached again. Gives the metadata afterwards.

    The offsets reached are known from copies kept elsewhere; it is marked on the node, so that
    every reader sees it in the reply that brings the data. If it is lost with the data, the copies
    bring it again.
    """

    high_water: OffsetVector

    def steps(self, at: NodeContext) -> Steps[StoreMetadata]:
        def decide(
            _: None,
        ) -> Generator[Sequence[Command], list[Any], Missed[None] | StoreMetadata]:
            record = yield from at.metadata()
            both = record.lost_offsets.join(self.high_water)
            # before the first deployment nobody knows which topics count: then all may
            topics = record.topics.values() or {topic for topic, _ in both}
            lost = decisions.still_lost(record.committed, both, topics)
            if lost == record.lost_offsets:
                return record
            marked = record.lost_offsets.offsets
            differ = sorted(
                where for where in {*lost, *marked} if lost.get(where) != marked.get(where)
            )
            changed = [(where, lost.offsets.get(where)) for where in differ]
            checks = [
                (lost_field(where), exact(b"%d" % marked[where]) if where in marked else ABSENT)
                for where in differ
            ]
            sets = [
                (lost_field(where), b"%d" % offset, 0)
                for where, offset in changed
                if offset is not None
            ]
            gone = [lost_field(where) for where, offset in changed if offset is None]
            yield [metadata.change(at.store_id, checks, sets, gone)]
            return Missed(None)  # written or not: the record is read again

        return (yield from change_while(decide, None, "what is known of a loss"))

    def merge(self, replies: Mapping[int, StoreMetadata]) -> StoreMetadata:
        return sharded_metadata.merged(list(replies.values()))


def lost_field(partition: TopicPartition) -> bytes:
    return b"w:%s:%d" % (partition[0].encode(), partition[1])


def committed_of(metadata: StoreMetadata, topic: str) -> OffsetVector:
    """The committed offsets of one topic's partitions, earlier lives of the topic included."""
    foreign = {id_ for name, id_ in metadata.topics.items() if not is_of_topic(name, topic)}
    return OffsetVector(
        {
            topic_partition: offset
            for topic_partition, offset in metadata.committed.offsets.items()
            if topic_partition[0] not in foreign
        }
    )


@dataclass(frozen=True)
class Entered:
    """Committed offsets of a source's topic that the store had by an instant of its clock."""

    at_us: int
    packed: bytes
    """The packed offset vector."""


@dataclass(frozen=True)
class EnterCommitted(Owner[int]):
    """Enters the committed offsets of a source for this instant of the store's clock, which is its
    reply.

    They were read before, and the time of all nodes (`ReadTime`) after them: all of them was
    applied by then, whichever node's clock is behind.
    """

    name: str
    """The source's."""
    committed: OffsetVector
    read_at_us: int

    def steps(self, at: NodeContext) -> Steps[int]:
        (own_us,) = yield [TIME]
        now_us = max(own_us, self.read_at_us)
        key = keys.entered_key(at.store_id, self.name, now_us // HOUR_US)
        field = ENTERED.form % now_us
        expiry = (now_us + ENTERED_KEPT_US) // 1_000_000
        # an instant has one entry: of two writers the second learns nothing new
        change = KeyChange(key, [(field, ABSENT)], [(field, self.committed.pack(), expiry)])
        yield [Change([change])]
        return int(now_us)


@dataclass(frozen=True)
class ReadEntered(Owner[Sequence[Entered]]):
    """The entries of a source between two instants that still stand, in their order."""

    name: str
    """The source's."""
    since_us: int
    until_us: int | None = None
    """None: to the newest."""

    def steps(self, at: NodeContext) -> Steps[Sequence[Entered]]:
        (now_us,) = yield [TIME]
        first_us = max(self.since_us, now_us - ENTERED_KEPT_US)
        last_us = now_us if self.until_us is None else min(now_us, self.until_us)
        hours = range(first_us // HOUR_US, last_us // HOUR_US + 1)
        if not hours:
            return []
        replies = yield [Whole(keys.entered_key(at.store_id, self.name, hour)) for hour in hours]
        every = (
            Entered(int(instant), bytes(packed))
            for flat in replies
            for instant, packed in zip(flat[::2], flat[1::2], strict=True)
        )
        return sorted(
            (one for one in every if self.since_us <= one.at_us <= last_us),
            key=lambda one: one.at_us,
        )
