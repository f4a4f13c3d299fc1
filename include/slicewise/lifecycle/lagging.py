"""A micro-batch lane that applies events, and fewer than come, is told once; and once more when it
is near the log's end again.

One that works off what had gathered is told nobody: its lag falls. Nothing is started or ended: a
new driver would be no quicker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slicewise.lifecycle.supervision import Notice
from slicewise.stores.online.model.status import Status

NOTICE_US = 120_000_000
"""Longest time that a lag beyond the limit may take to fall below what it was."""
_NEAR = 4
"""A lane is near again that is behind by this part of the limit."""


@dataclass(frozen=True)
class Lag:
    """Lag of a source beyond the limit, kept from look to look."""

    first_us: int
    """Time at which it was first seen."""
    least: int
    """Fewest events that waited since."""
    least_us: int
    """Time at which so few waited last."""
    notified: bool = False
    """Tells whether somebody was notified of it."""


def behind_s(status: Status) -> float | None:
    """Seconds that the events that wait would take at the rate of the last minute; None where none
    was applied in it."""
    if not status.lag_events:
        return 0.0
    return status.lag_events / status.events_per_s if status.events_per_s > 0 else None


def step(
    kept: Mapping[str, Lag], statuses: Sequence[Status], now_us: int, limit_s: float
) -> tuple[dict[str, Lag], tuple[Notice, ...]]:
    """The lags after a look, by source, and what to tell. statuses: of the lane's sources; none
    where it was stopped on purpose. limit_s: seconds that a lane may be behind."""
    lags: dict[str, Lag] = {}
    notices = []
    for status in statuses:
        lag, notice = _of_source(kept.get(status.source), status, now_us, limit_s)
        if lag is not None:
            lags[status.source] = lag
        if notice is not None:
            notices.append(notice)
    seen = {status.source for status in statuses}
    notices += [
        Notice("over", f"{source}: it is applied here no more")
        for source, lag in kept.items()
        if source not in seen and lag.notified
    ]
    return lags, tuple(notices)


def _of_source(
    kept: Lag | None, status: Status, now_us: int, limit_s: float
) -> tuple[Lag | None, Notice | None]:
    behind, waits = behind_s(status), status.lag_events
    if behind is None:
        return kept, None  # it is stuck, or was just started: supervision's matter
    if kept is None:
        return (Lag(now_us, waits, now_us) if behind > limit_s else None), None
    if behind <= limit_s / _NEAR:
        lasted_s = (now_us - kept.first_us) / 1e6
        text = f"{status.source}: it is near the log's end again, after {lasted_s:.0f} s"
        return None, Notice("over", text) if kept.notified else None
    if waits < kept.least:
        return replace(kept, least=waits, least_us=now_us), None
    if kept.notified or now_us - kept.least_us < NOTICE_US:
        return kept, None
    text = (
        f"{status.source}: {waits:,} events behind, {behind:.0f} s at its {status.events_per_s:,.0f}"
        f" events/s, and no fewer since {(now_us - kept.least_us) / 1e6:.0f} s"
    )
    return replace(kept, notified=True), Notice("down", text)


def to_json(kept: Mapping[str, Lag]) -> dict[str, object]:
    """Plain values of all sources."""
    return {source: asdict(lag) for source, lag in kept.items()}


def from_json(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Lag]:
    """Raises TypeError or AttributeError where it is none."""
    return {source: Lag(**lag) for source, lag in raw.items()}
