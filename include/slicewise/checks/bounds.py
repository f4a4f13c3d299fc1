"""The check derives a window's bounds by itself, from the table of the design, and compares the
token's with them."""

from __future__ import annotations

from slicewise.windows.exact_range import ExactRange
from slicewise.windows.hopping import Hopping
from slicewise.windows.lifetime import Lifetime
from slicewise.windows.rows import Rows
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding
from slicewise.windows.tumbling import Tumbling
from slicewise.windows.window import Window

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
MOST_STEPS = 1_500
EVER = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z: where a window of rows begins, and a lifetime."""


def step_us(window: Window, slice_us: int) -> int:
    """The step of a sliding window's start: the finest level with at most 1,500 steps."""
    levels = [
        slice_us,
        *(level for level in (MINUTE, HOUR, DAY) if level > slice_us and level % slice_us == 0),
    ]
    return next((level for level in levels if window.length_us <= MOST_STEPS * level), levels[-1])


def searched_from(window: Window, slice_us: int, end_us: int) -> int:
    """The earliest start of a session that is asked for at this end."""
    return (end_us - window.length_us) // slice_us * slice_us


def may_be(window: Window, slice_us: int, start_us: int, end_us: int, at_us: int | None) -> bool:
    """Tells whether [start, end) can be the bounds of a window's read at `at_us` (None: at its own
    present).

    A live read's instant, less the window's offset, lies in the last slice of its bounds: (end -
    slice, end].
    """
    if at_us is not None:
        at_us -= window.offset_us
    match window:
        case Rows():
            return start_us == EVER and (at_us is None or end_us == at_us + 1)
        case ExactRange():
            # Closed at the reading's own microsecond; a live one may have been at any.
            last = end_us - 1 if window.closed in ("both", "right") else end_us
            first = start_us if window.closed in ("both", "left") else start_us - 1
            return last - first == window.length_us and at_us in (None, last)
        case Session():
            # Where it starts is for the events to say: `Recomputation.sessions`.
            cut = (
                start_us % slice_us == end_us % slice_us == 0
                and searched_from(window, slice_us, end_us) <= start_us
            )
            return (
                cut
                and start_us <= end_us
                and (at_us is None or end_us == at_us // slice_us * slice_us)
            )
        case Lifetime():
            cut = start_us == EVER and end_us % slice_us == 0
            return cut and (at_us is None or end_us == at_us // slice_us * slice_us)
        case Tumbling(open=False) | Hopping(open=False):
            ends = end_us % window.hop_us == 0 and end_us - start_us == window.length_us
            return ends and (at_us is None or end_us == at_us // window.hop_us * window.hop_us)
    if at_us is not None:
        present = at_us // slice_us * slice_us
        return (start_us, end_us) == _present(window, slice_us, at_us, present)
    if end_us % slice_us:
        return False
    # The read's instant moves within one slice; a start moves at most once within it.
    instants = (end_us - slice_us + 1, end_us - slice_us // 2, end_us)
    return any((start_us, end_us) == _present(window, slice_us, t, end_us) for t in instants)


def ages_from_us(window: Window, end_us: int) -> int:
    """The instant that an answer's ages are counted from: the one that was asked for where it lies
    in the window, else where the window ends."""
    match window:
        case Rows() | ExactRange(closed="both" | "right"):
            return end_us - 1
    return end_us


def _present(window: Window, slice_us: int, t_us: int, present_us: int) -> tuple[int, int]:
    """Bounds of a window that reaches up to the present."""
    match window:
        case Sliding():
            step = step_us(window, slice_us)
            return (t_us - window.length_us) // step * step, present_us
        case Tumbling() | Hopping():
            end = t_us // window.hop_us * window.hop_us + window.hop_us
            return end - window.length_us, min(end, present_us)
    raise AssertionError(f"no rule for {window!r}")
