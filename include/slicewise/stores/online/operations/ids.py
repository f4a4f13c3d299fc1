"""A micro-batch's memory of ids goes in with its partials, in one change: neither is ever without
the other.

Per entity and partition, a hash of its own beside the hot one, which readers never fetch. The ids
of a partition were written with the applied offset of the same events, and outlives it: where the
applied offset has expired, the ids that it kept out have too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slicewise import codec
from slicewise.features.schema.dedupe import EventIds, judge
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Fields, KeyChange, begins, exact

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ids:
    """By what a batch's events are known when they come again. Per row: a hash of its id, whether
    it has one, and its Kafka timestamp (microseconds UTC)."""

    rule: EventIds
    ids: npt.NDArray[np.uint64]
    present: npt.NDArray[np.bool_]
    kafka_us: npt.NDArray[np.int64]
    keep_us: int
    """Time after an event's Kafka time at which one may come that it decides about and that is not
    too old itself: what is remembered expires then. 0: never."""


@dataclass(frozen=True)
class RememberedIds:
    """Replies that were read for some entities: one of `reads` each."""

    topic_partition: TopicPartition
    keys: Sequence[bytes]
    raw: Sequence[bytes | None]
    remembered: Sequence[codec.Remembered]

    @staticmethod
    def of(
        topic_partition: TopicPartition, hashes: Sequence[bytes], raw: Sequence[bytes | None]
    ) -> RememberedIds:
        return RememberedIds(
            topic_partition,
            hashes,
            raw,
            [codec.NOTHING if r is None else codec.unpack_ids(r) for r in raw],
        )

    @property
    def last(self) -> Int64:
        """Per entity: the last offset that was looked at."""
        return np.array([remembered.last for remembered in self.remembered], np.int64)


def unremembered(
    committed: OffsetVector, starts: Iterable[OffsetVector]
) -> dict[TopicPartition, int]:
    """The partitions of the committed offsets at which a unit stands that has applied nothing
    beyond its start offsets yet. A stream must begin before there, or the unit knows no id of the
    events below. partition -> its committed offsets.

    Where a unit is beyond, a stream that began earlier has brought in all before (it applies in the
    order of offsets). starts: start offsets of the source's units.
    """
    begun = list(starts)
    return {
        topic_partition: at
        for topic_partition, at in committed.offsets.items()
        if any(at <= start.get(topic_partition) for start in begun)
    }


def reads(topic_partition: TopicPartition, hashes: Sequence[bytes]) -> list[Fields]:
    """Reads of entities that come before `judged`."""
    return [Fields(key, [keys.ids_field(topic_partition)]) for key in hashes]


def judged(
    stored_ids: RememberedIds, ids: Ids, rows: Int64, owner: Int64, offset: Int64
) -> tuple[npt.NDArray[np.bool_], dict[int, KeyChange]]:
    """Per row whether it is a duplicate, and what is remembered from now on, by the number of the
    entity.

    rows: numbers in the batch, of what is not applied yet; owner, offset: of each row its entity
    and its offset.
    """
    duplicate = np.zeros(len(rows), np.bool_)
    new = np.flatnonzero(ids.present[rows])
    new = new[np.lexsort((offset[new], owner[new]))]
    if not len(new):
        return duplicate, {}
    touched = np.unique(owner[new])
    before = [stored_ids.remembered[entity] for entity in touched.tolist()]
    group = np.concatenate([np.repeat(touched, [len(entry.ids) for entry in before]), owner[new]])
    numbers = np.concatenate([*(entry.ids for entry in before), ids.ids[rows[new]]])
    times = np.concatenate([*(entry.clocks for entry in before), ids.kafka_us[rows[new]]])
    judgement = judge(group, numbers, times, ids.rule)
    old = len(group) - len(new)
    duplicate[new] = judgement.duplicate[old:]

    # by entity: what is remembered of before stands before what is new of it
    order = np.flatnonzero(judgement.remembered)
    order = order[np.argsort(group[order], kind="stable")]
    bounds = np.searchsorted(group[order], [*touched.tolist(), touched[-1] + 1]).tolist()
    ends = np.searchsorted(owner[new], touched, side="right") - 1
    grown = set(group[old:][judgement.in_order[old:]].tolist())  # else there is nothing to remember
    changes = {}
    field = keys.ids_field(stored_ids.topic_partition)
    for entity, (begin, end), last in zip(
        touched.tolist(), pairwise(bounds), offset[new][ends].tolist(), strict=True
    ):
        if entity not in grown:
            continue
        kept = order[begin:end]
        value = codec.pack_ids(last, judgement.clock[kept], numbers[kept])
        expiry = (
            0
            if not ids.keep_us
            else decisions.expiry_s(int(judgement.clock[kept[-1]]), ids.keep_us)
        )
        current = stored_ids.raw[entity]
        check = exact(None) if current is None else begins(current[: codec.IDS_HEAD])
        changes[entity] = KeyChange(
            stored_ids.keys[entity], ((field, check),), ((field, value, expiry),)
        )
    return duplicate, changes
