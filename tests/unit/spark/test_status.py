"""The stream's progress is what it applied: a heartbeat alone is none."""

from __future__ import annotations

from urllib.request import urlopen

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import SettingsError
from slicewise.lifecycle.health.judge import Limits, StreamStatus, judge
from slicewise.spark.microbatch.status import Metrics, SourceStatus

SECOND = 1_000_000
NOW = 1_700_000_000_000_000


def parsed(status: SourceStatus) -> StreamStatus:
    import json

    return StreamStatus.parse("plays", json.dumps(status.to_json()))


def test_metrics_are_served_where_the_setting_says_and_a_taken_port_is_told() -> None:
    metrics = Metrics()
    SourceStatus("plays", ManualClock(NOW), metrics).to_json()
    port = metrics.serve("127.0.0.1:0")
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        assert b'slicewise_stream_progress_seconds{source="plays"}' in reply.read()
    with pytest.raises(SettingsError, match="cannot be served"):
        Metrics().serve(f"127.0.0.1:{port}")


def test_progress_is_a_batch_that_ended_or_nothing_that_waits() -> None:
    clock = ManualClock(NOW)
    status = SourceStatus("plays", clock, Metrics())
    assert parsed(status).progress_us == NOW, "it begins with the first word"
    clock.advance(10 * SECOND)
    status.lagging({0: 0, 1: 0})
    assert parsed(status).progress_us == NOW + 10 * SECOND
    # the batch hangs: the driver's ticks go on
    clock.advance(500 * SECOND)
    status.lagging({0: 3, 1: 0})
    assert (parsed(status).stalled_us, parsed(status).heartbeat_us) == (
        500 * SECOND,
        NOW + 510 * SECOND,
    )
    assert not judge([parsed(status)], ["plays"], clock.now_us(), Limits()).well
    status.applied([{"records": 3, "freshness_ms": [], "bad": {}, "units": {}}], 500.0, {})
    assert judge([parsed(status)], ["plays"], clock.now_us(), Limits()).well
