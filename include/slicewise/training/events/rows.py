"""Row logic runs once per unit, in DuckDB, and only canonical values that the view accepts go on.

An event whose entity is null, or whose computed value is NaN or infinite, is left out of this view
only and counted by reason; `where` keeps the events for which it is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.aggregates import Rows
from slicewise.features import row_columns
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.dedupe import duplicates_among
from slicewise.offsets.vector import OffsetVector, TopicPartition
from slicewise.training.archive import Archive
from slicewise.training.events.entities import Entities, entities_of
from slicewise.training.events.unit_events import SortedRows, UnitEvents
from slicewise.training.ranges import Ints, order_by

IDENTITY_COLUMNS = ("event_time", "topic_id", "partition", "offset")
KAFKA_TIME = "kafka_time"
DUPLICATE = "duplicate"
"""Reason of an event whose id came before in its partition (docs/adr/0064)."""
Span = tuple[int, int]
"""Span of event times: [start, end), microseconds UTC."""


def events_of(
    archive: Archive,
    source: Source,
    unit: StorageUnit,
    start_us: int,
    end_us: int,
    archive_version: int,
) -> pa.Table:
    """The events with times in [start, end) for `row_logic` of the unit; where they count once by
    their id, with those before by which they are known."""
    if unit.dedupe is None:
        return archive.events(source, unit.reads, start_us, end_us, archive_version)
    requested = archive.events(source, (KAFKA_TIME,), start_us, end_us, archive_version)
    requested = requested.set_column(
        requested.column_names.index("topic_id"),
        "topic_id",
        requested["topic_id"].cast(pa.string()),
    )
    if not requested.num_rows:
        return archive.events(source, (*unit.reads, KAFKA_TIME), start_us, end_us, archive_version)
    ends = requested.group_by(["topic_id", "partition"]).aggregate([("offset", "max")]).to_pylist()
    offset_vector = OffsetVector(
        {(end["topic_id"], end["partition"]): end["offset_max"] + 1 for end in ends}
    )
    oldest = int(pc.min(requested[KAFKA_TIME]).as_py())
    return archive.below(
        source, unit.reads, offset_vector, oldest - unit.dedupe.look_back_us, archive_version
    )


def unit_events(
    unit: StorageUnit, events: pa.Table, entities: Entities | None = None, span: Span | None = None
) -> UnitEvents:
    """The unit's view of typed events.

    events: the source's columns in their declared types, and event_time, kafka_time (int64
    microseconds), topic_id (32 hex digits), partition, offset. entities: those to keep; None keeps
    all. span: as for `row_logic`.
    """
    kept, refused = row_logic(unit, events, span)
    del events  # its texts take more memory than all that follows
    distinct = entities or entities_of(kept, [name for name, _ in unit.entity])
    number = distinct.numbers(kept)
    own = dict(unit.input_types)
    read = [name for name in kept.column_names if name in own]
    kept, chosen = kept.select([*IDENTITY_COLUMNS, *read]), number >= 0
    if not chosen.all():
        kept, number = kept.filter(pa.array(chosen)), number[chosen]
    topics = _Topics.of(kept["topic_id"])
    time, partition, offset = (
        np.asarray(kept[name].to_numpy()) for name in ("event_time", "partition", "offset")
    )
    order, number, time = order_by(number, time.astype(np.int64, copy=False))
    _settle(order, number, time, (topics, partition, offset))
    partition, topic = partition[order].astype(np.int32, copy=False), topics.of_rows(order)
    topic_partition, topic_partitions = _topic_partitions(topic, partition, topics.names)
    rows = Rows(
        time,
        topics.half(0, topic),
        topics.half(1, topic),
        partition,
        offset[order].astype(np.int64, copy=False),
        {name: row_columns.flat(kept[name]).take(pa.array(order)) for name in read},
    )
    return UnitEvents(
        unit, distinct, SortedRows(number, rows), topic_partition, topic_partitions, refused
    )


def _settle(
    order: Ints, number: Ints, time: Ints, ties: tuple[_Topics, npt.NDArray[Any], npt.NDArray[Any]]
) -> None:
    """Puts rows of equal entity and time into the total order, in place. ties: topics, partitions
    and offsets of the rows as they came."""
    same = (number[1:] == number[:-1]) & (time[1:] == time[:-1])
    if not same.any():
        return
    tied = np.append(same, False)
    tied[1:] |= same
    among = order[tied]
    run = np.cumsum(np.append(True, ~same))[tied]
    topics, partition, offset = ties
    keys = (offset[among], partition[among], topics.rank[topics.of_rows(among)], run)
    order[tied] = among[np.lexsort(keys)]


def row_logic(
    unit: StorageUnit, events: pa.Table, span: Span | None = None
) -> tuple[pa.Table, Mapping[str, int]]:
    """The events that the view takes, with entity columns and what its aggregates read, and their
    identities.

    Also how many it refused, by reason. span: of events that count once by their id the times of
    those that are asked for; the others are there to know them by.
    """
    rule = unit.dedupe
    if rule is None:
        return row_columns.row_logic(unit, events, IDENTITY_COLUMNS)
    own = {*dict(unit.entity), *dict(unit.given_types)}
    carried = (*IDENTITY_COLUMNS, KAFKA_TIME, *(() if rule.column in own else (rule.column,)))
    inside = np.ones(events.num_rows, np.bool_)
    if span is not None:
        time = np.asarray(events["event_time"].to_numpy(), np.int64)
        inside = (time >= span[0]) & (time < span[1])
    rows, refused = row_columns.row_logic(unit, events.filter(pa.array(inside)), carried)
    n_requested = rows.num_rows
    if not inside.all():  # what is refused of them is no answer's
        rows = pa.concat_tables(
            [rows, row_columns.row_logic(unit, events.filter(pa.array(~inside)), carried)[0]]
        )
    numbers = entities_of(rows, [name for name, _ in unit.entity]).numbers(rows)
    topic, partition = (
        _Topics.of(rows["topic_id"]).index.astype(np.int64),
        np.asarray(rows["partition"].to_numpy(), np.int64),
    )
    group = np.unique(np.stack([numbers, topic, partition], axis=1), axis=0, return_inverse=True)[
        1
    ].reshape(-1)
    offset, kafka_us = (
        np.asarray(rows[name].to_numpy(), np.int64) for name in ("offset", KAFKA_TIME)
    )
    again = duplicates_among(group.astype(np.int64), offset, rows[rule.column], kafka_us, rule)
    requested = np.arange(rows.num_rows) < n_requested
    counted = {**refused, DUPLICATE: int((requested & again).sum())}
    kept = rows.filter(pa.array(requested & ~again)).drop_columns(
        list(carried[len(IDENTITY_COLUMNS) :])
    )
    return kept, {reason: count for reason, count in counted.items() if count}


@dataclass(frozen=True)
class _Topics:
    """The topics of rows: the number of each row's, and the topics' ids."""

    index: npt.NDArray[np.int32]
    names: list[str]

    @staticmethod
    def of(column: pa.ChunkedArray) -> _Topics:
        encoded = column.dictionary_encode().unify_dictionaries()
        if encoded.num_chunks and len(names := encoded.chunk(0).dictionary) == 1:
            return _Topics(np.broadcast_to(np.int32(0), len(column)), names.to_pylist())
        encoded = row_columns.flat(encoded)
        index = np.asarray(encoded.indices.to_numpy()).astype(np.int32, copy=False)
        return _Topics(index, encoded.dictionary.to_pylist())

    @property
    def rank(self) -> Ints:
        """Position of each topic in the order of their ids."""
        return np.argsort(np.argsort(np.array(self.names, dtype=str))).astype(np.int64)

    def of_rows(self, rows: Ints) -> npt.NDArray[np.int32]:
        """The topics of these rows; one that is all rows' stands once in memory."""
        if len(self.names) == 1:
            return np.broadcast_to(np.int32(0), len(rows))
        return self.index[rows]

    def half(self, number: int, topic: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """Per row the high half of its topic's id, or the low one."""
        halves = [int(name[16 * number : 16 * number + 16], 16) for name in self.names]
        if len(halves) == 1:
            return np.broadcast_to(np.uint64(halves[0]), len(topic))
        return np.array(halves, np.uint64)[topic]


def _topic_partitions(
    topic: npt.NDArray[np.int32], partition: npt.NDArray[np.int32], names: Sequence[str]
) -> tuple[npt.NDArray[np.int32], tuple[TopicPartition, ...]]:
    """Per row the number of its partition, and the partitions."""
    width = int(partition.max(initial=0)) + 1
    pair = partition if len(names) == 1 else topic.astype(np.int64) * width + partition
    there = np.zeros(max(1, len(names)) * width, np.bool_)
    there[pair] = True
    topic_partitions = tuple(
        (names[number // width], number % width) for number in np.flatnonzero(there).tolist()
    )
    return (np.cumsum(there, dtype=np.int32) - 1)[pair], topic_partitions
