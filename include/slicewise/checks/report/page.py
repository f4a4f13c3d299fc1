"""A report is one file that reads without a network, and says first whether the check is green."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from slicewise.checks.model import NO_ANSWER, Compared, Outcome, Verdict
from slicewise.checks.report.gate import Gate
from slicewise.checks.values import shown, value_of
from slicewise.lifecycle.history import drift
from slicewise.lifecycle.history.entries import MOST_NAMES
from slicewise.windows.durations import HOUR_US

MOST_SHOWN = 500
NEWEST = "latest.html"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FeatureLine:
    """Figures of the comparison of one feature in one mode."""

    view: str
    feature: str
    mode: str
    compared: int
    empty: int
    mismatches: int
    missing: int
    extra: int

    @property
    def wrong(self) -> int:
        return self.mismatches + self.missing + self.extra


def feature_lines(outcome: Outcome) -> list[FeatureLine]:
    """One line per view, feature and mode; those with differences first."""
    groups: dict[tuple[str, str, str], list[Compared]] = {}
    for row in outcome.compared:
        groups.setdefault((row.view, row.feature, row.mode), []).append(row)
    lines = [_line(*key, rows) for key, rows in sorted(groups.items())]
    return sorted(lines, key=lambda line: line.wrong == 0)


def _line(view: str, feature: str, mode: str, rows: list[Compared]) -> FeatureLine:
    verdicts = Counter(row.verdict for row in rows)
    nothing = sum(shown(row.offline) in ("None", "0") for row in rows)
    return FeatureLine(
        view, feature, mode, len(rows), nothing,
        verdicts[Verdict.MISMATCH], verdicts[Verdict.MISSING], verdicts[Verdict.EXTRA],
    )  # fmt: skip


def summary(outcome: Outcome, gate: Gate) -> dict[str, Any]:
    """The run in figures, as its JSON report has them."""
    verdicts = Counter(row.verdict for row in outcome.compared)
    causes = Counter(row.cause.value for row in outcome.wrong())
    return {
        "job": "check",
        "run_id": outcome.run,
        "outcome": "green" if gate.green else "red",
        "values": len(outcome.compared),
        "entities": len({(row.view, row.entity) for row in outcome.compared}),
        "features": len({(row.view, row.feature) for row in outcome.compared}),
        "mismatches": len(outcome.wrong()),
        "mismatches_per_million": outcome.per_million(),
        "missing": verdicts[Verdict.MISSING],
        "extra": verdicts[Verdict.EXTRA],
        "causes": dict(sorted(causes.items())),
        "views": _views(outcome),
        "distributions": _distributions(outcome),
        "plain_sums": len(outcome.plain_sums),
        "plain_sums_off": sum(not plain_sum.agrees for plain_sum in outcome.plain_sums),
        "sample": outcome.sample,
        "took_ms": (outcome.finished_us - outcome.started_us) // 1_000,
        "seconds": dict(outcome.seconds),
        "repeats": [repeat.to_json() for repeat in outcome.repeats],
        "expectations": {expectation.name: expectation.met for expectation in gate.expectations},
        "notes": list(outcome.notes),
        "concerned": _concerned(outcome),
        "wrong": [_described(row) for row in outcome.wrong()[:20]],
    }


def _concerned(outcome: Outcome) -> dict[str, int]:
    """View -> first hour, since 1970, of the windows of its values that differ."""
    first: dict[str, int] = {}
    for row in outcome.wrong():
        hour = max(0, row.start_us) // HOUR_US
        first[row.view] = min(hour, first.get(row.view, hour))
    for plain_sum in outcome.plain_sums:
        if not plain_sum.agrees:  # it closes the gate until the view is green
            first.setdefault(plain_sum.view, outcome.started_us // HOUR_US)
    return first


def _views(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """View -> values compared, and those that differ by their cause."""
    values = Counter(row.view for row in outcome.compared)
    causes: dict[str, Counter[str]] = {view: Counter() for view in values}
    for row in outcome.wrong():
        causes[row.view][row.cause.value] += 1
    return {
        view: {"values": values[view], "causes": dict(sorted(causes[view].items()))}
        for view in sorted(values)
    }


def _distributions(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Feature -> counts of its values as they are served: a few hundred bytes each, of those that
    come first by name."""
    values: dict[str, list[object]] = {}
    for row in outcome.compared:
        if row.feature != NO_ANSWER:
            values.setdefault(f"{row.view}:{row.feature}", []).append(value_of(row.online))
    return {name: drift.summary(values[name]) for name in sorted(values)[:MOST_NAMES]}


def _described(row: Compared) -> dict[str, Any]:
    return {
        "view": row.view,
        "feature": row.feature,
        "entity": json.loads(row.entity),
        "mode": row.mode,
        "verdict": row.verdict.value,
        "cause": row.cause.value,
        "online": shown(row.online),
        "offline": shown(row.offline),
        "start": instant_text(row.start_us),
        "end": instant_text(row.end_us),
        "token": row.token,
    }


def write_report(outcome: Outcome, gate: Gate, folder: Path) -> Path:
    """Write `check-<time>-<run>.html` and a copy of it as `latest.html`; the former's path."""
    folder.mkdir(parents=True, exist_ok=True)
    text = rendered(outcome, gate)
    stamp = (_EPOCH + timedelta(microseconds=outcome.started_us)).strftime("%Y%m%dT%H%M%SZ")
    path = folder / f"check-{stamp}-{outcome.run}.html"
    for target in (path, folder / NEWEST):
        target.write_text(text, encoding="utf-8")
    return path


def rendered(outcome: Outcome, gate: Gate) -> str:
    """The report's HTML: everything inside, everything escaped."""
    environment = Environment(
        loader=PackageLoader("slicewise.checks.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    wrong = outcome.wrong()
    return environment.get_template("report.html").render(
        green=gate.green,
        figures=summary(outcome, gate),
        started=instant_text(outcome.started_us),
        lines=feature_lines(outcome),
        wrong=[_described(row) for row in wrong[:MOST_SHOWN]],
        hidden=max(0, len(wrong) - MOST_SHOWN),
        expectations=gate.expectations,
        notes=outcome.notes,
    )


def instant_text(us: int) -> str:
    """RFC 3339 in UTC."""
    return (_EPOCH + timedelta(microseconds=us)).replace(tzinfo=None).isoformat() + "Z"
