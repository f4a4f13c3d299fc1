"""The algebra: what is stored of events, and how it merges, exact and in any order. No I/O."""

from __future__ import annotations

from slicewise.aggregates.base import (
    OVERFLOW,
    REGISTRY,
    Aggregate,
    Failed,
    Finished,
    Invertible,
    State,
    from_spec,
)
from slicewise.aggregates.columns import Columns
from slicewise.aggregates.counting import Count
from slicewise.aggregates.events import Event, Rows
from slicewise.aggregates.fields import IDENTITY, Field, Fixed, Items, Texts
from slicewise.aggregates.ragged import Ragged, RaggedBytes
from slicewise.aggregates.sums import Mean, Sum
from slicewise.aggregates.values import canonicalise


def count(column: str | None = None) -> Count:
    """Number of events; with a column, of events where it is not null."""
    return Count(column)


def sum(column: str) -> Sum:
    """Exact sum of a number column, rounded once."""
    return Sum(column)


def mean(column: str) -> Mean:
    """Exact mean of a number column, rounded once."""
    return Mean(column)


__all__ = [
    "IDENTITY",
    "OVERFLOW",
    "REGISTRY",
    "Aggregate",
    "Columns",
    "Event",
    "Failed",
    "Field",
    "Finished",
    "Fixed",
    "Invertible",
    "Items",
    "Ragged",
    "RaggedBytes",
    "Rows",
    "State",
    "Texts",
    "canonicalise",
    "count",
    "from_spec",
    "mean",
    "sum",
]
