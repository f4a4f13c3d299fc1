"""Results of a run are rows of `ops.checks` and figures of a report; the worst severity decides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewise.checks.expectations.suites import Suite, Wanted

EXPECTATION, SUITE = "expectation", "suite"
"""Kinds of rows of `ops.checks`."""
MET, UNMET, NOT_MADE = "met", "unmet", "not_made"
MOST_LISTED = 50
_COUNTED = ("expectations", "critical", "warning", "info", "took_ms")


@dataclass(frozen=True)
class Judged:
    """An expectation and what was seen. raised: its figures could not be computed."""

    wanted: Wanted
    met: bool
    observed: str
    raised: bool = False

    @property
    def result(self) -> str:
        return MET if self.met else NOT_MADE if self.raised else UNMET


@dataclass(frozen=True)
class SuiteOutcome:
    """Results of one suite. rows: of its batch. why: what kept it from being made; empty: it
    was."""

    suite: Suite
    judged: tuple[Judged, ...] = ()
    rows: int = 0
    why: str = ""
    reference: str = ""
    """Hour that its distributions are compared with."""

    @property
    def unmet(self) -> tuple[Judged, ...]:
        return tuple(one for one in self.judged if not one.met)

    @property
    def worst(self) -> str:
        """The worst severity of what is not met; empty where all is."""
        severities = {one.wanted.severity for one in self.unmet}
        return next((s for s in ("critical", "warning", "info") if s in severities), "")

    @property
    def result(self) -> str:
        return NOT_MADE if self.why else UNMET if self.unmet else MET


@dataclass(frozen=True)
class RunOutcome:
    """Results of a run on one hour."""

    run: str
    hour: int
    started_us: int
    finished_us: int
    suites: tuple[SuiteOutcome, ...]
    notes: tuple[str, ...] = ()

    @property
    def result(self) -> str:
        """not_made where a suite was not; else unmet where an expectation is not met."""
        results = {suite.result for suite in self.suites}
        return next((r for r in (NOT_MADE, UNMET) if r in results), MET if results else NOT_MADE)

    def count(self, severity: str) -> int:
        """Number of expectations of a severity that are not met."""
        return sum(one.wanted.severity == severity for s in self.suites for one in s.unmet)


def summary(outcome: RunOutcome, hour: str) -> dict[str, Any]:
    """The run in figures, as its JSON report has them."""
    return {
        "job": "expect",
        "run_id": outcome.run,
        "hour": hour,
        "outcome": outcome.result,
        "expectations": sum(len(suite.judged) for suite in outcome.suites),
        "critical": outcome.count("critical"),
        "warning": outcome.count("warning"),
        "info": outcome.count("info"),
        "why": "; ".join(f"{s.suite.name}: {s.why}" for s in outcome.suites if s.why),
        "took_ms": (outcome.finished_us - outcome.started_us) // 1_000,
        "notes": list(outcome.notes),
        "suites": [{"hour": hour, **_suite(suite)} for suite in outcome.suites],
    }


def not_made(hour: str, why: str) -> dict[str, Any]:
    """The report of an hour that could not be judged."""
    counts = dict.fromkeys(_COUNTED, 0)
    report = {"job": "expect", "hour": hour, "outcome": NOT_MADE, "why": why}
    return report | counts | {"notes": [], "suites": []}


def combined(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One report of several hours, oldest first: that of the newest, with the figures of all added
    up, the worst outcome, and the suites of all."""
    outcomes = {one["outcome"] for one in reports}
    return {
        **reports[-1],
        "hours": [one["hour"] for one in reports],
        "outcome": next((r for r in (NOT_MADE, UNMET) if r in outcomes), MET),
        **{name: sum(one[name] for one in reports) for name in _COUNTED},
        "why": "; ".join(f"{one['hour']}: {one['why']}" for one in reports if one["why"]),
        "notes": [f"{one['hour']}: {note}" for one in reports for note in one["notes"]],
        "suites": [suite for one in reports for suite in one["suites"]],
    }


def _suite(outcome: SuiteOutcome) -> dict[str, Any]:
    return {
        "suite": outcome.suite.name,
        "of": outcome.suite.of,
        "result": outcome.result,
        "worst": outcome.worst,
        "rows": outcome.rows,
        "expectations": len(outcome.judged),
        "why": outcome.why,
        "reference": outcome.reference,
        "unmet": [
            {
                "type": one.wanted.type,
                "column": one.wanted.column,
                "severity": one.wanted.severity,
                "observed": one.observed,
            }
            for one in outcome.unmet[:MOST_LISTED]
        ],
    }


def rows_of(outcome: RunOutcome) -> list[dict[str, Any]]:
    """Rows of `ops.checks`: a row per suite, with its figures in `online`, and a row per
    expectation, with what was seen in `online` and what was expected in `offline`."""
    rows: list[dict[str, Any]] = []
    for suite in outcome.suites:
        common: Mapping[str, Any] = {
            "run_id": outcome.run,
            "time": outcome.finished_us,
            "hour": outcome.hour,
            "suite": suite.suite.name,
            ("view" if suite.suite.kind == "features" else "source"): suite.suite.of,
        }
        figures = _suite(suite) | {"unmet": len(suite.unmet)}
        rows.append(
            {**common, "kind": SUITE, "result": suite.result, "online": json.dumps(figures)}
        )
        rows += [
            {
                **common,
                "kind": EXPECTATION,
                "result": one.result,
                "severity": one.wanted.severity,
                "feature": one.wanted.column or None,
                "online": one.observed,
                "offline": json.dumps(one.wanted.to_json(), sort_keys=True),
            }
            for one in suite.judged
        ]
    return rows
