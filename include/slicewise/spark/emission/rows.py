"""Records become rows of units by the same row logic as everywhere: docs/adr/0043.

What a unit takes of a frame are its good records that pass `where`, have an entity, and for which
what is computed has values; of all records, taken or not, offset and Kafka time go on, because
instants are cut by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from slicewise.aggregates.kernel.events import Rows
from slicewise.emission.view import Records, Taken, trusted
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.row_columns import flat, row_logic
from slicewise.features.schema.types import arrow_type
from slicewise.spark.records.log_reader import Frame

_TIME, _OFFSET = "slicewise_time", "slicewise_offset"
"""Beside the source's columns, which may have any other name."""


def records_of(
    frames: Sequence[Frame], units: Mapping[str, StorageUnit], topic_id: str, wall_us: int
) -> Iterator[Records]:
    """The records of each partition, in the order of its frames. units: by their storage
    fingerprint."""
    for partition in dict.fromkeys(frame.partition for frame in frames):
        own = [frame for frame in frames if frame.partition == partition]
        offset = np.concatenate([frame.offset for frame in own])
        times = trusted(np.concatenate([frame.kafka_time for frame in own]), wall_us)
        events = _good(own)
        taken = {name: _taken(unit, events, topic_id, partition) for name, unit in units.items()}
        yield Records(partition, offset, times, taken, own[-1].end)


def _good(frames: Sequence[Frame]) -> pa.Table:
    """The good records with their identities."""
    columns = {
        name: pa.chunked_array([frame.columns[name] for frame in frames]).combine_chunks()
        for name in frames[0].columns
    }
    table = pa.table(
        {
            **columns,
            _TIME: pa.chunked_array([frame.event_time for frame in frames]),
            _OFFSET: np.concatenate([frame.offset for frame in frames]),
        }
    )
    good = np.concatenate([frame.good for frame in frames])
    return table if good.all() else table.filter(pa.array(good))


def _taken(unit: StorageUnit, events: pa.Table, topic_id: str, partition: int) -> Taken:
    kept, _ = row_logic(unit, events, (_TIME, _OFFSET))
    n = kept.num_rows
    rows = Rows(
        time=np.asarray(kept[_TIME].to_numpy(), np.int64),
        topic_hi=np.full(n, int(topic_id[:16], 16), np.uint64),
        topic_lo=np.full(n, int(topic_id[16:], 16), np.uint64),
        partition=np.full(n, partition, np.int32),
        offset=np.asarray(kept[_OFFSET].to_numpy(), np.int64),
        columns={name: flat(kept[name]).cast(arrow_type(kind)) for name, kind in unit.input_types},
    )
    return Taken(rows, kept.select([name for name, _ in unit.entity]))
