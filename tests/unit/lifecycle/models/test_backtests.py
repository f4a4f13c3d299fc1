"""A run's backtest follows from the run alone: which rows it reads, and the name of its page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slicewise.errors import BadRequest
from slicewise.lifecycle.jobs import Run
from slicewise.lifecycle.models.backtests import (
    PAGE,
    Backtested,
    backtest_arguments,
    page_name,
    text_of,
)

AT = datetime(2026, 11, 21, 9, 30, 0, 5, tzinfo=UTC)
UNTIL = "2026-11-21T09:30:00.000005Z"
REPORT: dict[str, Any] = {
    "model": "fraud_v4",
    "beside": "fraud_v3",
    "requests": 1_200,
    "measured": 1_000,
    "measures": {"rows": 1_000, "values": {"auc": 0.9, "rate": 0.1}},
    "measures_of_a": {"rows": 1_000, "values": {"auc": 0.8, "log_loss": None}},
    "gain": {"difference": -0.05, "within": 0.01, "verdict": "better"},
    "worse_slices": [{"column": "caller", "value": "shop"}],
    "leaks": [{"feature": "by_card:label_1h", "auc": 0.999}],
}


def arguments(**params: object) -> tuple[str, ...]:
    return backtest_arguments(Run("manual", None, AT, {"model": "fraud_v4"} | params), "p.html")


def test_nothing_that_came_after_the_run_counts() -> None:
    assert arguments() == (
        *("fraud_v4", f"--end={UNTIL}", f"--labels-until={UNTIL}"),
        *("--json", "--html=p.html"),
    )


def test_hours_end_with_the_run_and_instants_are_handed_on() -> None:
    assert "--start=2026-11-20T09:30:00.000005Z" in arguments(hours=24)
    given = arguments(start="2026-11-01T00:00:00Z", end="2026-11-02T00:00:00Z", beside="fraud_v3")
    assert given[1:5] == (
        "--beside=fraud_v3",
        "--start=2026-11-01T00:00:00Z",
        "--end=2026-11-02T00:00:00Z",
        f"--labels-until={UNTIL}",
    )


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("2026-11-21T09:30:01Z", UNTIL),
        ("2026-11-21T10:30:00+00:30", UNTIL),
        ("2027-01-01T00:00:00-12:00", UNTIL),
        ("2026-11-21T10:00:00+01:00", "2026-11-21T10:00:00+01:00"),
        ("2026-11-21T23:00:00", "2026-11-21T23:00:00"),
        ("noon", "noon"),
    ],
)
def test_an_end_after_the_run_is_the_run(given: str, taken: str) -> None:
    """One that was tried again later would read other rows; what is no instant is the command's to
    refuse."""
    assert f"--end={taken}" in arguments(end=given)
    assert f"--labels-until={taken}" in arguments(labels_until=given)


@pytest.mark.parametrize(
    "params",
    [
        {"model": ""},
        {"model": "--html=x"},
        {"hours": 0},
        {"hours": True},
        {"hours": 2, "start": "2026-11-01T00:00:00Z"},
    ],
)
def test_params_that_mean_nothing_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match="params"):
        arguments(**params)


def test_no_param_becomes_an_option_of_its_own() -> None:
    assert "--beside=--out=x" in arguments(beside="--out=x")


def test_a_run_has_one_page_and_names_are_in_the_order_of_time() -> None:
    name = page_name("manual__2026", AT)
    assert PAGE.fullmatch(name)
    assert name == page_name("manual__2026", AT.astimezone())
    assert name != page_name("manual__2027", AT)
    assert name < page_name("a", AT + timedelta(seconds=1))


def test_the_text_has_verdict_leaks_and_measures_of_both() -> None:
    text = text_of(REPORT, Backtested.of(REPORT, "r"))
    assert "1,000 of 1,200 logged answers are measured: fraud_v4 is **better** than" in text
    assert "-0.05 ± 0.01" in text
    assert "leak**: by_card:label_1h" in text
    assert "| area under the ROC curve | 0.9 | 0.8 |" in text
    assert "logarithmic" not in text


def test_the_text_of_a_model_by_itself_has_one_column() -> None:
    alone = REPORT | {"beside": None, "gain": None, "measures_of_a": None, "leaks": []}
    text = text_of(alone, Backtested.of(alone, "r"))
    assert "| area under the ROC curve | 0.9 |" in text.splitlines()
    assert "better" not in text
