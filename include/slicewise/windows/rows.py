"""A window of rows counts events, newest first; time does not bound it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slicewise.calls import checked_call
from slicewise.errors import DefinitionError
from slicewise.windows.bounds import EARLIEST_US, Mode, Smaller
from slicewise.windows.window import Window, Wrong

MAX_ROWS = 10_000
"""Most rows of a rows window: each read brings them all."""


@dataclass(frozen=True, repr=False)
class Rows(Window):
    """The last `rows` events at or before the reading."""

    rows: int

    kind = "rows"
    by_events = True

    @property
    def length_us(self) -> int:
        return 0

    @property
    def most_rows(self) -> int:
        return self.rows

    def own_label(self) -> str:
        return str(self.rows)

    def wrong(self) -> Wrong:
        yield not 0 < self.rows <= MAX_ROWS, f"rows, of a rows window alone, at most {MAX_ROWS}"

    def resolution(self, slice_us: int) -> int:  # noqa: ARG002
        """A microsecond."""
        return 1

    def reach_us(self, slice_us: int) -> int:  # noqa: ARG002
        return self.offset_us

    def holds_end(self, mode: Mode) -> bool:  # noqa: ARG002
        return True

    def as_python(self) -> str:
        return self._call("rows", str(self.rows))

    def _bounds(self, mode: Mode, t: Any, slice_us: int, smaller: Smaller) -> tuple[Any, Any]:  # noqa: ARG002
        return t * 0 + EARLIEST_US, t + 1


@checked_call
def rows(count: int, *, offset: str | None = None) -> Window:
    """The last `count` events at or before the reading, by event time; of one instant those that
    are last by topic, partition and offset."""
    if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= MAX_ROWS:
        raise DefinitionError(
            f"a window of {count!r} rows",
            expected=f"a whole number of rows, from 1 to {MAX_ROWS}",
            next_step="bound the rows; a window over all events is no rows window",
        )
    return Rows(count, label=str(count)).shifted(offset)
