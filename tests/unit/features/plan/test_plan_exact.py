"""Exact windows are one event list per source, entity, row logic and columns, whatever views they
stand in."""

from __future__ import annotations

from typing import Any

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.features.declare.event_list import EventList
from slicewise.features.declare.project import Project
from slicewise.features.plan.changes.explain import changes, explain, refuse_changed_units
from slicewise.features.plan.changes.projects import joined
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import ListUnit, SliceUnit, StorageUnit
from slicewise.windows.durations import DAY_US, HOUR_US

source = sw.KafkaSource(
    "plays",
    schema={"user": "string", "song": "string", "seconds": "double", "t": "timestamp_us"},
    timestamp="t",
    max_lateness="1d",
)


def view(name: str, aggregate: Any, *windows: sw.Window | str, **more: Any) -> sw.FeatureView:
    more = {"source": source, "entity": ["user"], **more}
    return sw.FeatureView(name, features=[sw.Feature("f", aggregate, list(windows))], **more)


def deployed(*views: sw.FeatureView, project: str = "p") -> Deployment:
    return plan(Project.of(project, views))


def listed(deployment: Deployment, name: str) -> StorageUnit:
    return next(unit for unit in deployment.view(name) if isinstance(unit, ListUnit))


def test_views_that_read_the_same_columns_share_a_list_that_keeps_what_both_need() -> None:
    both = deployed(
        view("a", sw.sum("seconds"), sw.exact_range("3h"), "1h"),
        view("b", sw.mean("seconds"), sw.rows(50), sw.exact_range("10m"), capacity=20_000),
    )
    one, other = listed(both, "a"), listed(both, "b")
    assert one.storage_fingerprint == other.storage_fingerprint
    assert one.definition_fingerprint != other.definition_fingerprint
    assert one.event_list == other.event_list == EventList(3 * HOUR_US + DAY_US, 50, DAY_US, 20_000)
    alone = listed(deployed(view("a", sw.sum("seconds"), sw.exact_range("3h"), "1h")), "a")
    assert alone.storage_fingerprint == one.storage_fingerprint, (
        "what is kept is no part of what a member is"
    )
    assert alone.definition_fingerprint == one.definition_fingerprint
    assert Deployment.from_json(both.to_json()) == both


@pytest.mark.parametrize(
    "other",
    [
        view("b", sw.last_k("song", k=1), sw.rows(5)),
        view("b", sw.sum("seconds"), sw.rows(5), where="seconds > 1"),
        view("b", sw.sum("seconds"), sw.rows(5), entity=["song"]),
        view("b", sw.sum("seconds"), sw.rows(5), spread=True),
        view("b", sw.count(), sw.rows(5)),
    ],
    ids=["columns", "where", "entity", "spread", "fewer columns"],
)
def test_other_events_or_columns_are_another_list(other: sw.FeatureView) -> None:
    both = deployed(view("a", sw.sum("seconds"), sw.rows(5)), other)
    assert listed(both, "a").storage_fingerprint != listed(both, "b").storage_fingerprint


def test_the_features_of_a_view_are_answered_from_slices_and_from_its_list() -> None:
    both = deployed(
        view(
            "a",
            sw.sum("seconds"),
            "1h",
            sw.rows(5),
            sw.tumbling("1h"),
            sw.exact_range("3h", closed="left"),
        )
    )
    sliced, exact = both.view("a")
    assert [f.column for f in sliced.features] == ["f_1h", "f_tumbling_1h"]
    assert [f.column for f in exact.features] == ["f_rows_5", "f_exact_3h_left"]
    assert isinstance(sliced, SliceUnit)
    assert both.resolve("a:f_rows_5")[0] is exact


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda: sw.rows(0), "window of 0 rows"),
        (lambda: sw.rows(-1), "rows"),
        (lambda: sw.rows(True), "rows"),
        (lambda: sw.rows(10_001), "1 to 10000"),
        (lambda: sw.rows(None), "None rows"),  # type: ignore[arg-type]
        (lambda: sw.exact_range("0s"), "no duration"),
        (lambda: sw.exact_range("3h", closed="begin"), "closed is 'begin'"),  # type: ignore[arg-type]
        (lambda: view("a", sw.count(), sw.rows(5), capacity=0), "capacity is 0"),
        (lambda: view("a", sw.count(), sw.rows(5), capacity=True), "capacity"),
        (lambda: deployed(view("a", sw.count(), sw.rows(500), capacity=499)), "at least 500"),
        (lambda: view("a", sw.count(), sw.rows(5), sw.rows(5)), "twice"),
    ],
)
def test_a_window_that_cannot_be_is_refused_where_it_is_defined(made: Any, what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        made()


def test_a_plan_says_what_a_list_keeps_and_what_a_longer_window_costs() -> None:
    old = deployed(view("a", sw.sum("seconds"), sw.exact_range("1h")))
    (line,) = explain(old, old)
    assert (line.slice, line.change.kind) == ("events", "unchanged")
    assert line.retention == "1d1h of events and at most 10000"
    longer = deployed(
        view("a", sw.sum("seconds"), sw.exact_range("1h")),
        view("b", sw.sum("seconds"), sw.exact_range("2h")),
    )
    kinds = {change.view: (change.kind, change.reason) for change in changes(longer, old)}
    assert (
        kinds["a"]
        == kinds["b"]
        == ("new", "its event list keeps more from now on, and is built again for a, b")
    )
    refuse_changed_units(longer, old)
    shorter = {change.view: change.kind for change in changes(old, longer)}
    assert shorter == {"a": "unchanged", "b": "removed"}


def test_exact_windows_may_come_to_a_deployed_view_but_its_list_may_not_change() -> None:
    old = deployed(view("a", sw.sum("seconds"), "1h"))
    beside = deployed(view("a", sw.sum("seconds"), "1h", sw.rows(3)))
    assert {change.unit: change.kind for change in changes(beside, old)} == {
        unit.storage_fingerprint: "new" if isinstance(unit, ListUnit) else "unchanged"
        for unit in beside.units
    }
    other = deployed(view("a", sw.last_k("song", k=1), sw.rows(3)))
    refused = deployed(view("a", sw.last_k("song", k=1), sw.rows(3), where="seconds > 3"))
    with pytest.raises(DefinitionError, match="other partials"):
        refuse_changed_units(refused, other)


def test_projects_share_lists_too() -> None:
    first = deployed(view("a", sw.sum("seconds"), sw.rows(3)), project="one")
    second = deployed(view("b", sw.sum("seconds"), sw.exact_range("2h")), project="two")
    both = joined(second, first)
    kept = {unit.view: unit.event_list for unit in both.units}
    assert kept["a"] == kept["b"] == EventList(2 * HOUR_US + DAY_US, 3, DAY_US, 10_000)
