"""A plan names, before anything is read, each stored field that an answer needs, and in which
windows each counts; within one window no event is named by two fields.

Plans are pure functions of (unit, features, mode, t) through the windows' bounds alone, so that
one plan serves every read until a bound moves.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.event_forms import ScalarOf
from slicewise.codec.store_fields import fields as f
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import TopicPartition
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.durations import HOUR_US
from slicewise.windows.segments import FIVE_DAYS, segments, slice_segments, whole_five_days

if TYPE_CHECKING:
    from slicewise.features.plan.unit import PlannedFeature, StorageUnit

ReadMode = Literal["live", "at"]
Interval = tuple[int, int]
Int64 = npt.NDArray[np.int64]
HOURS_PER_DAY = 24
COMPACTED_HOURS, DAY_TOTAL, FIVE_DAY_TOTAL = (
    f.COMPACTED.form,
    f.DAY_TOTAL.form,
    f.FIVE_DAY_TOTAL.form,
)
FOR_EVER_US = 1 << 62
"""Start of the earliest window of a plan of lifetimes alone: nothing has to be kept for it."""
TOKENS_LIMIT = 256
"""Tokens that a plan remembers."""
NOWHERE = 0
"""The mask of no window; masks are numbered rows of `ReadPlan.masks`."""


@dataclass(frozen=True)
class HourTotal:
    """Field `h:<hour>`: counts in the windows of `mask`."""

    hour: int
    mask: int


@dataclass(frozen=True)
class HourRows:
    """Field `s:<hour>` or `m:<hour>`: a row counts in the windows whose part of the hour holds it.

    cuts: row numbers at which a window's part begins or ends, ascending; masks: per region between
    cuts (len(cuts) + 1) the mask of the windows.
    """

    hour: int
    cuts: Int64
    masks: Int64

    @cached_property
    def regions(self) -> tuple[list[int], list[int]]:
        """Cuts and masks as Python's own numbers."""
        return self.cuts.tolist(), self.masks.tolist()

    def runs(self, numbers: Sequence[int] | Int64) -> Iterator[tuple[int, int]]:
        """(mask, how many) of consecutive rows with these ascending numbers."""
        cuts, masks = self.regions
        before = 0
        for cut, mask in zip(cuts, masks, strict=False):  # the last region has no cut after it
            at = bisect_left(numbers, cut, before)
            if at > before:
                yield mask, at - before
                before = at
        if len(numbers) > before:
            yield masks[-1], len(numbers) - before


@dataclass(frozen=True)
class DayTotal:
    """Field `d`, valid while it names the day's `c`: the day counts in the windows of `mask`."""

    day: int
    mask: int


@dataclass(frozen=True)
class FiveDayTotal:
    """Field `p` of a five-day total's last day, valid while it names the `c` of its days: these
    count in the windows of `mask`."""

    five_day: int
    mask: int


class FiveDays(NamedTuple):
    """A five-day total among days that are known by their numbers."""

    number: int


Total = int | FiveDays
"""Span of a total: a day, or a five-day total."""
Part = HourTotal | HourRows | DayTotal | FiveDayTotal | None


@dataclass(frozen=True)
class DayFields:
    """Fields that are fetched of one day hash: their names, and the meaning of each."""

    day: int
    """Days since the epoch."""
    names: tuple[bytes, ...]
    """`c` first, then `d`; `h:` before the `m:` and `s:` of the same hour."""
    parts: tuple[Part, ...]
    """One per name; None at `c`."""

    @property
    def rows(self) -> list[tuple[int, HourRows]]:
        """Positions of hours' rows among the names."""
        return [(i, part) for i, part in enumerate(self.parts) if isinstance(part, HourRows)]


@dataclass(frozen=True)
class Fetched:
    """All day fields of a plan side by side, as their values are replied."""

    widths: list[int]
    """Per day how many names."""
    totals: tuple[int, ...]
    """Places of the hours' totals."""
    hours: tuple[int, ...]
    masks: tuple[int, ...]
    """Per hour's total its hour and mask."""
    rows: tuple[tuple[int, HourRows, bytes], ...]
    """Places of hours' rows, what they mean, and their names."""
    rows_at: tuple[tuple[int, int], ...]
    """The same by day, and place among its names."""
    days: tuple[tuple[int, DayTotal], ...]
    """Places of days' totals; `c` stands right before each."""
    five_day_totals: tuple[tuple[tuple[int, ...], int, FiveDayTotal], ...]
    """Places of the `c` of each five-day total's days, and its total."""

    @staticmethod
    def of(days: Sequence[DayFields]) -> Fetched:
        fields = list(
            enumerate(
                (name, part)
                for day in days
                for name, part in zip(day.names, day.parts, strict=True)
            )
        )
        totals = [(i, part) for i, (_, part) in fields if isinstance(part, HourTotal)]
        ends = accumulate([len(day.names) for day in days])
        starts = {day.day: end - len(day.names) for day, end in zip(days, ends, strict=True)}
        return Fetched(
            [len(day.names) for day in days],
            tuple(i for i, _ in totals),
            tuple(part.hour for _, part in totals),
            tuple(part.mask for _, part in totals),
            tuple((i, part, name) for i, (name, part) in fields if isinstance(part, HourRows)),
            tuple(
                (d, i)
                for d, day in enumerate(days)
                for i, part in enumerate(day.parts)
                if isinstance(part, HourRows)
            ),
            tuple((i, part) for i, (_, part) in fields if isinstance(part, DayTotal)),
            tuple(
                # `c` stands first among a day's names
                (tuple(starts[day] for day in days_of(part.five_day)), i, part)
                for i, (_, part) in fields
                if isinstance(part, FiveDayTotal)
            ),
        )


def days_of(five_day: int) -> range:
    """The days of a five-day total."""
    return range(five_day * FIVE_DAYS, (five_day + 1) * FIVE_DAYS)


class HotField(NamedTuple):
    """A field of a hot hash: an applied offset, a running partial, a total, the real-time lane's,
    or one that is not counted by its name."""

    kind: Literal["l", "r", "t", "q", ""]
    topic_partition: TopicPartition
    hour: int
    mask: int


@dataclass(frozen=True)
class Finisher:
    """A finish that some features share: of partial number `partial`, by `aggregate`."""

    partial: int
    aggregate: Aggregate


@dataclass(frozen=True, eq=False)
class ReadPlan:
    """One unit's part of a read: what to fetch for each entity, and how it is combined."""

    unit: StorageUnit
    features: tuple[PlannedFeature, ...]
    mode: ReadMode
    intervals: tuple[Interval, ...]
    """Distinct effective bounds, (start_us, end_us)."""
    interval_of: tuple[int, ...]
    """Per feature its interval."""
    finishers: tuple[Finisher, ...]
    finisher_of: tuple[int, ...]
    """Per feature its finisher."""
    days: tuple[DayFields, ...]
    """Ascending by day."""
    masks: npt.NDArray[np.bool_]
    """[masks, intervals]: sets of windows; NOWHERE is the empty one."""
    hot: HourRows
    """Rows of running partials, by slice (of all hours)."""
    start_us: int
    """Start of the earliest window that is no lifetime: what must still be kept."""
    hours: tuple[int, int]
    """Half-open range of the hours that any window reaches."""
    token_head: bytes
    token_end: bytes
    without_total: frozenset[Total]
    """Days that are read hour by hour, and five-day totals day by day, because their total was
    found to be out of date."""
    total_until: int | None = None
    """Hour from which on the days of a unit with a lifetime are read: what is older is in
    totals."""
    total_mask: int = NOWHERE
    """The lifetimes."""
    lifetime_end_us: int = 0
    """End of the earliest of them."""
    gaps: tuple[int, ...] = ()
    """Per interval the gap of the session that is looked for in it, 0 of other windows; empty: no
    session is."""
    number: int = field(default_factory=itertools.count().__next__)
    """Another for every plan of this process."""

    @cached_property
    def partials(self) -> frozenset[int]:
        """The partials that are asked for."""
        return frozenset(finisher.partial for finisher in self.finishers)

    @cached_property
    def scalar_of(self) -> Mapping[int, ScalarOf] | None:
        """Per partial that is asked for what makes a state of few events; None where one has no
        such form."""
        partials = self.unit.layout.partials
        forms = {
            i: scalar_of for i in self.partials if (scalar_of := partials[i].scalar_of) is not None
        }
        return forms if len(forms) == len(self.partials) else None

    def mask_of_hour(self, hour: int) -> int | None:
        """The mask of all running partials of an hour; None where a window ends within it."""
        masks = self._hour_masks
        if hour not in masks:
            first, end = (edge * HOUR_US // self.unit.slice_us for edge in (hour, hour + 1))
            cuts, regions = self.hot.regions
            region = bisect_right(cuts, first)
            masks[hour] = regions[region] if bisect_left(cuts, end) == region else None
        return masks[hour]

    @cached_property
    def _hour_masks(self) -> dict[int, int | None]:
        return {}

    @cached_property
    def fetched(self) -> Fetched:
        """The day fields side by side."""
        return Fetched.of(self.days)

    def days_after(
        self, days: Sequence[Sequence[bytes | None]], total_until: int
    ) -> Sequence[Sequence[bytes | None]]:
        """The days' values without those of hours before the total-until hour (a day's first
        hour)."""
        return [
            [None] * len(values) if day.day * HOURS_PER_DAY < total_until else values
            for day, values in zip(self.days, days, strict=True)
        ]

    @property
    def bounds(self) -> dict[str, Interval]:
        """Feature column -> effective bounds; of a session those within which it is looked for."""
        return self.bounds_of(self.intervals)

    def bounds_of(self, intervals: Sequence[Interval]) -> dict[str, Interval]:
        """Feature column -> its interval among these."""
        return {
            feature.column: intervals[i]
            for feature, i in zip(self.features, self.interval_of, strict=True)
        }


def plan_read(
    unit: StorageUnit,
    features: Sequence[PlannedFeature],
    mode: ReadMode,
    t_us: int,
    without_total: frozenset[Total] = frozenset(),
    total_until: int | None = None,
) -> ReadPlan:
    """The plan of one unit's features at t (microseconds UTC; `live`: the serving clock).

    total_until: of a unit with a lifetime the hour that the metadata names, or an earlier one; a
    day's first.
    """
    numbers: dict[tuple[Interval, int], int] = {}
    interval_of = []
    steps: dict[tuple[Interval, int], int] = {}
    by_five_days: set[tuple[Interval, int]] = set()
    for planned in features:
        interval = planned.window.bounds(mode, t_us, unit.slice_us), planned.window.session_gap_us
        step = planned.window.resolution(unit.slice_us)
        # equal bounds of different windows are read once, by the finer of their resolutions
        steps[interval] = min(step, steps.get(interval, step))
        if planned.window.reads_five_days or (planned.window.unbounded and unit.five_day_totals):
            by_five_days.add(interval)
        interval_of.append(numbers.setdefault(interval, len(numbers)))
    intervals = tuple(interval for interval, _ in numbers)
    gaps = tuple(gap for _, gap in numbers)
    lifetimes = [i for i, (start, _) in enumerate(intervals) if start == EARLIEST_US]
    kept = [start for start, _ in intervals if start != EARLIEST_US]
    end_us = max(end for _, end in intervals)
    masks = _Masks(len(intervals))
    finishers: dict[Finisher, int] = {}
    finisher_of = tuple(
        finishers.setdefault(Finisher(f.partial, f.aggregate), len(finishers)) for f in features
    )
    first_us = intervals[0][1] if total_until is None else total_until * HOUR_US
    read = []
    for i, key in enumerate(numbers):
        start, end = (max(edge, first_us) for edge in key[0]) if i in lifetimes else key[0]
        read.append(ReadInterval(start, end, 0 if key[1] else steps[key], key in by_five_days))
    days = _day_fields(unit, read, without_total, masks)
    edges = [(s // unit.slice_us, e // unit.slice_us) for s, e in intervals]
    hot = _rows(-1, edges, masks)
    total_mask = masks.number(lifetimes)
    bounds = {f.column: intervals[i] for f, i in zip(features, interval_of, strict=True)}
    return ReadPlan(
        unit=unit,
        features=tuple(features),
        mode=mode,
        intervals=intervals,
        interval_of=tuple(interval_of),
        finishers=tuple(finishers),
        finisher_of=finisher_of,
        days=days,
        masks=masks.table(),
        hot=hot,
        start_us=min(kept, default=FOR_EVER_US),
        hours=(min(start for start, _ in intervals) // HOUR_US, -(-end_us // HOUR_US)),
        token_head=tokens.head(unit.storage_fingerprint, unit.definition_fingerprint, mode),
        token_end=tokens.bounds_bytes(bounds),
        without_total=without_total,
        total_until=total_until,
        total_mask=total_mask,
        lifetime_end_us=min((intervals[i][1] for i in lifetimes), default=end_us),
        gaps=gaps if any(gaps) else (),
    )


class ReadInterval(NamedTuple):
    """An interval, and how it is read."""

    start_us: int
    end_us: int
    resolution_us: int
    """0: by slices alone, as sessions are."""
    by_five_days: bool


class _Masks:
    """Numbers each set of windows once."""

    def __init__(self, intervals: int) -> None:
        self._intervals = intervals
        self._numbers: dict[frozenset[int], int] = {frozenset(): NOWHERE}

    def number(self, windows: Iterable[int]) -> int:
        return self._numbers.setdefault(frozenset(windows), len(self._numbers))

    def table(self) -> npt.NDArray[np.bool_]:
        table = np.zeros((len(self._numbers), self._intervals), np.bool_)
        for windows, number in self._numbers.items():
            table[number, sorted(windows)] = True
        return table


def _rows(hour: int, spans: Sequence[tuple[int, int] | None], masks: _Masks) -> HourRows:
    """spans: per interval its half-open range of row numbers, None where it has none."""
    cuts = sorted({edge for span in spans if span for edge in span})
    regions = [NOWHERE]
    for first in cuts:
        regions.append(
            masks.number(i for i, span in enumerate(spans) if span and span[0] <= first < span[1])
        )
    return HourRows(hour, np.array(cuts, np.int64), np.array(regions, np.int64))


def _day_fields(
    unit: StorageUnit,
    intervals: Sequence[ReadInterval],
    without_total: frozenset[Total],
    masks: _Masks,
) -> tuple[DayFields, ...]:
    five_day_totals: dict[int, set[int]] = {}
    days: dict[int, set[int]] = {}
    hours: dict[int, set[int]] = {}
    rows: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
    for i, (start, end, resolution_us, by_five_days) in enumerate(intervals):
        if resolution_us:
            parts = segments(start, end, unit.slice_us, resolution_us)
        else:
            parts = slice_segments(start, end, unit.slice_us)
        whole, single = (
            whole_five_days(parts.days) if by_five_days else (range(0), tuple(parts.days))
        )
        for five_day in whole:
            if FiveDays(five_day) in without_total:
                single += tuple(days_of(five_day))
            else:
                five_day_totals.setdefault(five_day, set()).add(i)
        for day in single:
            if day in without_total:
                for hour in range(day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY):
                    hours.setdefault(hour, set()).add(i)
            else:
                days.setdefault(day, set()).add(i)
        for hour in parts.hours:
            hours.setdefault(hour, set()).add(i)
        for piece in parts.ranges:
            hour = piece.start_us // HOUR_US
            level = piece.level_us if piece.level_us in unit.levels else unit.slice_us
            span = (piece.start_us // level, piece.end_us // level)
            rows.setdefault((hour, level), {})[i] = span
            # Where the hour has a total, its rows must be there too: missing ones are noticed.
            hours.setdefault(hour, set())
    fields: dict[int, list[tuple[bytes, Part]]] = {}
    for day in {*days, *(day for five_day in five_day_totals for day in days_of(five_day))}:
        fields[day] = [(COMPACTED_HOURS, None)]
    for day, windows in days.items():
        fields[day].append((DAY_TOTAL, DayTotal(day, masks.number(windows))))
    for five_day, windows in five_day_totals.items():
        fields[days_of(five_day)[-1]].append(
            (FIVE_DAY_TOTAL, FiveDayTotal(five_day, masks.number(windows)))
        )
    for hour, windows in hours.items():
        entry = (f.HOUR.form % hour, HourTotal(hour, masks.number(windows)))
        fields.setdefault(hour // HOURS_PER_DAY, []).append(entry)
    for (hour, level), spans in rows.items():
        name = (f.SLICES if level == unit.slice_us else f.MINUTES).form % hour
        part = _rows(hour, [spans.get(i) for i in range(len(intervals))], masks)
        fields.setdefault(hour // HOURS_PER_DAY, []).append((name, part))
    return tuple(
        DayFields(day, *map(tuple, zip(*sorted(fields[day], key=_name), strict=True)))
        for day in sorted(fields)
    )


def _name(entry: tuple[bytes, Part]) -> bytes:
    return entry[0]
