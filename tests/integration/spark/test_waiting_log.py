"""A lane without events waits for the next one: it is applied, and a drain ends the wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slicewise as sw
from slicewise.spark.microbatch.streaming import SourceQuery
from tests.support.platform.lake import Lake, lake

pytestmark = pytest.mark.timeout(600)

NAME = "seldom"
IDLE_S = 3.0
"""Several waits of the source."""


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Lake]:
    with lake(tmp_path) as running:
        yield running


def until_applied(query: SourceQuery, records: int) -> float:
    """Seconds until so many events were applied."""
    begun = time.monotonic()
    while query.figures.status().records < records:
        assert query.error() is None
        assert time.monotonic() < begun + 120
        time.sleep(0.02)
    return time.monotonic() - begun


def test_events_after_idleness_are_applied_and_a_drain_waits_for_none(shared: Lake) -> None:
    view = sw.FeatureView(
        NAME,
        source=shared.source(NAME),
        entity=["user_id"],
        features=[sw.Feature("n", sw.count(), windows=["3h"])],
    )
    query = shared.query(shared.deploy(view), NAME)
    now = time.time_ns() // 1000
    try:
        for number in range(1, 4):
            time.sleep(IDLE_S)
            event = {"user_id": "ann", "song_id": "s", "n": number, "played": now + number}
            shared.produce(NAME, [event], number % 2)  # either partition ends the wait
            until_applied(query, number)
        time.sleep(IDLE_S)
        assert query.active
    finally:
        begun = time.monotonic()
        query.drain()
    assert time.monotonic() - begun < 30
    assert query.error() is None
