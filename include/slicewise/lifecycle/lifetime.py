"""Archived and compacted hours, and the marks' claims, decide how far the totals of a lifetime reach.

A horizon moves only when nothing before it is dirty: then what stands of its hours is all that the newest archive
has of them, and one seq says so for all. docs/adr/0042.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slicewise.lifecycle.compaction import UnitHours
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.rules.decisions import HOURS_PER_DAY

STOPPED_DAYS = 14
"""So long a backfill may have stood still."""


@dataclass(frozen=True)
class Reached:
    """Claim of the marks. hour: before it hours are in the totals; held: the newest archive all of whose events
    of these hours are in them."""

    hour: int
    held: int


def reached(marks: StoreMetadata, unit: str, contained: Callable[[OffsetVector], int]) -> Reached | None:
    """The claim of every node about a unit (a fingerprint); None where one claims nothing. contained: the newest archive
    all of whose events a cover contains. Totals of a backfill hold what lies below their own node's start cover: that
    of another node may contain events that this one still has running, and a move would delete them."""
    found = []
    for each in marks.each:
        horizon = each.horizons.get(unit)
        if horizon is None:
            return None
        found.append(Reached(horizon.hour, horizon.seq or contained(each.starts[unit])))
    return Reached(min(each.hour for each in found), min(each.held for each in found))


def kept_from(marks: StoreMetadata, unit: str, due: int) -> int:
    """The hour before which no node keeps hours by themselves, or none will before the unit is ready. due: the horizon
    that is. A node whose unit has no totals yet says nothing of the hours that the others keep."""
    return min((each.horizons[unit].hour for each in marks.each if unit in each.horizons), default=due)


@dataclass(frozen=True)
class Move:
    """Hours that are to go into the totals: those before `horizon`; since: from there on alone, None: all anew."""

    horizon: int
    since: int | None

    def hours(self, hours: UnitHours) -> list[int]:
        """The compacted hours that it takes."""
        return sorted(h for h in hours.compacted if h < self.horizon and (self.since is None or h >= self.since))


def days_of(move: Move, reached: Reached | None) -> tuple[int, ...]:
    """Days whose hashes may hold hours that move: those since the horizon. Before the first, a backfill swaps no hour
    that is due to be in totals: what one swapped that was stopped, when an earlier horizon was due. (If it was
    stopped longer ago than that, what it left counts for nobody, and the sweep takes it.)"""
    end = move.horizon // HOURS_PER_DAY
    return tuple(range(end - STOPPED_DAYS if reached is None else reached.hour // HOURS_PER_DAY, end))


def late_hours(hours: UnitHours, reached: Reached) -> list[int]:
    """Hours before the horizon with archived events that the totals lack: they stay dirty until a move brings them."""
    return sorted(hour for hour, newest in hours.newest.items() if hour < reached.hour and newest > reached.held)


def next_move(hours: UnitHours, reached: Reached | None, target: int, seq: int, raw: int | None = None) -> Move | None:
    """The move that is due now, if anything can be moved. reached: None before the first; target: the horizon that is due;
    seq: of the archive that the hours are known from; raw: an hour that was recomputed. A horizon never goes back."""
    horizon = target if reached is None else max(target, reached.hour)
    for hour in {*hours.newest, *hours.compacted}:
        stands = hours.compacted.get(hour)
        if hour < horizon and (stands is None or hours.newest.get(hour, 0) > stands.holds or stands.seq > seq):
            return None  # first it must be compacted; or another run has compacted it from a newer archive
    if reached is None or late_hours(hours, reached) or (raw is not None and raw < reached.hour):
        return Move(horizon, None)
    return Move(horizon, reached.hour) if horizon > reached.hour else None
