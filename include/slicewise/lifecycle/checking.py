"""A check that found a difference is red; one that compared nothing, or not all, could not be made:
two matters.

Decided from its report, or from what its output says where it printed none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from slicewise.lifecycle.healing.record import Healing
from slicewise.lifecycle.reports import JobFailed, Report

Result = Literal["green", "red", "not_made"]


class CheckRed(JobFailed):
    """Values differ online and offline: read the check's report."""

    concerned: Mapping[str, int] = MappingProxyType({})
    """View -> first hour, since 1970, of the windows of its values that differ."""


class CheckNotMade(JobFailed):
    """Nothing was proved either way: remove the reason, then check again."""


class ExpectationsUnmet(JobFailed):
    """A critical expectation is not met: see what it names, and who produces it."""

    report: Report = MappingProxyType({})
    """The run's, for alerts."""


class ExpectationsNotMade(JobFailed):
    """Not all could be judged: remove the reason, then trigger the run again."""

    report: Report = MappingProxyType({})
    """The run's, of what was judged."""


@dataclass(frozen=True)
class Suite:
    """Results of one suite of expectations, for an alert."""

    name: str
    of: str
    """Source or view that it is about."""
    worst: str
    """Worst severity of what is not met: critical, warning or info; empty where all is."""
    reasons: tuple[str, ...]
    made: bool


def suites_of(report: Report) -> tuple[Suite, ...]:
    """The suites of a report of expectations; of several hours those of the oldest first."""
    listed = report.get("suites")
    return tuple(
        Suite(
            str(suite.get("suite")),
            str(suite.get("of")),
            str(suite.get("worst") or ""),
            tuple(
                _unmet(one, str(suite.get("hour") or report.get("hour")))
                for one in suite.get("unmet") or ()
            ),
            suite.get("result") != "not_made",
        )
        for suite in (listed if isinstance(listed, list) else ())
        if isinstance(suite, Mapping)
    )


def expectations_failure(report: Report | None, why: str) -> JobFailed:
    """The error of a run of expectations that did not end well. report: None where it printed
    none. why: what its output says then."""
    if report and report.get("critical"):
        critical = [s for s in suites_of(report) if s.worst == "critical"]
        named = "; ".join(reason for suite in critical for reason in suite.reasons)
        unmade = f"; and not all could be judged: {report['why']}" if report.get("why") else ""
        unmet = ExpectationsUnmet(
            f"{report['critical']} critical expectations are not met: {named}{unmade}",
            where=str(report.get("docs") or "ops.checks"),
            expected="events and values as their definitions expect them",
            next_step="see the data docs, then speak with who produces them",
        )
        unmet.report = report
        return unmet
    reason = str(report.get("why") or why) if report else why
    failed = ExpectationsNotMade(f"expectations could not be judged: {reason}")
    failed.report = report or {}
    return failed


def _unmet(one: Mapping[str, Any], hour: str) -> str:
    column = f"({one.get('column')})" if one.get("column") else ""
    return f"{one.get('type')}{column} of {hour}: {one.get('observed')}"


@dataclass(frozen=True)
class Judged:
    """Verdict of a run of the check, in a line."""

    result: Result
    words: str
    concerned: Mapping[str, int] = field(default_factory=dict)
    """View -> first hour of what differs, as the error of a red check has it."""

    def to_json(self) -> dict[str, str]:
        """Plain values that are recorded beside the report's figures."""
        return {"result": self.result, "why": self.words}


def judged(report: Report | None, why: str) -> Judged:
    """report: as the job printed it; None where it printed none. why: what its output says then."""
    if report is None:
        return Judged("not_made", why)
    if report.get("outcome") == "green":
        return Judged("green", f"{_count(report, 'values')} values are the same bytes")
    wrong, off = _count(report, "mismatches"), _count(report, "plain_sums_off")
    if wrong or off:
        concerned = report.get("concerned")
        return Judged(
            "red",
            _difference(report, wrong, off),
            {str(view): int(hour) for view, hour in concerned.items()}
            if isinstance(concerned, Mapping)
            else {},
        )
    return Judged("not_made", str(report.get("why") or _lacking(report) or why))


def failure(check: Judged, where: str) -> JobFailed:
    """The error of a run that is not green. where: the folder of its report."""
    kind = CheckRed if check.result == "red" else CheckNotMade
    outcome = "the check is red" if check.result == "red" else "the check could not be made"
    error = kind(f"{outcome}: {check.words}", where=where)
    if isinstance(error, CheckRed):
        error.concerned = check.concerned
    return error


def closed(record: str | None, healing: Healing) -> str:
    """Reason why the gate is closed, by what the last check recorded and by hours that are marked;
    empty where neither says so, or there was no check."""
    if marked := [mark.view for mark in healing.marked]:
        return f"values of {', '.join(marked)} differ, and no check has been green since"
    try:
        report = dict(json.loads(record or "{}")["report"])
    except (ValueError, TypeError, KeyError):
        return ""
    return str(report.get("why") or "values differ") if report.get("result") == "red" else ""


def _difference(report: Report, wrong: int, off: int) -> str:
    causes = report.get("causes")
    likeliest = (
        " (" + ", ".join(f"{cause} {count}" for cause, count in causes.items()) + ")"
        if isinstance(causes, Mapping) and causes
        else ""
    )
    parts = [f"{wrong} of {_count(report, 'values')} values differ{likeliest}"] if wrong else []
    sums = (
        [f"{off} of {_count(report, 'plain_sums')} plain sums lie outside their rounding"]
        if off
        else []
    )
    return "; ".join([*parts, *sums])


def _lacking(report: Report) -> str:
    """Tells why a report without a difference is not green: its notes, else the expectations that
    are not met."""
    notes = report.get("notes")
    lines = [str(note) for note in notes] if isinstance(notes, list) else []
    expectations = report.get("expectations")
    unmet = (
        [name for name, met in expectations.items() if not met]
        if isinstance(expectations, Mapping)
        else []
    )
    nothing = (
        ["nothing was compared"]
        if not _count(report, "values")
        else [f"not met: {', '.join(unmet)}"]
    )
    return "; ".join([*nothing, *lines])


def _count(report: Report, name: str) -> int:
    value = report.get(name)
    return int(value) if isinstance(value, int | float) else 0
