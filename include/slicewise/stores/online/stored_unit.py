"""A store needs to know of a storage unit and of a deployment what these protocols name, and no
more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slicewise.codec import Layout
from slicewise.features.declare.event_list import EventList


class StoredUnit(Protocol):
    """Unit as a store must know it; units of `features.plan.unit` are some."""

    @property
    def storage_fingerprint(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def view(self) -> str: ...
    @property
    def slice_us(self) -> int: ...
    @property
    def retention_us(self) -> int: ...
    @property
    def five_day_totals(self) -> bool:
        """Tells whether a window is read by five-day totals."""
        ...

    @property
    def layout(self) -> Layout: ...
    @property
    def lifetime(self) -> bool:
        """Tells whether a feature holds all events: nothing expires, and hours go into a total."""
        ...

    @property
    def event_list(self) -> EventList | None:
        """The events that it keeps, if it is an event list."""
        ...


def kept_by(unit: StoredUnit) -> EventList:
    """Bounds of an event list: the events that it keeps. TypeError for a unit of slices, which
    keeps none."""
    match unit.event_list:
        case EventList() as kept:
            return kept
    raise TypeError(f"unit {unit.storage_fingerprint} of view {unit.view!r} is no event list")


class Deployable(Protocol):
    """Deployment as `Deploy` writes it; `features.plan.Deployment` is one."""

    @property
    def digest(self) -> str: ...
    @property
    def units(self) -> Sequence[StoredUnit]: ...
    def topic_of(self, source: str) -> str:
        """The topic's name of a source."""
        ...

    def to_json(self) -> str: ...
