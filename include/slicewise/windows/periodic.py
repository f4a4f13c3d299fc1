"""Windows that end at each multiple of a hop; the last complete one, or the one that is filling."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slicewise.windows.bounds import Mode, Smaller, ceil, floor, levels_from, present
from slicewise.windows.segments import FIVE_DAYS_US
from slicewise.windows.window import Window, Wrong


@dataclass(frozen=True, repr=False)
class Periodic(Window):
    """`open`: the window that is still filling, instead of the last complete one."""

    length_us: int
    open: bool = field(default=False, kw_only=True)

    if TYPE_CHECKING:

        @property
        def hop_us(self) -> int:
            """The distance between its ends, at most its length."""

    def wrong(self) -> Wrong:
        yield not self.length_us, "a length, unless it counts rows or holds all events"

    def column_suffix(self) -> str:
        return f"{self.kind}_{self.label}" + ("_open" if self.open else "")

    @property
    def reads_five_days(self) -> bool:
        return self.length_us >= 2 * FIVE_DAYS_US

    @property
    def ends_complete(self) -> bool:
        return not (self.open or self.offset_us)

    def ends_every(self, slice_us: int) -> int:  # noqa: ARG002
        return self.hop_us

    def steps_us(self) -> tuple[int, ...]:
        return tuple(step for step in (self.length_us, self.hop_us, self.offset_us) if step)

    def resolution(self, slice_us: int) -> int:
        """The coarsest level that divides length and hop: its bounds are exact whatever the
        level."""
        common = math.gcd(self.length_us, self.hop_us)
        return next(level for level in reversed(levels_from(slice_us)) if common % level == 0)

    def reach_us(self, slice_us: int) -> int:  # noqa: ARG002
        return self.length_us + self.hop_us + self.offset_us

    def holds_end(self, mode: Mode) -> bool:
        return self.open and mode == "row"

    def earliest_at(self, kept_us: int, slice_us: int) -> int:  # noqa: ARG002
        complete = ceil(kept_us + self.length_us, self.hop_us) + self.offset_us
        return complete - self.hop_us if self.open else complete

    def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:
        complete = floor(t, self.hop_us)
        if not self.open:
            return complete - self.length_us, complete
        end = complete + self.hop_us
        return end - self.length_us, smaller(end, present(mode, t, slice_us))
