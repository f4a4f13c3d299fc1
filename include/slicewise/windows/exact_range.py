"""An exact range begins and ends at its very microsecond, whatever the slices; its ends are open or
closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from slicewise.calls import checked_call
from slicewise.errors import DefinitionError
from slicewise.windows.bounds import Mode, Smaller
from slicewise.windows.durations import format_duration, parse_duration
from slicewise.windows.window import Window, Wrong

Closed = Literal["both", "left", "right", "neither"]


@dataclass(frozen=True, repr=False)
class ExactRange(Window):
    """The events of the last `length_us`. `closed`: which of its ends are in it."""

    length_us: int
    closed: Closed = field(default="both", kw_only=True)

    kind = "exact"
    by_events = True

    def own_label(self) -> str:
        return format_duration(self.length_us)

    def wrong(self) -> Wrong:
        yield not self.length_us, "a length, unless it counts rows or holds all events"
        yield self.closed not in get_args(Closed), "closed, of exact ones"

    def column_suffix(self) -> str:
        return f"{self.kind}_{self.label}" + ("" if self.closed == "both" else f"_{self.closed}")

    @property
    def _holds_start(self) -> bool:
        return self.closed in ("both", "left")

    @property
    def _holds_last(self) -> bool:
        return self.closed in ("both", "right")

    def resolution(self, slice_us: int) -> int:  # noqa: ARG002
        """A microsecond."""
        return 1

    def reach_us(self, slice_us: int) -> int:  # noqa: ARG002
        return self.length_us + self.offset_us

    def holds_end(self, mode: Mode) -> bool:  # noqa: ARG002
        return self._holds_last

    def earliest_at(self, kept_us: int, slice_us: int) -> int:  # noqa: ARG002
        return kept_us + self.offset_us + self.length_us - (not self._holds_start)

    def as_python(self) -> str:
        closed = {} if self.closed == "both" else {"closed": f'"{self.closed}"'}
        return self._call("exact_range", self._written, **closed)

    def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:  # noqa: ARG002
        return t - self.length_us + (not self._holds_start), t + self._holds_last


@checked_call
def exact_range(length: str, *, closed: Closed = "both", offset: str | None = None) -> Window:
    """The window of the given length that ends at the very microsecond of the reading. It is SQL's
    RANGE BETWEEN … PRECEDING AND CURRENT ROW: [t − length, t]. closed: "left" is [t − length, t),
    "right" (t − length, t], "neither" (t − length, t)."""
    if closed not in get_args(Closed):
        raise DefinitionError(
            f"closed is {closed!r}",
            expected="one of " + ", ".join(get_args(Closed)),
            next_step="leave it out for both ends, as SQL has it",
        )
    return ExactRange(parse_duration(length), closed=closed, label=length).shifted(offset)
