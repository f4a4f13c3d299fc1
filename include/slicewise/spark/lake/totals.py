"""Totals of a lifetime are made of the committed table alone; their end is announced after all of
them.


What is read of the table is read after the archive version was announced; the entry is refused
where another run announced later: docs/adr/0042.
"""

from __future__ import annotations

from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.compaction import Fill, Filling
from slicewise.lifecycle.lifetime import Move, TotalsClaim, days_of, next_move
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.compaction import HourJob, UnitTable
from slicewise.spark.lake.context import Context
from slicewise.spark.lake.publish_totals import PublishTotals
from slicewise.spark.lake.report import Report
from slicewise.spark.runtime.log import event, warning
from slicewise.stores.lake.archive import load, newest_by_hour, records_by_hour
from slicewise.stores.online.operations.archive_versions import CountArchiveVersions
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.publish_total import AnnounceTotal, MarkTotal
from slicewise.stores.online.rules.decisions import START_VERSION


def move_total_until(
    context: Context, table: UnitTable, report: Report, raw: int | None = None
) -> bool:
    """Moves the total-until hour of a unit that has one, where that is due; whether it stays due.
    One that has none yet is the backfill's. raw: an hour that was recomputed from its events; where
    totals hold it, all are written anew."""
    claim, archive = context.totals_claim(table.unit), table.archive
    if claim is None or not archive.archive_version:
        return False
    return not _moved(
        context, table, report, claim, archive.archive_version, archive.offset_vector, raw
    )


def filling_of(context: Context, unit: StorageUnit) -> Filling:
    """The facts that decide about the hours of a unit's backfill."""
    archive, log = context.archives[unit.source], load(context.catalog, unit.source)
    newest = newest_by_hour(log, archive.snapshot_id) if log is not None else {}
    return Filling(context.metadata.starts[unit.storage_fingerprint], newest, archive.contained)


def first_totals(context: Context, table: UnitTable, report: Report, filling: Filling) -> bool:
    """The totals that a unit begins with; whether they stand.

    Of hours that hold what lies below the start offsets alone they are that. Where any is compacted
    further, as one that another run took meanwhile, all are brought to the newest archive, and the
    stream must reach that first.
    """
    total_until = context.total_until_due(table.unit)
    older = {hour: header for hour, header in table.headers().items() if hour < total_until}
    if all(
        filling.of(hour, header.archive_version, header.offset_vector) is Fill.START
        for hour, header in older.items()
    ):
        return _moved(context, table, report, None, START_VERSION, filling.start)
    hours, archive = context.hours(table.unit, older), table.archive
    behind = [
        h for h, compacted in hours.compacted.items() if hours.newest.get(h, 0) > compacted.holds
    ]
    if behind:
        log = load(context.catalog, table.unit.source)
        events = records_by_hour(log, archive.snapshot_id) if log is not None else {}
        jobs = [
            HourJob(h, archive.archive_version, archive.offset_vector, older[h]) for h in behind
        ]
        table.write(jobs, sum(events.get(h, 0) for h in behind))
    return _moved(context, table, report, None, archive.archive_version, archive.offset_vector)


def _moved(
    context: Context,
    table: UnitTable,
    report: Report,
    claim: TotalsClaim | None,
    archive_version: int,
    offset_vector: OffsetVector,
    raw: int | None = None,
) -> bool:
    """True where nothing is due any more."""
    unit, store = table.unit, context.store
    anew = False
    for _ in range(2):
        move = _move(context, table, claim, archive_version, raw)
        if move is None:
            return claim is not None and context.total_until_due(unit) <= claim.hour
        if not store.run(ReadMetadata()).committed.dominates(offset_vector):
            warning(
                "total_until_waits",
                unit=unit.storage_fingerprint,
                view=unit.view,
                archive_version=archive_version,
            )
            return False
        store.run(AnnounceTotal(unit, move.total_until, archive_version, offset_vector))
        announced = store.run(CountArchiveVersions(unit.source))
        if _move(context, table, claim, archive_version, raw) != move:
            return False  # another run came between: the next one decides again
        move = Move(move.total_until, None) if anew else move
        hours = move.hours(context.hours(unit, table.headers()))
        days = days_of(move, claim)
        done = table.publish_totals(
            hours, PublishTotals(table.ref, table.store, move, archive_version, offset_vector, days)
        )
        report.add_total_until(unit, move.total_until, archive_version, done)
        if not done["left_over"]:
            start, whole = (
                offset_vector if archive_version == START_VERSION else None,
                move.since is None,
            )
            is_marked = store.run(
                MarkTotal(
                    unit, move.total_until, archive_version, announced, whole=whole, start=start
                )
            )
            event(
                "total_until",
                unit=unit.storage_fingerprint,
                view=unit.view,
                hour=move.total_until,
                marked=is_marked,
            )
            return is_marked
        if move.since is None:
            return False
        anew = True  # totals stand that an unfinished move brought further
    return False


def _move(
    context: Context,
    table: UnitTable,
    claim: TotalsClaim | None,
    archive_version: int,
    raw: int | None,
) -> Move | None:
    due = context.total_until_due(table.unit)
    # what the start offsets leaves out is the micro-batch lane's, whatever is archived
    if archive_version == START_VERSION:
        return Move(due, None)
    return next_move(context.hours(table.unit, table.headers()), claim, due, archive_version, raw)
