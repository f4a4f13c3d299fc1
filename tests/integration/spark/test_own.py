"""A user's class goes the whole way (Kafka, stream, compaction, recomputation, check), by its text
alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

import slicewise as sw
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.stores.lake.slices import scan_slices
from slicewise.windows.durations import HOUR_US
from tests.support.inputs.classes import Power, Reach
from tests.support.platform.lake import Lake, lake

pytestmark = pytest.mark.timeout(900)

USERS = ["ann", "bob", "é"]
source = sw.KafkaSource(
    "own",
    schema={"user": "string", "x": "double", "n": "long", "t": "timestamp_us"},
    timestamp="t",
    max_lateness="7d",
)
view = sw.FeatureView(
    "own",
    source=source,
    entity=["user"],
    features=[
        sw.Feature("reach", Reach("x"), ["1d"]),
        sw.Feature("cubes", Power("n", degree=3, where="x > 0"), ["1d"]),
        sw.Feature("by_n", sw.bucketed(Reach("x"), by="n"), ["1d"]),
    ],
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


def test_a_users_class_goes_the_whole_way(shared: Lake) -> None:
    start = (time.time_ns() // 1000 // HOUR_US - 3) * HOUR_US
    events = [
        {
            "user": USERS[i % 3],
            "x": [0.1, -5e-324, 1e308, None, -7.25][i % 5],
            "n": [1, -3, None, 2**62][i % 4],
            "t": start + i * 17_000_000,
        }
        for i in range(200)
    ]
    shared.topic("own")
    deployment = shared.deploy(view)
    shared.produce("own", events[:120], 0)
    assert shared.apply(deployment, "own").records == 120
    (unit,) = deployment.units
    given = [{**event, "partition": 0, "offset": i} for i, event in enumerate(events)]
    queries = [{"user": user, "at": start + 2 * HOUR_US} for user in USERS]
    wanted = sw.evaluate(view, given, queries)
    with shared.context() as context:
        assert compact(context, Request(start // HOUR_US)).left_over == 0
        shared.produce("own", events[120:], 0)
        assert shared.apply(deployment, "own").records == 80
        for raw in (False, True):
            assert compact(context, Request(start // HOUR_US, from_raw=raw)).left_over == 0
            table = context.unit_table(unit).table
            table.refresh()
            rows = scan_slices(table, [start // HOUR_US, start // HOUR_US + 1])
            entity = np.array([USERS.index(user) for user in rows["user"].to_pylist()], np.int64)
            partials = unit.layout.from_arrow(rows)
            for feature in unit.features:
                combined = feature.aggregate.combine_columns(
                    partials[feature.partial], entity, len(USERS)
                )
                finished = feature.aggregate.finish_columns(combined)
                assert finished.values.to_pylist() == wanted[feature.column].to_pylist(), (
                    raw,
                    feature.column,
                )
                assert not finished.errors
