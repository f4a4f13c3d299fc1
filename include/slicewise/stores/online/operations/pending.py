"""Beyond an entity's applied offset stand all its events of a partition up to the newest written.
Otherwise a skip entry says where not.

The operations do what the real-time lane's writer in the JVM does: for the contract suite, the
simulator, and the test that both write the same. One call per entity, its events in offset order,
decided by the script that runs it (docs/adr/0066).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slicewise import codec
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.features.declare.event_list import EventList
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import added, require_order
from slicewise.stores.online.control_record import Build, RealtimeStart, StoreMetadata
from slicewise.stores.online.model import metadata
from slicewise.stores.online.port import ByTag, Everywhere, NodeContext, Split
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded import metadata as sharded_metadata
from slicewise.stores.online.sharded.splitting import event_parts
from slicewise.stores.online.steps import Command, PendingChange, PendingListChange, Steps
from slicewise.stores.online.stored_unit import StoredUnit

MAX_EVENTS = 512
"""Most events of one call: bounds the arguments and the time of a script."""


@dataclass(frozen=True)
class PendingBatch:
    """Events of one unit and one partition, in offset order: all that the unit keeps since those
    written before."""

    unit: StoredUnit
    topic_partition: TopicPartition
    tags: Sequence[bytes]
    """One per entity (`keys.entity_tags`)."""
    entity: npt.NDArray[np.int64]
    """Per row: index into tags."""
    offset: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    """Per row: its event time."""
    members: Sequence[bytes]
    """Per row: `codec.Members` of the columns that the unit reads."""


@dataclass(frozen=True)
class PendingOutcome:
    """rows: all; written (or standing), already applied (at or below the applied offset), below
    (the unit's start offsets), expired (of a list: too old for it), skipped at the bound: parts of
    them. cut: events that a list's capacity left out."""

    rows: int = 0
    written: int = 0
    already_applied: int = 0
    below: int = 0
    expired: int = 0
    skipped: int = 0
    cut: int = 0


@dataclass(frozen=True)
class BeginRealtime(Everywhere[StoreMetadata]):
    """To be asked before the first real-time write of all events of a source from `start` on: the
    metadata, with its own entry. DeploymentSuperseded; GapRefused where the start lies beyond the
    committed offsets."""

    source: str
    start: OffsetVector
    deployment_version: int
    digest: str

    def steps(self, at: NodeContext) -> Steps[StoreMetadata]:
        begun = RealtimeStart(at.server_run, self.start)
        change = metadata.begin_realtime(
            at.store_id, self.source, begun, self.deployment_version, self.digest
        )
        return (yield from change)

    def merge(self, replies: Mapping[int, StoreMetadata]) -> StoreMetadata:
        return sharded_metadata.merged(list(replies.values()))


@dataclass(frozen=True)
class EndRealtime(Everywhere[bool]):
    """Removes the entry of a source's real-time lane where it names a server run that is over;
    whether it did. An entry of this run stands: a writer that nobody knows of may write on, and no
    answer may lose what one had."""

    source: str

    def steps(self, at: NodeContext) -> Steps[bool]:
        return (yield from metadata.end_realtime(at.store_id, self.source, at.server_run))

    def merge(self, replies: Mapping[int, bool]) -> bool:
        return any(replies.values())


@dataclass(frozen=True)
class WritePending(ByTag[PendingOutcome]):
    """Writes events beyond what is committed, at most `bound` per entity (of event lists all).

    Batches come in the order of the log, from the real-time start on; broken, the writer goes on
    from the first that was not acknowledged, on the same server run. Written again, or by another
    writer, nothing changes. Requires rows in offset order and offsets below 2^53.
    """

    batch: PendingBatch
    bound: int
    """Pending events of an entity, beyond which the rest is skipped."""
    room: codec.Room = codec.ROOM
    """Room of a pending field."""

    def steps(self, at: NodeContext) -> Steps[PendingOutcome]:
        build = yield from at.build_of(self.batch.unit)
        require_order(self.batch.offset)
        below = decisions.below_start(
            self.batch.offset, build.start.get(self.batch.topic_partition)
        )
        calls = list(_calls(self.batch, np.flatnonzero(~below)))
        match self.batch.unit.event_list:
            case None:
                replies = yield [
                    _fields(at.store_id, build, self.batch, rows, self.bound, self.room)
                    for rows in calls
                ]
                rests = [(rest, 0) for *_, rest in replies]
            case keeps:
                replies = yield [
                    _members(at.store_id, build, self.batch, rows, keeps) for rows in calls
                ]
                rests = [(0, rest) for *_, rest in replies]
        total = PendingOutcome(rows=len(self.batch.offset), below=int(below.sum()))
        for (written, already_applied, expired, _), (skipped, cut) in zip(
            replies, rests, strict=True
        ):
            one = PendingOutcome(0, written, already_applied, 0, expired, skipped, cut)
            total = PendingOutcome(
                *(x + y for x, y in zip(astuple(total), astuple(one), strict=True))
            )
        return total

    def split(self, count: int) -> Split[PendingOutcome]:
        return Split(
            {
                node: replace(self, batch=part)
                for node, part in event_parts(self.batch, count).items()
            }
        )

    def join(
        self,
        replies: Mapping[int, PendingOutcome],
        split: Split[PendingOutcome],  # noqa: ARG002
    ) -> PendingOutcome:
        return added(list(replies.values()), PendingOutcome())


def _calls(batch: PendingBatch, rows: Int64) -> Iterator[Int64]:
    """Rows of one entity each, in offset order, as many as a call takes."""
    order = rows[np.argsort(batch.entity[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(batch.entity[order], prepend=-1)).tolist()
    for begin, end in pairwise([*starts, len(order)]):
        for at in range(begin, end, MAX_EVENTS):
            yield order[at : min(at + MAX_EVENTS, end)]


def _fields(
    store_id: int, build: Build, batch: PendingBatch, rows: Int64, bound: int, room: codec.Room
) -> Command:
    unit, topic_partition = batch.unit, batch.topic_partition
    offsets = batch.offset[rows].tolist()
    numbers = (batch.time[rows] // unit.slice_us).tolist()
    expiries = [
        0 if unit.lifetime else decisions.expiry_s((number + 1) * unit.slice_us, unit.retention_us)
        for number in numbers
    ]
    members = [batch.members[row] for row in rows.tolist()]
    return PendingChange(
        keys.hot_key(store_id, _tag(batch, rows), build.name),
        keys.applied_field(topic_partition),
        keys.skip_field(topic_partition),
        keys.topic_partition_text(topic_partition),
        bound,
        room,
        list(zip(offsets, members, expiries, strict=True)),
    )


def _members(
    store_id: int, build: Build, batch: PendingBatch, rows: Int64, keeps: EventList
) -> Command:
    times = batch.time[rows]
    members = [batch.members[row] for row in rows.tolist()]
    return PendingListChange(
        keys.list_key(store_id, _tag(batch, rows), build.name),
        keys.members_key(store_id, _tag(batch, rows), build.name),
        keys.applied_field(batch.topic_partition),
        keeps,
        decisions.list_expiry_s(keeps, int(times.max())),
        list(
            zip(
                batch.offset[rows].tolist(),
                map(codec.score_of, times.tolist()),
                members,
                strict=True,
            )
        ),
    )


def _tag(batch: PendingBatch, rows: Int64) -> bytes:
    tags: Sequence[bytes] = batch.tags
    return tags[int(batch.entity[rows[0]])]
