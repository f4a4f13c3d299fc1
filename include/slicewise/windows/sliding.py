"""A sliding window ends now; its start is aligned to a step that keeps its reads few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.calls import checked_call
from slicewise.windows.bounds import Mode, Smaller, floor, levels_from, present
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.segments import FIVE_DAYS_US
from slicewise.windows.window import Window, Wrong

MAX_STEPS = 1_500
"""A sliding window is read in at most so many steps of its resolution, where a level allows it."""


@dataclass(frozen=True, repr=False)
class Sliding(Window):
    """The events of the last `length_us` before the reading."""

    length_us: int

    kind = "sliding"

    def own_label(self) -> str:
        return format_duration(self.length_us)

    def wrong(self) -> Wrong:
        yield not self.length_us, "a length, unless it counts rows or holds all events"

    def column_suffix(self) -> str:
        return self.label

    @property
    def reads_five_days(self) -> bool:
        return self.length_us >= 2 * FIVE_DAYS_US

    @property
    def ends_complete(self) -> bool:
        return not self.offset_us

    def resolution(self, slice_us: int) -> int:
        """The finest level with at most 1,500 steps, or else the coarsest. An offset moves the time
        alone."""
        levels = levels_from(slice_us)
        return next((level for level in levels if self.length_us <= MAX_STEPS * level), levels[-1])

    def reach_us(self, slice_us: int) -> int:
        return self.length_us + self.resolution(slice_us) + self.offset_us

    def holds_end(self, mode: Mode) -> bool:
        return mode == "row"

    def as_python(self) -> str:
        return self._call("sliding", self._written) if "_offset_" in self.label else self._written

    def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:  # noqa: ARG002
        return floor(t - self.length_us, self.resolution(slice_us)), present(mode, t, slice_us)


@checked_call
def sliding(length: str, *, offset: str | None = None) -> Window:
    """The window of the given length that ends now; what a plain text among windows means.

    offset: it ends so much earlier: `sliding("1h", offset="1d")` is the same hour of yesterday.
    """
    return Sliding(parse_duration(length), label=length).shifted(offset)
