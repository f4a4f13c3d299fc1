"""A probe counts from the time at which it was due: nothing that stands still hides late answers.

All that are not in an answer yet are asked for in one request: every millisecond at first, then
less often the older the youngest of them is. One that never showed is lost, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

EVERY_S = 1.0
PATIENCE_S = 60.0
"""After which a probe is lost. Beyond it the feature would not count its event for much longer."""
POLL_S = 0.001
AGED = 0.1
"""Share of its age: the pause before a probe is asked for again, which bounds how exactly it is
measured, and the cost."""
REFUSED_S = 0.25
"""The pause after a question that nobody answered."""


@dataclass(frozen=True)
class Seen:
    """Probes of one step. Seconds from when each was due to the answer."""

    freshness: Sequence[float] = ()
    lost: int = 0


@dataclass
class Prober:
    """The rule; `step` is called in a loop, and `wake` says when it wants to be. Times are a
    monotonic clock's seconds.

    produce: makes the event of a probe; request: which of these probes are in an answer, None where
    there is none.
    """

    produce: Callable[[str], None]
    request: Callable[[Sequence[str]], Sequence[bool] | None]
    now: Callable[[], float]
    name: str
    """Name of this run: no two runs have a probe in common."""
    number: int = 0
    shown: bool = False
    """Tells whether one was ever in an answer. Until then the platform is starting, and nothing is
    said of freshness."""
    _due: float | None = None
    _poll_at: float = 0.0
    _waiting: dict[str, float] = field(default_factory=dict)

    def step(self) -> Seen:
        """Produces what is due, asks if it is time, and gives up on what is too old."""
        now = self.now()
        if self._due is None:
            self._due = now
        if now >= self._due:
            probe = f"{self.name}-{self.number}"
            self.number += 1
            self._waiting[probe] = self._due
            self.produce(probe)
            self._poll_at = (
                min(self._poll_at, self.now() + POLL_S)
                if len(self._waiting) > 1
                else self._due + POLL_S
            )
            # a process that was stopped for long makes no probes of the past
            self._due = max(self._due + EVERY_S, now)
        fresh = self._poll() if self._waiting and self.now() >= self._poll_at else ()
        lost = [probe for probe, since in self._waiting.items() if self.now() - since > PATIENCE_S]
        for probe in lost:
            del self._waiting[probe]
        return Seen(fresh, len(lost))

    def _poll(self) -> Sequence[float]:
        probes = list(self._waiting)
        request = self.request(probes)
        now = self.now()
        if request is None:
            self._poll_at = now + REFUSED_S
            return ()
        fresh = [
            now - self._waiting.pop(probe)
            for probe, there in zip(probes, request, strict=True)
            if there
        ]
        youngest = now - max(self._waiting.values(), default=now)
        self._poll_at = now + max(POLL_S, AGED * youngest)
        if fresh and not self.shown:
            self.shown = True
            return ()
        return fresh

    def wake(self) -> float:
        """Seconds until `step` has something to do."""
        due = self._due if self._due is not None else self.now()
        return max(0.0, (min(due, self._poll_at) if self._waiting else due) - self.now())

    def waiting_s(self) -> float:
        """Age of the oldest probe that is in no answer yet; 0 where none is waited for."""
        return max(0.0, self.now() - min(self._waiting.values())) if self._waiting else 0.0
