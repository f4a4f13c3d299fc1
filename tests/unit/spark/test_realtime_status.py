"""The real-time lane's figures sum what its writers acknowledged since the driver began, across
their restarts."""

from __future__ import annotations

import json

from slicewise.clock import ManualClock
from slicewise.spark.microbatch.figures import SourceFigures
from slicewise.spark.realtime.figures import WriterFigures, WriterStatus, quantile_of

NOW = 1_700_000_000_000_000


def figures_of(clock: ManualClock) -> WriterFigures:
    return WriterFigures(SourceFigures("plays", clock))


def status_of(run: str, partition: int, rows: int, quick: int, skipped: int = 0) -> WriterStatus:
    values = {
        "run": run,
        "partition": partition,
        "acked": rows - 1,
        "rows": rows,
        "written": rows,
        "skipped": skipped,
        "ms": {"bounds": [1.0, 10.0], "counts": [quick, rows, rows], "sum": 3.5},
    }
    return WriterStatus.parse(json.dumps(values))


def test_figures_grow_by_what_is_new_and_begin_anew_with_another_run() -> None:
    figures = figures_of(ManualClock(NOW))
    figures.take_in([status_of("a", 0, 10, 9), status_of("a", 1, 4, 4)])
    figures.take_in([status_of("a", 0, 10, 9), status_of("a", 1, 6, 6, skipped=2)])
    assert (figures.status().records, figures.totals["written"], figures.totals["skipped"]) == (
        16,
        16,
        2,
    )
    figures.take_in([status_of("b", 0, 3, 0)])
    result = figures.status().to_json()
    assert (result["records"], result["rows"], result["skipped"]) == (19, 19, 2)
    assert (result["freshness_p50_ms"], result["freshness_p99_ms"]) == (1.0, 10.0)


def test_figures_of_a_run_that_begin_anew_are_added_and_take_nothing_away() -> None:
    figures = figures_of(ManualClock(NOW))
    figures.take_in([status_of("a", 0, 10, 9, skipped=2)])
    figures.take_in([status_of("a", 0, 3, 3)])
    figures.take_in([status_of("a", 0, 5, 4, skipped=1)])
    result = figures.status().to_json()
    assert (result["records"], result["rows"], result["written"], result["skipped"]) == (
        15,
        15,
        15,
        3,
    )
    assert (result["freshness_p50_ms"], result["freshness_p99_ms"]) == (1.0, 10.0)


def test_freshness_is_of_the_last_minute() -> None:
    clock = ManualClock(NOW)
    figures = figures_of(clock)
    figures.take_in([status_of("a", 0, 10, 0)])
    clock.advance(59_000_000)
    figures.take_in([status_of("a", 0, 20, 10)])
    assert figures.status().to_json()["freshness_p50_ms"] == 1.0
    assert figures.status().to_json()["freshness_p99_ms"] == 10.0
    clock.advance(2_000_000)
    assert figures.status().to_json()["freshness_p99_ms"] == 1.0
    clock.advance(60_000_000)
    assert figures.status().to_json()["freshness_p99_ms"] is None


def test_a_quantile_is_the_bound_of_its_bucket_and_never_beyond_the_last() -> None:
    assert quantile_of([(1.0, 50), (5.0, 99), (float("inf"), 100)], 0.5) == 1.0
    assert quantile_of([(1.0, 50), (5.0, 99), (float("inf"), 100)], 0.99) == 5.0
    assert quantile_of([(1.0, 0), (5.0, 0), (float("inf"), 100)], 0.5) == 5.0
    assert quantile_of([(1.0, 0), (float("inf"), 0)], 0.5) is None


def test_a_real_time_lane_that_waits_for_the_micro_batch_lane_does_not_hang() -> None:
    clock = ManualClock(NOW)
    figures = figures_of(clock)
    figures.source.waiting = "the micro-batch lane is behind"
    figures.status().to_json()
    clock.advance(500_000_000)
    figures.source.lagging({0: 7})
    assert figures.status().to_json()["progress_us"] == clock.now_us()
    figures.source.waiting = None
    clock.advance(1_000_000)
    figures.source.lagging({0: 7})
    assert figures.status().to_json()["progress_us"] == clock.now_us() - 1_000_000
