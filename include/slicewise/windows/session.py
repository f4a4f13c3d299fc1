"""A session's bounds are those within which it is looked for; where it starts follows from the
events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.calls import checked_call
from slicewise.errors import DefinitionError
from slicewise.windows.bounds import Mode, Smaller, floor, present
from slicewise.windows.durations import format_duration, format_span, parse_duration
from slicewise.windows.window import Window, Wrong

MAX_SESSION_SLICES = 10_000
"""A session is read slice by slice: its longest length is at most so many."""


@dataclass(frozen=True, repr=False)
class Session(Window):
    """The latest chain of events less than `gap_us` apart, while the gap lasts.

    `length_us` is how far back it is looked for, its longest length.
    """

    length_us: int
    gap_us: int

    kind = "session"

    def own_label(self) -> str:
        return format_duration(self.gap_us)

    def wrong(self) -> Wrong:
        yield not self.length_us, "a length, unless it counts rows or holds all events"
        yield not 0 < self.gap_us <= self.length_us, "a gap, of a session alone"

    @property
    def session_gap_us(self) -> int:
        return self.gap_us

    @property
    def grain_us(self) -> int:
        return self.gap_us

    def check_slice(self, slice_us: int) -> None:
        """Refuse also a gap that is shorter than the slice, and a length of too many slices."""
        super().check_slice(slice_us)
        text = format_duration(slice_us)
        if self.gap_us < slice_us:
            raise DefinitionError(
                f"the gap of {self.column_suffix()} is shorter than the slice {text}: "
                "what of one slice is of one session cannot be told",
                expected=f"a gap of {text} or more",
                next_step="lengthen the gap, or declare a shorter slice",
            )
        if self.length_us > MAX_SESSION_SLICES * slice_us:
            raise DefinitionError(
                f"{self.column_suffix()} may last {format_duration(self.length_us)}, "
                f"which are {self.length_us // slice_us} slices of {text}; a read looks at each",
                expected=f"max_length <= {format_span(MAX_SESSION_SLICES * slice_us)}",
                next_step=(
                    "shorten max_length, declare a longer slice, or give the session a view of "
                    "its own"
                ),
            )

    def resolution(self, slice_us: int) -> int:
        """The slice: a session is walked slice by slice."""
        return slice_us

    def reach_us(self, slice_us: int) -> int:
        return self.length_us + self.resolution(slice_us) + self.offset_us

    def holds_end(self, mode: Mode) -> bool:
        return mode == "row"

    def as_python(self) -> str:
        return self._call(
            "session", self._written, max_length=f'"{format_duration(self.length_us)}"'
        )

    def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:  # noqa: ARG002
        end = present(mode, t, slice_us)  # it alone says where the session may start
        return floor(end - self.length_us, slice_us), end


@checked_call
def session(gap: str, *, max_length: str, offset: str | None = None) -> Window:
    """The session of the latest event before the end, if the end is less than `gap` after that
    event.

    Two events less than `gap` apart are of one session. Of a session longer than `max_length`
    counts what lies within `max_length` before the end.
    """
    gap_us, length_us = parse_duration(gap), parse_duration(max_length)
    if length_us < gap_us:
        raise DefinitionError(
            f"a session of at most {max_length} ends before its gap of {gap} has passed",
            expected=f"max_length >= {gap}",
            next_step="lengthen max_length or shorten the gap",
        )
    return Session(length_us, gap_us, label=gap).shifted(offset)
