"""The local engine answers what this machine's memory has room for, and Spark the rest."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slicewise.aggregates import Aggregate
from slicewise.training.events.rows import Span
from slicewise.training.requests.training_request import AUTO, LOCAL, SPARK

EVENT_BYTES = 400
"""Memory of an event that is read and answered from, of a view of some columns (measured: 200 to
390)."""
VALUE_BYTES, ITEM_BYTES = 40, 100
"""Memory of a value of a row, and of an item of one that is a list."""
SHARE_OF_MEMORY = 0.5
"""Share of the memory that is free which a data set may take."""


def value_bytes(aggregate: Aggregate) -> int:
    """Memory of a value, about: of a list that of all the items that it may hold."""
    if not pa.types.is_nested(aggregate.output_type):
        return VALUE_BYTES
    items = (getattr(aggregate, name, None) for name in ("k", "max_categories"))
    return VALUE_BYTES + ITEM_BYTES * next((n for n in items if isinstance(n, int)), 16)


@dataclass(frozen=True)
class Load:
    """Size of a data set. events: of the unit that reads most of them. value_bytes: of a row's
    values. spans: per unit the span of event times that its windows reach."""

    events: int
    rows: int
    value_bytes: int
    spans: tuple[Span, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Memory that the local engine takes, about."""
        return self.events * EVENT_BYTES + self.rows * self.value_bytes


@dataclass(frozen=True)
class Choice:
    """Engine that answers, and why, for people."""

    engine: str
    why: str


def choose(engine: str, load: Load, free_bytes: int, *, has_spark: bool) -> Choice:
    """The engine of a data set: the one that is wanted, or of `auto` the one that has room."""
    size = (
        f"{load.events:,} events, {load.rows:,} rows: about "
        f"{load.memory_bytes / 1e9:.1f} GB of {free_bytes / 1e9:.1f} GB that are free"
    )
    if engine != AUTO:
        return Choice(engine, f"the {engine} engine, as wanted; {size}")
    if load.memory_bytes <= free_bytes * SHARE_OF_MEMORY:
        return Choice(LOCAL, f"the local engine; {size}")
    if has_spark:
        return Choice(SPARK, f"Spark; {size}")
    return Choice(LOCAL, f"the local engine, as there is no Spark; it may have no room: {size}")
