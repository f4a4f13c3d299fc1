"""Archived events become members of event lists here: whole columns in, outcomes out; run twice, it
adds nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from slicewise.errors import SlicewiseError
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.partials import UnitRef, source_rows
from slicewise.spark.lake.publish_hours import OUTCOME, StoreRef
from slicewise.spark.microbatch.apply import drop, entities_of, with_functions
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import MicroBatchOutcome
from slicewise.stores.online.operations.event_lists import AddToList, ListBatch


@dataclass(frozen=True)
class Fill:
    """Events of a unit, as `Accumulate` reads them -> outcomes as JSON. mapInArrow."""

    ref: UnitRef
    store: StoreRef
    inputs: Mapping[str, str]
    start: OffsetVector
    """Below it the events lie."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit, total = self.ref.unit, MicroBatchOutcome()
        try:
            for batch in batches:
                if batch.num_rows:
                    for events in self.lists(unit, pa.Table.from_batches([batch])):
                        total += self.store.connect().run(AddToList(events))
        except SlicewiseError:
            drop(self.store.url)
            raise
        yield pa.RecordBatch.from_arrays(
            [pa.array([json.dumps(asdict(total))], pa.string())], schema=OUTCOME
        )

    def lists(self, unit: StorageUnit, table: pa.Table) -> Iterator[ListBatch]:
        """The events of a table; of a per-partition unit per partition."""
        if not unit.per_partition:
            yield self._list(unit, table, None)
            return
        partitions = table["partition"].to_numpy()
        for partition in np.unique(partitions).tolist():
            yield self._list(unit, table.filter(pa.array(partitions == partition)), partition)

    def _list(self, unit: StorageUnit, table: pa.Table, partition: int | None) -> ListBatch:
        table, inputs = with_functions(unit, table, self.inputs)
        values, entity = entities_of(table, [name for name, _ in unit.entity])
        rows = source_rows(unit, table, inputs)
        tags = keys.entity_tags(unit.entity, values, partition, count=1)
        return ListBatch(
            unit, None, tags, entity, rows.offset, rows.time, unit.members.encode(rows), self.start
        )
