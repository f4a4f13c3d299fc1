"""What a view whose history is not built waits for: a text per unit in the store, which falls with the data.

Who is at work says it (`sw:status:building:<unit>`); readers show it beside the progress, with its age. Light:
Airflow's page imports it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

PART = "building:"
"""And a unit's storage fingerprint."""
NOBODY = "no job is at work: Airflow's backfill_view looks every two minutes"
STARTING = "its Spark application starts"
OVER = ""
"""The text of a unit that is ready: what was said before it is not said of its next build."""
_SILENT_US = 600_000_000


@dataclass(frozen=True)
class Phase:
    """What the job said last."""

    text: str
    at_us: int
    """By the clock of who said it."""

    def to_json(self) -> str:
        return json.dumps({"text": self.text, "at_us": self.at_us}, sort_keys=True)


def parse(text: str | None) -> Phase | None:
    """None where nothing was said, or nothing that can be read: it explains, and decides nothing."""
    try:
        raw = json.loads(text or "")
        found = Phase(str(raw["text"]), int(raw["at_us"]))
    except (ValueError, TypeError, KeyError):
        return None
    return found if found.text else None


def waits_for(phase: Phase | None, now_us: int) -> str:
    """In words, with how long it has been so. Who says nothing for ten minutes may have been ended."""
    if phase is None:
        return NOBODY
    age_us = max(0, now_us - phase.at_us)
    silent = "; is its job still at work?" if age_us > _SILENT_US else ""
    return f"{phase.text} (for {_span(age_us // 1_000_000)}{silent})"


def progress(done: int, total: int) -> str:
    """How far a build is; a unit of events is one piece."""
    return f"{done} of {total} hours" if total > 1 else "not begun" if not total else "begun"


def say(put: Callable[[str, str], None], units: Mapping[str, str], now_us: int) -> None:
    """Puts a text of each unit (fingerprint -> text)."""
    for unit, text in units.items():
        put(f"{PART}{unit}", Phase(text, now_us).to_json())


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
