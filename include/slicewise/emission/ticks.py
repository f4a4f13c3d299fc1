"""The log alone decides what is published: equal offset vectors give equal ticks, whoever computes
them and when.

An instant is a time at which windows end. Its offset vector is, per partition, the first offset
whose Kafka time has reached it; a tick is the state of a window at that offset vector. Events of a
window that was published already, between two instants' offset vectors, make a correction of it at
the later one (docs/adr/0043).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from slicewise.features.plan.deployment import version_of
from slicewise.windows.bounds import floor
from slicewise.windows.window import Window

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from slicewise.features.plan.deployment import Deployment
    from slicewise.features.plan.unit import SliceUnit
    from slicewise.offsets.vector import OffsetVector

Errors = Mapping[str, Mapping[int, str]]
"""Feature column -> row -> why its value is null, where that is an error."""
BEAT_US = 10_000_000
"""Corrections of windows that end more rarely do not wait for the next end."""


@dataclass(frozen=True, eq=False)
class Tick:
    """One window of a view at its end, for all entities that are active: those with events in it,
    and those that had events in the window that ended one step before (their values are those of no
    events, once)."""

    view: str
    window: Window
    start_us: int
    end_us: int
    entities: pa.Table
    """The entity's columns, sorted by name; of a global view none, and one row."""
    values: pa.Table
    """Rows aligned with `entities`; per feature of this window a column of its name
    (`plays_10s`)."""
    changed: npt.NDArray[np.bool_]
    """Rows whose values are others than those published one step before."""
    offset_vector: OffsetVector
    """All events below it, and no other, are in the values."""
    errors: Errors = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Correction:
    """Published windows of a view and length that late events changed, each entity and window a
    row."""

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
    offset_vector: OffsetVector
    errors: Errors = field(default_factory=dict)


@dataclass(frozen=True)
class EmittedView:
    """A view whose windows are published, and to what end. topic: of `emit=`; None where only
    leaderboards want its ticks."""

    view: str
    units: tuple[SliceUnit, ...]
    columns: frozenset[str]
    topic: str | None
    wait_us: int
    corrections_us: int

    @property
    def longest_us(self) -> int:
        """Length of its longest published window."""
        features = [
            feature
            for unit in self.units
            for feature in unit.features
            if feature.column in self.columns
        ]
        return max(feature.window.length_us for feature in features)


def emitted_views(deployment: Deployment, source: str) -> tuple[EmittedView, ...]:
    """The views of a source that somebody wants ticks of: a topic all features, a leaderboard its
    own."""
    views = []
    for view in deployment.views:
        if version_of(view) is not None:
            continue  # its live version publishes
        units = [unit for unit in deployment.sliced if unit.view == view and unit.source == source]
        emission = next((unit.emission for unit in units if unit.emission is not None), None)
        leaderboards = [
            leaderboard for leaderboard in deployment.leaderboards if leaderboard.view == view
        ]
        wanted = {leaderboard.column for leaderboard in leaderboards}
        if emission is not None:
            wanted |= {
                emitted_feature.column
                for unit in units
                for emitted_feature in unit.emitted_features
            }
        own = tuple(
            unit for unit in units if any(feature.column in wanted for feature in unit.features)
        )
        if own:
            late = [
                0 if leaderboard.topic is None else leaderboard.correct_within_us
                for leaderboard in leaderboards
            ]
            views.append(
                EmittedView(
                    view,
                    own,
                    frozenset(wanted),
                    None if emission is None else emission.topic,
                    0 if emission is None else emission.wait_us,
                    max([*late, 0 if emission is None else emission.corrections_us]),
                )
            )
    return tuple(views)


class Sink(Protocol):
    """Receiver of ticks. Called by one thread, in the order of instants; after a restart the ticks
    since the last `flush` come again, equal."""

    def publish(self, tick: Tick) -> None: ...
    def correct(self, correction: Correction) -> None: ...
    def flush(self) -> None:
        """Returns when all that was handed over stands: then the offset vector of this emission
        advances."""
        ...


def grid(steps: Iterable[int]) -> tuple[int, ...]:
    """Steps of the instants of a view whose windows end at these: theirs, and beats where those are
    rare."""
    distinct = set(steps)
    return tuple(sorted({*distinct, min(BEAT_US, *distinct)}))


def next_instant(after_us: int, steps: Sequence[int]) -> int:
    """The first instant later than `after_us` of a grid."""
    return min(floor(after_us, step) + step for step in steps)
