"""An explanation names a bounded number of parts; of those that are left out it gives the number.

A window of years at one entity has thousands of parts, and nobody reads those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from slicewise.client.answers import Segment
from slicewise.reading.explained.segments import EMPTY

MOST_SEGMENTS = 2_000
"""Parts in an explanation, shared out among its windows."""
MOST_OF_WINDOW, LEAST_OF_WINDOW = 200, 10
"""Parts of one window: at most, and in any case."""
MOST_VERSIONS = 200
"""Archive versions of a view."""


def most_of_window(windows: int) -> int:
    """Parts that each of these windows may show."""
    return max(LEAST_OF_WINDOW, min(MOST_OF_WINDOW, MOST_SEGMENTS // max(windows, 1)))


def shown(segments: Sequence[Segment], most: int) -> tuple[tuple[Segment, ...], Mapping[str, int]]:
    """At most so many segments, in their order, and by state the number of those left out.

    Late and pending ones go first, since they are what one looks for; then those with something in
    them, and the newest of each kind. A late one that is left out counts as `late`.
    """
    if len(segments) <= most:
        return tuple(segments), {}
    order = sorted(range(len(segments)), key=lambda number: _rank(segments[number]))
    left_out = Counter(_state(segments[number]) for number in order[most:])
    return tuple(segments[number] for number in sorted(order[:most])), dict(left_out)


def newest_versions(segments: Iterable[Segment]) -> tuple[list[int], int]:
    """The newest archive versions that segments name, and the number of those left out."""
    named = sorted({version for segment in segments for version in segment.archive_versions})
    return named[-MOST_VERSIONS:], max(0, len(named) - MOST_VERSIONS)


def _rank(segment: Segment) -> tuple[bool, bool, int]:
    is_sought = segment.late or segment.where == "pending"
    return not is_sought, segment.state == EMPTY, -segment.end_us


def _state(segment: Segment) -> str:
    return "late" if segment.late else segment.state
