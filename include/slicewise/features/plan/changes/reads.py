"""The stored fields that a read takes are counted, by level, of the very intervals that it
combines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slicewise.features.plan.unit import StorageUnit
from slicewise.windows.bounds import floor
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from slicewise.windows.periodic import Periodic
from slicewise.windows.segments import (
    FIVE_DAYS,
    FIVE_DAYS_US,
    segments,
    slice_segments,
    whole_five_days,
)
from slicewise.windows.window import Window

Fields = set[tuple[str, int]]
"""(letter of the field, which five-day total, day or hour)."""
LEVELS = ("p", "d", "h", "m", "s")
SOME_FIVE_DAYS = 4_000
HOURS_PER_DAY = 24


@dataclass(frozen=True)
class WindowReads:
    """A window, and the fields that a live read of it takes at most besides the hot hash (read
    whole).

    five-day totals, days, hours: totals; minutes, slices: hours of which such rows are read; lists:
    of days, which of their hours are compacted.
    """

    window: str
    pentads: int
    days: int
    hours: int
    minutes: int
    slices: int
    lists: int


def window_reads(unit: StorageUnit) -> tuple[WindowReads, ...]:
    """One per window of a unit, in the order of its features."""
    rows = []
    for window in _windows(unit):
        most = _most(unit, [window])
        counts = [sum(letter == level for letter, _ in most) for level in (*LEVELS, "c")]
        rows.append(WindowReads(window.column_suffix(), *counts))
    return tuple(rows)


def fields_of_all(unit: StorageUnit) -> int:
    """Fields that a live read of all windows takes, when it takes most."""
    return len(_most(unit, _windows(unit)))


def _windows(unit: StorageUnit) -> list[Window]:
    return list(dict.fromkeys(feature.window for feature in unit.features))


def _most(unit: StorageUnit, windows: Iterable[Window]) -> Fields:
    of = list(windows)
    every = (
        {field for window in of for field in _fields(unit, window, t)} for t in _times(unit, of)
    )
    return max(every, key=len)


def _times(unit: StorageUnit, windows: Sequence[Window]) -> Iterator[int]:
    """Times among which one is of a read that takes most: any hour of the days of a five-day total,
    and of the last days of a hop of days; soon after the hour began, shortly before it is over, and
    at its end."""
    days = {
        SOME_FIVE_DAYS * FIVE_DAYS + day for day in range(FIVE_DAYS if unit.five_day_totals else 1)
    }
    for hop_us in {w.hop_us for w in windows if isinstance(w, Periodic) and w.hop_us > DAY_US}:
        first = SOME_FIVE_DAYS * FIVE_DAYS_US // hop_us
        lasts = [
            (number * hop_us - 1) // DAY_US for number in range(first + 1, first + 1 + FIVE_DAYS)
        ]
        days |= {day - before for day in lasts for before in (0, 1)}
    little = {unit.slice_us, max(unit.slice_us, MINUTE_US)}
    shifts = {0, *(window.offset_us % HOUR_US for window in windows)}
    ends = {
        by + offset
        for by in shifts
        for offset in (*little, *(HOUR_US - shift_us for shift_us in little), HOUR_US)
    }
    # just before a slice ends, a live window is longer by it
    yield from (
        day * DAY_US + hour * HOUR_US + us - 1
        for day in days
        for hour in range(HOURS_PER_DAY)
        for us in ends
    )


def _fields(unit: StorageUnit, window: Window, t: int) -> Iterator[tuple[str, int]]:
    """Fields of a live read at t."""
    start, end = window.bounds("live", t, unit.slice_us)
    if window.unbounded:  # older days are in the total
        start = floor(t - unit.retention_us, DAY_US)
    by_five_days = window.reads_five_days or (window.unbounded and unit.five_day_totals)
    if window.session_gap_us:
        parts = slice_segments(start, end, unit.slice_us)
    else:
        parts = segments(start, end, unit.slice_us, window.resolution(unit.slice_us))
    five_days, days = whole_five_days(parts.days) if by_five_days else (range(0), tuple(parts.days))
    for day in (*days, *range(five_days.start * FIVE_DAYS, five_days.stop * FIVE_DAYS)):
        yield "c", day
    for letter, numbers in (("p", five_days), ("d", days), ("h", parts.hours)):
        for number in numbers:
            yield letter, number
    for part in parts.ranges:
        hour = part.start_us // HOUR_US
        yield "h", hour
        yield "m" if part.level_us != unit.slice_us and part.level_us in unit.levels else "s", hour
