"""A broker that does not answer is told after a while, and once more when it answers again.

Drivers wait for it and go on by themselves: nothing is started meanwhile, and what waits is no
fault of theirs (lifecycle/supervision.py). Jobs that were due while nobody watched have their time
anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicewise.lifecycle.supervision import Notice

NOTICE_US = 30_000_000
"""An absence that ends before is told nobody: a broker that is restarted comes back in it."""
GAP_US = 600_000_000
"""Nobody watched between two looks that lie further apart: the platform was off."""


@dataclass(frozen=True)
class Absence:
    """Absence of a server, kept from look to look."""

    reason: str = ""
    """Reason why it does not answer; empty while it does."""
    since_us: int = 0
    """Time at which it was first seen not to answer."""
    notified: bool = False
    """Tells whether somebody was notified of it."""


def step(kept: Absence, away: str, now_us: int) -> tuple[Absence, tuple[Notice, ...]]:
    """State after a look, and what to tell. away: why the server does not answer; empty where it
    does."""
    if not away:
        lasted_s = (now_us - kept.since_us) / 1e6
        text = f"it answers again, after {lasted_s:.0f} s ({kept.reason})"
        return Absence(), (Notice("over", text),) if kept.notified else ()
    since_us = kept.since_us if kept.reason else now_us
    absence = replace(kept, reason=away, since_us=since_us)
    if kept.notified or now_us - since_us < NOTICE_US:
        return absence, ()
    lasted_s = (now_us - since_us) / 1e6
    text = f"{away}, for {lasted_s:.0f} s; drivers wait for it, and none is started meanwhile"
    return replace(absence, notified=True), (Notice("down", text),)


@dataclass(frozen=True)
class Watched:
    """Time in which somebody watches without a gap, by the watcher's clock: a job that was due
    while all was off has its time from then on."""

    since_us: int = 0
    """0 where no gap is known."""
    last_us: int = 0
    """Time of the last look."""

    def after(self, now_us: int) -> Watched:
        """The time after a look at now_us."""
        gap = self.last_us > 0 and now_us - self.last_us > GAP_US
        return Watched(now_us if gap else self.since_us, now_us)

    def gives_time(self, now_us: int, allowed_us: int) -> bool:
        """Tells whether a job that was due before still has some of the time allowed."""
        return 0 <= now_us - self.since_us < allowed_us
