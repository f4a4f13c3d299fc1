"""A light check of the open hour starts the check where it suspects a value, or all is right again;
it judges nothing itself."""

from __future__ import annotations

from typing import Any

from slicewise.local.airflow.api import AirflowApi
from slicewise.log import event
from slicewise.settings import Settings
from slicewise_airflow.commands import run_command
from slicewise_airflow.notes import leave

CHECK = "check_consistency"
SAMPLE = 50
"""Entities per view that the check samples beside those that are suspected."""


def look(context: Any) -> dict[str, object]:
    """Looks at the open hour; the report, which names the run of the check that it started."""
    sample = int(context["params"]["sample"])
    report = run_command("checks", "look", "--sample", str(sample), "--json")
    if views := report["judge"]:
        with AirflowApi(Settings.load().airflow_url) as api:
            run = api.trigger(CHECK, conf={"views": views, "sample": SAMPLE})
        report["started"] = run.run_id
        event("check_started", views=views, run=run.run_id)
    leave(context, _note(report))
    return report


def _note(report: dict[str, Any]) -> str:
    counts = f"{report['values']} values of {report['entities']} entities"
    if not report["differs"]:
        text = f"{counts} are what the log says."
    else:
        of = ", ".join(f"{count} of {view}" for view, count in report["differs"].items())
        text = f"**Of {counts} those of {of} differ from the log.**"
    started = report.get("started")
    return f"{text} {CHECK} judges: {started}." if started else text
