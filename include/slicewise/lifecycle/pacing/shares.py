"""A build beside views that answer gives way to live events: a pure decision from look to look.

A look gives how late live events come into answers. The share of its time at which a build works
falls while that is beyond the bound, and rises when it is not; it is never below `FLOOR`, so that
every build ends (docs/adr/0132).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slicewise.stores.online.model.status import Status

LOOK_S = 5.0
"""Seconds from look to look."""
FLOOR = 0.1
SLOWER, FASTER = 0.5, 1.25
"""Most by which a look lowers the share, and by how much one raises it."""
MOST_PAUSE_S = 30.0
BATCH_TIMES = 10.0
"""Times the bound that events may be late which no real-time lane brings: each waits for its
micro-batch, also where nothing is built."""
OVERDUE_US, SILENT_US = 10_000_000, 60_000_000
"""Ages of a heartbeat from which its driver counts as late by them, and as not at work."""


@dataclass(frozen=True)
class Freshness:
    """Lateness of live events at a look. late_ms: None where nothing at work measures it."""

    late_ms: float | None = None
    by: str = ""
    """Name of what measured the latest: a source, or the probes."""
    times: float = 1.0
    """Times the bound that these events may be late."""


UNMEASURED = Freshness()


def freshness(lanes: Iterable[Status], now_us: int) -> Freshness:
    """The latest of what lanes measure, each beside what it may be. lanes: of each source the one
    that makes its events visible first (`overview.freshness_of`)."""
    seen = [
        Freshness(
            max(
                lane.stalled_us / 1000,
                lane.freshness_p99_ms or 0.0,
                _overdue_ms(lane.heartbeat_us, now_us),
            ),
            lane.source,
            times_of(lane),
        )
        for lane in lanes
        if at_work(lane.state, lane.heartbeat_us, now_us)
    ]
    return latest(seen)


def times_of(lane: Status) -> float:
    """Times the bound that a lane's events may be late."""
    return BATCH_TIMES if lane.outcomes is None else 1.0


def latest(seen: Iterable[Freshness]) -> Freshness:
    """The latest of several measures, each beside what it may be."""
    measured = [one for one in seen if one.late_ms is not None]
    return max(measured, key=lambda one: (one.late_ms or 0.0) / one.times, default=UNMEASURED)


def next_share(share: float, late_ms: float | None, bound_ms: float) -> float:
    """The share of its time at which a build works after a look. late_ms: None where nobody
    measures it: then nobody is seen to wait, and the build does not either."""
    if late_ms is None or bound_ms <= 0:
        return 1.0
    if late_ms <= bound_ms:
        return min(1.0, share * FASTER)
    return max(FLOOR, share * max(SLOWER, bound_ms / late_ms))


def pause_s(took_s: float, share: float) -> float:
    """Seconds to rest after work that took so many, so that it fills this share of the time."""
    return min(MOST_PAUSE_S, took_s * (1 / max(FLOOR, min(1.0, share)) - 1))


def reason(fresh: Freshness, share: float, bound_ms: float) -> str:
    """Text of why a build is slow; empty where it is not."""
    if share >= 1.0:
        return ""
    bound_ms *= fresh.times
    late = (
        "live freshness recovers"
        if fresh.late_ms is None or fresh.late_ms <= bound_ms
        else f"live events come into answers after {fresh.late_ms / 1000:,.1f} s ({fresh.by})"
    )
    return f"slowed to {share:.0%} of its rate: {late}, {bound_ms / 1000:,.1f} s is the bound"


def at_work(state: str, heartbeat_us: int, now_us: int) -> bool:
    """Tells whether a driver, or the prober, measures now."""
    return state == "running" and now_us - heartbeat_us <= SILENT_US


def _overdue_ms(heartbeat_us: int, now_us: int) -> float:
    age_us = now_us - heartbeat_us
    return age_us / 1000 if age_us > OVERDUE_US else 0.0
