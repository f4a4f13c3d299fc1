"""A lane that is behind goes on with larger batches; no event is lost or counts twice between
them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slicewise as sw
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.microbatch import batch_bound
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.windows.durations import HOUR_US
from tests.support.platform.lake import Lake, lake

pytestmark = pytest.mark.timeout(600)

NAME, USERS, EVENTS = "behind", 40, 6_000


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as running:
        yield running


@pytest.mark.parametrize("partitions", [2, pytest.param(1, id="another partition is empty")])
def test_a_lane_that_is_behind_goes_on_with_larger_batches_and_each_event_counts_once(
    shared: Lake, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(batch_bound, "FIRST", 200)
    view = sw.FeatureView(
        NAME,
        source=shared.source(NAME),
        entity=["user_id"],
        features=[sw.Feature("n", sw.count(), windows=["3h"])],
    )
    deployment = shared.deploy(view)
    begin = time.time_ns() // 1000 - HOUR_US
    for partition in (0, 1)[:partitions]:
        events = [
            {"user_id": f"u{i % USERS}", "song_id": "s", "n": i, "played": begin + i * 1_000}
            for i in range(EVENTS // partitions)
        ]
        shared.produce(NAME, events, partition)
    query = shared.query(deployment, NAME)
    bounds = [query.bound]
    try:
        deadline = time.monotonic() + 300
        while sum(query.lag().values()):
            assert query.error() is None
            assert query.active
            assert time.monotonic() < deadline
            query.fit()
            bounds.append(query.bound)
            time.sleep(0.05)
    finally:
        query.drain()
    assert bounds == sorted(bounds)
    assert bounds[0] == 200
    assert bounds[-1] > 200
    assert query.figures.status().records == EVENTS
    with shared.store() as store:
        committed: OffsetVector = store.run(ReadMetadata()).committed
    assert list(committed.offsets.values()) == [EVENTS // partitions] * partitions
    counted = shared.contents(deployment.units[0], [(f"u{user}",) for user in range(USERS)])
    assert {sum(hours.values()) for hours in counted.values()} == {EVENTS // USERS}
