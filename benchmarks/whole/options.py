"""Length and size of a run; the figures say which."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Options of one run."""

    seconds: float = 60.0
    """Seconds of each timed measurement."""
    events: int = 1_000_000
    """In the backlog."""
    rate: float = 2_000.0
    """Events per second while freshness is measured."""
    probes_per_s: float = 10.0
    users: int = 200
    """With a history, of whom is asked."""
    windows_events: int = 3_000
    """Applied per number of windows."""

    @staticmethod
    def quick() -> Options:
        """Enough to see that everything works; its figures are rough."""
        return Options(seconds=8.0, events=100_000, users=40, windows_events=600)
