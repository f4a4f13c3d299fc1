"""Pure functions of what was seen: when the tail may begin and a query of it end, its slots, and the fold's
longest wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewise.lifecycle.health.judge import Limits, StreamStatus
from slicewise.offsets.vector import OffsetVector

SPARE_SLOTS = 32
"""Least slots of a local session: they cost nothing while they are not used, and a partition more needs no new one."""
_SHARE = 0.5
"""Of the bound of a tail that one wait of the fold may fill: a batch takes time too."""

_SILENT_US = 10_000_000
_QUIET_S = 10.0
"""After which a query that began and has said nothing may have nothing to say."""


@dataclass(frozen=True)
class Pace:
    """Bounds of the fold's waits: between the starts of batches, events of an entity's tail, records of a batch."""

    longest_s: float
    bound: int
    most_records: int


def behind(latest: OffsetVector, ledger: OffsetVector) -> int:
    """Events in the log that are not folded yet, over all of its places."""
    return sum(max(0, end - ledger.get(place)) for place, end in latest.offsets.items())


def waits_for(
    latest: OffsetVector, ledger: OffsetVector, fold: StreamStatus | None, limit: int, now_us: int
) -> str | None:
    """Tells why the tail may not begin yet; None: it may. The fold must be near the end of the log, else the tail would write
    row by row what is about to be folded in bulk; and one that runs must know of the tail, else nobody would remove
    what it writes. limit: events that the fold may be behind."""
    here = fold is not None and fold.state == "running" and now_us - fold.heartbeat_us < Limits.heartbeat_age_us
    if fold is not None and here and fold.tail == "off":
        return "the stream's driver runs without the tail: slicewise stream ensure"
    lag = behind(latest, ledger)
    return f"the fold is {lag} events behind, more than {limit}" if lag > limit else None


def lives(tail: StreamStatus | None, now_us: int) -> bool:
    """Tells whether the tail brings events now, so that nobody waits for the fold."""
    return tail is not None and tail.state == "running" and not tail.waiting and now_us - tail.heartbeat_us < _SILENT_US


def slots(partitions: Mapping[str, int]) -> int:
    """Slots of a local session for these partitions of sources: one for each for ever, and one more while a query takes
    over from another."""
    return max(SPARE_SLOTS, 2 * sum(partitions.values()))


def speaks(heard: bool, age_s: float) -> bool:
    """Tells whether a query that began can be judged: its writers were heard, or so long was time for it."""
    return heard or age_s >= _QUIET_S


def relieved(ends: Mapping[int, int], reached: Mapping[int, int], folded: Mapping[int, int]) -> bool:
    """Tells whether a query that began beside another has caught up, so that the other may end.

    By partition: where the log ended when it could be judged first; what it has acknowledged; the ledger."""
    return all(max(reached.get(p, 0), folded.get(p, 0)) >= end for p, end in ends.items())


def fold_wait_s(most: int, records: int, took_s: float, over_s: float, pace: Pace) -> float:
    """Seconds that the fold waits after a batch while the tail lives.

    most: rows of its hottest entity; records: of the batch; took_s: what it took; over_s: since the start of the one
    before it. So short that at this rate an entity's tail stays within half of its bound; none after a batch that was
    half as large as one may be: the fold is behind.
    """
    if 2 * records >= pace.most_records:
        return 0.0
    interval_s = pace.longest_s if most <= 0 else min(pace.longest_s, pace.bound * _SHARE * over_s / most)
    return max(0.0, interval_s - took_s)
