"""Headers, archive and metadata decide what is known of a unit's hours, whoever has read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.compaction import NOTHING, Compacted, UnitHours, holds
from slicewise.lifecycle.lifetime import kept_from
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.operations.publish_total import first_total_until
from slicewise.stores.online.rules.decisions import expiry_s
from slicewise.windows.durations import HOUR_US


def unit_hours(
    newest: Mapping[int, int],
    headers: Mapping[int, tuple[int, OffsetVector]],
    starts: Sequence[OffsetVector],
    contained: Callable[[OffsetVector], int],
    published: Mapping[int, int],
    kept_from: int,
    totals: tuple[int, ...],
) -> UnitHours:
    """newest, published, kept_from, totals: as in `UnitHours`; headers: hour -> archive version and
    offset vector of what stands; starts, contained: as in `compaction.holds`."""
    compacted = {
        hour: Compacted(
            archive_version,
            holds(archive_version, offset_vector, starts, contained, published.get(hour, NOTHING)),
        )
        for hour, (archive_version, offset_vector) in headers.items()
    }
    return UnitHours(newest, compacted, published, kept_from, totals)


def first_kept(unit: StorageUnit, metadata: StoreMetadata, now_us: int) -> int:
    """First hour of which the store still keeps anything by itself."""
    # nothing expires: what is older is in totals, or will be before the unit is ready
    if unit.lifetime:
        return kept_from(
            metadata, unit.storage_fingerprint, first_total_until(now_us, unit.retention_us)
        )
    hour = (now_us - unit.retention_us) // HOUR_US - 1
    while expiry_s((hour + 1) * HOUR_US, unit.retention_us) * 1_000_000 <= now_us:
        hour += 1
    return hour


class HourState(Enum):
    """State of an hour of a unit, for people."""

    OPEN = "open"
    """State of an hour that is not over, or since whose end nothing was archived."""
    DIRTY = "dirty"
    """State of an hour in which a compaction would find something to do, or of which a value was
    found to differ and no check has been green since."""
    COMPACTED = "compacted"
    """State of an hour of which all that was archived is compacted and published."""


def states_of(
    hours: UnitHours, first: int, now_hour: int, archived_until: int
) -> dict[int, HourState]:
    """States of a unit's hours from `first` on to the current one; an hour without events has none.
    archived_until: the hour in which the source was archived the last time."""
    with_events = {*hours.newest, *hours.compacted}
    states = {
        hour: HourState.COMPACTED if hours.dirty(hour) is None else HourState.DIRTY
        for hour in with_events
        if first <= hour < now_hour
    }
    if archived_until < now_hour:
        states.setdefault(now_hour - 1, HourState.OPEN)
    return states | {now_hour: HourState.OPEN}
