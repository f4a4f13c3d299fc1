"""A fold's memory of ids goes in with its partials, in one change: neither is ever without the other.

Per entity and place, a hash of its own beside the hot one, which readers never fetch. The ids of a place were
written with the guard of the same events, and outlives it: where the guard has expired, the ids that it kept out have too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slicewise import codec
from slicewise.features.schema.dedupe import EventIds
from slicewise.features.schema.duplicates import judge
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.stores.online import keys
from slicewise.stores.online.rules import decisions
from slicewise.stores.online.steps import Fields, KeyChange, begins, exact

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ids:
    """By what a batch's events are known when they come again. Per row: a hash of its id, whether it has one, and its
    Kafka timestamp (microseconds UTC)."""

    rule: EventIds
    ids: npt.NDArray[np.uint64]
    known: npt.NDArray[np.bool_]
    kafka_us: npt.NDArray[np.int64]
    keep_us: int
    """How long after an event's Kafka time one may come that it decides about and that is not too old itself: what is
    remembered expires then. 0: never."""


@dataclass(frozen=True)
class RememberedIds:
    """Replies that were read for some entities: one of `reads` each."""

    place: TopicPartition
    keys: Sequence[bytes]
    raw: Sequence[bytes | None]
    remembered: Sequence[codec.Remembered]

    @staticmethod
    def of(place: TopicPartition, hashes: Sequence[bytes], raw: Sequence[bytes | None]) -> RememberedIds:
        return RememberedIds(place, hashes, raw, [codec.NOTHING if r is None else codec.unpack_ids(r) for r in raw])

    @property
    def last(self) -> Int64:
        """Per entity: the last offset that was looked at."""
        return np.array([each.last for each in self.remembered], np.int64)


def unremembered(ledger: OffsetVector, starts: Iterable[OffsetVector]) -> dict[TopicPartition, int]:
    """The places of the ledger at which a unit stands that has folded nothing beyond its start cover yet. A stream
    must begin before there, or the unit knows no id of the events below. place -> its ledger.

    Where a unit is beyond, a stream that began earlier has brought in all before (it applies in the order of offsets).
    starts: start covers of the source's units.
    """
    begun = list(starts)
    return {place: at for place, at in ledger.offsets.items() if any(at <= start.get(place) for start in begun)}


def reads(place: TopicPartition, hashes: Sequence[bytes]) -> list[Fields]:
    """Reads of entities that come before `judged`."""
    return [Fields(key, [keys.ids_field(place)]) for key in hashes]


def judged(
    known: RememberedIds, ids: Ids, rows: Int64, owner: Int64, offset: Int64
) -> tuple[npt.NDArray[np.bool_], dict[int, KeyChange]]:
    """Per row whether it is a duplicate, and what is remembered from now on, by the number of the entity.

    rows: numbers in the batch, of what is not applied yet; owner, offset: of each row its entity and its offset.
    """
    duplicate = np.zeros(len(rows), np.bool_)
    new = np.flatnonzero(ids.known[rows])
    new = new[np.lexsort((offset[new], owner[new]))]
    if not len(new):
        return duplicate, {}
    touched = np.unique(owner[new])
    before = [known.remembered[entity] for entity in touched.tolist()]
    group = np.concatenate([np.repeat(touched, [len(each.ids) for each in before]), owner[new]])
    numbers = np.concatenate([*(each.ids for each in before), ids.ids[rows[new]]])
    times = np.concatenate([*(each.clocks for each in before), ids.kafka_us[rows[new]]])
    found = judge(group, numbers, times, ids.rule)
    old = len(group) - len(new)
    duplicate[new] = found.duplicate[old:]

    # by entity: what is remembered of before stands before what is new of it
    order = np.flatnonzero(found.remembered)
    order = order[np.argsort(group[order], kind="stable")]
    bounds = np.searchsorted(group[order], [*touched.tolist(), touched[-1] + 1]).tolist()
    ends = np.searchsorted(owner[new], touched, side="right") - 1
    grown = set(group[old:][found.in_place[old:]].tolist())  # else there is nothing to remember
    changes = {}
    field = keys.ids_field(known.place)
    for entity, (begin, end), last in zip(touched.tolist(), pairwise(bounds), offset[new][ends].tolist(), strict=True):
        if entity not in grown:
            continue
        kept = order[begin:end]
        value = codec.pack_ids(last, found.clock[kept], numbers[kept])
        expiry = 0 if not ids.keep_us else decisions.expiry_s(int(found.clock[kept[-1]]), ids.keep_us)
        stands = known.raw[entity]
        check = exact(None) if stands is None else begins(stands[: codec.IDS_HEAD])
        changes[entity] = KeyChange(known.keys[entity], ((field, check),), ((field, value, expiry),))
    return duplicate, changes
