"""Totals of a lifetime are made of the committed table alone, and a horizon is marked after all of them.

What is read of the table is read after the seq was announced; the mark is refused where another run announced later:
docs/adr/0042.
"""

from __future__ import annotations

from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.compaction import Fill, Filling
from slicewise.lifecycle.lifetime import Move, Reached, days_of, next_move
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
from slicewise.stores.online.rules.decisions import START_SEQ


def move_horizon(context: Context, table: UnitTable, report: Report, raw: int | None = None) -> bool:
    """Moves the horizon of a unit that has one, where that is due; whether it stays due. One that has none yet is the
    backfill's. raw: an hour that was recomputed from its events; where totals hold it, all are written anew."""
    reached, archive = context.reached(table.unit), table.archive
    if reached is None or not archive.seq:
        return False
    return not _moved(context, table, report, reached, archive.seq, archive.cover, raw)


def filling_of(context: Context, unit: StorageUnit) -> Filling:
    """The facts that decide about the hours of a unit's backfill."""
    archive, log = context.archives[unit.source], load(context.catalog, unit.source)
    newest = newest_by_hour(log, archive.snapshot_id) if log is not None else {}
    return Filling(context.marks.starts[unit.storage_fingerprint], newest, archive.contained)


def first_totals(context: Context, table: UnitTable, report: Report, filling: Filling) -> bool:
    """The totals that a unit begins with; whether they stand.

    Of hours that hold what lies below the start cover alone they are that. Where any is compacted further, as one that
    another run took meanwhile, all are brought to the newest archive, and the stream must reach that first.
    """
    horizon = context.horizon_due(table.unit)
    older = {hour: header for hour, header in table.headers().items() if hour < horizon}
    if all(filling.of(hour, header.seq, header.cover) is Fill.START for hour, header in older.items()):
        return _moved(context, table, report, None, START_SEQ, filling.start)
    hours, archive = context.hours(table.unit, older), table.archive
    behind = [h for h, stands in hours.compacted.items() if hours.newest.get(h, 0) > stands.holds]
    if behind:
        log = load(context.catalog, table.unit.source)
        events = records_by_hour(log, archive.snapshot_id) if log is not None else {}
        jobs = [HourJob(h, archive.seq, archive.cover, older[h]) for h in behind]
        table.write(jobs, sum(events.get(h, 0) for h in behind))
    return _moved(context, table, report, None, archive.seq, archive.cover)


def _moved(
    context: Context,
    table: UnitTable,
    report: Report,
    reached: Reached | None,
    seq: int,
    cover: OffsetVector,
    raw: int | None = None,
) -> bool:
    """True where nothing is due any more."""
    unit, store = table.unit, context.store
    anew = False
    for _ in range(2):
        move = _move(context, table, reached, seq, raw)
        if move is None:
            return reached is not None and context.horizon_due(unit) <= reached.hour
        if not store.run(ReadMetadata()).ledger.dominates(cover):
            warning("horizon_waits", unit=unit.storage_fingerprint, view=unit.view, seq=seq)
            return False
        store.run(AnnounceTotal(unit, move.horizon, seq, cover))
        announced = store.run(CountArchiveVersions(unit.source))
        if _move(context, table, reached, seq, raw) != move:
            return False  # another run came between: the next one decides again
        move = Move(move.horizon, None) if anew else move
        hours = move.hours(context.hours(unit, table.headers()))
        days = days_of(move, reached)
        done = table.bring(hours, PublishTotals(table.ref, table.store, move, seq, cover, days))
        report.add_horizon(unit, move.horizon, seq, done)
        if not done["left_over"]:
            start, whole = cover if seq == START_SEQ else None, move.since is None
            is_marked = store.run(MarkTotal(unit, move.horizon, seq, announced, whole=whole, start=start))
            event("horizon", unit=unit.storage_fingerprint, view=unit.view, hour=move.horizon, marked=is_marked)
            return is_marked
        if move.since is None:
            return False
        anew = True  # totals stand that an unfinished move brought further
    return False


def _move(context: Context, table: UnitTable, reached: Reached | None, seq: int, raw: int | None) -> Move | None:
    due = context.horizon_due(table.unit)
    if seq == START_SEQ:  # what the start cover leaves out is the fold's, whatever is archived
        return Move(due, None)
    return next_move(context.hours(table.unit, table.headers()), reached, due, seq, raw)
