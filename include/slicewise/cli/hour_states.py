"""The calendar of hours is read from the catalog's and the store's own records, without Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slicewise.cli.clean_hour import records
from slicewise.lifecycle.healing.record import PART, Healing, Mark
from slicewise.lifecycle.hours import HourState, states_of
from slicewise.settings import Settings
from slicewise.stores.lake.archive import (
    ArchiveState,
    archive_state,
    load,
    newest_archive_us,
    newest_by_hour,
)
from slicewise.stores.lake.catalog import IcebergTable
from slicewise.stores.online.redis.status import read_part
from slicewise.windows.durations import HOUR_US


@dataclass(frozen=True)
class ViewHours:
    """The hours of a view, and its compacted slices in the lake."""

    view: str
    states: dict[int, HourState]
    """Hour, counted since 1970 -> the state of the unit that is behind."""
    rows: int
    bytes: int
    mark: Mark | None = None
    """Hours that a red check marked, until one is green."""


@dataclass(frozen=True)
class Calendar:
    """Hours of all views that are stored as slices."""

    now_us: int
    first: int
    """The first hour of the calendar."""
    views: tuple[ViewHours, ...]


def calendar(settings: Settings, days: int) -> Calendar | None:
    """The calendar of the last `days` days, today's included; None where nothing is deployed."""
    with records(settings) as of:
        if of is None:
            return None
        now_hour = of.now_us // HOUR_US
        first = (now_hour // 24 - days + 1) * 24
        views: dict[str, ViewHours] = {}
        for source in dict.fromkeys(unit.source for unit in of.deployment.declared.sliced):
            log = load(of.catalog, source)
            archive = ArchiveState(None, {}) if log is None else archive_state(log)
            newest = {} if log is None else newest_by_hour(log)
            until = 0 if log is None else newest_archive_us(log) // HOUR_US
            for unit in of.deployment.declared.sliced:
                if unit.source == source:
                    table = of.table(unit)
                    hours = of.hours(unit, table, archive, newest)
                    states = states_of(hours, first, now_hour, until)
                    views[unit.view] = _together(views.get(unit.view), unit.view, states, table)
    healing = Healing.of(read_part(settings.redis_url, PART))
    every = (_marked(view, healing.mark(view.view)) for view in views.values())
    return Calendar(of.now_us, first, tuple(every))


def _marked(view: ViewHours, mark: Mark | None) -> ViewHours:
    """The view with the hours of its mark dirty."""
    if mark is None:
        return view
    states = {h: HourState.DIRTY if mark.includes(h) else of for h, of in view.states.items()}
    return replace(view, states=states, mark=mark)


def _together(
    before: ViewHours | None,
    view: str,
    states: dict[int, HourState],
    table: IcebergTable | None,
) -> ViewHours:
    """A view of the units so far and one more: of an hour the state of the one that is behind."""
    rows, size = _size(table)
    if before is None:
        return ViewHours(view, states, rows, size)
    both = {**before.states, **states}
    for hour in before.states.keys() & states.keys():
        if HourState.DIRTY in (before.states[hour], states[hour]):
            both[hour] = HourState.DIRTY
    return ViewHours(view, both, before.rows + rows, before.bytes + size)


def _size(table: IcebergTable | None) -> tuple[int, int]:
    """Rows and bytes, as the newest snapshot says them."""
    snapshot = None if table is None else table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0, 0
    totals = snapshot.summary.additional_properties
    return int(totals.get("total-records", 0)), int(totals.get("total-files-size", 0))
