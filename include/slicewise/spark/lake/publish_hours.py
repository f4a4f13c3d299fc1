"""The online store gets compacted hours from the committed table alone, one script per entity."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise import codec
from slicewise.aggregates.kernel.columns import Columns
from slicewise.errors import SlicewiseError
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.partials import Ints, RowShape, UnitRef, grouped, whole
from slicewise.spark.microbatch.apply import connection, drop
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operations.connecting import HoldBuilds
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_hour import HourEntry, PublishHour
from slicewise.stores.online.port import OnlineStore

MINUTE_US = 60_000_000
OUTCOME = pa.schema([("outcome", pa.string())])


@dataclass(frozen=True)
class StoreRef:
    """The server run, and the builds of its units, that a run is bound to."""

    url: str
    server_run: ServerRun
    store_id: int
    builds: Mapping[str, int]
    """Unit -> its build (`StoreMetadata.builds`)."""

    def connect(self) -> OnlineStore:
        """This process's connection. Raises ServerRunChanged, DeploymentSuperseded."""
        store = connection(self.url, self.server_run, self.store_id)
        store.run(HoldBuilds(self.builds))
        return store


@dataclass(frozen=True)
class PublishHours:
    """Rows of compacted hours, all those of an entity in one task -> outcomes as JSON. mapInArrow.

    hours: hour -> (archive version, offset vector) of its header; those of `silent` are counted and
    not published.
    """

    ref: UnitRef
    store: StoreRef
    hours: Mapping[int, tuple[int, OffsetVector]]
    silent: frozenset[int] = frozenset()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = [batch for batch in batches if batch.num_rows]
        if not frames:
            return
        unit = self.ref.unit
        shape = RowShape(unit)
        table = pa.Table.from_batches(frames)
        order = [(name, "ascending") for name in ("hour", *shape.entity, "slice")]
        table = table.take(pc.sort_indices(table, sort_keys=order)).combine_chunks()
        try:
            outcomes = list(self._published(unit, HourRows(unit, table, shape.entity)))
        except SlicewiseError:
            drop(self.store.url)
            raise
        texts = pa.array([json.dumps(outcome) for outcome in outcomes], pa.string())
        yield pa.RecordBatch.from_arrays([texts], schema=OUTCOME)

    def _published(self, unit: StorageUnit, rows: HourRows) -> Iterator[dict[str, Any]]:
        for hour, (begin, end) in rows.hours().items():
            archive_version, offset_vector = self.hours[hour]
            outcome: dict[str, Any] = {"swapped": 0, "stale": 0, "expired": 0, "left_over": 0}
            if hour not in self.silent:
                done = self.store.connect().run(
                    PublishHour(
                        unit,
                        hour,
                        archive_version,
                        offset_vector,
                        rows.entries(begin, end, archive_version),
                    )
                )
                outcome = {
                    "swapped": done.published,
                    "stale": done.stale,
                    "expired": done.expired,
                    "left_over": len(done.left_over),
                }
            yield {"hour": hour, **outcome, "slices": rows.slices(hour)}


class HourRows:
    """Rows in the order of (hour, entity, slice), as a store keeps them. Groups are (hour,
    entity)."""

    def __init__(self, unit: StorageUnit, table: pa.Table, entity: Sequence[str]) -> None:
        self.unit, self.table = unit, table
        self._hour = table["hour"].to_numpy()
        self._number: Ints = table["slice"].to_numpy()
        codes, _, _ = grouped(table, entity, self._hour.astype(np.int64))
        change = np.flatnonzero(np.diff(codes)) + 1
        self._starts = np.concatenate([[0], change]).astype(np.int64)
        self._bounds = [*self._starts.tolist(), table.num_rows]
        self._groups = np.repeat(np.arange(len(self._starts)), np.diff(self._bounds))
        self._partials = unit.layout.from_arrow(table)
        self._sizes = self._row_sizes()
        self._tags = self._entity_tags()
        n = len(self._starts)
        self._totals = unit.layout.encode_rows(self._combined(self._groups, n))
        self._blocks = unit.layout.encode_blocks(self._partials, self._bounds)
        self._minutes = self._minute_blocks() if MINUTE_US in unit.levels else None

    def hours(self) -> dict[int, tuple[int, int]]:
        """Hour -> its groups [begin, end)."""
        hours: dict[int, tuple[int, int]] = {}
        of_group = self._hour[self._starts].tolist()
        for hour, members in groupby(range(len(of_group)), key=lambda i: int(of_group[i])):
            positions = list(members)
            hours[hour] = (positions[0], positions[-1] + 1)
        return hours

    def entries(self, begin: int, end: int, archive_version: int) -> list[HourEntry]:
        """The store's entries of these groups."""
        return [
            HourEntry(
                self._tags[i],
                codec.pack_total(archive_version, self._totals[i]),
                codec.pack_slices(
                    archive_version,
                    self._number[self._bounds[i] : self._bounds[i + 1]],
                    self._blocks[i],
                ),
                codec.pack_slices(archive_version, *self._minutes[i]) if self._minutes else None,
            )
            for i in range(begin, end)
        ]

    def slices(self, hour: int) -> list[list[int]]:
        """Per slice of the hour: number, events, entities, late, bytes."""
        of_hour = self._hour == hour
        numbers, groups = np.unique(self._number[of_hour], return_inverse=True)
        columns = [
            np.bincount(groups, weights=weights, minlength=len(numbers)).astype(np.int64).tolist()
            for weights in (
                self.table["events"].to_numpy()[of_hour],
                None,
                self.table["late"].to_numpy()[of_hour],
                self._sizes[of_hour],
            )
        ]
        return [list(row) for row in zip(numbers.tolist(), *columns, strict=True)]

    def _row_sizes(self) -> Ints:
        return np.array(
            [len(row) for row in self.unit.layout.encode_rows(self._partials)], np.int64
        )

    def _entity_tags(self) -> list[bytes]:
        return entity_tags_of(self.unit, self.table.take(pa.array(self._starts)))

    def _combined(self, groups: Ints, n: int) -> list[Columns]:
        pairs = zip(self.unit.layout.partials, self._partials, strict=True)
        return [part.combine_columns(columns, groups, n) for part, columns in pairs]

    def _minute_blocks(self) -> list[tuple[Ints, bytes]]:
        """Per group its minutes and their block."""
        minute = self._number * self.unit.slice_us // MINUTE_US
        # within a group minutes ascend: a change of either begins a new (group, minute)
        change = (np.diff(minute) != 0) | (np.diff(self._groups) != 0)
        starts = np.concatenate([[0], np.flatnonzero(change) + 1]).astype(np.int64)
        rows = np.repeat(np.arange(len(starts)), np.diff([*starts, len(minute)]))
        combined = self._combined(rows, len(starts))
        bounds = np.searchsorted(starts, self._bounds).tolist()
        blocks = self.unit.layout.encode_blocks(combined, bounds)
        numbers = minute[starts]
        return [
            (numbers[a:b], block) for a, b, block in zip(bounds, bounds[1:], blocks, strict=False)
        ]


def entity_tags_of(unit: StorageUnit, rows: pa.Table | pa.RecordBatch) -> list[bytes]:
    """The tag of each row."""
    values = [rows[name].to_pylist() for name, _ in unit.entity]
    if not unit.per_partition:
        return keys.entity_tags(unit.entity, values, None, rows.num_rows)
    partitions = rows["partition"].to_pylist()
    return [
        keys.entity_tags(unit.entity, [[column[i]] for column in values], partition)[0]
        for i, partition in enumerate(partitions)
    ]


@dataclass(frozen=True)
class TotalDay:
    """Rows (any columns, but an entity's) -> how many totals of the day were written.
    mapInArrow."""

    ref: UnitRef
    store: StoreRef
    day: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit = self.ref.unit
        tags: dict[bytes, None] = {}
        for batch in batches:
            tags.update(dict.fromkeys(entity_tags_of(unit, batch)))
        if not tags:
            return
        try:
            written = self.store.connect().run(WriteDayTotals(unit, list(tags), self.day))
        except SlicewiseError:
            drop(self.store.url)
            raise
        texts = pa.array([json.dumps({"day": self.day, "totals": written})], pa.string())
        yield pa.RecordBatch.from_arrays([texts], schema=OUTCOME)


@dataclass(frozen=True)
class HourOutcome:
    """Outcome of a compacted hour."""

    hour: int
    entities: Counter[str]
    """By published, stale, expired, left_over."""
    slices: tuple[tuple[int, int, int, int, int], ...]
    """(slice, events, entities, late, bytes), ascending."""


def outcomes_of(outcomes: Sequence[Mapping[str, Any]]) -> dict[int, HourOutcome]:
    """Hour -> what all tasks told of it."""
    entities: dict[int, Counter[str]] = {}
    slices: dict[int, dict[int, list[int]]] = {}
    for outcome in outcomes:
        hour = outcome["hour"]
        counted = entities.setdefault(hour, Counter())
        counted.update({k: outcome[k] for k in ("swapped", "stale", "expired", "left_over")})
        for number, *figures in outcome["slices"]:
            sums = slices.setdefault(hour, {}).setdefault(number, [0, 0, 0, 0])
            sums[:] = [a + b for a, b in zip(sums, figures, strict=True)]
    return {
        hour: HourOutcome(
            hour,
            counted,
            tuple((n, *figures) for n, figures in sorted(slices.get(hour, {}).items())),  # type: ignore[misc]
        )
        for hour, counted in entities.items()
    }


__all__ = [
    "HourOutcome",
    "HourRows",
    "PublishHours",
    "StoreRef",
    "TotalDay",
    "outcomes_of",
    "whole",
]
