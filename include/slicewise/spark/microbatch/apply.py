"""A task applies the rows of its Kafka partitions, in offset order, to the store it was planned
for.

The store's server run, store id, deployment version and units are those of the query; a connection
that finds another server run fails the task, and with it the batch. Nothing here retries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Rows
from slicewise.clock import SystemClock
from slicewise.errors import ServerRunChanged, SlicewiseError
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import ListUnit, StorageUnit
from slicewise.features.rowlogic.row_function import computed
from slicewise.features.schema.dedupe import hashed
from slicewise.features.schema.types import arrow_type
from slicewise.lifecycle.realtime import no_realtime
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operations.apply_batch import ApplyBatch, MicroBatch, MicroBatchOutcome
from slicewise.stores.online.operations.connecting import HoldBuilds
from slicewise.stores.online.operations.event_lists import AddToList, ListBatch
from slicewise.stores.online.operations.ids import Ids
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.redis import open_store

REFUSED_VALUE = 3
"""Code as in `rows`, which workers do not import."""
OUTCOME = pa.schema([("outcome", pa.string())])
RUN_BYTES = 64 << 20
"""Bytes that Spark puts into one Arrow batch (docs/adr/0025, 0061)."""
_SAMPLE = 64
"""Rows of a task whose freshness is told to the driver."""


@dataclass(frozen=True)
class Placed:
    """Partition of a unit's columns in the rows that a task gets (`rows.UnitColumns`)."""

    unit: str
    keep: str
    entity: tuple[str, ...]
    inputs: Mapping[str, str]
    event_id: str | None = None


@dataclass(frozen=True)
class MicroBatchTask:
    """Work of the executors on a batch; picklable, the same for every batch of a query."""

    redis_url: str
    kafka_bootstrap: str
    server_run: ServerRun
    store_id: int
    builds: Mapping[str, int]
    """Builds of the units of `placed` (`StoreMetadata.builds`)."""
    manifest: str
    topic: str
    topic_id: str
    placed: tuple[Placed, ...]
    realtime: bool = False
    """Tells whether the real-time lane writes, or wrote: then what it wrote of the batch's rows is
    removed with their micro-batch."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Outcomes, one JSON text per run and Kafka partition."""
        for table in runs(batches):
            yield self._run(table)

    def _run(self, table: pa.Table) -> pa.RecordBatch:
        # after its rows were read, before any is written: no row of a topic made anew counts as one
        # of the old
        log_of(self.kafka_bootstrap).check_topic(self.topic, self.topic_id)
        store = connection(self.redis_url, self.server_run, self.store_id)
        deployment = deployment_of(self.manifest)
        store.run(HoldBuilds(self.builds))
        outcomes = []
        for partition in pc.unique(table["partition"]).to_pylist():
            part = table.filter(pc.equal(table["partition"], partition))
            try:
                outcomes.append(self._apply(store, deployment, part, partition))
            except SlicewiseError:
                drop(self.redis_url)
                raise
        texts = [json.dumps(asdict(outcome)) for outcome in outcomes]
        return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=OUTCOME)

    def _apply(
        self, store: OnlineStore, deployment: Deployment, table: pa.Table, partition: int
    ) -> PartitionOutcome:
        rows = SourceRows.of(table, self.topic_id, partition)
        units = {}
        for placed in self.placed:
            unit = deployment.unit(placed.unit)
            codes = table[placed.keep].combine_chunks()
            max_ahead_us = deployment.source(unit.source).most_ahead_us
            outcome, refused, most = _applied(
                store, unit, placed, rows, realtime=self.realtime, max_ahead_us=max_ahead_us
            )
            units[placed.unit] = asdict(outcome) | {
                "left_out": _with_refused(_counts(codes), refused),
                "most": most,
            }
        visible = SystemClock().now_us()
        kafka_time = rows.table["kafka_time"].to_numpy()
        step = max(1, len(kafka_time) // _SAMPLE)
        fresh = ((visible - kafka_time[::step]) / 1000).round(1).tolist()
        bad = _counts(table["reason"].combine_chunks())
        return PartitionOutcome(partition, table.num_rows, bad, units, fresh)


def runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """A task's rows, as they come, in consecutive tables of RUN_BYTES or little more: a micro-batch
    of a part, and then of the rest, leaves the bytes that a micro-batch of all does, and a batch is
    bounded in events, not in bytes."""
    frames: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            frames.append(batch)
            size += batch.nbytes
        if size >= RUN_BYTES:
            yield pa.Table.from_batches(frames).combine_chunks()
            frames, size = [], 0
    if frames:
        yield pa.Table.from_batches(frames).combine_chunks()


@dataclass(frozen=True)
class PartitionOutcome:
    """Outcome of the rows of one Kafka partition, in one run."""

    partition: int
    records: int
    bad: Mapping[str, int]
    """Reason -> records."""
    units: Mapping[str, Mapping[str, Any]]
    """Unit -> MicroBatchOutcome, the rows left out of the unit by code (`rows.REASONS`), and the
    most rows of an entity."""
    freshness_ms: Sequence[float] = field(default_factory=list)
    """Kafka timestamp to visible, of some rows."""


@dataclass(frozen=True, eq=False)
class SourceRows:
    """Rows of one partition in offset order."""

    table: pa.Table
    topic_id: str
    partition: int

    @staticmethod
    def of(table: pa.Table, topic_id: str, partition: int) -> SourceRows:
        offsets = table["offset"].to_numpy()
        if len(offsets) > 1 and not bool(np.all(offsets[1:] > offsets[:-1])):
            table = table.take(pc.sort_indices(table["offset"]))
        return SourceRows(table, topic_id, partition)


def _applied(
    store: OnlineStore,
    unit: StorageUnit,
    placed: Placed,
    source: SourceRows,
    *,
    realtime: bool,
    max_ahead_us: int,
) -> tuple[MicroBatchOutcome, int, int]:
    """The unit's rows, in the store; how many its row functions refused; and the most of one
    entity."""
    kept = pc.sum(pc.equal(source.table[placed.keep], 0)).as_py() or 0
    if isinstance(unit, ListUnit):
        events = list_batch_of(unit, placed, source)
        return (
            (store.run(AddToList(events)), kept - len(events.offset), 0)
            if events is not None
            else (MicroBatchOutcome(), kept, 0)
        )
    batch = batch_of(unit, placed, source, realtime=realtime, max_ahead_us=max_ahead_us)
    if batch is None:
        return MicroBatchOutcome(), kept, 0
    return (
        store.run(ApplyBatch(batch)),
        kept - len(batch.offset),
        int(np.bincount(batch.entity).max()),
    )


def _with_refused(left_out: dict[str, int], refused: int) -> dict[str, int]:
    code = str(REFUSED_VALUE)
    return {**left_out, code: left_out.get(code, 0) + refused} if refused else left_out


def with_functions(
    unit: StorageUnit, table: pa.Table, inputs: Mapping[str, str]
) -> tuple[pa.Table, Mapping[str, str]]:
    """The rows for which the unit's row functions have values, beside these; where all that
    aggregates read stands."""
    if not unit.functions:
        return table, inputs
    given = {
        name: _array(table[inputs[name]]).cast(arrow_type(kind)) for name, kind in unit.given_types
    }
    columns, there = computed(unit.functions, given)
    for name, values in columns.items():
        table = table.append_column(f"f_{name}", values)
    whole = np.logical_and.reduce(list(there.values()))
    return (table if whole.all() else table.filter(pa.array(whole))), {
        **inputs,
        **{name: f"f_{name}" for name in columns},
    }


@dataclass(frozen=True)
class Taken:
    """The rows that a unit takes of a source's, each with the number of its entity, and each
    entity's tag."""

    rows: Rows
    entity: NDArray[np.int64]
    tags: Sequence[bytes]
    table: pa.Table


def taken(unit: StorageUnit, placed: Placed, source: SourceRows) -> Taken | None:
    """None without any."""
    table = source.table.filter(pc.equal(source.table[placed.keep], 0))
    table, inputs = with_functions(unit, table, placed.inputs)
    if not table.num_rows:
        return None
    values, entity = entities_of(table, placed.entity)
    tags = keys.entity_tags(
        unit.entity, values, source.partition if unit.per_partition else None, count=1
    )
    return Taken(rows_of(unit, table, inputs, source.topic_id), entity, tags, table)


def list_batch_of(unit: StorageUnit, placed: Placed, source: SourceRows) -> ListBatch | None:
    """The unit's rows as its event list takes them; None without any."""
    some = taken(unit, placed, source)
    if some is None:
        return None
    return ListBatch(
        unit=unit,
        topic_partition=(source.topic_id, source.partition),
        tags=some.tags,
        entity=some.entity,
        offset=some.rows.offset,
        time=some.rows.time,
        members=unit.members.encode(some.rows),
    )


def batch_of(
    unit: StorageUnit,
    placed: Placed,
    source: SourceRows,
    *,
    realtime: bool = False,
    max_ahead_us: int = 0,
) -> MicroBatch | None:
    """The unit's rows as the store applies them; None without any.

    realtime: as in `MicroBatchTask`; max_ahead_us: the source's.
    """
    some = taken(unit, placed, source)
    if some is None:
        return None
    rows = some.rows

    def accumulate(
        chosen: NDArray[np.int64], groups: NDArray[np.int64], n_groups: int
    ) -> list[Columns]:
        # also when all are chosen: their order is that of the groups, not that of the batch
        taken = rows.take(chosen)
        return [part.accumulate_columns(taken, groups, n_groups) for part in unit.layout.partials]

    return MicroBatch(
        unit=unit,
        topic_partition=(source.topic_id, source.partition),
        tags=some.tags,
        entity=some.entity,
        offset=rows.offset,
        number=rows.time // unit.slice_us,
        accumulate=accumulate,
        realtime=realtime and no_realtime(unit) is None,
        ids=_ids(unit, placed, some.table, max_ahead_us),
    )


def _ids(unit: StorageUnit, placed: Placed, table: pa.Table, max_ahead_us: int) -> Ids | None:
    """The ids of rows that the unit takes; None where its source does not say how an event that
    comes again is known."""
    if unit.dedupe is None or placed.event_id is None:
        return None
    numbers, present = hashed(table[placed.event_id])
    # an event within the look-back time of one is at most so much later, and may lie ahead of
    # Kafka's time by as much
    reach_us = unit.dedupe.within_us + max_ahead_us + unit.slice_us + unit.retention_us
    kafka_us = table["kafka_time"].to_numpy()
    return Ids(unit.dedupe, numbers, present, kafka_us, 0 if unit.lifetime else reach_us)


def rows_of(unit: StorageUnit, table: pa.Table, inputs: Mapping[str, str], topic_id: str) -> Rows:
    """A table's rows, all of one topic, as the algebra reads them."""
    n = table.num_rows
    return Rows(
        time=table["event_time"].to_numpy(),
        topic_hi=np.full(n, int(topic_id[:16], 16), np.uint64),
        topic_lo=np.full(n, int(topic_id[16:], 16), np.uint64),
        partition=table["partition"].to_numpy(),
        offset=table["offset"].to_numpy(),
        columns=input_arrays(unit, table, inputs),
    )


def input_arrays(
    unit: StorageUnit, table: pa.Table, inputs: Mapping[str, str]
) -> dict[str, pa.Array]:
    """Columns that the unit's aggregates read, in their declared types (instants arrive as
    longs)."""
    return {
        name: _array(table[inputs[name]]).cast(arrow_type(kind)) for name, kind in unit.input_types
    }


def entities_of(
    table: pa.Table, columns: Sequence[str]
) -> tuple[list[list[object]], NDArray[np.int64]]:
    """Per column the values of each entity, and per row its entity. Nothing per row in Python."""
    n = table.num_rows
    if not columns:
        return [], np.zeros(n, np.int64)
    encoded = [_array(table[column]).dictionary_encode() for column in columns]
    codes = [column.indices.to_numpy(zero_copy_only=False).astype(np.int64) for column in encoded]
    if len(columns) == 1:
        return [encoded[0].dictionary.to_pylist()], codes[0]
    combined = codes[0]
    for column, code in zip(encoded[1:], codes[1:], strict=True):
        dense = np.unique(combined, return_inverse=True)[1]  # keeps products within 64 bits
        combined = dense * len(column.dictionary) + code
    _, first, entity = np.unique(combined, return_index=True, return_inverse=True)
    values = [
        column.dictionary.take(pa.array(code[first])).to_pylist()
        for column, code in zip(encoded, codes, strict=True)
    ]
    return values, entity.astype(np.int64)


def _array(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _counts(column: pa.Array) -> dict[str, int]:
    counted = pc.value_counts(column).to_pylist()
    return {str(row["values"]): row["counts"] for row in counted if row["values"]}


@lru_cache(maxsize=4)
def deployment_of(manifest: str) -> Deployment:
    """Parsed once per process."""
    return Deployment.from_json(manifest)


@lru_cache(maxsize=1)
def log_of(bootstrap: str) -> KafkaLog:
    """This process's client."""
    return KafkaLog(bootstrap)


# Connections live as long as their worker process. One that failed, or that found another server
# run of the store than its batch's, is dropped: a task that is tried again opens its own, and the
# check of the server run stands before its first write.
_CONNECTIONS: dict[str, OnlineStore] = {}


def connection(url: str, server_run: ServerRun, store_id: int) -> OnlineStore:
    """This process's connection; ServerRunChanged when the store is in another server run."""
    store = _CONNECTIONS.get(url)
    if store is not None and (store.server_run != server_run or store.store_id != store_id):
        drop(url)
        store = None
    if store is None:
        store = _CONNECTIONS[url] = opened(url, server_run, store_id)
    return store


def opened(url: str, server_run: ServerRun, store_id: int) -> OnlineStore:
    """A connection of its own; ServerRunChanged when the store is in another server run."""
    store = open_store(url)
    if store.server_run != server_run or store.store_id != store_id:
        store.close()
        raise ServerRunChanged(
            "the store is in another server run than the batch was planned for",
            where=f"run id {store.server_run.run_id}",
            expected=f"run id {server_run.run_id}",
            next_step="the stream starts again from the committed offsets by itself",
        )
    return store


def drop(url: str) -> None:
    """Forgets this process's connection."""
    store = _CONNECTIONS.pop(url, None)
    if store is not None:
        store.close()
