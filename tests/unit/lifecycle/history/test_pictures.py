"""A picture's sentence and its series say the figures of the entries, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from slicewise.lifecycle.health.alerts import Alert
from slicewise.lifecycle.history.buckets import WINDOWS, Steps
from slicewise.lifecycle.history.picture import MOST_SERIES, Picture, number, together
from slicewise.lifecycle.history.pictures import Past, pictures
from slicewise.lifecycle.incidents import Incident
from slicewise.windows.durations import HOUR_US

NOW_US = 500_000 * HOUR_US + 1
STEPS = Steps.until(NOW_US, 1)
MINUTE_US = 60_000_000


def shown(*entries: dict[str, Any], incidents: tuple[Incident, ...] = ()) -> dict[str, Picture]:
    return {one.name: one for one in pictures(Past(entries, STEPS, incidents))}


def check(at_us: int, **causes: int) -> dict[str, Any]:
    wrong = sum(causes.values())
    return {
        "kind": "job",
        "job": "check",
        "at_us": at_us,
        "ok": not wrong,
        "values": 2000,
        "mismatches": wrong,
        "outcome": "red" if wrong else "green",
        "views": {"a": {"values": 1000, "causes": causes}, "b": {"values": 1000, "causes": {}}},
    }


@pytest.mark.parametrize("days", WINDOWS)
def test_the_last_step_of_a_window_holds_now(days: int) -> None:
    steps = Steps.until(NOW_US, days)
    assert steps.joined([(NOW_US, 1.0)], max)[-1] == 1.0
    assert len(steps.labels) == steps.count == len(set(steps.labels))


def test_mismatches_are_per_million_values_of_a_view_and_of_all_by_cause() -> None:
    all_of = shown(check(NOW_US - HOUR_US), check(NOW_US, late=3, lag=1))
    by_view, by_cause = all_of["mismatches-by-view"], all_of["mismatches-by-cause"]
    assert (by_view.series["a"][-2:], by_view.series["b"][-2:]) == ((0.0, 4000.0), (0.0, 0.0))
    assert (by_cause.series["late"][-1], by_cause.series["lag"][-1]) == (1500.0, 500.0)
    assert (
        "2 checks compared 4,000 values: 4 differed, 1,000 per million; 1 of them red"
        in by_view.text
    )
    assert "late 3, lag 1" in by_cause.text


def test_a_step_without_a_run_has_no_value_and_no_row() -> None:
    picture = shown(check(NOW_US - 5 * HOUR_US), check(NOW_US))["mismatches-by-view"]
    assert picture.series["a"][-5:-1] == (None,) * 4
    assert len(picture.rows()) == 2


def test_a_compaction_with_nothing_to_do_is_counted_and_not_timed() -> None:
    run = {"kind": "job", "job": "compact", "at_us": NOW_US, "ok": True, "took_ms": 30_000}
    picture = shown(run | {"outcome": "done"}, run | {"outcome": "clean", "took_ms": 5})[
        "compactions"
    ]
    assert picture.series["longest"][-1] == picture.series["middle of the step"][-1] == 30.0
    assert "1 compaction with work took 30 s" in picture.text
    assert "1 had nothing to do, 0 failed" in picture.text


def test_the_mean_time_to_recover_runs_over_the_window() -> None:
    over = [
        {
            "kind": "incident",
            "event": "broker_away",
            "opened_us": at_us,
            "at_us": at_us + lasted * MINUTE_US,
            "began_us": began,
        }
        for at_us, lasted, began in (
            (NOW_US - 3 * HOUR_US, 10, NOW_US - 3 * HOUR_US - MINUTE_US),
            (NOW_US - 2 * HOUR_US, 30, 0),
        )
    ]
    picture = shown(*over)["recovery"]
    assert picture.series["to recover (MTTR)"][-4:] == (10.0, 20.0, 20.0, 20.0)
    assert picture.series["to detect (MTTD)"][-1] == 1.0
    assert "2 incidents ended, after 20 min on average" in picture.text
    assert "Of 1 the beginning was seen, 60 s before" in picture.text


def test_an_incident_that_is_open_counts_before_it_is_over() -> None:
    alert = Alert("broker_away", "d", "t", "r", "e", "", "")
    picture = shown(incidents=(Incident(alert, NOW_US, NOW_US, NOW_US),))["alerts"]
    assert picture.series["broker_away"][-1] == 1
    assert "1 open now" in picture.text


def test_what_has_no_figures_says_why_in_words() -> None:
    for picture in shown().values():
        assert not picture.has_figures
        assert len(picture.empty.split()) > 6


def test_more_series_than_can_be_told_apart_become_one() -> None:
    series = {f"s{i:02}": (float(i), None) for i in range(MOST_SERIES + 4)}
    joined = together(series)
    assert len(joined) == MOST_SERIES
    assert sum(values[0] or 0 for values in joined.values()) == sum(range(MOST_SERIES + 4))


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0"), (2.2604, "2.26"), (12345.6, "12,346"), (17, "17")]
)
def test_a_figure_has_the_digits_that_count(value: float | None, text: str) -> None:
    assert number(value) == text


def values(at_us: int, **bins: int) -> dict[str, Any]:
    counts = {"values": 100, "null": 0, "bins": {name[1:]: count for name, count in bins.items()}}
    return check(at_us) | {"distributions": {"a:f": counts}}


def test_drift_is_of_the_last_check_and_of_its_reference_before_the_window() -> None:
    reference = values(NOW_US - 24 * HOUR_US, _1=80, _2=20)
    others = values(NOW_US - 3 * HOUR_US, _1=1), values(NOW_US, _1=20, _2=80)
    pictures_of = pictures(Past(others, STEPS, (), [reference]))
    (picture,) = [one for one in pictures_of if one.name == "drift-0"]
    assert dict(picture.series) == {"24 hours before": (80.0, 20.0), "last check": (20.0, 80.0)}
    assert "a:f: drift, stability index 1." in picture.text
    assert ", 24 hours before)" in picture.text
    assert "80 % then, 20 % now" in picture.text


def test_a_feature_that_no_check_of_the_window_had_has_not_drifted() -> None:
    gone = [values(NOW_US - 25 * HOUR_US, _1=80), values(NOW_US - 24 * HOUR_US, _2=80)]
    named = {one.name: one for one in pictures(Past([check(NOW_US)], STEPS, (), gone))}
    assert "needs two checks" in named["drift"].empty
