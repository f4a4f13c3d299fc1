"""Plans are made anew only where a bound has moved, and what is remembered of them stays
bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slicewise as sw
from slicewise.errors import BeyondRetention
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import SliceUnit
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.plan import ReadMode
from slicewise.reading.reader import tick_of
from slicewise.serving.answering import service as serving
from slicewise.serving.answering.catalog import Catalog
from slicewise.serving.answering.planned import plan_selection
from slicewise.serving.answering.refusals import check_kept
from slicewise.serving.answering.service import FeatureService
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.windows.durations import HOUR_US, SECOND_US

NOW = 1_700_000_000 * SECOND_US


WINDOWS = (
    "10s",
    "2h",
    sw.tumbling("1h"),
    sw.hopping("1h", every="10m"),
    sw.sliding("10s", offset="1d"),
    sw.exact_range("1h"),
)


def catalog(*windows: Any) -> Catalog:
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "t": "timestamp_us"}, timestamp="t", max_lateness="1h"
    )
    features = [sw.Feature("n", sw.count(), windows=[*windows] or ["10s"])]
    deployment = plan(
        Project.of("p", [sw.FeatureView("v", source=source, entity=["user"], features=features)])
    )
    nothing: frozenset[str] = frozenset()
    metadata = StoreMetadata(
        1, 1, deployment.digest, frozenset(), OffsetVector(), {}, nothing, {}, {}, {}, {}, 0
    )
    return Catalog.of(deployment, metadata)


def test_a_plan_serves_until_a_bound_moves_and_then_the_old_one_is_forgotten() -> None:
    service, deployed = FeatureService(), catalog()
    selection = deployed.select(["v:n_10s"], None)
    first = service._planned(deployed, selection, "live", NOW + 1)
    assert service._planned(deployed, selection, "live", NOW + 2) is first
    for second in range(1, 50):
        later = service._planned(deployed, selection, "live", NOW + second * SECOND_US + 1)
        assert later.bounds["v:n_10s"][1] == NOW + (second + 1) * SECOND_US
    assert len(service._plans) == 1


def test_plans_of_past_instants_are_remembered_up_to_a_bound_the_oldest_forgotten() -> None:
    service, deployed = FeatureService(), catalog()
    selection = deployed.select(["v:n_10s"], None)
    for second in range(serving.PLANS + 20):
        service._planned(deployed, selection, "at", NOW + second * SECOND_US)
    assert len(service._plans) == serving.PLANS
    newest = service._planned(deployed, selection, "at", NOW + (serving.PLANS + 19) * SECOND_US)
    assert (
        service._planned(deployed, selection, "at", NOW + (serving.PLANS + 19) * SECOND_US)
        is newest
    )
    assert newest.bounds["v:n_10s"][1] == NOW + (serving.PLANS + 19) * SECOND_US


@given(
    window=st.sampled_from(WINDOWS),
    mode=st.sampled_from(("live", "at")),
    t_us=st.integers(NOW, NOW + 3 * HOUR_US),
    late_us=st.integers(-HOUR_US, HOUR_US),
)
def test_no_read_is_refused_up_to_the_instant_that_its_plan_is_kept_until(
    window: Any, mode: ReadMode, t_us: int, late_us: int
) -> None:
    deployed = catalog(window)
    selection = deployed.select(refs_of(deployed), None)
    planned = plan_selection(deployed, selection, mode, t_us, ())
    assert planned.kept_until_us > t_us - HOUR_US, "else every read would be checked"
    now_us = planned.kept_until_us + late_us
    if now_us <= planned.kept_until_us and t_us <= now_us:
        check_kept(planned.plan, mode, t_us, now_us)
    with pytest.raises(BeyondRetention):
        check_kept(planned.plan, mode, t_us, planned.kept_until_us + 2 * HOUR_US)


def refs_of(deployed: Catalog) -> list[str]:
    return [
        f"{unit.view}:{feature.column}"
        for unit in deployed.deployment.units
        for feature in unit.features
    ]


@pytest.mark.parametrize(
    ("of_units", "kept"),
    [
        ([60], (60,)),
        ([60, 3_600], (60,)),
        ([20, 30], (20, 30)),
        ([20, 30, 60, 20], (20, 30)),
        ([], ()),
    ],
)
def test_a_plan_is_made_anew_at_the_bounds_of_slices_that_no_other_slice_divides(
    of_units: list[int], kept: tuple[int, ...]
) -> None:
    deployed = catalog("10s")
    selection = deployed.select(["v:n_10s"], None)
    (part,), unit = selection.parts, selection.parts[0].unit
    assert isinstance(unit, SliceUnit)
    parts = tuple(
        replace(part, unit=replace(unit, slice_us=seconds * SECOND_US)) for seconds in of_units
    )
    slices_us = replace(selection, parts=parts).slices_us
    assert slices_us == tuple(seconds * SECOND_US for seconds in kept)
    for t_us in range(NOW, NOW + 130 * SECOND_US, SECOND_US):
        moved = any(t_us % (seconds * SECOND_US) == 0 for seconds in of_units)
        assert (tick_of(t_us - 1, slices_us) != tick_of(t_us, slices_us)) == moved
