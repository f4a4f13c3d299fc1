"""Seconds that each phase of a run took, on the wall's clock: they show what a slow check is slow
at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slicewise.clock import Clock


@contextmanager
def timed(seconds: dict[str, float], phase: str, clock: Clock) -> Iterator[None]:
    """Adds what passes within to the phase's seconds, also where it ends in an error."""
    begun = clock.now_us()
    try:
        yield
    finally:
        seconds[phase] = round(seconds.get(phase, 0.0) + (clock.now_us() - begun) / 1e6, 3)
