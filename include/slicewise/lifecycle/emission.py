"""What is published follows from the log alone: equal covers give equal ticks, whoever computes them and when.

An instant is a time at which windows end. Its cover is, per partition, the first offset whose Kafka time has
reached it; a tick is the state of a window at that cover. Events of a window that was published already, between
two instants' covers, make a correction of it at the later one (docs/adr/0043).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slicewise.slices import Window, floor, resolution

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from slicewise.cover import Cover

BEAT_US = 10_000_000
"""Corrections of windows that end more rarely do not wait for the next end."""


@dataclass(frozen=True, eq=False)
class Tick:
    """One window of a view at its end, for all entities that are active: those with events in it, and those that
    had events in the window that ended one step before (their values are those of no events, once)."""

    view: str
    window: Window
    start_us: int
    end_us: int
    entities: pa.Table
    """The entity's columns, sorted by name; of a global view none, and one row."""
    values: pa.Table
    """Rows aligned with `entities`; per feature of this window a column of its name (`plays_10s`)."""
    changed: npt.NDArray[np.bool_]
    """Rows whose values are others than those published one step before."""
    cover: Cover
    """All events below it, and no other, are in the values."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Published windows of a view and length that late events changed, each entity and window a row."""

    view: str
    window: Window
    ends_us: npt.NDArray[np.int64]
    """Per row the window's end; it starts `window.length_us` earlier."""
    entities: pa.Table
    old: pa.Table
    """Values as they were published last."""
    values: pa.Table
    causes: Sequence[tuple[str, int, int]]
    """Per row (topic id, partition, offset) of the first of the late events."""
    cover: Cover


class Sink(Protocol):
    """Where ticks go. Called by one thread, in the order of instants; after a restart those since the last `flush`
    come again, equal."""

    def publish(self, tick: Tick) -> None: ...
    def correct(self, correction: Correction) -> None: ...
    def flush(self) -> None:
        """Returns when all that was handed over stands: then the cover of this emission advances."""
        ...


def step_us(window: Window, slice_us: int) -> int:
    """How far apart the ends of a window lie: its hop, or of a sliding one its resolution."""
    return window.hop_us or resolution(window, slice_us)


def emitted(window: Window) -> bool:
    """Whether the window ends at instants that are known beforehand, each of them complete."""
    return window.kind in ("sliding", "tumbling", "hopping") and not window.open and not window.offset_us


def next_instant(after_us: int, windows: Iterable[Window], slice_us: int) -> int:
    """The first instant later than `after_us`: an end of one of the windows, or a beat."""
    steps = {step_us(window, slice_us) for window in windows}
    return min(floor(after_us, step) + step for step in {*steps, min(BEAT_US, *steps)})


def due(window: Window, instant_us: int, slice_us: int) -> bool:
    """Whether the window ends at this instant."""
    return instant_us % step_us(window, slice_us) == 0


def ends_of(window: Window, slice_us: int, time_us: int, last_end_us: int) -> Iterator[int]:
    """Ends, up to `last_end_us`, of the windows that an event of this time lies in."""
    step = step_us(window, slice_us)
    first = floor(time_us, step) + step  # half-open: an event at an end is of the next window
    return iter(range(first, min(floor(time_us + window.length_us, step), last_end_us) + 1, step))
