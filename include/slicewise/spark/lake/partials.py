"""Rows of `slices` are made here: events into partials, partials into fewer partials.

Functions of mapInArrow: whole columns in, whole columns out, no state. The result does not depend
on how rows are split over tasks, because partials do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Rows
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.unit import StorageUnit
from slicewise.features.schema.dedupe import duplicates_among
from slicewise.features.schema.types import arrow_type
from slicewise.spark.microbatch.apply import deployment_of, input_arrays, with_functions
from slicewise.stores.lake.hour_files import HourFiles, header_row, to_text
from slicewise.stores.lake.schemas import unit_entity
from slicewise.stores.lake.slices import Header
from slicewise.windows.durations import HOUR_US

Ints = NDArray[np.int64]
EVENT_ID, COUNTED = "_event_id", "_counted"
"""Columns of events that count once by their id: the id, and whether the event is asked for or
stands for those after it."""
LEAST_ROWS = 100_000
FILES = pa.schema([("file", pa.string())])


@dataclass(frozen=True)
class UnitRef:
    """A unit by name, so that a task is small to send; looked up once per worker process."""

    manifest: str
    fingerprint: str

    @property
    def deployment(self) -> Deployment:
        return deployment_of(self.manifest)

    @property
    def unit(self) -> StorageUnit:
        return self.deployment.unit(self.fingerprint)


@dataclass(frozen=True)
class RowShape:
    """Columns of a unit's table, without those of headers, in order."""

    unit: StorageUnit

    @cached_property
    def entity(self) -> tuple[str, ...]:
        return tuple(name for name, _ in unit_entity(self.unit))

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field("hour", pa.int32()),
                pa.field("slice", pa.int64()),
                *(
                    pa.field(n, pa.int32() if t == "int" else arrow_type(t))
                    for n, t in unit_entity(self.unit)
                ),
                *(pa.field(f.name, f.type) for f in self.unit.layout.arrow_fields()),
                pa.field("events", pa.int64()),
                pa.field("late", pa.int64()),
            ]
        )

    def batch(
        self,
        numbers: Ints,
        entity: Mapping[str, pa.Array],
        partials: Sequence[Columns],
        events: Ints,
        late: Ints,
    ) -> pa.RecordBatch:
        """Rows from their parts."""
        hours = (numbers * self.unit.slice_us // HOUR_US).astype(np.int32)
        columns = {
            "hour": pa.array(hours),
            "slice": pa.array(numbers),
            **entity,
            **self.unit.layout.to_arrow(partials),
            "events": pa.array(events),
            "late": pa.array(late),
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )


@dataclass(frozen=True)
class Accumulate:
    """Events of a unit -> a row per (entity, slice) of what the task sees. mapInArrow.

    Reads topic_id, partition, offset, event_time, kafka_time (longs), the entity's columns under
    their own names, and the inputs of the aggregates as `inputs` names them.
    """

    ref: UnitRef
    inputs: Mapping[str, str]
    event_id: str | None = None
    """The column of ids, where events count once by theirs: then all events of an (entity,
    partition) come side by side in the order of their offsets, and the column COUNTED says which
    are asked for."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit = self.ref.unit
        shape = RowShape(unit)
        if self.event_id is not None:
            for table in by_group(
                batches, ("topic_id", "partition", *(name for name, _ in unit.entity)), LEAST_ROWS
            ):
                some = self._accumulated(unit, shape, table)
                if some.num_rows:
                    yield some
            return
        for batch in batches:
            if batch.num_rows:
                yield self._accumulated(unit, shape, pa.Table.from_batches([batch]))

    def _counted_once(self, unit: StorageUnit, table: pa.Table) -> pa.Table:
        """The rows that are asked for, without those that came before."""
        if unit.dedupe is None or self.event_id is None:
            return table
        group = grouped(table, [name for name, _ in unit.entity], partitions_of(table))[0]
        offset, kafka_us = table["offset"].to_numpy(), table["kafka_time"].to_numpy()
        again = duplicates_among(group, offset, table[self.event_id], kafka_us, unit.dedupe)
        counted = whole(table[COUNTED]).to_numpy(zero_copy_only=False).astype(bool)
        return table.filter(pa.array(counted & ~again)).combine_chunks()

    def _accumulated(self, unit: StorageUnit, shape: RowShape, table: pa.Table) -> pa.RecordBatch:
        table, inputs = with_functions(unit, table, self.inputs)
        table = self._counted_once(unit, table)
        rows = source_rows(unit, table, inputs)
        numbers = rows.time // unit.slice_us
        groups, first, n = grouped(table, shape.entity, numbers)
        partials = [part.accumulate_columns(rows, groups, n) for part in unit.layout.partials]
        hour_end = (rows.time // HOUR_US + 1) * HOUR_US
        late = np.bincount(groups[table["kafka_time"].to_numpy() >= hour_end], minlength=n)
        events = np.bincount(groups, minlength=n)
        entity = {
            name: whole(table[name]).take(pa.array(first)).cast(shape.schema.field(name).type)
            for name in shape.entity
        }
        return shape.batch(
            numbers[first], entity, partials, events.astype(np.int64), late.astype(np.int64)
        )


@dataclass(frozen=True)
class Combine:
    """Combines a unit's rows, all those of an (entity, slice) in one task, to one row each. They
    come in the order of (hour, entity, slice). mapInArrow."""

    ref: UnitRef

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = [batch for batch in batches if batch.num_rows]
        if not frames:
            return
        unit = self.ref.unit
        shape = RowShape(unit)
        table = pa.Table.from_batches(frames).combine_chunks()
        numbers = table["slice"].to_numpy()
        groups, first, n = grouped(table, shape.entity, numbers)
        partials = [
            part.combine_columns(columns, groups, n)
            for part, columns in zip(
                unit.layout.partials, unit.layout.from_arrow(table), strict=True
            )
        ]
        events, late = (_sums(table[name].to_numpy(), groups, n) for name in ("events", "late"))
        entity = {name: whole(table[name]).take(pa.array(first)) for name in shape.entity}
        batch = shape.batch(numbers[first], entity, partials, events, late)
        keys = [(name, "ascending") for name in ("hour", *shape.entity, "slice")]
        yield batch.take(pc.sort_indices(batch, sort_keys=keys))


@dataclass(frozen=True)
class Whole:
    """All events of a unit in one task -> a row per (entity, slice). mapInArrow."""

    accumulate: Accumulate
    combine: Combine

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.combine(self.accumulate(batches))


@dataclass(frozen=True)
class WriteHours:
    """Writes a unit's rows into a file an hour, and names each as text. mapInArrow.

    rows: makes of what comes the rows that are written, all of an (entity, slice) in one task.
    headers: of hours all of whose rows are in one task, which stand in the hour's file.
    """

    rows: Whole | Combine
    files: HourFiles
    headers: Mapping[int, Header]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in self.rows(batches):
            names = [to_text(file) for file in self.files.write(self._by_hour(batch))]
            yield pa.RecordBatch.from_arrays([pa.array(names, pa.string())], schema=FILES)

    def _by_hour(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
        hours = batch["hour"].to_numpy()
        starts = np.flatnonzero(np.r_[True, hours[1:] != hours[:-1]])
        for start, end in pairwise([*starts.tolist(), len(hours)]):
            hour = int(hours[start])
            rows = pa.Table.from_batches([batch.slice(start, end - start)])
            header = self.headers.get(hour)
            if header is not None:
                tables = [rows, header_row(hour, header)]
                rows = pa.concat_tables(tables, promote_options="permissive")
            yield hour, rows


def by_group(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], least: int
) -> Iterator[pa.Table]:
    """The rows as they come, in tables that end where a value of the named columns changes: of
    `least` rows and one group more. Rows with equal values stand side by side."""
    frames: list[pa.RecordBatch] = []
    rows, enough = 0, least
    for batch in batches:
        if not batch.num_rows:
            continue
        frames.append(batch)
        rows += batch.num_rows
        if rows < enough:
            continue
        table = pa.Table.from_batches(frames).combine_chunks()
        last = table.slice(table.num_rows - 1).select(names).to_pylist()[0]
        ends = np.ones(table.num_rows, np.bool_)
        for name, value in last.items():
            same = (
                pc.is_null(table[name])
                if value is None
                else pc.equal(table[name], value).fill_null(False)
            )
            ends &= same.to_numpy()
        cut = int(np.argmax(ends))  # where the last group begins
        if cut:
            yield table.slice(0, cut)
        frames = table.slice(cut).to_batches()
        rows = table.num_rows - cut
        # a group that is larger is not put together again with every batch
        enough = max(least, 2 * rows)
    if frames:
        yield pa.Table.from_batches(frames).combine_chunks()


def partitions_of(table: pa.Table) -> Ints:
    """A number for each partition."""
    topic = whole(table["topic_id"]).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return np.asarray(topic, np.int64) * 2**31 + np.asarray(table["partition"].to_numpy(), np.int64)


def grouped(table: pa.Table, entity: Sequence[str], numbers: Ints) -> tuple[Ints, Ints, int]:
    """(group of each row, first row of each group, how many) of equal (entity, number)."""
    codes = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    for name in entity:
        encoded = whole(table[name]).dictionary_encode()
        code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = np.unique(codes * len(encoded.dictionary) + code, return_inverse=True)[1]
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    return groups.astype(np.int64), first.astype(np.int64), len(first)


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.Array):
        return column
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def source_rows(unit: StorageUnit, table: pa.Table, inputs: Mapping[str, str]) -> Rows:
    """A table's rows, of any topics, as the algebra reads them."""
    ids, code = _topics(whole(table["topic_id"]))
    high = np.array([int(text[:16], 16) for text in ids], np.uint64)
    low = np.array([int(text[16:], 16) for text in ids], np.uint64)
    return Rows(
        time=table["event_time"].to_numpy(),
        topic_hi=high[code],
        topic_lo=low[code],
        partition=table["partition"].to_numpy(),
        offset=table["offset"].to_numpy(),
        columns=input_arrays(unit, table, inputs),
    )


def _topics(column: pa.Array) -> tuple[list[str], Ints]:
    """The distinct ids, and the position of each row's among them."""
    if len(column) and pc.all(pc.equal(column, column[0])).as_py():  # as nearly always
        return [column[0].as_py()], np.zeros(len(column), np.int64)
    topics = column.dictionary_encode()
    code = topics.indices.to_numpy(zero_copy_only=False)
    return topics.dictionary.to_pylist(), code.astype(np.int64)


def _sums(values: Ints, groups: Ints, n: int) -> Ints:
    out = np.zeros(n, np.int64)
    np.add.at(out, groups, values)
    return out
