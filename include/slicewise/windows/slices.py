"""Boundaries are multiples of a step since the epoch, in microseconds UTC; intervals half-open."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from slicewise.calls import checked_call, checked_class, shown
from slicewise.errors import DefinitionError, written_at

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

SLICES: tuple[int, ...] = tuple(int(seconds * SECOND_US) for seconds in (0.1, 1, 2, 5, 10, 30, 60, 300, 900, 3600))
"""Slices that the planner chooses from, ascending."""

PENTAD_DAYS = 5
PENTAD_US = PENTAD_DAYS * DAY_US
"""Five days, aligned to the epoch: wherever a month begins, it holds about as many whole ones as days beside them."""
LEVELS: tuple[int, ...] = (MINUTE_US, HOUR_US, DAY_US)
MAX_STEPS = 1_500
"""A sliding window is read in at most so many steps of its resolution, where a level allows it."""
MAX_FOLD = 60
"""Windows whose own slices differ by more than this are stored in different units."""
MAX_SESSION_SLICES = 10_000
"""A session is read slice by slice: its longest length is at most so many."""

EARLIEST_US = -62_135_596_800_000_000
"""0001-01-01: where a window begins that only counts rows, or holds all events."""
LIFETIME = "lifetime"
LIFETIME_GRAIN_US = 10 * MINUTE_US
"""What a slice is at most a tenth of where no other window says it."""
MAX_ROWS = 10_000
"""Most rows of a rows window: each read brings them all."""

Kind = Literal["sliding", "tumbling", "hopping", "session", "exact", "rows", "lifetime"]
Closed = Literal["both", "left", "right", "neither"]
Mode = Literal["live", "at", "event_time", "row"]


_UNITS = (
    ("w", 7 * DAY_US),
    ("d", DAY_US),
    ("h", HOUR_US),
    ("m", MINUTE_US),
    ("s", SECOND_US),
    ("ms", 1_000),
    ("us", 1),
)
_DURATION = re.compile("".join(rf"(?:(\d+){unit}(?![a-z]))?" for unit, _ in _UNITS))
_LONGEST_US = 10_000 * DAY_US
FOR_EVER_US = 100 * _LONGEST_US
"""Longer than any span of event times: the length of a lifetime, where one is asked for."""


def parse_duration(text: str) -> int:
    """Microseconds of "10m", "7d", "100ms", "1h30m": units w d h m s ms us, the larger first.

    Raises DefinitionError for anything else, zero included.
    """
    matched = _DURATION.fullmatch(text) if isinstance(text, str) else None
    total = 0
    if matched and text.isascii():
        total = sum(int(digits) * size for digits, (_, size) in zip(matched.groups(), _UNITS, strict=True) if digits)
    if not 0 < total <= _LONGEST_US:
        raise DefinitionError(
            f"{shown(text)} is no duration",
            expected="a positive number and a unit of w d h m s ms us, as in 10m, 7d or 1h30m",
            next_step="write it so, at most 10000d",
        )
    return total


def format_duration(us: int) -> str:
    """The shortest text that one unit allows: 90 minutes is "90m", seven days "7d"."""
    for unit, size in _UNITS[1:]:  # weeks are read, never written
        if us % size == 0:
            return f"{us // size}{unit}"
    raise AssertionError("every integer is a multiple of a microsecond")


def format_span(us: int) -> str:
    """The same for reading: "1d16m" instead of "1456m"."""
    parts = []
    for unit, size in _UNITS[1:]:
        count, us = divmod(us, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def floor(t: int, step: int) -> int:
    """The latest multiple of `step` at or before t."""
    return t // step * step


def ceil(t: int, step: int) -> int:
    """The earliest multiple of `step` at or after t."""
    return -(-t // step) * step


@checked_class
@dataclass(frozen=True)
class Window:
    """The interval that a feature answers for. `hop_us`: 0 for sliding, the length for tumbling.

    `open`: the window that is still filling, instead of the last complete one (tumbling and
    hopping only). `closed`: which ends of an exact window are in it. `rows`: of a rows window, how
    many; its length is 0, as that of a lifetime is. `label` is the author's own text of the window;
    columns are named by it. `offset_us`: at t it is the window of t - offset. `gap_us`: of a session
    alone, whose `length_us` is how far back it is looked for, its longest length.
    """

    kind: Kind
    length_us: int
    hop_us: int = 0
    open: bool = False
    label: str = ""
    offset_us: int = 0
    closed: Closed = "both"
    rows: int = 0
    gap_us: int = 0

    def __post_init__(self) -> None:
        self._check()
        if self.is_lifetime:
            shift = f"_offset_{format_duration(self.offset_us)}" if self.offset_us else ""
            object.__setattr__(self, "label", self.label or f"lifetime{shift}")
        elif not self.label:
            label = str(self.rows) if self.kind == "rows" else format_duration(self.gap_us or self.length_us)
            if self.kind == "hopping":
                label += f"_{format_duration(self.hop_us)}"
            if self.offset_us:
                label += f"_offset_{format_duration(self.offset_us)}"
            object.__setattr__(self, "label", label)

    def _check(self) -> None:
        whole = (self.length_us, self.hop_us, self.offset_us, self.rows, self.gap_us)
        for wrong, expected in (
            (self.kind not in get_args(Kind), f"kind: one of {', '.join(get_args(Kind))}"),
            (not isinstance(self.open, bool), "open=True or open=False"),
            (not isinstance(self.label, str), "label: a text, or none"),
            (not all(type(each) is int and each >= 0 for each in whole), "lengths in whole microseconds"),
        ):
            if wrong:
                raise self._refused(expected)
        length, rows, own = self.length_us, self.rows, self.kind
        for wrong, expected in (
            ((length == 0) != (own in ("rows", "lifetime")), "a length, unless it counts rows or holds all events"),
            (max(length, self.offset_us) > _LONGEST_US, f"at most {format_duration(_LONGEST_US)}"),
            ((self.hop_us > 0) != (own in ("tumbling", "hopping")), "a hop, of tumbling and hopping windows alone"),
            (own == "tumbling" and self.hop_us != length, "a hop that is the length of a tumbling window"),
            (own == "hopping" and self.hop_us > length, "a hop of at most the length"),
            ((self.gap_us > 0) != (own == "session") or self.gap_us > length, "a gap, of a session alone"),
            ((rows > 0) != (own == "rows") or rows > MAX_ROWS, f"rows, of a rows window alone, at most {MAX_ROWS}"),
            (self.open and not self.hop_us, "open=True of tumbling and hopping windows alone"),
            (
                self.closed not in get_args(Closed) or (own != "exact" and self.closed != "both"),
                "closed, of exact ones",
            ),
            (not re.fullmatch("[0-9A-Za-z_]*", self.label), "a label of letters, digits and _"),
        ):
            if wrong:
                raise self._refused(expected)

    def _refused(self, expected: str) -> DefinitionError:
        place = written_at()
        return DefinitionError(
            f"{self!r} is no window",
            where=str(place) if place else "",
            expected=expected,
            next_step="make it by sw.sliding, sw.tumbling, sw.hopping, sw.session, sw.lifetime, … or sw.rows",
        )

    def column_suffix(self) -> str:
        """ "1h", "1h_offset_1d", "tumbling_1h", "hopping_1h_10m", "session_30m", "exact_1h", "rows_5", "lifetime";
        "_open" follows where the window is open, and which end is closed where not both are."""
        if self.kind in ("sliding", "lifetime"):
            return self.label
        ends = "" if self.closed == "both" else f"_{self.closed}"
        return f"{self.kind}_{self.label}" + ("_open" if self.open else "") + ends

    @property
    def is_exact(self) -> bool:
        """Whether it is answered from events, one by one, instead of from slices."""
        return self.kind in ("exact", "rows")

    @property
    def is_lifetime(self) -> bool:
        """Whether it holds all events up to its end."""
        return self.kind == "lifetime"

    def steps_us(self) -> tuple[int, ...]:
        """What a slice must divide."""
        return tuple(step for step in (self.length_us, self.hop_us, self.offset_us) if step)

    @property
    def grain_us(self) -> int:
        """What a slice is at most a tenth of: a session's gap, else the length; 0: of a lifetime it is any."""
        return self.gap_us or self.length_us


@checked_call
def sliding(length: str, *, offset: str | None = None) -> Window:
    """The window of the given length that ends now; what a plain text among windows means.

    offset: it ends so much earlier: `sliding("1h", offset="1d")` is the same hour of yesterday.
    """
    return _shifted(Window("sliding", parse_duration(length), label=length), offset)


@checked_call
def tumbling(length: str, *, open: bool = False, offset: str | None = None) -> Window:  # noqa: A002  the definitions' word
    """Windows side by side: the last complete one or, with `open`, the one that is filling; of
    `offset` ago, where one is given."""
    us = parse_duration(length)
    return _shifted(Window("tumbling", us, us, open, label=length), offset)


@checked_call
def hopping(length: str, *, every: str, open: bool = False, offset: str | None = None) -> Window:  # noqa: A002
    """Windows of `length` that end at each multiple of `every`, which is at most the length; of
    `offset` ago, where one is given. Where `every` does not divide the length, they begin between the
    multiples."""
    length_us, every_us = parse_duration(length), parse_duration(every)
    if every_us > length_us:
        raise DefinitionError(
            f"a hopping window of {length} cannot move by {every}: events would be in no window",
            expected=f"every <= {length}",
            next_step="shorten `every` or lengthen the window",
        )
    return _shifted(Window("hopping", length_us, every_us, open, label=f"{length}_{every}"), offset)


@checked_call
def session(gap: str, *, max_length: str, offset: str | None = None) -> Window:
    """The session of the latest event before the end, if the end is less than `gap` after that event.

    Two events less than `gap` apart are of one session. Of a session longer than `max_length` counts
    what lies within `max_length` before the end.
    """
    gap_us, length_us = parse_duration(gap), parse_duration(max_length)
    if length_us < gap_us:
        raise DefinitionError(
            f"a session of at most {max_length} ends before its gap of {gap} has passed",
            expected=f"max_length >= {gap}",
            next_step="lengthen max_length or shorten the gap",
        )
    return _shifted(Window("session", length_us, label=gap, gap_us=gap_us), offset)


@checked_call
def lifetime(*, offset: str | None = None) -> Window:
    """All events of the entity up to now, or up to `offset` ago. As text, `"lifetime"`."""
    return _shifted(Window("lifetime", 0, label=LIFETIME), offset)


def _shifted(window: Window, offset: str | None) -> Window:
    if offset is None:
        return window
    return replace(window, offset_us=parse_duration(offset), label=f"{window.label}_offset_{offset}")


@checked_call
def exact_range(length: str, *, closed: Closed = "both", offset: str | None = None) -> Window:
    """The window of the given length that ends at the very microsecond of the reading, as SQL's RANGE BETWEEN
    … PRECEDING AND CURRENT ROW: [t − length, t]. closed: "left" is [t − length, t), "right"
    (t − length, t], "neither" (t − length, t)."""
    if closed not in get_args(Closed):
        raise DefinitionError(
            f"closed is {closed!r}",
            expected="one of " + ", ".join(get_args(Closed)),
            next_step="leave it out for both ends, as SQL has it",
        )
    return _shifted(Window("exact", parse_duration(length), label=length, closed=closed), offset)


@checked_call
def rows(count: int, *, offset: str | None = None) -> Window:
    """The last `count` events at or before the reading, by event time; of one instant those that are
    last by topic, partition and offset."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= MAX_ROWS:
        raise DefinitionError(
            f"a window of {count!r} rows",
            expected=f"a whole number of rows, from 1 to {MAX_ROWS}",
            next_step="bound the rows; a window over all events is no rows window",
        )
    return _shifted(Window("rows", 0, label=str(count), rows=count), offset)


def as_window(window: str | Window) -> Window:
    """A window from what a definition may give: a duration is a sliding window, "lifetime" all events."""
    if window == LIFETIME:
        return lifetime()
    return window if isinstance(window, Window) else sliding(window)


def default_slice(windows: Iterable[Window]) -> int:
    """The largest of SLICES that divides lengths, hops and offsets and is at most a tenth of any length,
    and of any session's gap.

    Every one of SLICES divides the hour. Raises DefinitionError if none fits.
    """
    windows = tuple(windows)
    steps = {step for window in windows for step in window.steps_us()}
    shortest = min((window.grain_us for window in windows if window.grain_us), default=LIFETIME_GRAIN_US)
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
        for step in window.steps_us():
            if step % slice_us:
                raise DefinitionError(
                    f"the window {window.column_suffix()} is not divisible by the slice {text}: "
                    f"{format_duration(step)} is no multiple of it",
                    expected=f"lengths, hops and offsets that are multiples of {text}",
                    next_step="change the window or the declared slice",
                )
        check_session(slice_us, window)


def check_session(slice_us: int, window: Window) -> None:
    """Refuse a session whose gap is shorter than the slice, or that is looked for over too many slices."""
    if window.kind != "session":
        return
    text = format_duration(slice_us)
    if window.gap_us < slice_us:
        raise DefinitionError(
            f"the gap of {window.column_suffix()} is shorter than the slice {text}: "
            "what of one slice is of one session cannot be told",
            expected=f"a gap of {text} or more",
            next_step="lengthen the gap, or declare a shorter slice",
        )
    if window.length_us > MAX_SESSION_SLICES * slice_us:
        raise DefinitionError(
            f"{window.column_suffix()} may last {format_duration(window.length_us)}, "
            f"which are {window.length_us // slice_us} slices of {text}; a read looks at each",
            expected=f"max_length <= {format_span(MAX_SESSION_SLICES * slice_us)}",
            next_step="shorten max_length, declare a longer slice, or give the session a view of its own",
        )


def resolution(window: Window, slice_us: int) -> int:
    """The step to which a window's bounds are aligned: the slice, or minute, hour or day.

    Sliding: the finest level with length / r <= 1,500 (if none, the coarsest). Tumbling and
    hopping bounds are exact whatever the level: the coarsest that divides length and hop. An offset
    moves the time alone, so that it bears on none. A session is walked slice by slice; a lifetime
    is cut by nothing but its end.
    """
    if window.kind in ("session", "lifetime"):
        return slice_us
    levels = [slice_us, *(v for v in LEVELS if v > slice_us and v % slice_us == 0)]
    if window.kind == "sliding":
        return next((r for r in levels if window.length_us <= MAX_STEPS * r), levels[-1])
    common = math.gcd(window.length_us, window.hop_us)
    return next(r for r in reversed(levels) if common % r == 0)


def reach_us(window: Window, slice_us: int) -> int:
    """How far before t a live window's start can lie, in microseconds (never exceeded); 0 of a rows
    window, which time does not bound; of a lifetime, how far before t its end can lie that may still be asked for."""
    if window.is_lifetime:
        return DAY_US + window.offset_us
    if window.is_exact:
        return window.length_us + window.offset_us
    if not window.hop_us:
        return window.length_us + resolution(window, slice_us) + window.offset_us
    return window.length_us + window.hop_us + window.offset_us


def bounds(window: Window, mode: Mode, t_us: int, slice_us: int) -> tuple[int, int]:
    """(start, end) of the window read at t, half-open. Of exact windows the same in every mode.

    live: up to the slice in which t lies, that one included. at: whole slices before t.
    event_time: ends at t exactly; only this end can lie inside a slice. row: as event_time, with the events
    of t itself, as a query answers for the row of an event. An open
    window ends where a sliding one of the same mode does: it never contains what lies after t. With
    an offset they are the bounds at t - offset: a row of then answers what was asked then. Of a session
    they are those within which it is looked for: where it starts follows from the events.
    """
    start, end = _bounds(window, mode, t_us, slice_us, min)
    return int(start), int(end)


def holds_end(window: Window, mode: Mode) -> bool:
    """Whether the last instant of the window's bounds is the one that was asked for, and in the window.

    Ages are then counted from that instant, which is a microsecond before the half-open end; of other windows from
    the end itself. So an exact window's ages are those at t - offset, whichever ends are closed; and so are those of
    a query's row, which holds the events of its own instant.
    """
    if window.kind == "exact":
        return window.closed in ("both", "right")
    return window.kind == "rows" or (mode == "row" and (window.open or not window.hop_us))


def bounds_columns(
    window: Window, mode: Mode, t_us: npt.NDArray[np.int64], slice_us: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`bounds` for a whole column of t (int64 microseconds)."""
    import numpy as np

    start, end = _bounds(window, mode, t_us, slice_us, np.minimum)
    return start, end


def _bounds(window: Window, mode: Mode, t: Any, slice_us: int, smaller: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    # One arithmetic for a number and for a column of them.
    t = t - window.offset_us
    if window.kind == "exact":
        return (
            t - window.length_us + (window.closed in ("right", "neither")),
            t + (window.closed in ("both", "right")),
        )
    if window.kind == "rows":
        return t * 0 + EARLIEST_US, t + 1
    if mode == "live":
        present = ceil(t, slice_us)
    elif mode == "at":
        present = floor(t, slice_us)
    else:
        present = t + 1 if mode == "row" else t
    if window.kind == "lifetime":
        return t * 0 + EARLIEST_US, present
    if window.kind == "sliding":
        return floor(t - window.length_us, resolution(window, slice_us)), present
    if window.kind == "session":  # the end alone says where it may start
        return floor(present - window.length_us, slice_us), present
    complete = floor(t, window.hop_us)
    if not window.open:
        return complete - window.length_us, complete
    end = complete + window.hop_us
    return end - window.length_us, smaller(end, present)


@dataclass(frozen=True)
class SliceRange:
    """[start, end) inside one hour, read as rows of `level_us` (the slice, or the minute)."""

    start_us: int
    end_us: int
    level_us: int


@dataclass(frozen=True)
class Segments:
    """What a reader combines for an interval: disjoint, and together exactly the interval.

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


def reads_pentads(window: Window) -> bool:
    """Whether a window is read by totals of pentads: it holds one wherever it begins, and mostly more."""
    return window.kind in ("sliding", "tumbling", "hopping") and window.length_us >= 2 * PENTAD_US


def pentads(days: range) -> tuple[range, tuple[int, ...]]:
    """The whole pentads of consecutive days, and the days outside of them."""
    first, end = -(-days.start // PENTAD_DAYS), days.stop // PENTAD_DAYS
    if first >= end:
        return range(0), tuple(days)
    return range(first, end), (*range(days.start, first * PENTAD_DAYS), *range(end * PENTAD_DAYS, days.stop))


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
