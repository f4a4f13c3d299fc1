"""An event list is ready when every archived event below its start cover was added, or lies below its low-water mark.

It is filled from `events.<source>` alone, newest events first, so that what a list has no room for is known to be old
before it is sent. To fill twice adds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (the name everybody uses)

from slicewise.cover import Cover
from slicewise.errors import SlicewiseError
from slicewise.features.unit import Unit
from slicewise.slices import HOUR_US
from slicewise.spark.compaction import below, inputs_of, selected_events
from slicewise.spark.context import Context
from slicewise.spark.fold import drop, entities_of
from slicewise.spark.log import event
from slicewise.spark.partials import UnitRef, source_rows
from slicewise.spark.swapping import OUTCOME, StoreRef
from slicewise.stores import decisions, keys
from slicewise.stores.ports import FoldOutcome, ListBatch

_TASKS = 2


@dataclass(frozen=True)
class Fill:
    """Events of a unit, as `Accumulate` reads them -> outcomes as JSON. mapInArrow."""

    ref: UnitRef
    store: StoreRef
    inputs: Mapping[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit, total = self.ref.unit, FoldOutcome()
        try:
            for batch in batches:
                if batch.num_rows:
                    for events in self._lists(unit, pa.Table.from_batches([batch])):
                        total = decisions.added(total, self.store.connect().add(events))
        except SlicewiseError:
            drop(self.store.url)
            raise
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(asdict(total))], pa.string())], schema=OUTCOME)

    def _lists(self, unit: Unit, table: pa.Table) -> Iterator[ListBatch]:
        if not unit.spread:
            yield self._list(unit, table, None)
            return
        partitions = table["partition"].to_numpy()
        for partition in np.unique(partitions).tolist():
            yield self._list(unit, table.filter(pa.array(partitions == partition)), partition)

    def _list(self, unit: Unit, table: pa.Table, partition: int | None) -> ListBatch:
        values, entity = entities_of(table, [name for name, _ in unit.entity])
        rows = source_rows(unit, table, self.inputs)
        tags = keys.entity_tags(unit.entity, values, partition, count=1)
        return ListBatch(unit, None, tags, entity, rows.offset, rows.time, unit.members.encode(rows))


def fill(context: Context, unit: Unit, start: Cover) -> FoldOutcome:
    """Adds the archived events below the start cover that the list can hold."""
    keeps, archive = unit.event_list, context.archives[unit.source]
    assert keeps is not None
    if archive.snapshot_id is None:
        return FoldOutcome()
    source = context.deployment.source(unit.source)
    wanted = f"({below(start)})"
    if keeps.expires:
        oldest = context.store.time_us() - keeps.range_us
        wanted += f" AND hour >= {oldest // HOUR_US} AND event_time >= timestamp_micros({oldest})"
    frame = selected_events(context.session, context.settings, archive.snapshot_id, source, unit, wanted)
    newest_first = frame.coalesce(_TASKS).sortWithinPartitions(F.desc("event_time"))
    task = Fill(UnitRef(context.manifest, unit.storage_fingerprint), context.ref, inputs_of(unit))
    done = [json.loads(row.outcome) for row in newest_first.mapInArrow(task, "outcome string").collect()]
    total = FoldOutcome()
    for each in done:
        total = decisions.added(total, FoldOutcome(**each))
    event("list_filled", unit=unit.storage_fingerprint, view=unit.view, rows=total.rows, applied=total.applied)
    return total
