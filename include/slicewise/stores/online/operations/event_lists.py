"""Every event of an entity stands in its list once, or below the low-water mark that refuses its
readers.

A member is a function of its event, so that what is added twice is there once; applied offsets say
up to where every event of a partition was brought, whoever did. A micro-batch brings what lies at
or beyond the unit's start offsets, the backfill what lies below it. Both trim in the script that
adds: the mark is the newest identity that was ever trimmed, and nothing at or below it is added
again.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from slicewise import codec
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.attempts import added, applied_in_runs, require_order
from slicewise.stores.online.control_record import Build
from slicewise.stores.online.operations.apply_batch import MicroBatchOutcome
from slicewise.stores.online.port import ByTag, NodeContext, NodesContext, Split
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.sharded.routing import ShardedSteps
from slicewise.stores.online.sharded.splitting import event_parts
from slicewise.stores.online.steps import EXPIRED, MISSED, Command, Fields, ListChange, Steps, exact
from slicewise.stores.online.stored_unit import StoredUnit, kept_by

CHUNK = 2048
"""Entities of one pipeline."""
MAX_MEMBERS = 512
"""Events of one entity in one atomic run: bounds the arguments and the time of a script."""


@dataclass(frozen=True)
class ListBatch:
    """Events for one event list: of one partition in offset order (a micro-batch), or of any
    (partition None: the backfill's, all below the unit's start offsets)."""

    unit: StoredUnit
    topic_partition: TopicPartition | None
    tags: Sequence[bytes]
    """One per entity (`keys.entity_tags`)."""
    entity: npt.NDArray[np.int64]
    """Per row: index into tags."""
    offset: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    """Per row: its event time."""
    members: Sequence[bytes]
    """Per row: `codec.Members`."""
    start: OffsetVector = field(default_factory=OffsetVector)
    """Start cover that the backfill's start offsets that it was made for."""


@dataclass(frozen=True)
class AddToList(ByTag[MicroBatchOutcome]):
    """Brings events into an event list. Any replay, in any batch boundaries, by any number of
    writers, adds nothing.

    Requires rows in offset order and offsets below 2^53 where the batch is of one partition.
    """

    batch: ListBatch

    def steps(self, at: NodeContext) -> Steps[MicroBatchOutcome]:
        build = yield from at.build_of(self.batch.unit)
        if self.batch.topic_partition is None:
            decisions.check_start(self.batch.start, build.start)
        return (yield from self.apply(at, build))

    def apply(self, at: NodeContext, build: Build) -> Steps[MicroBatchOutcome]:
        """Brings the batch in for this build."""
        batch = self.batch
        if batch.topic_partition is not None:
            require_order(batch.offset)
        attempt = partial(_attempt, at.store_id, build, batch)
        where = f"event list {batch.unit.storage_fingerprint}"
        return (
            yield from applied_in_runs(
                runs(batch), batch.entity, attempt, MicroBatchOutcome(), where
            )
        )

    def split(self, count: int) -> Split[MicroBatchOutcome]:
        return Split(
            {node: AddToList(part) for node, part in event_parts(self.batch, count).items()}
        )

    def chosen(self, nodes: NodesContext) -> ShardedSteps[Collection[int]]:
        """A backfill's batch is for the nodes that it was made for: others may have applied less
        than it holds."""
        if self.batch.topic_partition is not None:
            return range(nodes.count)
        return (yield from nodes.built_for(self.batch.unit, self.batch.start))

    def join(
        self,
        replies: Mapping[int, MicroBatchOutcome],
        split: Split[MicroBatchOutcome],  # noqa: ARG002
    ) -> MicroBatchOutcome:
        left_out = len(self.batch.offset) - sum(outcome.rows for outcome in replies.values())
        return added(
            [MicroBatchOutcome(rows=left_out, already_applied=left_out), *replies.values()],
            MicroBatchOutcome(),
        )


def runs(batch: ListBatch, chunk: int = CHUNK, most: int = MAX_MEMBERS) -> Iterator[Int64]:
    """Rows in the order in which they are brought in, sorted by entity, then offset: a chunk of
    entities at a time, and of an entity with too many events consecutive runs, each atomic."""
    n = len(batch.offset)
    if not n:
        return
    order = np.argsort(batch.entity, kind="stable")
    entity = batch.entity[order]
    starts = np.flatnonzero(np.diff(entity, prepend=-1))
    sizes = np.diff(starts, append=n)
    hot = entity[starts[sizes > most]]
    for start, size in zip(
        starts[sizes > most].tolist(), sizes[sizes > most].tolist(), strict=True
    ):
        for begin in range(start, start + size, most):
            yield order[begin : min(begin + most, start + size)]
    rest = order[~np.isin(entity, hot)] if len(hot) else order
    distinct = np.flatnonzero(np.diff(batch.entity[rest], prepend=-1))
    for begin, end in pairwise([*distinct[::chunk].tolist(), len(rest)]):
        yield rest[begin:end]


def _attempt(
    store_id: int, build: Build, batch: ListBatch, rows: Int64
) -> Generator[Sequence[Command], list[Any], tuple[MicroBatchOutcome, Int64]]:
    """One read and one write of all entities of these rows; the entities to take again."""
    keeps = kept_by(batch.unit)
    topic_partition = batch.topic_partition
    names = (
        [keys.LOW] if topic_partition is None else [keys.LOW, keys.applied_field(topic_partition)]
    )
    starts = np.flatnonzero(np.diff(batch.entity[rows], prepend=-1)).tolist()
    entities = batch.entity[rows[starts]].tolist()
    hashes = [keys.list_key(store_id, batch.tags[e], build.name) for e in entities]
    replies = yield [Fields(key, names) for key in hashes]

    wanted: list[ListChange] = []
    owners: list[int] = []
    outcomes: list[MicroBatchOutcome] = []
    floor = 0 if topic_partition is None else build.start.get(topic_partition)
    for i, (begin, end) in enumerate(pairwise([*starts, len(rows)])):
        low, applied_offset = replies[i][0], None if topic_partition is None else replies[i][1]
        some = rows[begin:end]
        offset = batch.offset[some]
        last = -1 if applied_offset is None else int(applied_offset)
        if topic_partition is None:
            new = np.ones(len(some), np.bool_)
        else:
            new = decisions.rows_to_keep(
                offset, np.full(len(some), last), np.full(len(some), floor)
            )
        members = [batch.members[row] for row in some[new].tolist()]
        above = decisions.above_low_water(members, low)
        already_applied = int((offset <= last).sum()) if topic_partition is not None else 0
        outcome = MicroBatchOutcome(
            rows=len(some),
            applied=len(above),
            already_applied=already_applied,
            compacted=len(some) - already_applied - len(members),
            expired=len(members) - len(above),
            entities=1,
        )
        sets = []
        if topic_partition is not None and int(offset[-1]) > last:
            sets.append((keys.applied_field(topic_partition), b"%d" % int(offset[-1])))
        if not above and not sets:
            outcomes.append(replace(outcome, entities=0))
            continue
        checks = [(name, exact(stored)) for name, stored in zip(names, replies[i], strict=True)]
        expiry = decisions.list_expiry_s(keeps, int(batch.time[some].max()))
        adds = [(codec.score_of(codec.identity_time(member)), member) for member in above]
        members_key = keys.members_key(store_id, batch.tags[entities[i]], build.name)
        wanted.append(ListChange(hashes[i], members_key, checks, sets, adds, keeps, expiry))
        owners.append(i)
        outcomes.append(outcome)
    done = (yield wanted) if wanted else []

    missed: list[int] = []
    for i, reply in zip(owners, done, strict=True):
        outcome = outcomes[i]
        if reply == MISSED:
            missed.append(i)
            outcomes[i] = MicroBatchOutcome(misses=1)
        elif reply == EXPIRED:
            outcomes[i] = replace(
                outcome, applied=0, expired=outcome.applied + outcome.expired, entities=0
            )
        else:
            outcomes[i] = replace(outcome, cut=reply)
    return added(outcomes, MicroBatchOutcome()), np.array(entities, np.int64)[missed]
