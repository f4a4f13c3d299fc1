"""Pure functions of what was seen: when the real-time lane may begin and a query of it end, its
slots, and the micro-batch lane's longest wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.lifecycle.health.judge import Limits
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.model.status import Status

SPARE_SLOTS = 32
"""Least slots of a local session: they cost nothing while they are not used, and a partition more
needs no new one."""
_SHARE = 0.5
"""Share of a real-time lane that one wait of the micro-batch lane may fill: a batch takes time
too."""

_QUIET_S = 10.0
"""After which a query that began and has said nothing may have nothing to say."""


@dataclass(frozen=True)
class Pace:
    """Bounds of the micro-batch lane's waits: between the starts of batches, events of an entity's
    pending events, records of a batch."""

    longest_s: float
    bound: int
    most_records: int


def behind(latest: OffsetVector, committed: OffsetVector) -> int:
    """Events in the log that are not applied yet, over all of its partitions."""
    return sum(
        max(0, end - committed.get(topic_partition))
        for topic_partition, end in latest.offsets.items()
    )


def waits_for(
    latest: OffsetVector,
    committed: OffsetVector,
    microbatch: Status | None,
    limit: int,
    now_us: int,
) -> str | None:
    """Tells why the real-time lane may not begin yet; None: it may. The micro-batch lane must be
    near the end of the log, else the real-time lane would write row by row what is about to be
    applied in bulk; and one that runs must know of the real-time lane, else nobody would remove
    what it writes. limit: events that the micro-batch lane may be behind."""
    here = (
        microbatch is not None
        and microbatch.state == "running"
        and now_us - microbatch.heartbeat_us < Limits.heartbeat_age_us
    )
    if microbatch is not None and here and microbatch.realtime == "off":
        return "the stream's driver runs without the real-time lane: slicewise stream ensure"
    lag = behind(latest, committed)
    return (
        f"the micro-batch lane is {lag} events behind, more than {limit}" if lag > limit else None
    )


def slots(partitions: Mapping[str, int]) -> int:
    """Slots of a local session for these partitions of sources: one for each for ever, and one more
    while a query takes over from another."""
    return max(SPARE_SLOTS, 2 * sum(partitions.values()))


def speaks(has_status: bool, age_s: float) -> bool:
    """Tells whether a query that began can be judged: its writers were heard, or so long was time
    for it."""
    return has_status or age_s >= _QUIET_S


def relieved(
    ends: Mapping[int, int], acknowledged: Mapping[int, int], applied: Mapping[int, int]
) -> bool:
    """Tells whether a query that began beside another has caught up, so that the other may end.

    By partition: where the log ended when it could be judged first; what it has acknowledged; the
    committed offsets."""
    return all(max(acknowledged.get(p, 0), applied.get(p, 0)) >= end for p, end in ends.items())


def microbatch_wait_s(most: int, records: int, took_s: float, over_s: float, pace: Pace) -> float:
    """Seconds that the micro-batch lane waits after a batch while the real-time lane lives.

    most: rows of its hottest entity; records: of the batch; took_s: what it took; over_s: since the
    start of the one before it. So short that at this rate an entity's pending events stay within
    half of its bound; none after a batch that was half as large as one may be: the micro-batch lane
    is behind.
    """
    if 2 * records >= pace.most_records:
        return 0.0
    interval_s = (
        pace.longest_s if most <= 0 else min(pace.longest_s, pace.bound * _SHARE * over_s / most)
    )
    return max(0.0, interval_s - took_s)
