"""A task turns committed rows into totals of entities, whole columns at a time, and brings them
into the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slicewise.aggregates.kernel.columns import Columns
from slicewise.errors import SlicewiseError
from slicewise.lifecycle.lifetime import Move
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.partials import RowShape, UnitRef, grouped, whole
from slicewise.spark.lake.publish_hours import OUTCOME, StoreRef, entity_tags_of
from slicewise.spark.microbatch.apply import drop
from slicewise.stores.online.operations.publish_total import LifetimeEntry, PublishTotal


@dataclass(frozen=True)
class PublishTotals:
    """Rows of compacted hours, all those of an entity in one task -> outcomes as JSON.
    mapInArrow."""

    ref: UnitRef
    store: StoreRef
    move: Move
    archive_version: int
    offset_vector: OffsetVector
    days: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit = self.ref.unit
        names = RowShape(unit).entity
        # Combined batch by batch: what is held is a row per entity and batch, never its slices.
        parts = [
            self._combined(pa.Table.from_batches([batch])) for batch in batches if batch.num_rows
        ]
        if not parts:
            return
        entities = pa.concat_tables([entity for entity, _ in parts]).combine_chunks()
        together = [
            Columns.concat(list(columns))
            for columns in zip(*(totals for _, totals in parts), strict=True)
        ]
        groups, first, n = grouped(entities, names, np.zeros(entities.num_rows, np.int64))
        pairs = zip(unit.layout.partials, together, strict=True)
        rows = unit.layout.encode_rows(
            [p.combine_columns(columns, groups, n) for p, columns in pairs]
        )
        tags = entity_tags_of(unit, entities.take(pa.array(first)))
        entries = [
            LifetimeEntry(tag, row, self.move.since) for tag, row in zip(tags, rows, strict=True)
        ]
        try:
            store = self.store.connect()
            done = store.run(
                PublishTotal(
                    unit,
                    self.move.total_until,
                    self.archive_version,
                    self.offset_vector,
                    entries,
                    self.days,
                )
            )
        except SlicewiseError:
            drop(self.store.url)
            raise
        outcome = {"brought": done.published, "stale": done.stale, "left_over": len(done.left_over)}
        yield pa.RecordBatch.from_arrays(
            [pa.array([json.dumps(outcome)], pa.string())], schema=OUTCOME
        )

    def _combined(self, table: pa.Table) -> tuple[pa.Table, list[Columns]]:
        unit = self.ref.unit
        names = RowShape(unit).entity
        groups, first, n = grouped(table, names, np.zeros(table.num_rows, np.int64))
        pairs = zip(
            unit.layout.partials, unit.layout.from_arrow(table.combine_chunks()), strict=True
        )
        # a global view's only entity has no column: something must say how many rows there are
        entity = {name: whole(table[name]).take(pa.array(first)) for name in names} or {
            "-": pa.nulls(n)
        }
        return pa.table(entity), [
            part.combine_columns(columns, groups, n) for part, columns in pairs
        ]
