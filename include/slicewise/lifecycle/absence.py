"""A broker that does not answer is told after a while, and once more when it answers again.

Drivers wait for it and go on by themselves: nothing is started meanwhile, and what waits is no
fault of theirs (lifecycle/supervision.py). Where nobody watched for a while, as the platform was
off, jobs have their time anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slicewise.lifecycle.supervision import Notice

NOTICE_US = 30_000_000
"""An absence that ends before is told nobody: a broker that is restarted comes back in it."""
GAP_US = 600_000_000
"""Nobody watched between two looks that lie further apart: the platform was off."""
WATCHED = "watched"
"""Part of the store's status that says since when somebody watches."""


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
    """Time in which somebody watches without a gap: jobs have their time anew after one. The store
    keeps it, as watches of several machines are one; times by the watchers' clocks."""

    since_us: int = 0
    """0 where no gap is known."""
    last_us: int = 0
    """Time of the last look."""

    @staticmethod
    def of(texts: Iterable[str]) -> Watched:
        """The newest of what nodes of the store have; nothing known where none can be read."""
        return max(map(_watched, texts), key=lambda one: one.last_us, default=Watched())

    def text(self) -> str:
        """The inverse of `of`."""
        return json.dumps({"since_us": self.since_us, "last_us": self.last_us})

    def after(self, now_us: int) -> Watched:
        """The time after a look at now_us."""
        gap = self.last_us > 0 and now_us - self.last_us > GAP_US
        # one that lies ahead is of a clock that was wrong
        since_us = self.since_us if self.since_us <= now_us else 0
        return Watched(now_us if gap else since_us, now_us)

    def gives_time(self, now_us: int, allowed_us: int) -> bool:
        """Tells whether jobs still have some of the time allowed since the gap."""
        return 0 <= now_us - self.since_us < allowed_us


def _watched(text: str) -> Watched:
    try:
        raw = json.loads(text)
        return Watched(int(raw["since_us"]), int(raw["last_us"]))
    except (ValueError, TypeError, KeyError):
        return Watched()
