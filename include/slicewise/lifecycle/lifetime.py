"""Archived and compacted hours, and the claims of the metadata, decide how far lifetime totals
reach.

A total-until hour moves only when nothing before it is dirty: then what stands of its hours is all
that the newest archive has of them, and one archive version says so for all. docs/adr/0042.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slicewise.lifecycle.compaction import UnitHours
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.rules.decisions import HOURS_PER_DAY

STOPPED_DAYS = 14
"""Days for which a backfill may have stood still."""


@dataclass(frozen=True)
class TotalsClaim:
    """Claim of the metadata. hour: before it hours are in the totals; archive_version: the newest
    archive all of whose events of these hours are in them."""

    hour: int
    archive_version: int


def totals_claim(
    metadata: StoreMetadata, unit: str, contained: Callable[[OffsetVector], int]
) -> TotalsClaim | None:
    """The claim of every node about a unit (a fingerprint); None where one claims nothing.
    contained: the newest archive all of whose events an offset vector contains. Totals of a
    backfill hold what lies below their own node's start offsets: that of another node may contain
    events that this one still has running, and a move would delete them."""
    claims = []
    for node in metadata.by_node:
        total_until = node.totals_until.get(unit)
        if total_until is None:
            return None
        claims.append(
            TotalsClaim(
                total_until.hour, total_until.archive_version or contained(node.starts[unit])
            )
        )
    return TotalsClaim(
        min(node_claim.hour for node_claim in claims),
        min(node_claim.archive_version for node_claim in claims),
    )


def kept_from(metadata: StoreMetadata, unit: str, due: int) -> int:
    """The hour before which no node keeps hours by themselves, or none will before the unit is
    ready. due: the total-until hour that is. A node whose unit has no totals yet says nothing of
    the hours that the others keep."""
    return min(
        (node.totals_until[unit].hour for node in metadata.by_node if unit in node.totals_until),
        default=due,
    )


@dataclass(frozen=True)
class Move:
    """Hours that are to go into the totals: those before `total_until`; since: from there on alone,
    None: all anew."""

    total_until: int
    since: int | None

    def hours(self, hours: UnitHours) -> list[int]:
        """The compacted hours that it takes."""
        return sorted(
            h
            for h in hours.compacted
            if h < self.total_until and (self.since is None or h >= self.since)
        )


def days_of(move: Move, claim: TotalsClaim | None) -> tuple[int, ...]:
    """Days whose hashes may hold hours that move: those since the total-until hour. Before the
    first, a backfill publishes no hour that is due to be in totals: what one published that was
    stopped, when an earlier total-until hour was due. (If it was stopped longer ago than that, what
    it left counts for nobody, and the sweep takes it.)"""
    end = move.total_until // HOURS_PER_DAY
    return tuple(range(end - STOPPED_DAYS if claim is None else claim.hour // HOURS_PER_DAY, end))


def late_hours(hours: UnitHours, claim: TotalsClaim) -> list[int]:
    """Hours before the total-until hour with archived events that the totals lack: they stay dirty
    until a move brings them."""
    return sorted(
        hour
        for hour, newest in hours.newest.items()
        if hour < claim.hour and newest > claim.archive_version
    )


def next_move(
    hours: UnitHours,
    claim: TotalsClaim | None,
    target: int,
    archive_version: int,
    raw: int | None = None,
) -> Move | None:
    """The move that is due now, if anything can be moved. claim: None before the first; target:
    the total-until hour that is due; archive_version: of the archive that the hours are known from;
    raw: an hour that was recomputed. A total-until hour never goes back."""
    total_until = target if claim is None else max(target, claim.hour)
    for hour in {*hours.newest, *hours.compacted}:
        compacted_hour = hours.compacted.get(hour)
        if hour < total_until and (
            compacted_hour is None
            or hours.newest.get(hour, 0) > compacted_hour.holds
            or compacted_hour.archive_version > archive_version
        ):
            # first it must be compacted; or another run has compacted it from a newer archive
            return None
    if claim is None or late_hours(hours, claim) or (raw is not None and raw < claim.hour):
        return Move(total_until, None)
    return Move(total_until, claim.hour) if total_until > claim.hour else None
