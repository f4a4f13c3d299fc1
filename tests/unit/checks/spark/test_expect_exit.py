"""A run of spark_jobs/expect.py has one of three ends, which its exit code names; its last line is
the report."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import pytest

from slicewise.errors import StoreUnavailable
from spark_jobs import expect

ENDS: dict[str, tuple[dict[str, Any], int]] = {
    "all is met": ({"outcome": "met", "critical": 0}, 0),
    "a warning is not met": ({"outcome": "unmet", "critical": 0, "warning": 3}, 0),
    "something critical is not met": ({"outcome": "unmet", "critical": 1}, 2),
    "not all could be judged": ({"outcome": "not_made", "critical": 0}, 1),
    # what is critical is told whatever else could not be judged
    "neither": ({"outcome": "not_made", "critical": 1}, 2),
}


def ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """(exit code, report) of the job."""
    monkeypatch.setattr(expect, "session_of", lambda *_: nullcontext())
    monkeypatch.setattr(sys, "argv", ["expect.py", "--json", *words])
    code = expect.main()
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("end", ENDS)
def test_the_exit_code_is_the_end_of_the_run(
    end: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report, code = ENDS[end]
    monkeypatch.setattr(expect, "_judged", lambda *_: dict(report))
    assert ended(monkeypatch, capsys) == (code, report)


def _no_store(*_: object) -> Any:
    raise StoreUnavailable("no store answers")


def _bug(*_: object) -> Any:
    raise KeyError("a column")


@pytest.mark.parametrize(
    ("judged", "why"), [(_no_store, "no store answers"), (_bug, "KeyError: 'a column'")]
)
def test_a_run_that_raised_could_not_be_made_and_says_why(
    judged: Any, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(expect, "_judged", judged)
    code, report = ended(monkeypatch, capsys)
    assert (code, report["outcome"], report["why"]) == (1, "not_made", why)


def test_an_hour_that_is_none_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(expect, "_judged", _bug)
    code, report = ended(monkeypatch, capsys, "--hour", "yesterday")
    assert code == 1
    assert "'yesterday' is no hour" in report["why"]


HOURS = ["2026-11-21T06", "2026-11-21T07", "2026-11-21T08"]
COUNTS = {"expectations": 2, "warning": 0, "info": 0, "took_ms": 5}


def judging(monkeypatch: pytest.MonkeyPatch, raises: str = "", unmet: str = HOURS[0]) -> None:
    """raises: hour that cannot be judged; unmet: one of which something critical is not met."""

    def judged(*words: object) -> dict[str, Any]:
        hour = words[-1]
        if hour == raises:
            raise StoreUnavailable("no store answers")
        critical = int(hour == unmet)
        outcome = "unmet" if critical else "met"
        report = {"hour": hour, "outcome": outcome, "critical": critical, "why": ""}
        return report | COUNTS | {"notes": [], "suites": []}

    monkeypatch.setattr(expect, "_hours", lambda *_: HOURS)
    monkeypatch.setattr(expect, "_judged", judged)


def test_hours_that_nobody_judged_are_judged_oldest_first_and_told_as_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judging(monkeypatch)
    code, report = ended(monkeypatch, capsys, "--since-judged", "--hour", HOURS[-1])
    assert (code, report["critical"], report["hours"], report["expectations"]) == (2, 1, HOURS, 6)


def test_an_hour_that_cannot_be_judged_loses_nothing_of_those_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judging(monkeypatch, raises=HOURS[1])
    code, report = ended(monkeypatch, capsys, "--since-judged", "--hour", HOURS[-1])
    assert (code, report["critical"], report["outcome"]) == (2, 1, "not_made")
    assert report["hours"] == HOURS[:2], "the rest is the next run's"
    assert report["why"] == f"{HOURS[1]}: no store answers"


def test_hours_that_take_long_leave_the_rest_to_the_next_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judging(monkeypatch, unmet="")
    monkeypatch.setattr(expect, "ENOUGH_S", -1.0)
    code, report = ended(monkeypatch, capsys, "--since-judged", "--hour", HOURS[-1])
    assert (code, report["hour"]) == (0, HOURS[0])
