"""A plan names, before anything is read, each stored field that an answer needs, and in which
windows each counts; within one window no event is named by two fields.

Plans are pure functions of (unit, features, mode, t) through the windows' bounds alone, so that
one plan serves every read until a bound moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from slicewise import slices
from slicewise import token as tokens
from slicewise.features.plan import PlannedFeature, Unit
from slicewise.slices import DAY_US, HOUR_US, MINUTE_US

ReadMode = Literal["live", "at"]
Interval = tuple[int, int]
BoolRow = npt.NDArray[np.bool_]
HOURS_PER_DAY = 24

COVERED_HOURS, DAY_TOTAL = b"c", b"d"


@dataclass(frozen=True)
class HourTotal:
    """Field `h:<hour>`: counts in the windows of `inside` (bool, one per interval)."""

    hour: int
    inside: BoolRow


@dataclass(frozen=True)
class HourRows:
    """Field `s:<hour>` or `m:<hour>`: each row counts in the windows whose part of this hour holds it.

    starts, ends: int64 per interval, row numbers of `level_us`, half-open; equal where none.
    """

    hour: int
    level_us: int
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@dataclass(frozen=True)
class DayTotal:
    """Fields `c` and `d`: the whole day counts in the windows of `inside`."""

    day: int
    inside: BoolRow


Part = HourTotal | HourRows | DayTotal | None


@dataclass(frozen=True)
class DayFields:
    """What is fetched of one day hash: field names, and for each what it means."""

    day: int
    """Days since the epoch."""
    names: tuple[bytes, ...]
    parts: tuple[Part, ...]
    """One per name; None at `c`, which its day's total is checked against."""


@dataclass(frozen=True, eq=False)
class ReadPlan:
    """One unit's part of a read: what to fetch for each entity, and how it is combined."""

    unit: Unit
    features: tuple[PlannedFeature, ...]
    mode: ReadMode
    intervals: tuple[Interval, ...]
    """Distinct effective bounds, (start_us, end_us)."""
    interval_of: tuple[int, ...]
    """Per feature its interval."""
    days: tuple[DayFields, ...]
    """Ascending by day."""
    start_us: int
    """Where the earliest window starts: what must still be kept."""
    hours: tuple[int, int]
    """Half-open range of the hours that any window reaches."""
    token_head: bytes
    token_tail: bytes
    without_total: frozenset[int]
    """Days that are read hour by hour, because their total was found to be out of date."""
    boundaries: npt.NDArray[np.int64]
    """Slices at which any interval starts or ends, ascending."""
    inside: npt.NDArray[np.bool_]
    """[len(boundaries) + 1, intervals]: by region between boundaries, the windows that hold it."""
    memory: dict[bytes, object] = field(default_factory=dict, repr=False)
    """What the merge has learned about field names under this plan; bounded by its user."""

    @property
    def bounds(self) -> dict[str, Interval]:
        """Feature column -> effective bounds."""
        return {
            feature.column: self.intervals[i]
            for feature, i in zip(self.features, self.interval_of, strict=True)
        }

    def region(self, slice_number: int) -> BoolRow:
        """Which intervals hold this slice."""
        row: BoolRow = self.inside[np.searchsorted(self.boundaries, slice_number, side="right")]
        return row


def plan_key(unit: Unit, t_us: int) -> tuple[int, bool]:
    """Equal for times between which no bound of the unit's windows moves.

    Bounds are made by floor and ceil to multiples of the slice (all lengths, hops and resolutions
    are such multiples), so they move only at a multiple of the slice and just after it.
    """
    whole, rest = divmod(t_us, unit.slice_us)
    return whole, rest > 0


def plan_read(
    unit: Unit,
    features: Sequence[PlannedFeature],
    mode: ReadMode,
    t_us: int,
    without_total: frozenset[int] = frozenset(),
) -> ReadPlan:
    """The plan of one unit's features at t (microseconds UTC; `live`: the serving clock)."""
    found: dict[Interval, int] = {}
    interval_of = []
    resolution_of: dict[Interval, int] = {}
    for planned in features:
        interval = slices.bounds(planned.window, mode, t_us, unit.slice_us)
        step = slices.resolution(planned.window, unit.slice_us)
        # equal bounds of different windows are read once, by the finer of their resolutions
        resolution_of[interval] = min(step, resolution_of.get(interval, step))
        interval_of.append(found.setdefault(interval, len(found)))
    intervals = tuple(found)
    start_us = min(start for start, _ in intervals)
    end_us = max(end for _, end in intervals)
    boundaries, inside = _regions(intervals, unit.slice_us)
    bounds = {f.column: intervals[i] for f, i in zip(features, interval_of, strict=True)}
    return ReadPlan(
        unit=unit,
        features=tuple(features),
        mode=mode,
        intervals=intervals,
        interval_of=tuple(interval_of),
        days=_day_fields(unit, [(i, resolution_of[i]) for i in intervals], without_total),
        start_us=start_us,
        hours=(start_us // HOUR_US, -(-end_us // HOUR_US)),
        token_head=tokens.head(unit.storage_fingerprint, unit.definition_fingerprint, mode),
        token_tail=tokens.tail(bounds),
        without_total=without_total,
        boundaries=boundaries,
        inside=inside,
    )


def _regions(
    intervals: Sequence[Interval], slice_us: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    cuts = sorted({edge // slice_us for interval in intervals for edge in interval})
    inside = np.zeros((len(cuts) + 1, len(intervals)), np.bool_)
    for i, (start, end) in enumerate(intervals):
        for region in range(1, len(cuts)):
            first = cuts[region - 1]
            inside[region, i] = start // slice_us <= first < end // slice_us
    return np.array(cuts, np.int64), inside


@dataclass
class _Gathered:
    """Which intervals need which stored thing, while the plan is made."""

    intervals: int
    days: dict[int, BoolRow] = field(default_factory=dict)
    hours: dict[int, BoolRow] = field(default_factory=dict)
    rows: dict[tuple[int, int], HourRows] = field(default_factory=dict)

    def whole(self, where: dict[int, BoolRow], number: int, interval: int) -> None:
        where.setdefault(number, np.zeros(self.intervals, np.bool_))[interval] = True

    def part(self, hour: int, level_us: int, interval: int, start_us: int, end_us: int) -> None:
        nothing = HourRows(
            hour, level_us, np.zeros(self.intervals, np.int64), np.zeros(self.intervals, np.int64)
        )
        rows = self.rows.setdefault((hour, level_us), nothing)
        rows.starts[interval], rows.ends[interval] = start_us // level_us, end_us // level_us


def _day_fields(
    unit: Unit, intervals: Sequence[tuple[Interval, int]], without_total: frozenset[int]
) -> tuple[DayFields, ...]:
    gathered = _Gathered(len(intervals))
    for i, ((start, end), resolution_us) in enumerate(intervals):
        parts = slices.segments(start, end, unit.slice_us, resolution_us)
        for day in parts.days:
            if day not in without_total:
                gathered.whole(gathered.days, day, i)
                continue
            for hour in range(day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY):
                gathered.whole(gathered.hours, hour, i)
        for hour in parts.hours:
            gathered.whole(gathered.hours, hour, i)
        for piece in parts.ranges:
            level = piece.level_us if piece.level_us in unit.levels else unit.slice_us
            gathered.part(piece.start_us // HOUR_US, level, i, piece.start_us, piece.end_us)
    return _named(gathered, unit.slice_us)


def _named(gathered: _Gathered, slice_us: int) -> tuple[DayFields, ...]:
    fields: dict[int, list[tuple[bytes, Part]]] = {}
    for day, inside in gathered.days.items():
        fields.setdefault(day, []).extend(
            [(COVERED_HOURS, None), (DAY_TOTAL, DayTotal(day, inside))]
        )
    for hour, inside in gathered.hours.items():
        name = b"h:%d" % hour
        fields.setdefault(hour // HOURS_PER_DAY, []).append((name, HourTotal(hour, inside)))
    for (hour, level), rows in gathered.rows.items():
        name = (b"m:%d" if level == MINUTE_US != slice_us else b"s:%d") % hour
        fields.setdefault(hour // HOURS_PER_DAY, []).append((name, rows))
    ordered = []
    for day in sorted(fields):
        entries = sorted(fields[day], key=lambda entry: entry[0])
        ordered.append(
            DayFields(day, tuple(name for name, _ in entries), tuple(part for _, part in entries))
        )
    return tuple(ordered)


assert DAY_US == HOURS_PER_DAY * HOUR_US
