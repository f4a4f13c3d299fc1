"""An interval is read as whole days, whole hours beside them and slices beside those; no event
twice, none left out."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from slicewise.windows.bounds import ceil, floor
from slicewise.windows.durations import DAY_US, HOUR_US

FIVE_DAYS = 5
FIVE_DAYS_US = FIVE_DAYS * DAY_US
"""Five days, aligned to the epoch: wherever a month begins, it holds about as many whole ones as
days beside them."""


@dataclass(frozen=True)
class SliceRange:
    """[start, end) inside one hour, read as rows of `level_us` (the slice, or the minute)."""

    start_us: int
    end_us: int
    level_us: int


@dataclass(frozen=True)
class Segments:
    """Parts that a reader combines for an interval: disjoint, and together exactly the interval.

    `days` and `hours` are numbered since the epoch; `hours` lie outside of `days`, `ranges`
    outside of both.
    """

    days: range
    hours: tuple[int, ...]
    ranges: tuple[SliceRange, ...]


def slice_segments(start_us: int, end_us: int, slice_us: int) -> Segments:
    """[start, end) by slices alone, as a session is walked; bounds as `segments` takes them."""
    edges = [start_us, *range(floor(start_us, HOUR_US) + HOUR_US, end_us, HOUR_US), end_us]
    ranges = (SliceRange(a, b, slice_us) for a, b in itertools.pairwise(edges) if a < b)
    return Segments(range(0), (), tuple(ranges))


def whole_five_days(days: range) -> tuple[range, tuple[int, ...]]:
    """Numbers of the five days that lie whole among consecutive days, and the days outside of
    them."""
    first, end = -(-days.start // FIVE_DAYS), days.stop // FIVE_DAYS
    if first >= end:
        return range(0), tuple(days)
    return range(first, end), (
        *range(days.start, first * FIVE_DAYS),
        *range(end * FIVE_DAYS, days.stop),
    )


def segments(start_us: int, end_us: int, slice_us: int, resolution_us: int) -> Segments:
    """Whole days, whole hours outside of them, and slices outside of those, of [start, end).

    Requires bounds that are multiples of the slice, as live and at have. A range is read at the
    resolution where both its ends are multiples of it, else by slices.
    """
    if start_us % slice_us or end_us % slice_us:
        raise ValueError(f"[{start_us}, {end_us}) is not cut at slices of {slice_us}")
    if end_us <= start_us:
        return Segments(range(0), (), ())
    first_hour, last_hour = ceil(start_us, HOUR_US) // HOUR_US, end_us // HOUR_US
    edges: list[tuple[int, int]]
    if first_hour > last_hour:  # inside one hour
        return Segments(range(0), (), (_range(start_us, end_us, slice_us, resolution_us),))
    edges = [(start_us, first_hour * HOUR_US), (last_hour * HOUR_US, end_us)]
    ranges = tuple(_range(a, b, slice_us, resolution_us) for a, b in edges if a < b)
    first_day, last_day = -(-first_hour // 24), last_hour // 24
    if first_day >= last_day:
        return Segments(range(0), tuple(range(first_hour, last_hour)), ranges)
    hours = (*range(first_hour, first_day * 24), *range(last_day * 24, last_hour))
    return Segments(range(first_day, last_day), hours, ranges)


def _range(start_us: int, end_us: int, slice_us: int, resolution_us: int) -> SliceRange:
    coarse = resolution_us < HOUR_US and not (start_us % resolution_us or end_us % resolution_us)
    return SliceRange(start_us, end_us, resolution_us if coarse else slice_us)
