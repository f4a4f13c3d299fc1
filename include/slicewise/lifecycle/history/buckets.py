"""Times of a window are put into steps of one length; a step that nothing fell into has no
value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

from slicewise.windows.durations import DAY_US, HOUR_US

WINDOWS: Mapping[int, int] = {1: HOUR_US, 7: 4 * HOUR_US, 35: DAY_US}
"""Days that a report looks back -> length of a step."""
Join = Callable[[Sequence[float]], float]
Values = tuple[float | None, ...]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Steps:
    """Steps of a window, the last of which holds its end. Times are in microseconds."""

    start_us: int
    length_us: int
    count: int

    @staticmethod
    def until(now_us: int, days: int) -> Steps:
        length_us = WINDOWS[days]
        count = days * DAY_US // length_us
        end_us = (now_us // length_us + 1) * length_us
        return Steps(end_us - count * length_us, length_us, count)

    @property
    def labels(self) -> tuple[str, ...]:
        """The beginning of each step, in UTC."""
        form = "%d %b" if self.length_us >= DAY_US else "%d %b %H:%M"
        return tuple(
            (_EPOCH + timedelta(microseconds=self.start_us + i * self.length_us)).strftime(form)
            for i in range(self.count)
        )

    def index(self, at_us: int) -> int:
        """Number of the step that a time is in; outside of 0 to count where it is in none."""
        return (at_us - self.start_us) // self.length_us

    def joined(self, points: Iterable[tuple[int, float | None]], join: Join) -> Values:
        """One value of each step by what fell into it. points: (time, value)."""
        within: dict[int, list[float]] = {}
        for at_us, value in points:
            number = self.index(at_us)
            if value is not None and 0 <= number < self.count:
                within.setdefault(number, []).append(float(value))
        return tuple(join(within[i]) if i in within else None for i in range(self.count))


def instant(us: int) -> str:
    """A time for people, in UTC."""
    return f"{_EPOCH + timedelta(microseconds=us):%d %b %H:%M}"


def newest(values: Sequence[float]) -> float:
    """Last of values in the order of their times."""
    return values[-1]


def middle(values: Sequence[float]) -> float:
    """Median of values."""
    return float(median(values))
