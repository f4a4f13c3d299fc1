"""An event list keeps what all windows need that are answered from it, of whatever view.

One list per (source, entity, where, columns): views whose exact windows read the same columns of
the same events share it, and it keeps what the most demanding of them needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slicewise.errors import DefinitionError
from slicewise.windows.rows import MAX_ROWS
from slicewise.windows.window import Window

CAPACITY = 10_000
"""Events of one entity that a list keeps at most, where the view says nothing."""
MAX_CAPACITY = 1_000_000


@dataclass(frozen=True)
class EventList:
    """Bounds of the events of an entity that must be kept; older ones are trimmed when events are
    added.

    range_us: events this young, for windows of time (0: there are none). rows: the last so many at
    or before any `at` that may be read (0: no rows window). late_us: how far back such an `at` may
    lie. most: never more than so many, whatever that leaves out: what a read then lacks is refused.
    """

    range_us: int
    rows: int
    late_us: int
    most: int

    @property
    def expires(self) -> bool:
        """Tells whether an entity's list goes when its newest event is too old; the last rows never
        are."""
        return not self.rows

    @property
    def reach_us(self) -> int:
        """Greatest age of an event that is still read."""
        return max(self.range_us, self.late_us)

    def needs_more(self, kept: EventList) -> bool:
        """Tells whether a list that was kept so may have dropped, or let expire, what this one must
        hold."""
        earlier = self.rows > 0 and self.late_us > kept.late_us
        return self.range_us > kept.range_us or self.rows > kept.rows or earlier

    def join(self, other: EventList) -> EventList:
        """Keeps what either keeps."""
        return EventList(
            max(self.range_us, other.range_us),
            max(self.rows, other.rows),
            max(self.late_us, other.late_us),
            max(self.most, other.most),
        )

    def text(self) -> str:
        """The text that the metadata keep."""
        return f"{self.range_us}/{self.rows}/{self.late_us}/{self.most}"

    @staticmethod
    def parse(text: str) -> EventList:
        """Inverse of `text`."""
        range_us, rows, late_us, most = map(int, text.split("/"))
        return EventList(range_us, rows, late_us, most)


def kept_for(windows: Iterable[Window], late_us: int, capacity: int, where: str) -> EventList:
    """The list that these windows need, for events that come up to late_us after their time."""
    windows = tuple(windows)
    rows = max((window.most_rows for window in windows), default=0)
    ranges = [
        window.length_us + window.offset_us + late_us for window in windows if not window.most_rows
    ]
    shifted = max((window.offset_us for window in windows if window.most_rows), default=0)
    if rows > capacity:
        raise DefinitionError(
            f"a window of {rows} rows, of a list that keeps {capacity}",
            where=where,
            expected=f"a capacity of at least {rows}",
            next_step="raise the view's capacity, or ask for fewer rows",
        )
    return EventList(max(ranges, default=0), rows, late_us + shifted, capacity)


def check_capacity(capacity: object, where: str) -> None:
    """Refuse a capacity that is no number of events. Raises DefinitionError."""
    if (
        isinstance(capacity, bool)
        or not isinstance(capacity, int)
        or not 0 < capacity <= MAX_CAPACITY
    ):
        raise DefinitionError(
            f"capacity is {capacity!r}",
            where=where,
            expected=(
                f"a whole number of events, from 1 to {MAX_CAPACITY} (a rows window takes up to "
                f"{MAX_ROWS})"
            ),
            next_step="leave it out for the default",
        )
