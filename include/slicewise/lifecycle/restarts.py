"""A server that died is started again: at once, then ever later while it dies again, and never one
that was stopped.

Decisions only, over what is kept per server from look to look: the watcher
(`local/servers/watch.py`) looks, starts and keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

DAY_US = 86_400_000_000
FIRST_WAIT_US = 1_000_000
MOST_WAIT_US = 300_000_000
"""A server that cannot live is tried every five minutes: what it lacked may be there again."""
WELL_US = 300_000_000
"""One that has lived for so long since its last start begins without waiting when it dies again."""
LOOP = 5
"""Starts in a row that are told once, as a loop: somebody has to look."""
_KEPT = 100


@dataclass(frozen=True)
class Restarts:
    """Restarts of one server."""

    at_us: tuple[int, ...] = ()
    """Times at which it was started again, over the last day."""
    in_a_row: int = 0
    """Starts since it last lived for long."""
    next_us: int | None = None
    """Time at which it is started again; None while it lives."""
    error: str = ""
    """Reason for which the last start failed."""

    @property
    def loops(self) -> bool:
        """Tells whether it dies again and again."""
        return self.in_a_row >= LOOP

    def due(self, now_us: int) -> bool:
        """Tells whether it is to be started now. A clock that was set back lets nobody wait for
        longer than the longest."""
        return self.next_us is not None and not now_us < self.next_us <= now_us + MOST_WAIT_US


def wait_us(in_a_row: int) -> int:
    """The wait before the next start after so many in a row: none, a second, and twice as long each
    time."""
    if in_a_row == 0:
        return 0
    return min(FIRST_WAIT_US << min(in_a_row - 1, 16), MOST_WAIT_US)


def alive(kept: Restarts, now_us: int) -> Restarts:
    """After a look that found it alive."""
    last_us = kept.at_us[-1] if kept.at_us else None
    long = last_us is None or not last_us <= now_us < last_us + WELL_US
    fresh = replace(kept, in_a_row=0, error="") if long else kept
    return replace(fresh, next_us=None)


def dead(kept: Restarts, now_us: int) -> Restarts:
    """After a look that found it dead, which nobody meant."""
    return (
        kept if kept.next_us is not None else replace(kept, next_us=now_us + wait_us(kept.in_a_row))
    )


def stopped(kept: Restarts) -> Restarts:
    """After a look that found it stopped on purpose, or never started."""
    return Restarts(kept.at_us)


def started(kept: Restarts, now_us: int, error: str = "") -> Restarts:
    """After a start, or one that failed."""
    at_us = (*(restart for restart in kept.at_us if now_us - DAY_US < restart <= now_us), now_us)[
        -_KEPT:
    ]
    in_a_row = kept.in_a_row + 1
    return Restarts(at_us, in_a_row, now_us + wait_us(in_a_row) if error else None, error)


def failed(kept: Restarts, now_us: int, error: str) -> Restarts:
    """After a start that was counted and turned out to have failed."""
    return replace(kept, next_us=now_us + wait_us(kept.in_a_row), error=error)


def needless(kept: Restarts) -> Restarts:
    """After a start that was not made: somebody else had stopped the server, or started it. No
    restart is told of it; it makes the next one wait all the same, so that what stays so is not
    tried at each look."""
    return replace(kept, in_a_row=kept.in_a_row + 1, next_us=None)


def summary(kept: Restarts, now_us: int) -> str:
    """For people; empty where there is nothing to say."""
    times = [at_us for at_us in kept.at_us if now_us - DAY_US < at_us]
    parts = []
    if times:
        last = datetime.fromtimestamp(times[-1] / 1e6, UTC).strftime("%H:%M:%S")
        many = "once" if len(times) == 1 else f"{len(times)} times"
        parts.append(f"restarted {many} in the last day, last at {last} UTC")
    if kept.loops:
        parts.append("it dies again and again")
    if kept.error:
        parts.append(f"the last start failed: {kept.error}")
    if kept.next_us is not None:
        parts.append(f"next try in {max(0, kept.next_us - now_us) / 1e6:.0f} s")
    return "; ".join(parts)


def to_json(kept: Mapping[str, Restarts]) -> dict[str, object]:
    """Plain values of all servers."""
    return {name: asdict(restarts) for name, restarts in kept.items()}


def from_json(raw: object) -> dict[str, Restarts]:
    """Raises ValueError, TypeError, KeyError or AttributeError where it is none."""
    named = raw if isinstance(raw, dict) else {}
    return {
        str(name): Restarts(
            tuple(int(at) for at in restarts["at_us"]),
            int(restarts["in_a_row"]),
            None if restarts["next_us"] is None else int(restarts["next_us"]),
            str(restarts["error"]),
        )
        for name, restarts in named.items()
    }
