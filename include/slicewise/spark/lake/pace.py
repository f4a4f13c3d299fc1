"""A build's pace is looked up by a thread of its own; whoever works rests after each piece.

docs/adr/0132. The decision is `lifecycle.pacing`'s; here stand the look and the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from slicewise.errors import BadRequest, SlicewiseError
from slicewise.features import own
from slicewise.lifecycle.health.overview import freshness_of, probes_of
from slicewise.lifecycle.pacing import shares
from slicewise.lifecycle.pacing.shares import Freshness
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.online.redis.status import read_status

_UNREADABLE = (SlicewiseError, OSError, LookupError, TypeError, ValueError)
"""Errors by which a look fails: ours, those of a connection, and of texts that another version of
slicewise wrote."""


@dataclass
class Pace:
    """Pace of a build. look: gives the lateness of live events now; bound_ms: 0 for none."""

    bound_ms: int
    look: Callable[[], Freshness]
    share: float = 1.0
    """Share of its time at which the build works."""
    slowest: float = 1.0
    rested_s: float = 0.0
    unmeasured: str = ""
    """Reason why the last look that failed did; empty where none did."""
    _away: bool = False
    _seen: Freshness = shares.UNMEASURED
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def slowed(self) -> bool:
        return self.share < 1.0

    @property
    def reason(self) -> str:
        """Text of why it is slow; empty where it is not."""
        return shares.reason(self._seen, self.share, self.bound_ms)

    def step(self) -> None:
        """Looks once, and decides. A look that fails measures nothing, and is told once."""
        was, self._seen = self.share, self._looked()
        self.share = shares.next_share(was, self._seen.late_ms, self.bound_ms * self._seen.times)
        self.slowest = min(self.slowest, self.share)
        if (was < 1.0) != self.slowed:
            event("build_paced", share=round(self.share, 3), late_ms=self._seen.late_ms)

    def _looked(self) -> Freshness:
        try:
            seen = self.look()
        except _UNREADABLE as error:  # the store is away, or another version wrote the status
            self.unmeasured = error.what if isinstance(error, SlicewiseError) else repr(error)
            if not self._away:
                warning("build_not_paced", error=self.unmeasured)
            self._away = True
            return shares.UNMEASURED
        self._away = False
        return seen

    def rest(self, took_s: float) -> None:
        """Rests after a piece of work that took so many seconds."""
        pause_s = shares.pause_s(took_s, self.share)
        if pause_s > 0:
            self.rested_s += pause_s
            self._over.wait(pause_s)

    @contextmanager
    def looking(self) -> Iterator[Pace]:
        """Looks every few seconds meanwhile; not at all without a bound."""
        if not self.bound_ms:
            yield self
            return
        thread = threading.Thread(target=self._run, name="pace", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self.step()
            self._over.wait(shares.LOOK_S)


def look_of(redis_url: str) -> Freshness:
    """The lateness of live events, by what lanes and probes wrote into the store last."""
    status = read_status(redis_url, ())
    first = freshness_of(status)
    lanes = shares.freshness(first, status.now_us)
    try:
        probes = probes_of(status)
    except BadRequest:  # of another version: the lanes measure
        probes = None
    if probes is None or not shares.at_work(probes.state, probes.heartbeat_us, status.now_us):
        return lanes
    times = max((shares.times_of(lane) for lane in first if lane.source == own.SOURCE), default=1.0)
    late_ms = max(probes.waiting_ms, probes.minute_p99_ms or 0.0)
    of_probes = Freshness(late_ms, "the probes", times)
    return shares.latest([lanes, of_probes])
