"""A lifetime has no start: it holds all events up to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.calls import checked_call
from slicewise.windows.bounds import EARLIEST_US, Mode, Smaller, present
from slicewise.windows.durations import DAY_US
from slicewise.windows.window import Window, Wrong

LIFETIME = "lifetime"


@dataclass(frozen=True, repr=False)
class Lifetime(Window):
    """All events of the entity up to its end."""

    kind = "lifetime"
    unbounded = True

    @property
    def length_us(self) -> int:
        return 0

    def own_label(self) -> str:
        return LIFETIME

    def wrong(self) -> Wrong:
        return iter(())

    def column_suffix(self) -> str:
        return self.label

    def resolution(self, slice_us: int) -> int:
        """The slice: nothing but its end cuts it."""
        return slice_us

    def reach_us(self, slice_us: int) -> int:  # noqa: ARG002
        return DAY_US + self.offset_us

    def holds_end(self, mode: Mode) -> bool:
        return mode == "row"

    def as_python(self) -> str:
        return self._call("lifetime") if "_offset_" in self.label else self._written

    def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:  # noqa: ARG002
        return t * 0 + EARLIEST_US, present(mode, t, slice_us)


@checked_call
def lifetime(*, offset: str | None = None) -> Window:
    """All events of the entity up to now, or up to `offset` ago. As text, `"lifetime"`."""
    return Lifetime(label=LIFETIME).shifted(offset)
