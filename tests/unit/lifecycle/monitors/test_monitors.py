"""A monitor says nothing of a value within its bounds, and names what it saw of one that is not."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import SettingsError
from slicewise.lifecycle.monitors.monitor import MOST, Monitor, drift, parsed

ACCURACY, LABELS = "labels:accuracy_1h", "labels:labels_1h"
ENTITY = (("model", "fraud"),)


@pytest.mark.parametrize(
    ("value", "fault"),
    [(0.8, False), (0.7999, True), (0.95, False), (0.9501, True), (1, True), (None, False)],
)
def test_bounds_belong_to_what_is_well(value: float | None, fault: bool) -> None:
    judged = Monitor("m", ACCURACY, ENTITY, below=0.8, above=0.95).judge({ACCURACY: value})
    assert judged.fault is fault
    assert ("of model fraud" in judged.text) is (value is not None)


@pytest.mark.parametrize("labels", [0, 49, None])
def test_while_there_is_too_little_nothing_is_judged(labels: int | None) -> None:
    monitor = Monitor("m", ACCURACY, ENTITY, below=0.8, least=((LABELS, 50),))
    assert not monitor.judge({ACCURACY: 0.1, LABELS: labels}).fault
    assert monitor.judge({ACCURACY: 0.1, LABELS: 50}).fault
    assert monitor.refs == (ACCURACY, LABELS)


def test_what_is_no_number_is_a_fault_of_the_monitor() -> None:
    assert Monitor("m", "a:songs_1h", above=1).judge({"a:songs_1h": ["x"]}).fault


def histogram(*counts: int) -> dict[str, Any]:
    return {"under": counts[0], "bins": list(counts[1:-1]), "over": counts[-1]}


COUNTS = st.lists(st.integers(0, 1_000), min_size=4, max_size=4).filter(any)


@given(COUNTS, COUNTS)
def test_a_drift_is_the_same_both_ways_and_none_of_a_shape_from_itself(
    now: list[int], before: list[int]
) -> None:
    index = drift(histogram(*now), histogram(*before))
    assert index is not None
    assert index >= 0
    assert drift(histogram(*before), histogram(*now)) == pytest.approx(index)
    assert drift(histogram(*now), histogram(*now)) == 0


def test_a_drift_has_the_value_of_its_formula() -> None:
    # each bin has half a value more, so that none is empty
    many, some = 75.5 / 102, 25.5 / 102
    index = drift(histogram(0, 75, 25, 0), histogram(0, 25, 75, 0))
    assert index == pytest.approx(2 * (many - some) * math.log(many / some))


@pytest.mark.parametrize("other", [None, histogram(0, 0, 0, 0), histogram(1, 2, 3), [1, 2]])
def test_nothing_drifts_from_nothing(other: Any) -> None:
    assert drift(histogram(0, 1, 2, 0), other) is None
    monitor = Monitor("m", "p:h_1d", above=0.2, drift_from="p:h_1d_offset_1d")
    assert not monitor.judge({"p:h_1d": histogram(0, 1, 2, 0), "p:h_1d_offset_1d": other}).fault


GOOD: dict[str, Any] = {"feature": ACCURACY, "below": 0.8}


def test_a_file_says_all_of_a_monitor() -> None:
    entry = {
        **GOOD,
        "above": 2,
        "entity": {"model": "fraud"},
        "least": {LABELS: 50},
        "severity": "critical",
        "owner": "risk",
        "retrain": "fraud",
    }
    [monitor] = parsed({"monitors": {"m": entry}}, "file")
    assert monitor == Monitor(
        "m", ACCURACY, ENTITY, 0.8, 2, None, ((LABELS, 50),), "critical", "risk", "fraud"
    )
    assert parsed({}, "file") == ()


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"below": 1}, "[monitors.m]"),
        ({**GOOD, "colour": 1}, "[monitors.m]"),
        ({"feature": "accuracy", "below": 1}, "feature"),
        ({"feature": ACCURACY}, "bounds"),
        ({**GOOD, "below": True}, "bounds"),
        ({**GOOD, "above": "1"}, "bounds"),
        ({**GOOD, "below": math.nan}, "bounds"),
        ({**GOOD, "entity": {"model": [1]}}, "entity"),
        ({**GOOD, "least": {"labels": 1}}, "least"),
        ({**GOOD, "severity": "info"}, "severity"),
        ({**GOOD, "owner": ""}, "owner"),
        ({**GOOD, "retrain": True}, "retrain"),
        ({**GOOD, "drift_from": 1}, "drift_from"),
        ({**GOOD, "drift_from": ACCURACY}, "drift_from"),
        ({**GOOD, "above": 0.7}, "bounds"),
        ({**GOOD, "below": 10**400}, "bounds"),
        ({"feature": "l:", "below": 1}, "feature"),
        (7, "[monitors.m]"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(entry: Any, what: str) -> None:
    with pytest.raises(SettingsError, match="cannot be taken") as refused:
        parsed({"monitors": {"m": entry}}, "file")
    assert what in refused.value.what


def test_a_file_of_something_else_is_refused() -> None:
    with pytest.raises(SettingsError):
        parsed({"monitor": {}}, "file")
    with pytest.raises(SettingsError, match=f"{MOST + 1} monitors"):
        parsed({"monitors": {f"m{n}": GOOD for n in range(MOST + 1)}}, "file")
