"""Row logic runs once per unit, in DuckDB, and only canonical values that the view accepts go on.

An event whose entity is null, or whose computed value is NaN or infinite, is left out of this view
only and counted by reason; `where` keeps the events for which it is true.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Rows
from slicewise.cover import Place
from slicewise.features import row_columns
from slicewise.features.unit import Unit
from slicewise.training.entities import Entities, entities_of
from slicewise.training.local import UnitEvents
from slicewise.training.ranges import Ints
from slicewise.training.tree import SortedRows

IDENTITY_COLUMNS = ("event_time", "topic_id", "partition", "offset")


def unit_events(unit: Unit, events: pa.Table, entities: Entities | None = None) -> UnitEvents:
    """The unit's view of typed events.

    events: the source's columns in their declared types, and event_time (int64 microseconds),
    topic_id (32 hex digits), partition, offset. entities: those to keep; None keeps all.
    """
    kept, refused = row_logic(unit, events)
    known = entities or entities_of(kept, [name for name, _ in unit.entity])
    number = known.numbers(kept)
    wanted = np.flatnonzero(number >= 0).astype(np.int64)
    kept, number = kept.take(pa.array(wanted)), number[wanted]
    topic, topic_hi, topic_lo = _topics(kept["topic_id"])
    time, partition, offset = (
        np.asarray(kept[name].to_numpy(), np.int64) for name in ("event_time", "partition", "offset")
    )
    order = np.lexsort((offset, partition, topic_lo, topic_hi, time, number)).astype(np.int64)
    place, places = _places(topic[order], partition[order], kept["topic_id"])
    columns = {
        name: _flat(kept[name].take(pa.array(order))) for name in kept.column_names if name not in IDENTITY_COLUMNS
    }
    rows = Rows(
        time[order],
        topic_hi[order],
        topic_lo[order],
        partition[order].astype(np.int32),
        offset[order],
        columns,
    )
    return UnitEvents(unit, known, SortedRows(number[order], rows), place, places, refused)


def row_logic(unit: Unit, events: pa.Table) -> tuple[pa.Table, Mapping[str, int]]:
    """The events that the view takes, with entity columns and what its aggregates read, and their identities.

    Also how many it refused, by reason.
    """
    return row_columns.row_logic(unit, events, IDENTITY_COLUMNS)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _topics(column: pa.ChunkedArray) -> tuple[Ints, np.ndarray, np.ndarray]:
    """Per row the number of its topic, and the halves of the topic id."""
    encoded = _flat(column.dictionary_encode())
    index = np.asarray(encoded.indices.to_numpy(), np.int64)
    values = encoded.dictionary.to_pylist()
    halves = np.array([(int(v[:16], 16), int(v[16:], 16)) for v in values], np.uint64).reshape(-1, 2)
    return index, halves[index, 0], halves[index, 1]


def _places(topic: Ints, partition: Ints, names: pa.ChunkedArray) -> tuple[Ints, tuple[Place, ...]]:
    """Per row the number of its place, and the places."""
    values = _flat(names.dictionary_encode()).dictionary.to_pylist()
    pairs, index = np.unique(np.stack([topic, partition], axis=1), axis=0, return_inverse=True)
    places = tuple((values[int(t)], int(p)) for t, p in pairs)
    return index.reshape(-1).astype(np.int64), places
