"""A slice divides the hour, and every length, hop and offset of the windows that are read by it."""

from __future__ import annotations

from collections.abc import Iterable

from slicewise.errors import DefinitionError
from slicewise.windows.durations import HOUR_US, MINUTE_US, SECOND_US, format_duration
from slicewise.windows.window import Window

SLICES: tuple[int, ...] = tuple(
    int(seconds * SECOND_US) for seconds in (0.1, 1, 2, 5, 10, 30, 60, 300, 900, 3600)
)
"""Slices that the planner chooses from, ascending."""
MAX_RATIO = 60
"""Windows whose own slices differ by more than this are stored in different units."""
LIFETIME_GRAIN_US = 10 * MINUTE_US
"""The upper bound of ten slices where no window has a length."""


def default_slice(windows: Iterable[Window]) -> int:
    """The largest of SLICES that divides all lengths, hops and offsets. It is at most a tenth of
    any length, and of any session's gap.

    Every one of SLICES divides the hour. Raises DefinitionError if none fits.
    """
    windows = tuple(windows)
    steps = {step for window in windows for step in window.steps_us()}
    shortest = min(
        (window.grain_us for window in windows if window.grain_us), default=LIFETIME_GRAIN_US
    )
    for slice_us in reversed(SLICES):
        if slice_us * 10 <= shortest and all(step % slice_us == 0 for step in steps):
            return slice_us
    raise DefinitionError(
        f"no slice fits the windows {', '.join(w.column_suffix() for w in windows)}",
        expected=f"lengths, hops and offsets that are multiples of {format_duration(SLICES[0])}, "
        f"and no window or gap under {format_duration(10 * SLICES[0])}",
        next_step="change the window, or declare slice= on the view",
    )


def check_slice(slice_us: int, windows: Iterable[Window]) -> None:
    """Refuse a declared slice that does not divide the hour and every length, hop and offset."""
    text = format_duration(slice_us)
    if HOUR_US % slice_us:
        raise DefinitionError(
            f"a slice of {text} does not divide the hour",
            expected="a slice that divides 1h, such as 1s, 30s, 1m, 5m, 15m or 1h",
            next_step="declare such a slice, or none",
        )
    for window in windows:
        window.check_slice(slice_us)
