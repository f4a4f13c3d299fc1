"""One run: archive up to now, then its key's hour, then other dirty finished hours, oldest first.

What a run does not reach, or leaves over, is still dirty for the next: a crash anywhere changes
no value and loses no work but its own. Hours that a red check marked are recomputed from raw
events, the open one too: what comes to it later is late (docs/adr/0112).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slicewise.errors import CommitConflict, DataLoss, SlicewiseError
from slicewise.features.plan.unit import SliceUnit, StorageUnit
from slicewise.lifecycle.compaction import (
    UnitHours,
    Why,
    days_to_total,
    dirty_hours,
    hours_to_compact,
)
from slicewise.lifecycle.healing.record import PART, Healing, Job
from slicewise.lifecycle.jobs import hour_text
from slicewise.spark.lake.compaction import HourJob, UnitTable
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.publish_hours import Outcomes
from slicewise.spark.lake.report import Report
from slicewise.spark.lake.totals import move_total_until
from slicewise.spark.runtime.log import warning
from slicewise.stores.lake.archive import load, records_by_hour
from slicewise.stores.lake.committed import record_committed
from slicewise.stores.lake.registry import enter_if_possible
from slicewise.stores.lake.slices import Header
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.stores.online.operations.publish_days import MarkHour
from slicewise.stores.online.redis.status import amend_part, read_part
from slicewise.stores.online.rules.decisions import START_VERSION
from slicewise.windows.durations import HOUR_US

MAX_HOURS = 24
EVENTS_PER_COMMIT = 2_000_000
"""Events of the hours that are written together: a task holds the rows of its share."""
_ATTEMPTS = 4


@dataclass(frozen=True)
class Request:
    """Request to a run. hour: its key, since 1970; only: no other hour; units: fingerprints
    or names of views, all when empty; from_raw: recompute what is compacted from its events;
    since: of all hours from this one on, not of `hour` alone."""

    hour: int | None
    only: bool = False
    from_raw: bool = False
    max_hours: int = MAX_HOURS
    units: tuple[str, ...] = ()
    since: int | None = None

    def recomputed(self, compacted: Iterable[int], now_hour: int) -> frozenset[int]:
        """Hours of a unit that are recomputed from their events. compacted: its hours."""
        if not self.from_raw:
            return frozenset()
        if self.since is not None:
            return frozenset(hour for hour in compacted if self.since <= hour < now_hour)
        return frozenset({self.hour or 0} if (self.hour or 0) < now_hour else ())

    def marked(
        self, healing: Healing, view: str, hours: UnitHours, now_hour: int
    ) -> tuple[frozenset[int], bool]:
        """Hours of a view that a red check marked and this run recomputes; and whether that is all
        of them. A run for one hour alone takes none."""
        mark = healing.mark(view)
        if mark is None or self.only:
            return frozenset(), False
        there = (hour for hour in {*hours.newest, *hours.compacted} if hour <= now_hour)
        return mark.due(there, None if self.since is not None else self.max_hours)

    def wants(self, unit: StorageUnit) -> bool:
        return not self.units or unit.view in self.units or unit.storage_fingerprint in self.units


def compact(context: Context, request: Request) -> Report:
    """Runs it. The report's `dirty` counts the unit-hours that stay dirty. Event lists are never
    compacted."""
    report = Report("compact")
    begun_us = context.clock.now_us()
    healing = Healing.of(read_part(context.settings.redis_url, PART))
    # before the archive: what comes later may not be in it
    over_until = context.store.run(ReadTime()) // HOUR_US
    wanted = [unit for unit in context.deployment.declared.units if request.wants(unit)]
    units = [unit for unit in wanted if isinstance(unit, SliceUnit)]
    for source in dict.fromkeys(unit.source for unit in wanted):
        report.add_archive(context.archive(source))
        record_committed(
            context.catalog, context.store, source, context.deployment.source(source).topic
        )
    now_hour = context.store.run(ReadTime()) // HOUR_US
    tables = [context.unit_table(unit) for unit in units]
    hours_of_tables = [context.hours(table.unit, table.headers()) for table in tables]
    chosen = hours_to_compact(
        hours_of_tables, request.hour, request.only, request.max_hours, now_hour
    )
    marked = [
        request.marked(healing, table.unit.view, hours, now_hour)
        for table, hours in zip(tables, hours_of_tables, strict=True)
    ]
    raw_hours = [
        request.recomputed(hours.compacted, now_hour) | due
        for hours, (due, _) in zip(hours_of_tables, marked, strict=True)
    ]
    every_raw = frozenset[int]().union(*raw_hours)
    chosen = [*sorted(every_raw), *(hour for hour in chosen if hour not in every_raw)]
    dirty = 0
    errors: list[SlicewiseError] = []
    for table, hours, raw in zip(tables, hours_of_tables, raw_hours, strict=True):
        try:
            totals = UnitRun(context, table, report, raw).run(hours, chosen)
            for day in days_to_total(chosen, request.hour, now_hour):
                if (day + 1) * 24 > hours.kept_from:
                    report.add_day(table.unit, day, total_of(table, day, totals))
            if table.unit.lifetime:
                dirty += move_total_until(context, table, report, min(raw, default=None))
        except (CommitConflict, DataLoss) as error:
            # of this unit alone: the others go on
            _failed(report, table.unit, [h for h in chosen if hours.dirty(h) or h in raw], error)
            errors.append(error)
        dirty += len(dirty_hours(context.hours(table.unit, table.headers()), now_hour))
    if errors and len(errors) == len(tables):
        raise errors[0]
    _record_marked(context, begun_us, report, tables, marked)
    enter_if_possible(
        context.catalog, context.store, context.settings.redis_url, context.clock.now_us()
    )
    trimmed = sum(
        context.trim_versions(source) for source in dict.fromkeys(unit.source for unit in wanted)
    )
    report.more = {
        "hour": hour_text(request.hour) if request.hour is not None else None,
        "dirty": dirty,
        "over_until": hour_text(over_until),
        "versions_trimmed": trimmed,
    }
    return report


def _record_marked(
    context: Context,
    begun_us: int,
    report: Report,
    tables: Sequence[UnitTable],
    taken: Sequence[tuple[frozenset[int], bool]],
) -> None:
    """Ends the marks of hours that were recomputed: a check is to see that they are right. Hours of
    a view of which a unit failed stay marked."""
    failed = {row["view"] for row in report.failed}
    hours: dict[str, set[int]] = {}
    part: set[str] = set()
    for table, (due, whole) in zip(tables, taken, strict=True):
        view = table.unit.view
        if view not in failed:
            hours.setdefault(view, set()).update(due)
            part |= set() if whole else {view}
    job = Job.of(begun_us, report.run_id, os.environ)
    whole_views = hours.keys() - part

    def change(text: str | None) -> str:
        return Healing.of([text]).recomputed(job, hours, whole_views).text()

    if any(hours.values()):
        amend_part(context.settings.redis_url, PART, change)


def _failed(report: Report, unit: StorageUnit, hours: Iterable[int], error: SlicewiseError) -> None:
    """Reports the hours that were to be compacted, but those that were before it failed."""
    done = {row["hour"] for row in report.hours if row["unit"] == unit.storage_fingerprint}
    left = [hour for hour in hours if hour_text(hour) not in done]
    warning("unit_failed", unit=unit.storage_fingerprint, hours=len(left), error=str(error))
    report.add_failed(unit, left, error)


def write_hours(table: UnitTable, jobs: Sequence[HourJob], records: Mapping[int, int]) -> None:
    """Commits these hours, as many together as a task holds. records: hour -> about how many events
    it has."""
    some: list[HourJob] = []
    events = 0
    for job in jobs:
        of_job = records.get(job.hour, 0)
        if some and events + of_job > EVENTS_PER_COMMIT:
            table.write(some, events)
            some, events = [], 0
        some.append(job)
        events += of_job
    if some:
        table.write(some, events)


def total_of(table: UnitTable, day: int, totals: Mapping[int, int]) -> int:
    """Writes a day's totals, where they were not written with all of its hours (totals: day ->
    how many); how many stand."""
    if day in totals and not table.unit.five_day_totals:
        return totals[day]
    return table.total(day)


@dataclass(frozen=True)
class UnitRun:
    """The chosen hours of one unit."""

    context: Context
    table: UnitTable
    report: Report
    raw_hours: frozenset[int]
    """Hours that are recomputed from their events."""

    def run(self, hours: UnitHours, chosen: Sequence[int]) -> Mapping[int, int]:
        """Compacts and publishes them; after a conflict decides anew, from what then stands. Day ->
        its totals, of the days whose totals all stand."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._run(hours, chosen)
            except CommitConflict as conflict:
                warning("compaction_conflict", unit=self._unit.storage_fingerprint, attempt=attempt)
                if attempt == _ATTEMPTS:
                    raise conflict
                hours = self.context.hours(self._unit, self.table.headers())
        return {}

    @property
    def _unit(self) -> StorageUnit:
        return self.table.unit

    def _run(self, hours: UnitHours, chosen: Sequence[int]) -> Mapping[int, int]:
        why = {h: dirty.why for h in chosen if (dirty := hours.dirty(h)) is not None}
        headers = self.table.headers()
        archive = self.table.archive
        jobs = [
            HourJob(
                hour,
                archive.archive_version,
                archive.offset_vector,
                None if hour in self.raw_hours else headers.get(hour),
            )
            for hour in chosen
            if why.get(hour) is Why.EVENTS or hour in self.raw_hours
        ]
        write_hours(self.table, jobs, self._records() if jobs else {})
        return self.publish(
            [h for h in chosen if h in why or h in self.raw_hours], hours.kept_from, why
        )

    def publish(
        self, hours: Sequence[int], kept_from: int, why: Mapping[int, Why]
    ) -> Mapping[int, int]:
        """Publishes committed hours and marks those of which nothing was left over; as `run`."""
        wanted, every = set(hours), self.table.headers()
        headers = {hour: header for hour, header in every.items() if hour in wanted}
        reasons = {hour: why[hour].value if hour in why else "raw" for hour in headers}
        outcomes = self.publish_as(
            headers,
            {hour: header.archive_version for hour, header in headers.items()},
            kept_from,
            reasons,
        )
        return outcomes.whole_days(every)

    def publish_as(
        self,
        named: Mapping[int, Header],
        holds: Mapping[int, int],
        kept_from: int,
        why: Mapping[int, str],
        share: float = 1.0,
    ) -> Outcomes:
        """Publishes hours as the table's snapshot has them. named: archive version and offset
        vector under which each goes in; holds: archive version of what stands, which the store
        holds once nothing is left over; share: of their time that tasks write."""
        self.register(named)
        silent = frozenset(hour for hour in named if hour < kept_from)
        outcomes = self.table.publish(named, silent, share)
        for hour, header in named.items():
            outcome = outcomes.hours.get(hour)
            if outcome is None or not outcome.entities["left_over"]:
                start = header.offset_vector if header.archive_version == START_VERSION else None
                self.context.store.run(MarkHour(self._unit, hour, holds[hour], start))
            self.report.add_hour(self._unit, hour, why[hour], header, outcome)
        return outcomes

    def register(self, headers: Mapping[int, Header]) -> None:
        """Registers the offset vectors of these hours' archive versions, before anything is
        published under them."""
        source = self._unit.source
        # two offset vectors of one archive version are both said: the second is refused
        for archive_version, offset_vector in dict.fromkeys(
            (header.archive_version, header.offset_vector)
            for header in headers.values()
            if header.archive_version
        ):
            self.context.store.run(
                PutArchiveVersion(source, archive_version, offset_vector)
            )  # also one that is known: it must not be trimmed now

    def _records(self) -> Mapping[int, int]:
        """Hour -> about how many events it has."""
        table = load(self.context.catalog, self._unit.source)
        return records_by_hour(table, self.table.archive.snapshot_id) if table is not None else {}
