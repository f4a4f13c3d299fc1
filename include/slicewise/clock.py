"""Nothing reads the time by itself: a Clock is handed in, and gives integer microseconds UTC."""

from __future__ import annotations

import time
from typing import Protocol

END_OF_TIME_US = 253_402_300_800_000_000
"""10000-01-01: events and questions have times from 1970 to before this, as the record reader has
it."""


class Clock(Protocol):
    """Tells the time."""

    def now_us(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000


class ManualClock:
    """A clock that stands until it is told to move: for tests, simulation and replay."""

    def __init__(self, now_us: int = 0) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def set(self, now_us: int) -> None:
        """Moves to now_us; backwards too, as real clocks do."""
        self._now_us = now_us

    def advance(self, by_us: int) -> None:
        """Moves by by_us microseconds."""
        self._now_us += by_us
