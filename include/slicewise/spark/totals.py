"""Totals of a lifetime are made of the committed table alone, and a horizon is marked after all of them.

What is read of the table is read after the seq was announced; the mark is refused where another run announced later:
docs/adr/0042.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicewise.aggregates.columns import Columns
from slicewise.cover import Cover
from slicewise.errors import SlicewiseError
from slicewise.lifecycle.lifetime import Move, Reached, days_of, next_move
from slicewise.spark.compaction import HourJob, UnitTable
from slicewise.spark.context import Context
from slicewise.spark.fold import drop
from slicewise.spark.log import event, warning
from slicewise.spark.partials import RowShape, UnitRef, grouped, whole
from slicewise.spark.report import Report
from slicewise.spark.swapping import OUTCOME, StoreRef, entity_tags_of
from slicewise.stores.decisions import START_SEQ
from slicewise.stores.iceberg.log import load, records_by_hour
from slicewise.stores.ports import LifetimeEntry


@dataclass(frozen=True)
class Bring:
    """Rows of compacted hours, all those of an entity in one task -> outcomes as JSON. mapInArrow."""

    ref: UnitRef
    store: StoreRef
    move: Move
    seq: int
    cover: Cover
    days: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit = self.ref.unit
        names = RowShape(unit).entity
        # Combined batch by batch: what is held is a row per entity and batch, never its slices.
        parts = [self._combined(pa.Table.from_batches([batch])) for batch in batches if batch.num_rows]
        if not parts:
            return
        entities = pa.concat_tables([entity for entity, _ in parts]).combine_chunks()
        together = [Columns.concat(list(columns)) for columns in zip(*(found for _, found in parts), strict=True)]
        groups, first, n = grouped(entities, names, np.zeros(entities.num_rows, np.int64))
        pairs = zip(unit.layout.partials, together, strict=True)
        rows = unit.layout.encode_rows([p.combine_columns(columns, groups, n) for p, columns in pairs])
        tags = entity_tags_of(unit, entities.take(pa.array(first)))
        entries = [LifetimeEntry(tag, row, self.move.since) for tag, row in zip(tags, rows, strict=True)]
        try:
            store = self.store.connect()
            done = store.bring(unit, self.move.horizon, self.seq, self.cover, entries, self.days)
        except SlicewiseError:
            drop(self.store.url)
            raise
        told = {"brought": done.swapped, "stale": done.stale, "left_over": len(done.left_over)}
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(told)], pa.string())], schema=OUTCOME)

    def _combined(self, table: pa.Table) -> tuple[pa.Table, list[Columns]]:
        unit = self.ref.unit
        names = RowShape(unit).entity
        groups, first, n = grouped(table, names, np.zeros(table.num_rows, np.int64))
        pairs = zip(unit.layout.partials, unit.layout.from_arrow(table.combine_chunks()), strict=True)
        # a global view's only entity has no column: something must say how many rows there are
        entity = {name: whole(table[name]).take(pa.array(first)) for name in names} or {"-": pa.nulls(n)}
        return pa.table(entity), [part.combine_columns(columns, groups, n) for part, columns in pairs]


def move_horizon(context: Context, table: UnitTable, report: Report) -> bool:
    """Moves the horizon of a unit that has one, where that is due; whether it stays due. One that has none yet is the
    backfill's."""
    reached, archive = context.reached(table.unit), table.archive
    if reached is None or not archive.seq:
        return False
    return not _moved(context, table, report, reached, archive.seq, archive.cover)


def first_totals(context: Context, table: UnitTable, report: Report, start: Cover) -> bool:
    """The totals that a unit begins with; whether they stand.

    Of hours that are compacted to the start cover alone they are what lies below it. Where any is compacted further,
    as after a loss of the store, all are brought to the newest archive, and the stream must reach that first.
    """
    horizon = context.horizon_due(table.unit)
    older = {hour: header for hour, header in table.headers().items() if hour < horizon}
    if all(header.seq == START_SEQ and header.cover == start for header in older.values()):
        return _moved(context, table, report, None, START_SEQ, start)
    hours, archive = context.hours(table.unit, older), table.archive
    behind = [h for h, stands in hours.compacted.items() if hours.newest.get(h, 0) > stands.holds]
    if behind:
        log = load(context.catalog, table.unit.source)
        events = records_by_hour(log, archive.snapshot_id) if log is not None else {}
        jobs = [HourJob(h, archive.seq, archive.cover, older[h]) for h in behind]
        table.write(jobs, sum(events.get(h, 0) for h in behind))
    return _moved(context, table, report, None, archive.seq, archive.cover)


def _moved(context: Context, table: UnitTable, report: Report, reached: Reached | None, seq: int, cover: Cover) -> bool:
    """True where nothing is due any more."""
    unit, store = table.unit, context.store
    anew = False
    for _ in range(2):
        move = _move(context, table, reached, seq)
        if move is None:
            return reached is not None and context.horizon_due(unit) <= reached.hour
        if not store.marks().ledger.dominates(cover):
            warning("horizon_waits", unit=unit.storage_fingerprint, view=unit.view, seq=seq)
            return False
        store.announce_lifetime(unit, move.horizon, seq, cover)
        announced = store.covers_announced(unit.source)
        if _move(context, table, reached, seq) != move:
            return False  # another run came between: the next one decides again
        move = Move(move.horizon, None) if anew else move
        hours = move.hours(context.hours(unit, table.headers()))
        days = days_of(move, reached)
        done = table.bring(hours, Bring(table.ref, table.store, move, seq, cover, days))
        report.add_horizon(unit, move.horizon, seq, done)
        if not done["left_over"]:
            is_marked = store.mark_horizon(unit, move.horizon, seq, announced, whole=move.since is None)
            event("horizon", unit=unit.storage_fingerprint, view=unit.view, hour=move.horizon, marked=is_marked)
            return is_marked
        if move.since is None:
            return False
        anew = True  # totals stand that an unfinished move brought further
    return False


def _move(context: Context, table: UnitTable, reached: Reached | None, seq: int) -> Move | None:
    due = context.horizon_due(table.unit)
    if seq == START_SEQ:  # what the start cover leaves out is the fold's, whatever is archived
        return Move(due, None)
    return next_move(context.hours(table.unit, table.headers()), reached, due, seq)
