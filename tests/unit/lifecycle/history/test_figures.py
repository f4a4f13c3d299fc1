"""Figures of the past are those that were: nothing is dropped, doubled or denied in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewise.lifecycle.health.alerts import Alert
from slicewise.lifecycle.history.buckets import Steps
from slicewise.lifecycle.history.picture import Picture, number
from slicewise.lifecycle.history.pictures import Past, pictures
from slicewise.lifecycle.incidents import Incident
from slicewise.local import history
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.windows.durations import DAY_US, HOUR_US

NOW_US = 500_000 * HOUR_US + 1
STEPS = Steps.until(NOW_US, 1)


def shown(*entries: dict[str, Any], incidents: tuple[Incident, ...] = ()) -> dict[str, Picture]:
    return {one.name: one for one in pictures(Past(entries, STEPS, incidents))}


def check(at_us: int, view: str = "a", **causes: int) -> dict[str, Any]:
    wrong = sum(causes.values())
    return {
        "kind": "job", "job": "check", "at_us": at_us, "ok": not wrong, "values": 1000,
        "mismatches": wrong, "outcome": "red" if wrong else "green",
        "views": {view: {"values": 1000, "causes": causes}},
    }  # fmt: skip


def test_an_incident_that_is_open_since_before_the_window_is_not_denied() -> None:
    alert = Alert("broker_away", "d", "t", "r", "e", "", "")
    opened_us = NOW_US - 2 * DAY_US
    picture = shown(incidents=(Incident(alert, opened_us, NOW_US, opened_us),))["alerts"]
    assert "none is open" not in picture.text, picture.text


def test_an_open_incident_of_before_the_window_is_in_no_mean_of_it() -> None:
    alert = Alert("broker_away", "d", "t", "r", "e", "", "")
    opened_us = NOW_US - 5 * DAY_US
    one = Incident(alert, opened_us, NOW_US, opened_us, began_us=opened_us - 3_600_000_000)
    picture = shown(incidents=(one,))["recovery"]
    assert not picture.has_figures, (picture.text, picture.series["to detect (MTTD)"])


def test_volume_has_what_a_backfill_archived() -> None:
    archived = {"s": {"events": 1_000, "bad": 0, "late": {}}}
    run = {"kind": "job", "at_us": NOW_US, "ok": True, "outcome": "done", "took_ms": 1}
    picture = shown(
        run | {"job": "backfill", "archived": {"s": archived["s"] | {"events": 9_000}}},
        run | {"job": "compact", "archived": archived},
    )["volume"]
    assert picture.series["s"][-1] == 10_000, picture.text


def values(at_us: int, name: str, null: int) -> dict[str, Any]:
    counts = {"values": 100, "null": null, "bins": {"1": 100 - null}}
    return check(at_us) | {"distributions": {name: counts}}


def test_nulls_at_the_last_check_are_the_last_checks() -> None:
    gone, last = values(NOW_US - 5 * HOUR_US, "a:gone", 90), values(NOW_US, "a:here", 0)
    text = shown(gone, last)["nulls"].text
    assert text.startswith("Of 1 feature at the last check"), text


def test_causes_of_two_checks_of_a_step_do_not_add_up_to_what_no_check_had() -> None:
    both = shown(check(NOW_US, late=3), check(NOW_US, lag=3))
    most = both["mismatches-by-view"].series["a"][-1]
    stack = sum(of[-1] or 0 for of in both["mismatches-by-cause"].series.values())
    assert stack == most == 3000, (stack, most)


def test_views_that_are_not_drawn_are_said() -> None:
    entries = [check(NOW_US, f"v{i}", late=9 - i) for i in range(9)]
    picture = shown(*entries)["mismatches-by-view"]
    assert len(picture.series) == 6
    assert picture.text.endswith("Drawn are the 6 largest of 9.")


@pytest.mark.parametrize("value", [999.6, 0.00004])
def test_a_figure_for_people_has_no_exponent(value: float) -> None:
    assert "e" not in number(value), number(value)


def test_a_figure_that_is_no_number_is_shown() -> None:
    minute = {"kind": "minute", "at_us": NOW_US, "used_bytes": 1, "limit_bytes": 0, "keys": 1,
              "probes": {"lost": 0, "p50_ms": float("nan"), "p99_ms": float("nan")}}  # fmt: skip
    shown(json.loads(json.dumps(minute)))


def test_now_is_now() -> None:
    minute = {"kind": "minute", "at_us": NOW_US - 20 * HOUR_US, "used_bytes": 1 << 20,
              "limit_bytes": 0, "keys": 1}  # fmt: skip
    assert " now" not in shown(minute)["store"].text, shown(minute)["store"].text


def test_a_line_that_is_torn_hides_no_other(tmp_path: Any) -> None:
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")})
    StateFolder(settings.state_dir).create()
    at_us = 20_000 * DAY_US
    history.keep(settings, {"kind": "minute", "at_us": at_us})
    (file,) = history.folder(settings).iterdir()
    with file.open("ab") as out:  # what a disk that is full takes of a line
        out.write(b'{"kind": "minute", "at_')
    history.keep(settings, {"kind": "incident", "at_us": at_us + 1})
    assert [one["kind"] for one in history.read(settings, 0)] == ["minute", "incident"]
