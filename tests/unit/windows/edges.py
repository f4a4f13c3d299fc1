"""One event per entity, one microsecond before, at and after an edge: what counts says where the
edge is."""

from __future__ import annotations

from collections.abc import Sequence

import slicewise as sw
from slicewise.windows.bounds import Mode
from slicewise.windows.durations import HOUR_US as H
from slicewise.windows.durations import MINUTE_US as M
from slicewise.windows.window import Window

TEN = 1_767_261_600_000_000
"""2026-01-01T10:00:00Z, which the drawings call 10:00."""
MODES: tuple[Mode, ...] = ("event_time", "at", "live")
PLAYS = sw.KafkaSource("plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t")

__all__ = ["MODES", "TEN", "H", "M", "around", "counted", "read_around"]


def counted(
    window: Window | str,
    at_us: Sequence[int],
    times: Sequence[Sequence[int]],
    mode: Mode = "event_time",
    cut: str = "1m",
) -> list[int]:
    """Events in the window of each (instant, entity); the i-th entity has events at times[i]. cut:
    the slice."""
    exact = isinstance(window, Window) and window.by_events
    view = sw.FeatureView(
        "v", PLAYS, ["user"], [sw.Feature("n", sw.count(), [window])], slice=None if exact else cut
    )
    events = [{"user": str(i), "t": t} for i, own in enumerate(times) for t in own]
    queries = [{"user": str(i), "at": at, "mode": mode} for at in at_us for i in range(len(times))]
    table = sw.evaluate(view, events, queries)
    return [int(n or 0) for n in table.column(table.num_columns - 1).to_pylist()]


def around(
    window: Window | str, at_us: int, edge_us: int, mode: Mode = "event_time", cut: str = "1m"
) -> list[int]:
    """The counts of an event a microsecond before the edge, at it, and a microsecond after it."""
    return counted(window, [at_us], [[edge_us - 1], [edge_us], [edge_us + 1]], mode, cut)


def read_around(
    window: Window | str,
    at_us: int,
    times: Sequence[int],
    mode: Mode = "event_time",
    cut: str = "1m",
) -> list[int]:
    """Events counted by one who reads a microsecond before this instant, at it, and a microsecond
    after it."""
    return counted(window, [at_us - 1, at_us, at_us + 1], [times], mode, cut)
