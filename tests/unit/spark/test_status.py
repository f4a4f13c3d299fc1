"""The stream's progress is what it applied: a heartbeat alone is none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.request import urlopen

import pytest

from slicewise.clock import ManualClock
from slicewise.errors import SettingsError
from slicewise.lifecycle.health.judge import Limits, judge
from slicewise.lifecycle.supervision import DriverLook, fault_of
from slicewise.settings import Settings
from slicewise.spark import driver as module
from slicewise.spark.driver import Driver
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


def test_a_source_that_is_deployed_no_more_makes_no_driver_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "put_statuses", lambda *_: None)
    clock = ManualClock(1_000_000_000)
    (tmp_path / "stream").mkdir()
    driver = Driver(Settings.load({"SLICEWISE_STATE": str(tmp_path)}), clock)
    for name in ("gone", "stays"):
        lane = driver._lane(name, BatchFigures)
        lane.applied([{"records": 5, "freshness_ms": [], "bad": {}, "units": {}}], 0.4, {})
        driver._queries[name] = cast(Any, SimpleNamespace(lag=lambda: {0: 7}))
    driver._report(cast(Any, None), cast(Any, None))
    # a deployment without it: `_plan` drains all, and begins a query of the other alone
    del driver._queries["gone"]
    for _ in range(80):
        clock.advance(500_000)
        cast(Any, driver._lanes["stays"]).applied(
            [{"records": 5, "freshness_ms": [], "bad": {}, "units": {}}], 0.4, {}
        )
        driver._report(cast(Any, None), cast(Any, None))
    now = clock.now_us()
    look = DriverLook(True, now - 600_000_000, now, tuple(driver._show()))
    assert fault_of(look, now) is None
