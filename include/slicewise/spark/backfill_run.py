"""A unit is ready when every hour that holds events below its start cover is in the online store.

For an hour of which nothing is compacted, exactly the archived events below the start cover are:
no running partial can straddle it, because folds bring nothing from below it. Hours that
compaction has brought already hold them and more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewise.cover import Cover
from slicewise.errors import CommitConflict, GapRefused
from slicewise.features.unit import Unit
from slicewise.lifecycle.compaction import Fill, Why, days_to_total, fill_of
from slicewise.slices import HOUR_US
from slicewise.spark.compact_run import UnitRun
from slicewise.spark.compaction import HourJob, UnitTable
from slicewise.spark.context import Context
from slicewise.spark.list_fill import fill
from slicewise.spark.log import event, warning
from slicewise.spark.report import Report
from slicewise.spark.totals import first_totals
from slicewise.stores.decisions import START_SEQ
from slicewise.stores.iceberg.log import load, newest_by_hour, records_by_hour
from slicewise.stores.iceberg.slices import Header

TOGETHER = 48
"""Hours of one commit, after which progress is told."""
_ATTEMPTS = 4


def backfill(context: Context, view: str | None) -> Report:
    """Builds the units of a view (of all by default) that are not ready yet."""
    report = Report("backfill")
    some = context.deployment.view(view) if view else context.deployment.declared.units
    wanted = {unit.storage_fingerprint: unit for unit in some}  # views may share an event list
    units = [unit for name, unit in wanted.items() if name not in context.marks.ready]
    for source in dict.fromkeys(unit.source for unit in units):
        report.add_archive(context.archive(source))
    built = [_build(context, unit, report) for unit in units]
    report.more = {"units": built, "ready": all(each["ready"] for each in built)}
    return report


def _build(context: Context, unit: Unit, report: Report) -> dict[str, object]:
    start = context.marks.starts[unit.storage_fingerprint]
    archive = context.archives[unit.source]
    if not archive.cover.dominates(start):
        raise GapRefused(
            "the archive has not reached the unit's start cover",
            where=f"unit {unit.storage_fingerprint} of view {unit.view!r}",
            next_step="run it again once the log's end is archived",
        )
    if unit.event_list is not None:
        return _fill(context, unit, start)
    table = context.unit_table(unit)
    hours = _hours(context, unit, table.headers())
    log = load(context.catalog, unit.source)
    events = records_by_hour(log, archive.snapshot_id) if log is not None else {}
    left = 0
    context.store.mark_building(unit, 0, len(hours))
    for begin in range(0, len(hours), TOGETHER):
        some = hours[begin : begin + TOGETHER]
        _write(table, start, some, events)
        before = report.left_over
        run = UnitRun(context, table, report, None)
        run.swap(some, context.kept_from(unit), dict.fromkeys(some, Why.SWAP))
        left += report.left_over - before
        context.store.mark_building(unit, begin + len(some), len(hours))
    if unit.lifetime and not first_totals(context, table, report, start):
        left += 1
    _total(context, table, hours, report)
    if not left:
        context.store.mark_ready(unit, start, _views(context))
        event("unit_ready", unit=unit.storage_fingerprint, view=unit.view, hours=len(hours))
    return {
        "view": unit.view,
        "unit": unit.storage_fingerprint,
        "hours": len(hours),
        "left_over": left,
        "ready": not left,
    }


def _total(context: Context, table: UnitTable, hours: Sequence[int], report: Report) -> None:
    """Totals of all days that are over, before the first read: without them it would fetch every hour."""
    kept_from, now_hour = context.kept_from(table.unit), context.store.time_us() // HOUR_US
    for day in days_to_total(hours, None, now_hour):
        if (day + 1) * 24 > kept_from:
            report.add_day(table.unit, day, table.total(day))


def _fill(context: Context, unit: Unit, start: Cover) -> dict[str, object]:
    context.store.mark_building(unit, 0, 1)
    done = fill(context, unit, start)
    context.store.mark_ready(unit, start, _views(context))
    event("unit_ready", unit=unit.storage_fingerprint, view=unit.view, events=done.applied)
    return {
        "view": unit.view,
        "unit": unit.storage_fingerprint,
        "events": done.applied,
        "cut": done.cut,
        "left_over": 0,
        "ready": True,
    }


def _hours(context: Context, unit: Unit, headers: Mapping[int, Header]) -> list[int]:
    """All hours with archived events, the open and future-stamped too, and all that are compacted."""
    table = load(context.catalog, unit.source)
    archive = context.archives[unit.source]
    newest = newest_by_hour(table, archive.snapshot_id) if table is not None else {}
    return sorted({*newest, *headers})


def _write(table: UnitTable, start: Cover, hours: Sequence[int], events: Mapping[int, int]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        standing = table.headers()
        jobs = [job for hour in hours if (job := _job(table, start, hour, standing.get(hour))) is not None]
        if not jobs:
            return
        try:
            table.write(jobs, sum(events.get(job.hour, 0) for job in jobs))
        except CommitConflict as conflict:
            warning("backfill_conflict", unit=table.unit.storage_fingerprint, attempt=attempt)
            if attempt == _ATTEMPTS:
                raise conflict
        else:
            return


def _job(table: UnitTable, start: Cover, hour: int, stands: Header | None) -> HourJob | None:
    seq = stands.seq if stands is not None else None
    cover = stands.cover if stands is not None else Cover()
    fill = fill_of(seq, cover.dominates(start), cover == start)
    if fill is Fill.COMPUTE:
        return HourJob(hour, START_SEQ, start)
    if fill is Fill.RECOMPACT:
        return HourJob(hour, table.archive.seq, table.archive.cover, stands)
    return None


def _views(context: Context) -> dict[str, list[str]]:
    """View -> its units, for the aliases of those that are ready now."""
    return {
        view: [unit.storage_fingerprint for unit in context.deployment.view(view)] for view in context.deployment.views
    }
