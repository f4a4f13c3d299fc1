"""Up to some time a row knows all events of its entity; only what comes then is looked at event by
event.

Per (entity, partition) the greatest offset so far, in the order of event times, tells where the
first event stands that a row does not know.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slicewise.training.answering.knowledge import TokenOffsets
from slicewise.training.events.unit_events import UnitEvents
from slicewise.training.ranges import Ints, expand, group_starts

FOR_EVER = 2**63 - 1


def settled_until(events: UnitEvents, entity: Ints, offset_vectors: TokenOffsets) -> Ints:
    """Per row the time of its entity's first event that the row's base does not contain; FOR_EVER
    where it contains all.

    Each event before is contained, whatever its partition. Hours whose compaction ran ahead of the
    base are left to be looked at.
    """
    until = np.full(len(entity), FOR_EVER)
    if not len(events.source):
        return until
    # by (entity, partition), and within it as before: by event time
    order = np.lexsort((events.topic_partition, events.source.entity))
    owner, topic_partition = events.source.entity[order], events.topic_partition[order]
    group, firsts = group_starts(owner, topic_partition)
    offset, base = _small(events.source.rows.offset[order], offset_vectors.base)
    width = int(max(offset.max(), base.max(initial=0))) + 2
    greatest = np.maximum.accumulate(group * width + offset)
    first, beyond = (np.searchsorted(owner[firsts], entity, side) for side in ("left", "right"))
    of, row = expand(first.astype(np.int64), beyond.astype(np.int64))
    at = np.searchsorted(greatest, of * width + base[row, topic_partition[firsts[of]]])
    inside = at < np.append(firsts, len(order))[of + 1]
    time = events.source.rows.time[order[at[inside]]]
    np.minimum.at(until, row[inside], time)
    return until


def _small(offset: Ints, base: npt.NDArray[np.int64]) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Offsets and bases, or their ranks where they are too great to stand beside a group."""
    if int(max(offset.max(), base.max(initial=0))) < 2**63 // (len(offset) + 1) - 2:
        return offset, base
    distinct, rank = np.unique(offset, return_inverse=True)
    return rank.astype(np.int64), np.searchsorted(distinct, base).astype(np.int64)
