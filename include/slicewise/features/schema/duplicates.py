"""The events below an event in its partition decide whether it is a duplicate, and no clock.

Of the events of one entity (as the view takes them) in one partition that have an id, in the order
of their offsets: the clock at an event is the largest Kafka time up to and with it. An event that
lies more than STEP_BACK_US before the clock is out of place: it counts, and is not remembered.
Another is a duplicate if one of the `most` in place before it has its id, at a clock that lies at
most `within_us` before its own.

Clocks and numbers only grow, so that what is remembered of the past is short (`remembered`), and a
judge who begins `look_back_us` of Kafka time before the oldest event that he is asked about comes
to the same (docs/adr/0064).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.kernel.hashing import hash_stored
from slicewise.features.schema.dedupe import STEP_BACK_US, EventIds

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """Per event, in the order in which they were given."""

    duplicate: Flags
    in_order: Flags
    remembered: Flags
    """Events in place by which events after all of these can still be found to be duplicates."""
    clock: Ints


def judge(group: Ints, ids: NDArray[np.uint64], kafka_us: Ints, rule: EventIds) -> Judged:
    """About events with ids. group: numbers of (entity, partition); each group's events in the
    order of their offsets.

    ids: hashes (`hashed`); kafka_us: Kafka timestamps, microseconds UTC. What was remembered may
    stand before a group's events, with its clocks as times.
    """
    n = len(group)
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    begins = np.ones(n, np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    segment = np.cumsum(begins) - 1
    # a running maximum per group: over ranks of the times, so that groups can be laid one above the
    # other
    times, rank = np.unique(kafka_us[order], return_inverse=True)
    floor = segment * max(1, len(times))
    clock = times[np.maximum.accumulate(floor + rank) - floor] if n else times
    in_order = kafka_us[order] >= clock - STEP_BACK_US
    nth = np.cumsum(in_order)
    duplicate = np.zeros(n, np.bool_)
    placed = np.flatnonzero(in_order)
    # stable: of equal ids in the order of offsets
    by = placed[np.lexsort((ids[order][placed], segment[placed]))]
    later, before = by[1:], by[:-1]
    duplicate[later] = (
        (segment[later] == segment[before])
        & (ids[order][later] == ids[order][before])
        & (clock[later] - clock[before] <= rule.within_us)
        & (nth[later] - nth[before] <= rule.most)
    )
    ends = np.append(np.flatnonzero(begins)[1:], n) - 1
    remembered = in_order.copy()
    if n:
        remembered &= nth > nth[ends][segment] - rule.most
        remembered &= clock >= clock[ends][segment] - rule.within_us
    back = np.empty(n, np.int64)
    back[order] = np.arange(n)
    return Judged(duplicate[back], in_order[back], remembered[back], clock[back])


def hashed(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.uint64], Flags]:
    """64 bits of each id, and which events have an id. Two different ids of an entity share their
    bits with a probability of most / 2^64."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(flat, pa.ChunkedArray):
        flat = pa.concat_arrays(flat.chunks)
    present = np.asarray(flat.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_integer(flat.type):
        return hash_stored(
            flat.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        ), present
    return hash_stored(flat.cast(pa.string()).fill_null("").cast(pa.binary())), present


def duplicates_among(
    group: Ints, offset: Ints, ids: pa.Array, kafka_us: Ints, rule: EventIds
) -> Flags:
    """Per event, in any order: whether it is a duplicate among these. group: as for `judge`;
    offset: in its place."""
    duplicates = np.zeros(len(group), np.bool_)
    numbers, present = hashed(ids)
    rows = np.flatnonzero(present)
    rows = rows[np.argsort(offset[rows], kind="stable")]
    duplicates[rows] = judge(group[rows], numbers[rows], kafka_us[rows], rule).duplicate
    return duplicates
