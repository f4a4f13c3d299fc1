"""The stream's progress is what it applied: a heartbeat alone is none."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import SettingsError
from slicewise.lifecycle.health.judge import Limits, judge
from slicewise.spark.microbatch.figures import BatchFigures, SourceFigures
from slicewise.spark.runtime.status_sinks import Metrics
from slicewise.stores.online.model.status import Status

SECOND = 1_000_000
NOW = 1_700_000_000_000_000


def figures_of(clock: ManualClock) -> BatchFigures:
    return BatchFigures(SourceFigures("plays", clock))


def parsed(figures: BatchFigures) -> Status:
    return Status.parse("plays", json.dumps(figures.status().to_json()))


def test_metrics_are_served_where_the_setting_says_and_a_taken_port_is_told() -> None:
    metrics = Metrics()
    metrics.show(figures_of(ManualClock(NOW)).status())
    port = metrics.serve("127.0.0.1:0")
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        assert b'slicewise_stream_progress_seconds{source="plays"}' in reply.read()
    with pytest.raises(SettingsError, match="cannot be served"):
        Metrics().serve(f"127.0.0.1:{port}")


def test_progress_is_a_batch_that_ended_or_nothing_that_waits() -> None:
    clock = ManualClock(NOW)
    figures = figures_of(clock)
    assert parsed(figures).progress_us == NOW, "it begins with the first word"
    clock.advance(10 * SECOND)
    figures.source.lagging({0: 0, 1: 0})
    assert parsed(figures).progress_us == NOW + 10 * SECOND
    # the batch hangs: the driver's ticks go on
    clock.advance(500 * SECOND)
    figures.source.lagging({0: 3, 1: 0})
    assert (parsed(figures).stalled_us, parsed(figures).heartbeat_us) == (
        500 * SECOND,
        NOW + 510 * SECOND,
    )
    assert not judge([parsed(figures)], ["plays"], clock.now_us(), Limits()).well
    figures.applied([{"records": 3, "freshness_ms": [], "bad": {}, "units": {}}], 500.0, {})
    assert judge([parsed(figures)], ["plays"], clock.now_us(), Limits()).well
