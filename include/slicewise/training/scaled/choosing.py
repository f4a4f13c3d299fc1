"""The local engine answers what this machine's memory has room for, and Spark the rest."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.training.requests.training_request import AUTO, LOCAL, SPARK

EVENT_BYTES = 400
"""Memory of an event that is read and answered from, of a view of some columns (measured: 200 to
390)."""
VALUE_BYTES = 40
"""Memory of a value, of a row and a feature."""
SHARE_OF_MEMORY = 0.5
"""Share of the memory that is free which a data set may take."""


@dataclass(frozen=True)
class Load:
    """Size of a data set. events: of the unit that reads most of them. spans: per unit the span of
    event times that its windows reach."""

    events: int
    rows: int
    features: int
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Memory that the local engine takes, about."""
        return self.events * EVENT_BYTES + self.rows * self.features * VALUE_BYTES


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
