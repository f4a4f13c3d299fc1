"""A month of one view per kind of aggregate in a real store, as micro-batch lane and compaction
leave it.

Every view has the windows 10m, 1d and 30d. Two entities: `light` has 12 events an hour, `heavy`
600, so that its hours and days hold registers, bins and sketches where the light one's hold values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

import slicewise as sw
from slicewise.aggregates import Aggregate, Columns, Rows
from slicewise.codec import pack_slices, pack_total
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.online import keys
from slicewise.stores.online.operations.apply_batch import ApplyBatch, MicroBatch
from slicewise.stores.online.operations.archive_versions import PutArchiveVersion
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.day_totals import WriteDayTotals
from slicewise.stores.online.operations.publish_days import MarkHour
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US
from tests.support.stores.publish_hour import HourEntry, PublishHour
from tests.support.stores.served import TOPIC, Served, accumulated

SEED = 11
DAYS = 31
PER_HOUR = {"light": 12, "heavy": 600}
WINDOWS = ("10m", "1d", "30d")
Int64 = np.ndarray[tuple[int], np.dtype[np.int64]]

events = sw.KafkaSource(
    "events",
    schema={"user": "string", "x": "double", "i": "int64", "c": "int64", "t": "timestamp_us"},
    timestamp="t",
    max_lateness="3d",
)


def _view(name: str, **features: Aggregate) -> sw.FeatureView:
    declared = [
        sw.Feature(feature, aggregate, windows=list(WINDOWS))
        for feature, aggregate in features.items()
    ]
    return sw.FeatureView(name, source=events, entity=["user"], features=declared)


def _start() -> list[float]:
    return [0.0]


def _step(state: list[float], event: dict[str, float]) -> list[float]:
    return [max(state[0], event["x"] or 0.0)]


def _finish(state: list[float]) -> float:
    return state[0]


VIEWS = (
    _view("sums", plays=sw.count(), total=sw.sum("x"), least=sw.min("x")),
    _view("moments", spread=sw.stddev("x"), skew=sw.skewness("x"), slope=sw.correlation("x", "i")),
    _view("latest", newest=sw.last_k("i", k=10), best=sw.top_k("i", by="x", k=10)),
    _view("distinct", users=sw.distinct_count("i")),
    _view("quantiles", shares=sw.quantiles("x", q=[0.5, 0.9, 0.99])),
    _view("frequent", top=sw.top_k_frequent("i", k=10)),
    _view("bloom", seen=sw.bloom_fill("i", capacity=10_000)),
    _view("buckets", by=sw.bucketed(sw.sum("x"), by="c", max_buckets=64)),
    _view("decay", recent=sw.decay_sum("x", half_life="1d")),
    _view(
        "ordered",
        most=sw.ordered(_start, _step, _finish, columns=["x"], output="double", cap=1_000),
    ),
)


def deployment() -> Deployment:
    """All views over one source."""
    return plan(Project("levels", VIEWS))


@dataclass(frozen=True)
class Month:
    """Events of one entity, in a partition of its own, in offset order."""

    entity: str
    partition: int
    rows: Rows

    @staticmethod
    def of(entity: str, partition: int, now_us: int) -> Month:
        """DAYS days before now_us, evenly dealt."""
        random = np.random.default_rng(SEED + partition)
        first = (now_us // DAY_US - DAYS) * DAY_US
        n = (now_us - first) * PER_HOUR[entity] // HOUR_US
        time = np.sort(random.integers(first, now_us, n))
        columns = {
            "x": pa.array(random.lognormal(3, 1, n)),
            "i": pa.array(random.zipf(1.2, n) % 50_000),
            "c": pa.array(random.integers(0, 40, n)),
        }
        halves = int(TOPIC[:16], 16), int(TOPIC[16:], 16)
        high, low = (np.full(n, half, np.uint64) for half in halves)
        rows = Rows(time, high, low, np.full(n, partition, np.int32), np.arange(n), columns)
        return Month(entity, partition, rows)


def fill(served: Served, now_us: int, views: Sequence[str]) -> None:
    """Compacts the hours of these views that are over at now_us, totals their days, and applies the
    open one."""
    months = [Month.of(entity, partition, now_us) for partition, entity in enumerate(PER_HOUR)]
    last = now_us // HOUR_US
    archive_versions = range(1, DAYS * 24 + int(last % 24) + 1)
    first = last - len(archive_versions)
    ends = {
        m.partition: np.searchsorted(m.rows.time, np.arange(first + 1, last + 1) * HOUR_US)
        for m in months
    }
    for archive_version in archive_versions:
        offset_vector = OffsetVector(
            {
                (TOPIC, p): int(partition_ends[archive_version - 1])
                for p, partition_ends in ends.items()
            }
        )
        served.store.run(PutArchiveVersion(events.name, archive_version, offset_vector))
    for unit in [unit for unit in served.deployment.units if unit.view in views]:
        entries = [_entries(unit, month, first, last) for month in months]
        for archive_version in archive_versions:
            offset_vector = OffsetVector(
                {
                    (TOPIC, p): int(partition_ends[archive_version - 1])
                    for p, partition_ends in ends.items()
                }
            )
            hour = first + archive_version - 1
            own = [entry[hour] for entry in entries if hour in entry]
            outcome = served.store.run(PublishHour(unit, hour, archive_version, offset_vector, own))
            assert not outcome.left_over
            served.store.run(MarkHour(unit, hour, archive_version))
        tags = [_tag(unit, month.entity) for month in months]
        for day in range(first // 24, last // 24):
            served.store.run(WriteDayTotals(unit, tags, day))
        for month in months:
            served.store.run(ApplyBatch(_open_hour(unit, month, int(ends[month.partition][-1]))))
    metadata = served.store.run(ReadMetadata())
    end = OffsetVector({(TOPIC, m.partition): len(m.rows.time) for m in months})
    served.store.run(
        AdvanceCommitted(OffsetVector(), end, metadata.deployment_version, metadata.units)
    )


def _tag(unit: StorageUnit, entity: str) -> bytes:
    return keys.entity_tags(unit.entity, [[entity]], None, 1)[0]


def _entries(unit: StorageUnit, month: Month, first: int, last: int) -> dict[int, HourEntry]:
    """Hour -> what compaction publishes in."""
    hours = month.rows.time // HOUR_US
    rows = month.rows.take(np.flatnonzero(hours < last))
    hours = hours[: len(rows.time)]
    distinct_hours, groups = np.unique(hours, return_inverse=True)
    whole = accumulated(unit, rows, groups.astype(np.int64), len(distinct_hours))
    totals = dict(zip(distinct_hours.tolist(), unit.layout.encode_rows(whole), strict=True))
    slices = _levelled(unit, rows, unit.slice_us, first)
    minutes = _levelled(unit, rows, MINUTE_US, first) if MINUTE_US in unit.levels else {}
    tag = _tag(unit, month.entity)
    return {
        hour: HourEntry(tag, pack_total(hour - first + 1, row), slices[hour], minutes.get(hour))
        for hour, row in totals.items()
    }


def _levelled(unit: StorageUnit, rows: Rows, level_us: int, first: int) -> dict[int, bytes]:
    numbers, groups = np.unique(rows.time // level_us, return_inverse=True)
    columns: list[Columns] = accumulated(unit, rows, groups.astype(np.int64), len(numbers))
    hours, begins = np.unique(numbers * level_us // HOUR_US, return_index=True)
    bounds = [*begins.tolist(), len(numbers)]
    blocks = unit.layout.encode_blocks(columns, bounds)
    return {
        hour: pack_slices(hour - first + 1, numbers[a:b], block)
        for hour, (a, b), block in zip(hours.tolist(), pairwise(bounds), blocks, strict=True)
    }


def _open_hour(unit: StorageUnit, month: Month, start: int) -> MicroBatch:
    rows = month.rows.take(np.arange(start, len(month.rows.time)))

    def accumulate(chosen: Int64, groups: Int64, n: int) -> list[Columns]:
        return accumulated(unit, rows.take(chosen), groups, n)

    return MicroBatch(
        unit=unit,
        topic_partition=(TOPIC, month.partition),
        tags=[_tag(unit, month.entity)],
        entity=np.zeros(len(rows.time), np.int64),
        offset=rows.offset,
        number=rows.time // unit.slice_us,
        accumulate=accumulate,
    )
