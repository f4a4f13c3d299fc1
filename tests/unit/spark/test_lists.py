"""The stream's tasks and the backfill's bring one and the same into a list, whoever comes first."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.features.declare.definitions import FeatureView
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.listing import Fill
from slicewise.spark.lake.partials import UnitRef
from slicewise.spark.lake.publish_hours import StoreRef
from slicewise.spark.microbatch.apply import Placed, SourceRows, list_batch_of
from slicewise.stores.online.memory.store import MemoryServer, open_memory
from slicewise.stores.online.operations.connecting import Initialise
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.event_lists import AddToList

SEED = 20_261_121
TOPIC = "0123456789abcdef0123456789abcdef"
NOW = 1_790_000_000_000_000
plays = sw.KafkaSource(
    "plays",
    schema={"user": "string", "n": "long", "song": "string", "t": "timestamp_us"},
    timestamp="t",
)


def records(partition: int, count: int) -> pa.Table:
    """Records of a partition as Spark gives them to a task."""
    chance = random.Random(SEED + partition)
    return pa.table(
        {
            "topic_id": pa.array([TOPIC] * count),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "event_time": pa.array(
                [NOW - chance.randrange(3_000) * 1_000_000 for _ in range(count)], pa.int64()
            ),
            "keep_0": pa.array([chance.choice([0, 0, 0, 1]) for _ in range(count)], pa.int8()),
            "c_user": pa.array([chance.choice(["ann", "bob"]) for _ in range(count)]),
            "user": pa.nulls(count, pa.string()),
            "c_n": pa.array([chance.choice([None, 1, 2]) for _ in range(count)], pa.int64()),
            "c_song": pa.array([chance.choice([None, "ü", "a\0b"]) for _ in range(count)]),
        }
    ).drop_columns("user")


@pytest.mark.parametrize("entity", [["user"], []])
def test_micro_batch_lane_and_backfill_bring_the_same_members(entity: list[str]) -> None:
    windows: list[sw.Window | str] = [sw.exact_range("1h"), sw.rows(3)]
    features = [
        sw.Feature("n", sw.sum("n"), windows),
        sw.Feature("s", sw.last_k("song", k=2), windows),
    ]
    deployment = plan(
        Project.of("p", [FeatureView("v", source=plays, entity=entity, features=features)])
    )
    (unit,) = deployment.units
    inputs = {"n": "c_n", "song": "c_song"}
    placed = Placed(
        unit.storage_fingerprint, "keep_0", tuple(f"c_{name}" for name in entity), inputs
    )
    fill = Fill(
        UnitRef(deployment.to_json(), unit.storage_fingerprint), _nowhere(), inputs, OffsetVector()
    )
    results = []
    for way in ("fold", "fill", "fill, then micro-batch lane"):
        server = MemoryServer(ManualClock(NOW))
        store = open_memory(server)
        store.run(Initialise())
        store.run(Deploy(deployment, 0, {"plays": TOPIC}, OffsetVector()))
        store_id = b"%d" % store.store_id
        for partition in (0, 1):
            table = records(partition, 60)
            if "fill" in way:
                kept = table.filter(pa.array(np.asarray(table["keep_0"]) == 0))
                for name in entity:
                    kept = kept.append_column(name, kept[f"c_{name}"])
                for events in fill.lists(unit, kept):
                    store.run(AddToList(events))
            if "fold" in way:
                batch = list_batch_of(unit, placed, SourceRows.of(table, TOPIC, partition))
                assert batch is not None
                store.run(AddToList(batch))
        results.append(
            {
                key.replace(store_id, b""): event_list.members
                for key, event_list in server.lists.items()
            }
        )
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 2
    assert sum(map(len, results[0].values())) > 60


def _nowhere() -> StoreRef:
    from slicewise.stores.online.control_record import ServerRun

    return StoreRef("redis://127.0.0.1:1", ServerRun("", ""), 0, {})
