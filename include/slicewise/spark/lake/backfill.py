"""A unit is ready when every hour that holds events below its start offsets is in the online store.

Exactly the archived events below the start offsets are brought, from compacted rows as far as these
hold no others: no running partial can straddle it, because micro-batches bring nothing from below
it. What was brought is not brought again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from slicewise.errors import CommitConflict, GapRefused
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.lifecycle.compaction import NOTHING, Fill, Filling, days_to_total
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.compact_run import UnitRun, total_of
from slicewise.spark.lake.compaction import HourJob, UnitTable
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.list_fill import fill
from slicewise.spark.lake.report import Report
from slicewise.spark.lake.totals import filling_of, first_totals
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.lake import slices
from slicewise.stores.lake.archive import load, records_by_hour
from slicewise.stores.lake.slices import Header
from slicewise.stores.online.model import phases
from slicewise.stores.online.operations.connecting import ReadTime
from slicewise.stores.online.operations.publish_days import ReadHours
from slicewise.stores.online.operations.readiness import MarkBuilding, MarkReady
from slicewise.stores.online.operations.status import PutStatus, ReadStatus
from slicewise.stores.online.rules.decisions import HOURS_PER_DAY, START_VERSION
from slicewise.windows.durations import HOUR_US

TOGETHER = 48
"""Hours of one commit, after which progress is told: whole days."""
_ATTEMPTS = 4


def backfill(context: Context, view: str | None) -> Report:
    """Builds the units of a view (of all by default) that are not ready yet."""
    report = Report("backfill")
    some = context.deployment.view(view) if view else context.deployment.declared.units
    wanted = {unit.storage_fingerprint: unit for unit in some}  # views may share an event list
    units = [unit for name, unit in wanted.items() if name not in context.metadata.ready]
    for source in dict.fromkeys(unit.source for unit in units):
        _put_phase(context, units, f"the archive takes in what the log of source {source} holds")
        report.add_archive(context.archive(source))
    # what is built soonest answers soonest
    units.sort(key=lambda unit: (unit.lifetime, unit.retention_us))
    built = []
    for number, unit in enumerate(units):
        _put_phase(context, units[number + 1 :], f"its turn comes after view {unit.view}")
        built.append(_build(context, unit, report))
    report.more = {"units": built, "ready": all(unit["ready"] for unit in built)}
    return report


def _build(context: Context, unit: StorageUnit, report: Report) -> dict[str, object]:
    start = context.metadata.starts[unit.storage_fingerprint]
    archive = context.archives[unit.source]
    if not archive.offset_vector.dominates(start):
        _put_phase(
            context,
            [unit],
            "the archive is behind the offset from which the stream brings its events",
        )
        raise GapRefused(
            "the archive has not reached the unit's start offsets",
            where=f"unit {unit.storage_fingerprint} of view {unit.view!r}",
            next_step="run it again once the log's end is archived",
        )
    if isinstance(unit, ListUnit):
        return _fill(context, unit, start)
    table = context.unit_table(unit)
    filling = filling_of(context, unit)
    # the newest first: what is asked most is back first where a run is stopped and goes on
    hours = sorted({*filling.newest, *table.headers()}, reverse=True)
    log = load(context.catalog, unit.source)
    events = records_by_hour(log, archive.snapshot_id) if log is not None else {}
    run, kept_from, left = UnitRun(context, table, report, None), context.kept_from(unit), 0
    begun, size, entities = time.monotonic(), 0, report.entities
    context.store.run(MarkBuilding(unit, 0, len(hours)))
    totals: dict[int, int] = {}
    done_hours = 0
    for some in of_whole_days(hours, TOGETHER):
        some_hours = f"hours {done_hours + 1} to {done_hours + len(some)} of {len(hours)}"
        done_hours += len(some)
        _put_phase(context, [unit], f"Spark computes {some_hours}")
        headers, fills = _written(table, filling, some, events)
        _put_phase(context, [unit], f"{some_hours} are written to the store")
        done = context.store.run(ReadHours(unit))
        todo = [hour for hour in some if done.get(hour, NOTHING) < headers[hour].archive_version]
        own = Header(START_VERSION, start)
        named = {hour: own if fills[hour] is Fill.START else headers[hour] for hour in todo}
        before = report.left_over
        size += (
            slices.bounds(table.table, [hour for hour in todo if hour >= kept_from])[1]
            if todo
            else 0
        )
        outcomes = run.publish_as(
            named,
            {hour: headers[hour].archive_version for hour in todo},
            kept_from,
            dict.fromkeys(todo, "backfill"),
        )
        totals |= outcomes.whole_days(headers)
        left += report.left_over - before
        context.store.run(MarkBuilding(unit, done_hours, len(hours)))
    _put_phase(context, [unit], "totals of days are written to the store")
    if unit.lifetime and not first_totals(context, table, report, filling):
        left += 1
    _total(context, table, hours, totals, report)
    if not left:
        context.store.run(MarkReady(unit, start, _views(context)))
        _put_phase(context, [unit], phases.OVER)
        event("unit_ready", unit=unit.storage_fingerprint, view=unit.view, hours=len(hours))
    else:
        _put_phase(
            context, [unit], "entities that the stream changed meanwhile are left to the next run"
        )
    took_ms = int((time.monotonic() - begun) * 1000)
    figures = {"entities": report.entities - entities, "bytes": size, "took_ms": took_ms}
    named_as = {"source": unit.source, "view": unit.view, "unit": unit.storage_fingerprint}
    report.built.append(named_as | figures)
    return {
        **figures,
        "view": unit.view,
        "unit": unit.storage_fingerprint,
        "hours": len(hours),
        "left_over": left,
        "ready": not left,
    }


def _put_phase(context: Context, units: Sequence[StorageUnit], text: str) -> None:
    """Tells what these units wait for, to whoever asks."""
    if not units:
        return
    named = {unit.storage_fingerprint: text for unit in units}
    text_now = phases.changed(
        context.store.run(ReadStatus(phases.PART)), named, context.clock.now_us()
    )
    context.store.run(PutStatus(phases.PART, text_now))


def of_whole_days(hours: Sequence[int], most: int) -> Iterator[list[int]]:
    """Hours, those of a day together, in their order: about so many at a time."""
    some: list[int] = []
    for _, of_day in groupby(hours, key=lambda hour: hour // HOURS_PER_DAY):
        day = list(of_day)
        if some and len(some) + len(day) > most:
            yield some
            some = []
        some += day
    if some:
        yield some


def _total(
    context: Context,
    table: UnitTable,
    hours: Sequence[int],
    totals: Mapping[int, int],
    report: Report,
) -> None:
    """Totals of all days that are over, before the first read: without them it would fetch every
    hour. totals: as of `total_of`."""
    kept_from, now_hour = context.kept_from(table.unit), context.store.run(ReadTime()) // HOUR_US
    for day in days_to_total(hours, None, now_hour):
        if (day + 1) * 24 > kept_from:
            report.add_day(table.unit, day, total_of(table, day, totals))


def _fill(context: Context, unit: ListUnit, start: OffsetVector) -> dict[str, object]:
    context.store.run(MarkBuilding(unit, 0, 1))
    _put_phase(context, [unit], "Spark writes its events to the store")
    done = fill(context, unit, start)
    context.store.run(MarkReady(unit, start, _views(context)))
    _put_phase(context, [unit], phases.OVER)
    event("unit_ready", unit=unit.storage_fingerprint, view=unit.view, events=done.applied)
    return {
        "view": unit.view,
        "unit": unit.storage_fingerprint,
        "events": done.applied,
        "cut": done.cut,
        "left_over": 0,
        "ready": True,
    }


def _written(
    table: UnitTable, filling: Filling, hours: Sequence[int], events: Mapping[int, int]
) -> tuple[dict[int, Header], dict[int, Fill]]:
    """Header and fill of each of these hours (START or SWAP), once all that was missing is
    committed."""
    for attempt in range(1, _ATTEMPTS + 1):
        headers = table.headers()
        fills = {hour: _fill_of(filling, hour, headers.get(hour)) for hour in hours}
        jobs = [
            job
            for hour, fill in fills.items()
            if (job := _job(table, filling, hour, fill, headers)) is not None
        ]
        if not jobs:
            return headers, fills
        try:
            table.write(jobs, sum(events.get(job.hour, 0) for job in jobs))
        except CommitConflict as conflict:
            warning("backfill_conflict", unit=table.unit.storage_fingerprint, attempt=attempt)
            if attempt == _ATTEMPTS:
                raise conflict
    raise CommitConflict(
        "what stands of the hours changed with every attempt",
        where=f"unit {table.unit.storage_fingerprint}",
        next_step="run it again: it goes on",
    )


def _fill_of(filling: Filling, hour: int, header: Header | None) -> Fill:
    return (
        filling.of(hour, 0, None)
        if header is None
        else filling.of(hour, header.archive_version, header.offset_vector)
    )


def _job(
    table: UnitTable, filling: Filling, hour: int, fill: Fill, headers: Mapping[int, Header]
) -> HourJob | None:
    if fill in (Fill.COMPUTE, Fill.EXTEND):
        return HourJob(hour, START_VERSION, filling.start, headers.get(hour))
    if fill is Fill.RECOMPACT:
        return HourJob(
            hour, table.archive.archive_version, table.archive.offset_vector, headers[hour]
        )
    return None


def _views(context: Context) -> dict[str, list[str]]:
    """View -> its units, for the aliases of those that are ready now."""
    return {
        view: [unit.storage_fingerprint for unit in context.deployment.view(view)]
        for view in context.deployment.views
    }
