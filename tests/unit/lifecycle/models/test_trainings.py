"""A run's own time says what a version is trained on, what it is judged on, and that once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slicewise.errors import BadRequest
from slicewise.lifecycle.jobs import Run
from slicewise.lifecycle.models.backtests import backtest_arguments
from slicewise.lifecycle.models.trainings import (
    Span,
    is_due,
    judging_run,
    promote_arguments,
    train_arguments,
)

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def run(**params: object) -> Run:
    return Run("manual", None, AT, {"hours": 24} | params)


def test_a_version_is_judged_on_later_requests_than_it_is_trained_on() -> None:
    # trained on | 24 hours, judged | 2 hours, for labels to come | the run
    span = Span.of(run(), timedelta(hours=2))
    assert train_arguments("delay", span) == ("delay", "--until=2026-11-20T10:00:00Z", "--json")
    judging = judging_run(run(), span, "delay@3", "delay@2")
    assert backtest_arguments(judging, "p.html") == (
        *("delay@3", "--beside=delay@2", "--start=2026-11-20T10:00:00Z"),
        *("--end=2026-11-21T10:00:00Z", "--labels-until=2026-11-21T12:00:00Z"),
        *("--json", "--html=p.html"),
    )


@pytest.mark.parametrize("hours", [0, True, "24", None])
def test_hours_that_are_none_are_refused(hours: object) -> None:
    with pytest.raises(BadRequest, match="hours"):
        Span.of(run(hours=hours), timedelta())


def test_a_version_is_promoted_in_place_of_what_it_was_judged_beside() -> None:
    assert promote_arguments("d@3", "d@2", "ann") == (
        *("d@3", "--by=ann", "--instead-of=d@2", "--json"),
    )
    assert "--instead-of=none" in promote_arguments("d@1", "", "ann")


def test_a_model_is_due_once_for_an_instant_of_its_schedule() -> None:
    before, after = AT - timedelta(seconds=1), AT + timedelta(seconds=1)
    assert is_due(AT, None, None)
    assert is_due(AT, before, before)
    assert not is_due(AT, after, before), "somebody trained it since"
    assert not is_due(AT, before, after), "its run failed: the next is due at the next instant"
    assert not is_due(AT, before, AT)
