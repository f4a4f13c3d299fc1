"""Flights request before their events are there, and the example's models read its definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import skops.io

from benchmarks.backtest import EXAMPLE, fit_function, intervals
from benchmarks.backtest_page import HINDSIGHT, A, B, page
from benchmarks.flights_played import departures
from slicewise.features.declare.definitions import FeatureSet
from slicewise.features.plan.changes.projects import joined, promoted
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.models.declared import load_models
from slicewise.models.scoring import scored
from slicewise.replay.flights import year
from slicewise.replay.schedule import Pace, Schedule
from slicewise.settings import Settings

OLDER, NEWER = EXAMPLE / "features.py", EXAMPLE / "newer" / "features.py"


def test_no_flight_requests_once_its_event_is_there() -> None:
    schedule = Schedule(year(), Pace(1_095, 0.5), 1_000_000_000)
    start, end = schedule.live_from_us, schedule.live_from_us + 20_000_000
    planned = departures(schedule, start, end)
    instants = [one.event_us for one in planned]
    assert instants == sorted(instants)
    assert start <= instants[0]
    assert instants[-1] < end
    for one in planned:
        event = schedule.event(one.number)
        assert event.arrival_us >= one.event_us
        assert json.loads(event.value)["carrier"] == one.entity["carrier"]
    # none is left out but those that left early and were diverted
    around = range(schedule.due(start - 10_000_000), schedule.due(end + 180_000_000))
    every = {n for n in around if start <= schedule.event(n).event_us < end}
    left_out = every - {one.number for one in planned}
    assert all(schedule.event(n).arrival_us < schedule.event(n).event_us for n in left_out)
    assert len(left_out) < len(every) / 100


def test_the_newer_definitions_wait_as_versions_that_the_models_read() -> None:
    live = plan(load_project(OLDER))
    both = joined(plan(load_project(NEWER)), live)
    assert {name for name in both.views if "@" in name} == {"carrier@2", "new_york@2"}
    declared = load_models(Settings.load({"SLICEWISE_PROJECT": str(EXAMPLE)}))
    read = {name: both.feature_set(str(model.features)) for name, model in declared.items()}
    assert set(read) == {A, B, HINDSIGHT}
    assert set(read[A].features) < {ref.replace("@2", "") for ref in read[B].features}
    assert "carrier@2:delay_20s" in read[B].features
    moved = promoted(both, "carrier@2", "new_york@2")
    assert "carrier:delay_20s" in moved.feature_set("delay_risk").features


def test_the_two_definitions_differ_in_what_the_readme_says_alone() -> None:
    older, newer = load_project(OLDER), load_project(NEWER)
    assert older.sources == newer.sources
    changed = [
        one.name for one, other in zip(older.views, newer.views, strict=True) if one != other
    ]
    assert sorted(changed) == ["carrier", "new_york"]
    assert isinstance(older.feature_sets[0], FeatureSet)
    assert set(older.feature_sets[0].features) < set(newer.feature_sets[0].features)


def test_what_the_example_fits_is_read_as_its_models_are_declared(tmp_path: Path) -> None:
    seed = 11
    print("seed", seed)
    chance = np.random.default_rng(seed)
    refs = load_project(OLDER).feature_sets[0].features
    matrix = chance.normal(size=(400, len(refs)))
    labels = (matrix[:, 0] + chance.normal(size=400) > 0).astype(np.float64)
    missing = chance.random(matrix.shape) < 0.1
    columns = zip(refs, matrix.T, missing.T, strict=True)
    features = pa.table({name: pa.array(values, mask=gone) for name, values, gone in columns})
    skops.io.dump(fit_function(EXAMPLE)(features, labels, 1), tmp_path / "delay.skops")
    (tmp_path / "models.toml").write_text((EXAMPLE / "models.toml").read_text())
    model = load_models(Settings.load({"SLICEWISE_PROJECT": str(tmp_path)}))[A]
    scores = scored(model, features)
    assert not scores.errors
    assert scores.values[labels == 1].mean() > scores.values[labels == 0].mean() + 0.1


def rows(b_is_a: bool) -> pa.Table:
    chance = np.random.default_rng(5)
    a = chance.uniform(0.05, 0.95, 600)
    labels = (chance.random(600) < a).astype(np.float64)
    b = a if b_is_a else np.full(600, 0.5)
    instants = pa.array(np.arange(600) * 1_000_000, pa.timestamp("us", "UTC"))
    return pa.table({"label": labels, "score_a": a, "score_b": b, "answered_at": instants})


def test_intervals_hold_the_measure_and_are_nothing_where_nothing_differs() -> None:
    for sides in intervals(rows(b_is_a=True)).values():
        assert sides["difference"] == [0, 0, 0]
        middle, low, high = sides[A]
        assert low < middle < high
    worse = intervals(rows(b_is_a=False))
    assert worse["area under the curve"][B][0] == pytest.approx(0.5)
    assert worse["logarithmic loss"]["difference"][1] > 0


def test_the_page_says_where_the_new_model_is_worse_and_what_hindsight_promises() -> None:
    values: dict[str, Any] = {"auc": 0.7, "log_loss": 0.5, "brier": 0.2, "rate": 0.25}
    bins = [{"low": 0.1, "high": 0.2, "rows": 9, "score": 0.15, "rate": 0.111}]
    measures: dict[str, Any] = {"values": values, "calibration": bins}
    one = {
        "column": "entity.origin",
        "value": "JFK",
        "rows": 31,
        "difference": 0.02,
        "within": 0.01,
    }
    report: dict[str, Any] = {
        "requests": 1_234,
        "measured": 1_200,
        "left_out": {"without a label": 34},
        "measures": measures,
        "measures_of_a": measures,
        "worse_slices": [one],
        "gain": {"verdict": "better", "difference": -0.1, "within": None, "entities": 1},
    }
    promised = {**report, "measures": {**measures, "values": {**values, "auc": 0.987}}}
    shown = {
        "machine": {
            "processor": "p",
            "cores": 2,
            "memory_gib": 4,
            "load_1m_5m_15m": [0.1, 0.2, 0.3],
            "noisy": True,
        },
        "seconds": 9,
        "train_from": "",
        "train_to": "",
        "live_from": "",
        "live_to": "",
        f"trained_{B}": 1,
        f"rate_{B}": 0.5,
        "requests": 1_234,
        "failed": 0,
        "predictions": 1_234,
        "labels": 1_200,
        "late_ms": [5.0, 9.0],
        "intervals": intervals(rows(b_is_a=False)),
        "reports": {
            f"{B} arrival": report,
            f"{B} event_time": report,
            f"{HINDSIGHT} event_time": promised,
            f"{HINDSIGHT} arrival": report,
        },
    }
    text = page(shown)
    for wanted in ("(NOISY)", "34 without a label", "entity.origin = JFK", "+0.0200", "0.987"):
        assert wanted in text, wanted
