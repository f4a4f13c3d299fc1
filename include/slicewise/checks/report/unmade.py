"""A check that could not be made leaves a report too: that nothing is known, and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

NEWEST = "latest.html"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def summary(run: str, started_us: int, finished_us: int, why: str) -> dict[str, Any]:
    """The run in figures, as its JSON report has them."""
    return {
        "job": "check",
        "run_id": run,
        "outcome": "not_made",
        "why": why,
        "values": 0,
        "mismatches": 0,
        "took_ms": (finished_us - started_us) // 1_000,
    }


def write_report(report: dict[str, Any], started_us: int, folder: Path) -> Path:
    """Write `check-<time>-<run>.html` and a copy of it as `latest.html`; the former's path."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = Environment(
        loader=PackageLoader("slicewise.checks.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    started = _EPOCH + timedelta(microseconds=started_us)
    text = environment.get_template("not_made.html").render(
        figures=report, started=started.replace(tzinfo=None).isoformat() + "Z"
    )
    path = folder / f"check-{started.strftime('%Y%m%dT%H%M%SZ')}-{report['run_id']}.html"
    for target in (path, folder / NEWEST):
        target.write_text(text, encoding="utf-8")
    return path
