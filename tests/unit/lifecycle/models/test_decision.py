"""A version goes live by a rule where its backtest leaves no doubt; a person reads the rest."""

from __future__ import annotations

from typing import Any

import pytest

from slicewise.lifecycle.models.decision import Candidate, decided, objections

SECOND = Candidate("delay@2", "delay@1", {"auc": 0.9})
SLICE: dict[str, Any] = {"column": "caller", "value": "shop", "loss_a": 1.0}


def report(verdict: str = "better", **more: object) -> dict[str, Any]:
    return {"measured": 500, "gain": {"verdict": verdict}, "worse_slices": [], "leaks": []} | more


@pytest.mark.parametrize(
    ("rule", "verdict", "action"),
    [
        ("better", "better", "promote"),
        ("better", "no difference", "leave"),
        ("better", "worse", "leave"),
        ("no worse", "better", "promote"),
        ("no worse", "no difference", "promote"),
        ("no worse", "worse", "leave"),
        ("approval", "better", "ask"),
        ("approval", "worse", "ask"),
    ],
)
def test_a_rule_promotes_by_the_verdict(rule: str, verdict: str, action: str) -> None:
    decision = decided(rule, SECOND, report(verdict), 200)
    assert decision.action == action
    assert any(verdict in reason for reason in decision.reasons)


@pytest.mark.parametrize(
    ("backtest", "reason"),
    [
        (None, "there is no backtest"),
        (report(measured=199), "199 rows are measured, and 200 are wanted"),
        (report(gain=None), "the backtest compares nothing"),
        (
            report(gain={"verdict": "no difference", "difference": 0.8, "within": None}),
            "all rows are of one entity, whose difference may be chance",
        ),
        (report(leaks=[{"feature": "a:b"}]), "it looks like a leak: a:b"),
        (report(labels_before_answers=6), "6 labels came before their answers"),
        (
            report(worse_slices=[{**SLICE, "difference": 0.3, "within": 0.19}]),
            "it is much worse for caller = shop",
        ),
    ],
)
def test_an_objection_keeps_a_rule_from_promoting_and_is_shown_to_a_person(
    backtest: dict[str, Any] | None, reason: str
) -> None:
    assert objections(backtest, 200) == (reason,)
    for rule, action in (("better", "leave"), ("no worse", "leave"), ("approval", "ask")):
        decision = decided(rule, SECOND, backtest, 200)
        assert decision.action == action
        assert reason in decision.reasons


@pytest.mark.parametrize(
    "backtest",
    [
        report(measured=200),
        report(labels_before_answers=5),
        # a tenth of the loss lies within the interval, and of many slices some look worse by chance
        report(worse_slices=[{**SLICE, "difference": 0.3, "within": 0.2}]),
    ],
)
def test_what_is_within_bounds_is_no_objection(backtest: dict[str, Any]) -> None:
    assert objections(backtest, 200) == ()


@pytest.mark.parametrize(
    ("rule", "measures", "action"),
    [
        ("approval", {"auc": 0.9}, "ask"),
        ("better", {"auc": 0.9}, "promote"),
        ("no worse", {"auc": 0.9}, "promote"),
        ("better", {"auc": None}, "ask"),
        ("no worse", {}, "ask"),
    ],
)
def test_the_first_version_is_promoted_by_a_person_or_by_its_own_measures(
    rule: str, measures: dict[str, float | None], action: str
) -> None:
    decision = decided(rule, Candidate("delay@1", "", measures), None, 200)
    assert decision.action == action
    assert "it is the first" in decision.words


def test_a_version_that_is_live_is_left() -> None:
    assert decided("better", Candidate("d@1", "d@1", {}), None, 1).action == "leave"
