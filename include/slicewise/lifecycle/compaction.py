"""Archived, compacted and swapped hours decide which hours to compact; nobody reports it.

Hours are counted since 1970, seqs from 1; seq 0 stands for a unit's start cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from slicewise.offsets.vector import OffsetVector


class Why(Enum):
    """Reason for which an hour is dirty."""

    EVENTS = "events"
    """Archived events that its compacted rows do not hold."""
    SWAP = "swap"
    """Compacted rows that the online store does not hold, or not for every entity."""


@dataclass(frozen=True)
class DirtyHour:
    hour: int
    why: Why


NOTHING = -1
"""Holds no archive's events: what stands was made for another start cover, or lies behind it."""


@dataclass(frozen=True)
class Compacted:
    """State of an hour. seq: of its header; holds: the newest archive all of whose events
    it contains (`seq` itself, or what a start cover contains), or NOTHING."""

    seq: int
    holds: int


def holds(
    seq: int,
    cover: OffsetVector,
    starts: Sequence[OffsetVector],
    contained: Callable[[OffsetVector], int],
    swapped: int,
) -> int:
    """The newest archive of which a compacted hour holds all events, for every node of the store, or NOTHING.

    seq, cover: of its header; starts: the unit's start cover on each node; contained: as in `Filling`. An hour that
    lies within a start cover counts once the backfill has brought it (swapped: the seq that all nodes say): nobody
    else may. What was compacted for one node's start cover another that never swapped it must get of an archive.
    """
    if seq == 0:
        return contained(cover) if swapped == 0 or all(cover == start for start in starts) else NOTHING
    return seq if swapped >= seq or all(cover.dominates(start) for start in starts) else NOTHING


@dataclass(frozen=True)
class UnitHours:
    """Knowledge of a unit's hours.

    newest: hour -> newest archive among its source's events; compacted: hour -> what stands in
    `slices`; swapped: hour -> seq that the online store holds, marked when no entity was left over.
    kept_from: first hour that the online store still keeps; older ones are compacted, not swapped.
    """

    newest: Mapping[int, int]
    compacted: Mapping[int, Compacted]
    swapped: Mapping[int, int]
    kept_from: int = 0
    totals: tuple[int, ...] = ()
    """Of a unit with a lifetime the seqs that totals may name."""

    def dirty(self, hour: int) -> DirtyHour | None:
        """Tells why the hour is dirty; None when it is clean."""
        newest, stands = self.newest.get(hour, 0), self.compacted.get(hour)
        if newest and (stands is None or newest > stands.holds):
            return DirtyHour(hour, Why.EVENTS)
        if stands is None or hour < self.kept_from or self.swapped.get(hour, NOTHING) >= stands.seq:
            return None
        return DirtyHour(hour, Why.SWAP)

    def named(self) -> list[tuple[int, int]]:
        """Per kept hour the first and the last archive seq that any entity's may stand at.

        Where the hour was swapped whole, no entity stands at an older seq; one that was compacted
        later may have reached some of them. One that was never swapped whole may stand at any.
        """
        found = [(seq, seq) for seq in self.totals]
        for hour in {*self.compacted, *self.swapped}:
            if hour >= self.kept_from:
                stands, swapped = self.compacted.get(hour), self.swapped.get(hour, 0)
                found.append((swapped, max(swapped, stands.seq if stands is not None else 0)))
        return found


def dirty_hours(unit: UnitHours, now_hour: int) -> list[DirtyHour]:
    """Dirty hours that are over at the start of now_hour, oldest first."""
    hours = sorted(hour for hour in {*unit.newest, *unit.compacted} if hour < now_hour)
    return [found for hour in hours if (found := unit.dirty(hour)) is not None]


def hours_to_compact(
    units: Sequence[UnitHours], key_hour: int | None, only: bool, max_hours: int, now_hour: int
) -> list[int]:
    """The hours of a run: its key first, then other dirty ones, oldest first, at most max_hours.

    An hour is of the run when it is dirty for any unit. A clean key, or one that is not over, is
    no hour of the run. only: the key alone.
    """
    dirty = {each.hour for unit in units for each in dirty_hours(unit, now_hour)}
    first = [key_hour] if key_hour is not None and key_hour in dirty else []
    others = [] if only else sorted(dirty - set(first))
    return (first + others)[:max_hours]


class Fill(Enum):
    """Action of a backfill for an hour."""

    COMPUTE = "compute"
    """Nothing stands: compact exactly the events below the start cover."""
    EXTEND = "extend"
    """What stands lacks events below the start cover, and holds none beyond: add exactly those."""
    START = "start"
    """What stands holds exactly the events below the start cover: swap it as that, whatever seq its header has."""
    SWAP = "swap"
    """What stands holds all of them and more: swap it under its own seq."""
    RECOMPACT = "recompact"
    """What stands holds some beyond the start cover and lacks others below: compact to the newest archive."""


@dataclass(frozen=True)
class Filling:
    """Facts that decide what a backfill does for the hours of a unit."""

    start: OffsetVector
    newest: Mapping[int, int]
    """Hour -> newest archive among its source's events."""
    contained: Callable[[OffsetVector], int]
    """The newest archive all of whose events a cover contains."""

    def of(self, hour: int, seq: int, cover: OffsetVector | None) -> Fill:
        """seq, cover: of the hour's header; cover None where it has none."""
        if cover is None:
            return Fill.COMPUTE
        if cover == self.start and not seq:
            return Fill.START
        if seq and cover.dominates(self.start):
            return Fill.SWAP
        if not self.start.dominates(cover):
            return Fill.RECOMPACT
        lacks = self.newest.get(hour, 0) > (seq or self.contained(cover))
        return Fill.EXTEND if lacks else Fill.START


def days_to_total(hours: Iterable[int], key_hour: int | None, now_hour: int) -> list[int]:
    """Days that are over and of which hours were swapped; with the first hour of a day as key,
    also the day before, whose last hour may have had no events."""
    days = {hour // 24 for hour in hours}
    if key_hour is not None and key_hour % 24 == 0:
        days.add(key_hour // 24 - 1)
    return sorted(day for day in days if (day + 1) * 24 <= now_hour)
