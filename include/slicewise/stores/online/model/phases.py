"""One text in the store says what views wait for whose history is not built; it falls with the
data.

The job at work says it (`sw:status:building`); readers show it beside the progress, with its age.
It has only the units that are being built, so nothing is left of views that go. Light: Airflow's
page imports it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

PART = "building"
NOBODY = "no job is at work: Airflow's backfill_view looks every two minutes"
STARTING = "its Spark application starts"
OVER = ""
"""Text of a unit that is ready: what was said of its build is not said of its next."""
_SILENT_US = 600_000_000
_KEPT_US = 86_400_000_000


@dataclass(frozen=True)
class Phase:
    """Last word of the job."""

    text: str
    at_us: int
    """By the clock of who said it."""


def phases_of(text: str | None) -> dict[str, Phase]:
    """Unit -> what was said of it; none where that cannot be read: it explains, and decides
    nothing."""
    try:
        return {
            str(unit): Phase(str(raw["text"]), int(raw["at_us"]))
            for unit, raw in json.loads(text or "{}").items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def changed(text: str | None, units: Mapping[str, str], now_us: int) -> str:
    """The text with these said of units (fingerprint -> text); what is over, or a day old, is left
    out."""
    phases = phases_of(text) | {
        unit: Phase(phase_text, now_us) for unit, phase_text in units.items()
    }
    kept = {
        unit: phase
        for unit, phase in phases.items()
        if phase.text and now_us - _KEPT_US < phase.at_us
    }
    return json.dumps({unit: asdict(phase) for unit, phase in kept.items()}, sort_keys=True)


def waits_for(phase: Phase | None, now_us: int) -> str:
    """In words, with how long it has been so. Who says nothing for ten minutes may have been
    ended."""
    if phase is None:
        return NOBODY
    age_us = max(0, now_us - phase.at_us)
    silent = "; is its job still at work?" if age_us > _SILENT_US else ""
    return f"{phase.text} (for {_span(age_us // 1_000_000)}{silent})"


def progress(done: int, total: int) -> str:
    """Text of how far a build is; a unit of events is one piece."""
    return f"{done} of {total} hours" if total > 1 else "not begun" if not total else "begun"


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
