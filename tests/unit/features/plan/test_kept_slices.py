"""No hour that Redis keeps has slices that no read can need: there is nothing to trim
(docs/adr/0029)."""

from __future__ import annotations

from pathlib import Path

import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import SliceUnit, StorageUnit
from slicewise.features.project import load_project
from slicewise.reading.plan import plan_read
from slicewise.stores.online.rules.decisions import kept_from_us
from slicewise.windows.durations import HOUR_US, MINUTE_US

FLIGHTS = Path(__file__).parents[4] / "examples" / "flights" / "features.py"
SOURCE = sw.KafkaSource(
    "plays",
    schema={"user": "string", "t": "timestamp_us"},
    timestamp="t",
    max_lateness="7d",
    max_ahead="10m",
)
NOW = 480_000 * HOUR_US + 17 * MINUTE_US


def units(*windows: object, slice_: str | None = None) -> tuple[StorageUnit, ...]:
    features = [sw.Feature("n", sw.count(), windows=[*windows])]  # type: ignore[list-item]
    view = sw.FeatureView("v", source=SOURCE, entity=["user"], features=features, slice=slice_)
    return plan(Project.of("p", [view])).units


def needed(unit: StorageUnit) -> tuple[set[int], set[int]]:
    """(hours whose total is kept, hours whose slices some read needs that is answered now)."""
    kept_us = kept_from_us(NOW, unit.retention_us, unit.slice_us)
    hours = range(-(-kept_us // HOUR_US), NOW // HOUR_US)
    result: set[int] = set()
    at = kept_us
    while at <= NOW:
        for feature in unit.features:
            read = plan_read(unit, [feature], "at", at)
            if read.start_us >= kept_us:
                result.update(
                    int(n[2:]) for day in read.days for n in day.names if n.startswith(b"s:")
                )
        at += HOUR_US // 2
    return set(hours), result & set(hours)


KEPT_IN_SLICES = [unit for unit in plan(load_project(FLIGHTS)).units if isinstance(unit, SliceUnit)]


@pytest.mark.parametrize("unit", KEPT_IN_SLICES, ids=lambda unit: unit.view)
def test_every_kept_hour_of_the_example_has_slices_that_some_read_needs(unit: StorageUnit) -> None:
    hours, result = needed(unit)
    assert hours
    assert result == hours


def test_one_short_window_needs_the_slices_of_every_hour_that_the_longest_keeps() -> None:
    (unit,) = units("10m", "1h", "7d")
    hours, result = needed(unit)
    assert len(hours) >= 14 * 24
    assert result == hours


def test_a_unit_of_long_windows_alone_has_slices_of_an_hour_each() -> None:
    (unit,) = units("7d", "30d")
    assert unit.slice_us == HOUR_US
    assert needed(unit)[1] == set(), "they are the hour totals"


def test_only_a_declared_finer_slice_under_long_windows_alone_would_leave_something_to_trim() -> (
    None
):
    (unit,) = units("7d", slice_="5m")
    hours, result = needed(unit)
    assert min(result) - min(hours) == 7 * 24, (
        "older than lateness, no window of seven days may end"
    )
