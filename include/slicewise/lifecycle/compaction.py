"""Archived, compacted and published hours decide which hours to compact; nobody reports it.

Hours are counted since 1970, archive versions from 1; archive version 0 stands for a unit's start
offsets.
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
    PUBLISH = "swap"
    """Compacted rows that the online store does not hold, or not for every entity."""


@dataclass(frozen=True)
class DirtyHour:
    hour: int
    why: Why


NOTHING = -1
"""Holds no archive's events: what stands was made for other start offsets, or lies behind it."""


@dataclass(frozen=True)
class Compacted:
    """State of an hour. archive_version: of its header; holds: the newest archive all of whose
    events it contains (`archive_version` itself, or what start offsets contain), or NOTHING."""

    archive_version: int
    holds: int


def holds(
    archive_version: int,
    offset_vector: OffsetVector,
    starts: Sequence[OffsetVector],
    contained: Callable[[OffsetVector], int],
    published: int,
) -> int:
    """The newest archive of which a compacted hour holds all events, for every node of the store,
    or NOTHING.

    archive_version, offset_vector: of its header; starts: the unit's start offsets on each node;
    contained: as in `Filling`. An hour that lies within start offsets counts once the backfill has
    brought it (published: the archive version that all nodes say): nobody else may. What was
    compacted for one node's start offsets another that never published it must get of an archive.
    """
    if archive_version == 0:
        return (
            contained(offset_vector)
            if published == 0 or all(offset_vector == start for start in starts)
            else NOTHING
        )
    return (
        archive_version
        if published >= archive_version or all(offset_vector.dominates(start) for start in starts)
        else NOTHING
    )


@dataclass(frozen=True)
class UnitHours:
    """Knowledge of a unit's hours.

    newest: hour -> newest archive among its source's events; compacted: hour -> what stands in
    `slices`; published: hour -> archive version that the online store holds, marked when no entity
    was left over. kept_from: first hour that the online store still keeps; older ones are
    compacted, not published.
    """

    newest: Mapping[int, int]
    compacted: Mapping[int, Compacted]
    published: Mapping[int, int]
    kept_from: int = 0
    totals: tuple[int, ...] = ()
    """Seqs that totals may name, of archive versions unit with a lifetime."""

    def dirty(self, hour: int) -> DirtyHour | None:
        """Tells why the hour is dirty; None when it is clean."""
        newest, compacted = self.newest.get(hour, 0), self.compacted.get(hour)
        if newest and (compacted is None or newest > compacted.holds):
            return DirtyHour(hour, Why.EVENTS)
        if (
            compacted is None
            or hour < self.kept_from
            or self.published.get(hour, NOTHING) >= compacted.archive_version
        ):
            return None
        return DirtyHour(hour, Why.PUBLISH)

    def named(self) -> list[tuple[int, int]]:
        """Per kept hour the first and the last archive version that any entity's may stand at.

        Where the hour was published whole, no entity stands at an older archive version; one that
        was compacted later may have reached some of them. One that was never published whole may
        stand at any.
        """
        spans = [(archive_version, archive_version) for archive_version in self.totals]
        for hour in {*self.compacted, *self.published}:
            if hour >= self.kept_from:
                compacted, published = self.compacted.get(hour), self.published.get(hour, 0)
                spans.append(
                    (
                        published,
                        max(published, compacted.archive_version if compacted is not None else 0),
                    )
                )
        return spans


def dirty_hours(unit: UnitHours, now_hour: int) -> list[DirtyHour]:
    """Dirty hours that are over at the start of now_hour, oldest first."""
    hours = sorted(hour for hour in {*unit.newest, *unit.compacted} if hour < now_hour)
    return [dirty for hour in hours if (dirty := unit.dirty(hour)) is not None]


def hours_to_compact(
    units: Sequence[UnitHours], key_hour: int | None, only: bool, max_hours: int, now_hour: int
) -> list[int]:
    """The hours of a run: its key first, then other dirty ones, oldest first, at most max_hours.

    An hour is of the run when it is dirty for any unit. A clean key, or one that is not over, is
    no hour of the run. only: the key alone.
    """
    dirty = {dirty_hour.hour for unit in units for dirty_hour in dirty_hours(unit, now_hour)}
    first = [key_hour] if key_hour is not None and key_hour in dirty else []
    others = [] if only else sorted(dirty - set(first))
    return (first + others)[:max_hours]


class Fill(Enum):
    """Action of a backfill for an hour."""

    COMPUTE = "compute"
    """Nothing stands: compact exactly the events below the start offsets."""
    EXTEND = "extend"
    """Stored hours lack events below the start offsets, and hold none beyond: add exactly those."""
    START = "start"
    """Stored hours hold exactly the events below the start offsets: publish them as that, whatever
    archive version their header has."""
    PUBLISH = "swap"
    """Stored hours hold all of them and more: publish them under their own archive version."""
    RECOMPACT = "recompact"
    """Stored hours hold some beyond the start offsets and lack others below: compact to the newest
    archive."""


@dataclass(frozen=True)
class Filling:
    """Facts that decide what a backfill does for the hours of a unit."""

    start: OffsetVector
    newest: Mapping[int, int]
    """Hour -> newest archive among its source's events."""
    contained: Callable[[OffsetVector], int]
    """The newest archive all of whose events an offset vector contains."""

    def of(self, hour: int, archive_version: int, offset_vector: OffsetVector | None) -> Fill:
        """archive_version, offset_vector: of the hour's header; offset vector None where it has
        none."""
        if offset_vector is None:
            return Fill.COMPUTE
        if offset_vector == self.start and not archive_version:
            return Fill.START
        if archive_version and offset_vector.dominates(self.start):
            return Fill.PUBLISH
        if not self.start.dominates(offset_vector):
            return Fill.RECOMPACT
        lacks = self.newest.get(hour, 0) > (archive_version or self.contained(offset_vector))
        return Fill.EXTEND if lacks else Fill.START


def days_to_total(hours: Iterable[int], key_hour: int | None, now_hour: int) -> list[int]:
    """Days that are over and of which hours were published; with the first hour of a day as key,
    also the day before, whose last hour may have had no events."""
    days = {hour // 24 for hour in hours}
    if key_hour is not None and key_hour % 24 == 0:
        days.add(key_hour // 24 - 1)
    return sorted(day for day in days if (day + 1) * 24 <= now_hour)
