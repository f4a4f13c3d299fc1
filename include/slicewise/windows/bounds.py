"""Boundaries are multiples of a step since the epoch, in microseconds UTC; intervals half-open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US

Mode = Literal["live", "at", "event_time", "row"]
Smaller = Callable[[Any, Any], Any]
"""`min` of two numbers, or `np.minimum` of two columns."""

LEVELS: tuple[int, ...] = (MINUTE_US, HOUR_US, DAY_US)
EARLIEST_US = -62_135_596_800_000_000
"""0001-01-01: where a window begins that only counts rows, or holds all events."""


def floor(t: int, step: int) -> int:
    """The latest multiple of `step` at or before t."""
    return t // step * step


def ceil(t: int, step: int) -> int:
    """The earliest multiple of `step` at or after t."""
    return -(-t // step) * step


def levels_from(slice_us: int) -> tuple[int, ...]:
    """Steps that bounds may be aligned to, the finest first: the slice, and each level that it
    divides."""
    return (slice_us, *(level for level in LEVELS if level > slice_us and level % slice_us == 0))


def present(mode: Mode, t: Any, slice_us: int) -> Any:
    """The end of a window that ends at t, a number or a column of them.

    live: after the slice in which t lies. at: before it. event_time: t itself. row: with the events
    of t.
    """
    if mode == "live":
        return ceil(t, slice_us)
    if mode == "at":
        return floor(t, slice_us)
    return t + 1 if mode == "row" else t
