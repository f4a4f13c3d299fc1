"""However rows are cut into batches, a task brings of each entity one total of all hours that
move."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slicewise as sw
from slicewise import codec
from slicewise.aggregates.kernel.events import Rows
from slicewise.clock import ManualClock
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import StorageUnit
from slicewise.lifecycle.lifetime import Move
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.partials import RowShape, UnitRef, grouped
from slicewise.spark.lake.publish_hours import StoreRef
from slicewise.spark.lake.publish_totals import PublishTotals
from slicewise.stores.online import keys
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.committed import AdvanceCommitted
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.publish_total import AnnounceTotal
from slicewise.windows.durations import DAY_US, HOUR_US

SEED = 20_261_121
TOPIC = "0123456789abcdef0123456789abcdef"
DAY0 = 20_000 * 24
plays = sw.KafkaSource(
    "plays", schema={"user": "string", "n": "long", "t": "timestamp_us"}, timestamp="t"
)


def view(entity: list[str]) -> FeatureView:
    features = [
        sw.Feature("n", sw.count(), ["lifetime"]),
        sw.Feature("all", sw.sum("n"), ["lifetime"]),
    ]
    return FeatureView("ever", source=plays, entity=entity, features=features)


def values_of(count: int) -> list[int]:
    """Values of the events, in their order."""
    chance = random.Random(SEED + 1)
    return [chance.randrange(100) for _ in range(count)]


def committed(unit: StorageUnit, count: int) -> pa.Table:
    """Rows of two days of hours, a row per (entity, slice), as they stand in the unit's table."""
    chance = random.Random(SEED)
    users = [chance.choice(["ann", "bob", "zoë"]) for _ in range(count)]
    time = np.array([DAY0 * HOUR_US + chance.randrange(2 * DAY_US) for _ in range(count)], np.int64)
    partition = np.array([chance.randrange(2) for _ in range(count)], np.int32)
    rows = Rows(
        time,
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
        partition,
        np.arange(count, dtype=np.int64),
        {"n": pa.array(values_of(count), pa.int64())},
    )
    shape = RowShape(unit)
    columns = {"user": pa.array(users), "partition": pa.array(partition)}
    entity = pa.table({name: columns[name] for name in shape.entity})
    groups, first, n = grouped(entity, shape.entity, time // unit.slice_us)
    partials = [part.accumulate_columns(rows, groups, n) for part in unit.layout.partials]
    taken = {name: entity[name].combine_chunks().take(pa.array(first)) for name in shape.entity}
    ones = np.ones(n, np.int64)
    return pa.Table.from_batches(
        [shape.batch(time[first] // unit.slice_us, taken, partials, ones, ones)]
    )


@pytest.mark.parametrize("entity", [["user"], []])
@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_totals_are_the_same_however_rows_are_cut(
    entity: list[str], cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment: Deployment = plan(Project.of("p", [view(entity)]))
    (unit,) = deployment.units
    server = MemoryServer(ManualClock((DAY0 + 24 * 30) * HOUR_US))
    store = open_memory(server)
    store.run(Initialise())
    store.run(Deploy(deployment, 0, {"plays": TOPIC}))
    offset_vector = OffsetVector({(TOPIC, p): 500 for p in (0, 1)})
    metadata = store.run(ReadMetadata())
    store.run(
        AdvanceCommitted(OffsetVector(), offset_vector, metadata.deployment_version, metadata.units)
    )
    store.run(AnnounceTotal(unit, DAY0 + 48, 3, offset_vector))
    monkeypatch.setattr(StoreRef, "connect", lambda self: store)  # noqa: ARG005
    ref = UnitRef(deployment.to_json(), unit.storage_fingerprint)
    where = StoreRef("redis://nowhere", store.server_run, store.store_id, {})
    table = committed(unit, 400)
    first = table.filter(pc.less(table["hour"], DAY0 + 24))
    second = table.filter(pc.greater_equal(table["hour"], DAY0 + 24))
    written = 0
    for rows, move in ((first, Move(DAY0 + 24, None)), (second, Move(DAY0 + 48, DAY0 + 24))):
        task = PublishTotals(ref, where, move, 3, offset_vector, ())
        outcomes = [
            json.loads(t)
            for b in task(iter(rows.to_batches(cut)))
            for t in b["outcome"].to_pylist()
        ]
        assert [(outcome["stale"], outcome["left_over"]) for outcome in outcomes] == [(0, 0)]
        written = outcomes[0]["brought"]
    everyone = (
        {(str(user), 0): None for user in ("ann", "bob", "zoë")}
        if entity
        else {("", 0): None, ("", 1): None}
    )
    assert written == len(everyone)
    counted = added = 0
    for user, partition in everyone:
        (tag,) = keys.entity_tags(
            unit.entity, [[user]] if entity else [], None if entity else partition
        )
        flat = server.hashes[keys.hot_key(store.store_id, tag, unit.storage_fingerprint)].fields
        lifetime = codec.unpack_lifetime(flat[keys.LIFETIME])
        assert (lifetime.total_until, lifetime.archive_version) == (DAY0 + 48, 3)
        columns = unit.layout.decode_blocks([lifetime.row], [1])
        by = {f.feature: f for f in unit.features}
        n, s = (
            by[k].aggregate.finish_columns(columns[by[k].partial]).values[0].as_py()
            for k in ("n", "all")
        )
        counted, added = counted + n, added + s
    assert (counted, added) == (400, sum(values_of(400)))
