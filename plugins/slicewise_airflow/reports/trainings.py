"""A training's page is made of its run's description when somebody opens it: it is never half
written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from slicewise.lifecycle.history.picture import Picture
from slicewise.lifecycle.models.backtests import MEASURES
from slicewise.lifecycle.models.trainings import PAGE
from slicewise.local import run_pages
from slicewise.settings import Settings
from slicewise_airflow.reports.drawing import drawn

SHARES = ("auc", "average_precision", "accuracy", "precision", "recall")
"""Measures from 0 to 1, which fit in one picture."""
ERRORS = ("log_loss", "brier", "mean_absolute_error", "root_mean_squared_error")
_BLANK = {
    **run_pages.NOT_DECIDED,
    **dict.fromkeys(("model", "live", "run", "reason", "sha256", "measured_by"), ""),
    "rows": None,
}
"""Values of a description that cannot be read."""


def listed() -> list[dict[str, Any]]:
    """Runs that trained a model, newest first."""
    pages = run_pages.trainings(Settings.load())
    matches = [match for name in pages.names() if (match := PAGE.fullmatch(name))]
    return [
        {**_BLANK, **pages.facts(match[0]), "name": match[0], "began": _began(match[1])}
        for match in matches
    ]


def shown(name: str) -> dict[str, Any] | None:
    """Values of the page of a run; None where there is none."""
    if not PAGE.fullmatch(name):
        return None
    facts = run_pages.trainings(Settings.load()).facts(name)
    if not facts:
        return None
    facts = {**_BLANK, **facts}
    own, live = (facts.get(part) or {} for part in ("measures", "measures_of_live"))
    rows = [
        (words, own.get(measure), live.get(measure))
        for measure, words in MEASURES.items()
        if own.get(measure) is not None or live.get(measure) is not None
    ]
    pictures = [
        _picture("higher", "Higher is better", facts, SHARES),
        _picture("lower", "Lower is better", facts, ERRORS),
    ]
    svgs = [(one, drawn(one)) for one in pictures if one.has_figures]
    return {"of": facts, "rows": rows, "pictures": svgs}


def _began(text: str) -> str:
    began = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return f"{began:%Y-%m-%d %H:%M:%S}"


def _picture(name: str, title: str, facts: dict[str, Any], measures: tuple[str, ...]) -> Picture:
    """Bars of the version and of the live one, side by side."""
    both = {str(facts.get("model")): facts.get("measures") or {}}
    if facts.get("live"):
        both[str(facts["live"])] = facts.get("measures_of_live") or {}
    there = [one for one in measures if any(of.get(one) is not None for of in both.values())]
    series = {of: tuple(values.get(one) for one in there) for of, values in both.items()}
    text = "; ".join(
        f"{MEASURES[one]}: "
        + ", ".join(f"{of} {values[one]:.4g}" for of, values in both.items() if values.get(one))
        for one in there
    )
    labels = tuple(MEASURES[one] for one in there)
    return Picture(name, title, "measure", "bars", labels, series, text, across="measure")
