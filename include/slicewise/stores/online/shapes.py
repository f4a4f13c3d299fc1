"""What a plan reads has one shape under every tag: its commands are made once, the tag put in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from slicewise.stores.online import keys
from slicewise.stores.online.steps import Fields, Members, Whole


class UnitShape(NamedTuple):
    """One unit: its hot hash whole, and fields of its day hashes."""

    unit: str
    """Its name in keys (`Marks.name`)."""
    days: tuple[tuple[int, tuple[bytes, ...]], ...]
    """(day since the epoch, field names)."""


class ListShape(NamedTuple):
    """One event list: its hash whole, and ranges of its members."""

    unit: str
    """Its name in keys (`Marks.name`)."""
    ranges: tuple[tuple[int, int, int], ...]
    """(first score, last score, newest) as `steps.Members` has them."""


@dataclass(frozen=True, eq=False)
class ReadShape:
    """Units under one tag, read in one transaction."""

    generation: int
    units: tuple[UnitShape | ListShape, ...]
    packed: dict[int, list[bytes]] = field(default_factory=dict, repr=False)
    """Kept by an adapter: what it sends, cut where the tag stands, by the length of the tag."""

    @cached_property
    def count(self) -> int:
        """How many commands."""
        return sum(1 + len(ranges) for _, ranges in self.units)

    def commands(self, tag: bytes) -> Sequence[Fields | Whole | Members]:
        """What is read under this tag, unit by unit."""
        found: list[Fields | Whole | Members] = []
        for each in self.units:
            if isinstance(each, ListShape):
                found.append(Whole(keys.list_key(self.generation, tag, each.unit)))
                key = keys.members_key(self.generation, tag, each.unit)
                found += [Members(key, *wanted) for wanted in each.ranges]
                continue
            unit, days = each
            found.append(Whole(keys.hot_key(self.generation, tag, unit)))
            found += [Fields(keys.day_key(self.generation, tag, unit, day), names) for day, names in days]
        return found
