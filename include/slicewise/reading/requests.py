"""A plan's reads have one shape under every tag; `stores/online/steps.py` makes the commands of a
tag of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


class UnitShape(NamedTuple):
    """One unit: its hot hash whole, and fields of its day hashes."""

    unit: str
    """Name in keys (`StoreMetadata.name`)."""
    days: tuple[tuple[int, tuple[bytes, ...]], ...]
    """(day since the epoch, field names)."""


class ListShape(NamedTuple):
    """One event list: its hash whole, and ranges of its members."""

    unit: str
    """Name in keys (`StoreMetadata.name`)."""
    ranges: tuple[tuple[int, int, int], ...]
    """(first score, last score, newest) as `steps.Members` has them."""


@dataclass(frozen=True, eq=False)
class ReadShape:
    """Units under one tag, read in one transaction."""

    store_id: int
    units: tuple[UnitShape | ListShape, ...]
    packed: dict[int, list[bytes]] = field(default_factory=dict, repr=False)
    """Kept by an adapter: what it sends, cut where the tag stands, by the length of the tag."""

    @cached_property
    def count(self) -> int:
        """The number of commands."""
        return sum(1 + len(ranges) for _, ranges in self.units)


class TagRead(NamedTuple):
    """Units under one tag, by a shape that many tags are read by."""

    shape: ReadShape
    tag: bytes
