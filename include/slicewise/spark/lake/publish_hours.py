"""The online store gets compacted hours from the committed table alone, a day of an entity at a
time."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise import codec
from slicewise.aggregates.kernel.columns import Columns
from slicewise.errors import DataLoss, SlicewiseError
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.pacing.shares import pause_s
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.partials import Ints, RowShape, UnitRef, whole
from slicewise.spark.microbatch.apply import connection, drop, opened
from slicewise.stores.online import keys
from slicewise.stores.online.control_record import ServerRun
from slicewise.stores.online.operations.connecting import HoldBuilds
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_days import DayEntry, HourValues, PublishDays
from slicewise.stores.online.port import OnlineStore
from slicewise.stores.online.rules.decisions import HOURS_PER_DAY
from slicewise.windows.durations import HOUR_US

MINUTE_US = 60_000_000
PART_ROWS, THREADS = 50_000, 2
"""Rows that a task encodes and publishes together, and how many such parts at a time."""
SLOWED_ROWS = 5_000
"""Rows of a part where the build is slowed: one at a time, with a rest after each."""
CHANGE_BYTES = 1 << 20
"""Bytes of hours that fill a change: while a script copies them, other clients of the store wait a
few milliseconds. What is wider goes in some hours at a time, and is totalled afterwards."""
OUTCOME = pa.schema([("outcome", pa.string())])
_FATES = ("swapped", "stale", "expired", "left_over", "freed", "bytes_before", "bytes_after")
"""Entities by what became of them; running partials that were freed, their bytes, and those of what
stands in their stead."""


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

    def open(self) -> OnlineStore:
        """A connection of its own. Raises as `connect`."""
        store = opened(self.url, self.server_run, self.store_id)
        try:
            store.run(HoldBuilds(self.builds))
        except SlicewiseError:
            store.close()
            raise
        return store


@dataclass(frozen=True)
class PublishHours:
    """Rows of compacted hours, all those of an entity in one task -> outcomes as JSON. mapInArrow.

    hours: hour -> (archive version, offset vector) of its header; those of `silent` are counted and
    not published. share: of its time that a task writes; it rests for the others.
    """

    ref: UnitRef
    store: StoreRef
    hours: Mapping[int, tuple[int, OffsetVector]]
    silent: frozenset[int] = frozenset()
    share: float = 1.0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = [batch for batch in batches if batch.num_rows]
        if not frames:
            return
        unit = self.ref.unit
        table = pa.Table.from_batches(frames).combine_chunks()
        codes = entity_codes(table, RowShape(unit).entity)
        slowed = self.share < 1.0

        def publish(rows: Ints) -> list[dict[str, Any]]:
            begun = time.monotonic()
            part = HourRows(unit, table.take(pa.array(rows)).combine_chunks(), codes[rows])
            with closing(self.store.open()) as store:
                published = self._published(store, part)
            if slowed:
                time.sleep(pause_s(time.monotonic() - begun, self.share))
            return published

        # while one part waits for the store, the other is made ready; what a part tells is added
        # as it comes: it names every slice that the part has a row of
        sums = _Sums()
        most = SLOWED_ROWS if slowed else PART_ROWS
        with ThreadPoolExecutor(1 if slowed else THREADS) as pool:
            for part in pool.map(publish, parts_of(codes, table["slice"].to_numpy(), most)):
                sums.add(part)
        texts = pa.array([json.dumps(one) for one in sums.outcomes()], pa.string())
        yield pa.RecordBatch.from_arrays([texts], schema=OUTCOME)

    def _published(self, store: OnlineStore, rows: HourRows) -> list[dict[str, Any]]:
        """Publishes a part; the fate of each hour's entities, and of each day's totals."""
        slices = rows.slices()
        hours: dict[int, Counter[str]] = {hour: Counter() for hour in slices}
        days: dict[int, Counter[str]] = {}
        published = {hour: self.hours[hour] for hour in hours if hour not in self.silent}
        versions = {hour: archive_version for hour, (archive_version, _) in published.items()}
        for archive_version, entries in rows.entries(versions).items():
            offset_vector = _only(
                archive_version, {v for n, v in published.values() if n == archive_version}
            )
            done = store.run(PublishDays(rows.unit, archive_version, offset_vector, entries))
            for hour, of_hour in done.hours.items():
                left_over = len(of_hour.left_over)
                of_entities = (of_hour.published, of_hour.stale, of_hour.expired, left_over)
                fates = (*of_entities, *of_hour.change)
                hours[hour].update(dict(zip(_FATES, fates, strict=True)))
            every = Counter(entry.day for entry in entries)
            missing = Counter(entries[i].day for i in done.untotalled)
            for day, entities in every.items():
                counts = days.setdefault(day, Counter())
                counts.update(totals=entities - missing[day], untotalled=missing[day])
        return [
            *(
                {"hour": hour, **{name: counts[name] for name in _FATES}, "slices": slices[hour]}
                for hour, counts in hours.items()
            ),
            *({"day": day, **counts} for day, counts in days.items()),
        ]


class HourRows:
    """Rows in the order of (entity, slice). Groups are (entity, hour); those of one day of an
    entity stand side by side."""

    def __init__(self, unit: StorageUnit, table: pa.Table, codes: Ints) -> None:
        """codes: a number for each row's entity."""
        self.unit, self.table = unit, table
        self._hour = table["hour"].to_numpy().astype(np.int64)
        self._number: Ints = table["slice"].to_numpy()
        self._starts = _changes(codes, self._hour)
        self._bounds = [*self._starts.tolist(), table.num_rows]
        self._groups = np.repeat(np.arange(len(self._starts)), np.diff(self._bounds))
        self._partials = unit.layout.from_arrow(table)
        totals = self._combined(self._partials, self._groups, len(self._starts))
        self._totals = unit.layout.encode_rows(totals)
        days = _changes(codes[self._starts], self._hour[self._starts] // HOURS_PER_DAY)
        self._days = [*days.tolist(), len(self._starts)]
        self._day_rows = self._rows_of_days(totals)
        self._tags = entity_tags_of(unit, table.take(pa.array(self._starts[days])))
        self._blocks, self._sizes = unit.layout.encode_runs(self._partials, self._bounds)
        self._minutes = self._minute_blocks() if MINUTE_US in unit.levels else None

    @staticmethod
    def of(unit: StorageUnit, table: pa.Table, entity: Sequence[str]) -> HourRows:
        """Rows in any order, each (entity, slice) once."""
        codes = entity_codes(table, entity)
        order = np.lexsort((table["slice"].to_numpy(), codes))
        return HourRows(unit, table.take(pa.array(order)).combine_chunks(), codes[order])

    def entries(self, versions: Mapping[int, int]) -> dict[int, list[DayEntry]]:
        """The store's entries by archive version, of the hours that have one."""
        hours = self._hour[self._starts].tolist()
        version = [versions.get(hour) for hour in hours]
        named = [v or 0 for v in version]
        totals = [codec.pack_total(v, row) for v, row in zip(named, self._totals, strict=True)]
        slices = codec.pack_slice_runs(named, self._number, self._bounds, self._blocks)
        minutes: Sequence[bytes | None] = [None] * len(hours)
        if self._minutes is not None:
            minutes = codec.pack_slice_runs(named, *self._minutes)
        values = [*map(HourValues, hours, totals, slices, minutes)]
        entries: dict[int, list[DayEntry]] = {}
        for tag, (begin, end), row in zip(
            self._tags, pairwise(self._days), self._day_rows, strict=True
        ):
            of_day = set(version[begin:end])
            for one in of_day - {None}:
                some = [values[i] for i in range(begin, end) if version[i] == one]
                pieces = _pieces_of(some)
                whole_row = row if len(of_day) == len(pieces) == 1 else None
                entries.setdefault(one or 0, []).extend(
                    DayEntry(tag, piece, whole_row) for piece in pieces
                )
        return entries

    def slices(self) -> dict[int, list[list[int]]]:
        """Hour -> per slice of it: number, events, entities, late, bytes."""
        numbers, groups = np.unique(self._number, return_inverse=True)
        columns = [
            np.bincount(groups, weights=weights, minlength=len(numbers)).astype(np.int64).tolist()
            for weights in (
                self.table["events"].to_numpy(),
                None,
                self.table["late"].to_numpy(),
                self._sizes,
            )
        ]
        hours: dict[int, list[list[int]]] = {}
        of_slice = (numbers * self.unit.slice_us // HOUR_US).tolist()
        for hour, *row in zip(of_slice, numbers.tolist(), *columns, strict=True):
            hours.setdefault(hour, []).append(row)
        return hours

    def _rows_of_days(self, totals: list[Columns]) -> list[bytes]:
        """Per day of an entity the row of all its hours."""
        n = len(self._days) - 1
        if n == len(self._totals):
            return self._totals
        groups = np.repeat(np.arange(n), np.diff(self._days))
        return self.unit.layout.encode_rows(self._combined(totals, groups, n))

    def _combined(self, partials: list[Columns], groups: Ints, n: int) -> list[Columns]:
        pairs = zip(self.unit.layout.partials, partials, strict=True)
        return [part.combine_columns(columns, groups, n) for part, columns in pairs]

    def _minute_blocks(self) -> tuple[Ints, list[int], list[bytes]]:
        """All minutes, the bounds of each group's, and their blocks."""
        minute = self._number * self.unit.slice_us // MINUTE_US
        # within a group minutes ascend: a change of either begins a new (group, minute)
        starts = _changes(minute, self._groups)
        rows = np.repeat(np.arange(len(starts)), np.diff([*starts, len(minute)]))
        combined = self._combined(self._partials, rows, len(starts))
        bounds = np.searchsorted(starts, self._bounds).tolist()
        return minute[starts], bounds, self.unit.layout.encode_blocks(combined, bounds)


def _pieces_of(hours: Sequence[HourValues]) -> list[Sequence[HourValues]]:
    """Hours of a day, as many together as go into one change."""
    pieces: list[Sequence[HourValues]] = []
    begin = size = 0
    for i, values in enumerate(hours, 1):
        size += sum(map(len, (values.total, values.slices, values.minutes or b"")))
        if size >= CHANGE_BYTES or i == len(hours):
            pieces.append(hours[begin:i])
            begin, size = i, 0
    return pieces


def _only(archive_version: int, offset_vectors: Collection[OffsetVector]) -> OffsetVector:
    """Gives what the archive version contains. DataLoss where its hours differ in it: a running
    partial would go though its events are in no hour."""
    if len(offset_vectors) != 1:
        raise DataLoss(
            f"hours of archive version {archive_version} have {len(offset_vectors)} offset vectors",
            expected="one",
            next_step='see "archive n has two offset vectors" in docs/runbook.md',
        )
    (offset_vector,) = offset_vectors
    return offset_vector


def entity_codes(table: pa.Table, entity: Sequence[str]) -> Ints:
    """A number for each row's entity."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in entity:
        encoded = whole(table[name]).dictionary_encode()
        code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * len(encoded.dictionary) + code
        if len(entity) > 1:  # numbers stay small
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes


def parts_of(codes: Ints, numbers: Ints, most: int) -> Iterator[Ints]:
    """Rows in the order of (entity, slice), some at a time, those of an entity together."""
    order = np.lexsort((numbers, codes))
    ends = [*_changes(codes[order])[1:].tolist(), len(order)]
    begin = 0
    for end in ends:
        if end - begin >= most or end == len(order):
            yield order[begin:end]
            begin = end


def _changes(*columns: Ints) -> Ints:
    """The rows at which a column's value is another than before."""
    change = np.zeros(max(0, len(columns[0]) - 1), np.bool_)
    for column in columns:
        change |= np.diff(column) != 0
    return np.concatenate([[0], np.flatnonzero(change) + 1]).astype(np.int64)


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
    """By published, stale, expired, left_over; what was freed beside them (`_FATES`)."""
    slices: tuple[tuple[int, int, int, int, int], ...]
    """(slice, events, entities, late, bytes), ascending."""


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a publish, of all its tasks."""

    hours: Mapping[int, HourOutcome] = field(default_factory=dict)
    days: Mapping[int, Counter[str]] = field(default_factory=dict)
    """Day -> entities whose total was written with its hours (totals), or was not (untotalled)."""

    def whole_days(self, compacted: Collection[int]) -> dict[int, int]:
        """Day -> its totals, of the days whose totals all stand: these are of all hours of which
        anything is compacted, and none was left out."""
        missing = {hour // HOURS_PER_DAY for hour in compacted if hour not in self.hours}
        return {
            day: counts["totals"]
            for day, counts in self.days.items()
            if not counts["untotalled"] and day not in missing
        }


class _Sums:
    """Sums of what parts or tasks say."""

    def __init__(self) -> None:
        self.hours: dict[int, Counter[str]] = {}
        self.days: dict[int, Counter[str]] = {}
        self._slices: dict[int, dict[int, list[int]]] = {}

    def add(self, outcomes: Iterable[Mapping[str, Any]]) -> None:
        for outcome in outcomes:
            if "day" in outcome:
                of_day = self.days.setdefault(outcome["day"], Counter())
                of_day.update({k: outcome[k] for k in ("totals", "untotalled")})
                continue
            hour = outcome["hour"]
            counted = self.hours.setdefault(hour, Counter())
            counted.update({k: outcome[k] for k in _FATES})
            slices = self._slices.setdefault(hour, {})
            for number, *figures in outcome["slices"]:
                row = slices.setdefault(number, [0, 0, 0, 0])
                row[:] = [a + b for a, b in zip(row, figures, strict=True)]

    def slices(self, hour: int) -> list[list[int]]:
        """Per slice of the hour: number, events, entities, late, bytes."""
        return [[number, *figures] for number, figures in sorted(self._slices[hour].items())]

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """The sums, in the form of what was added."""
        for hour, counted in self.hours.items():
            yield {"hour": hour, **counted, "slices": self.slices(hour)}
        for day, counts in self.days.items():
            yield {"day": day, **counts}


def outcomes_of(outcomes: Iterable[Mapping[str, Any]]) -> Outcomes:
    """Outcomes of all tasks, added up."""
    sums = _Sums()
    sums.add(outcomes)
    hours = {
        hour: HourOutcome(
            hour,
            counted,
            tuple((n, *figures) for n, *figures in sums.slices(hour)),  # type: ignore[misc]
        )
        for hour, counted in sums.hours.items()
    }
    return Outcomes(hours, sums.days)


__all__ = [
    "HourOutcome",
    "HourRows",
    "Outcomes",
    "PublishHours",
    "StoreRef",
    "TotalDay",
    "outcomes_of",
    "whole",
]
