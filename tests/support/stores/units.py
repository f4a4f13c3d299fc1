"""One stand-in for a planned unit: stores, plans, merges and training read of it exactly as of a
real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from slicewise.aggregates import Aggregate
from slicewise.codec import Layout, Members
from slicewise.features.declare.event_list import EventList
from slicewise.features.plan.unit import PlannedFeature
from slicewise.windows.durations import HOUR_US, MINUTE_US
from slicewise.windows.window import Window
from tests.support.stores.identities import IDENTITIES


@dataclass(frozen=True)
class StoreUnit:
    """A unit of given partials. Without any, the identity multiset and a count."""

    storage_fingerprint: str = "00000000000000aa"
    source: str = "plays"
    view: str = "listening"
    slice_us: int = 10 * MINUTE_US
    retention_us: int = 48 * HOUR_US
    layout: Layout = field(default_factory=lambda: IDENTITIES)
    event_list: EventList | None = None
    lifetime: bool = False
    five_day_totals: bool = True
    levels: tuple[int, ...] = ()
    features: tuple[PlannedFeature, ...] = ()
    definition_fingerprint: str = "11" * 8

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """Column -> type of all that its partials read."""
        return {
            column: partial.type_of(column)
            for partial in self.layout.partials
            for column in partial.inputs
        }

    @cached_property
    def members(self) -> Members:
        """The form of a pending event."""
        return Members(tuple(sorted(self.types.items())))

    def feature(self, column: str, window: Window, aggregate: Aggregate) -> PlannedFeature:
        """A feature column over one of its partials."""
        return PlannedFeature(column, column, window, aggregate, self.layout.index(aggregate))
