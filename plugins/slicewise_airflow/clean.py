"""A run whose hour another run has taken meanwhile is over at once: no Spark is started to find
that out."""

from __future__ import annotations

from typing import Any

from slicewise.errors import SlicewiseError
from slicewise.local.airflow.api import AirflowApi
from slicewise.log import event, warning
from slicewise.settings import Settings
from slicewise_airflow.commands import run_command


def clean_report(settings: Settings, context: Any, hour: str) -> dict[str, object] | None:
    """The report of a run that has nothing to do, which is entered among all runs; None where a job
    must look, or where nobody can say."""
    run = context["dag_run"]
    try:
        with AirflowApi(settings.airflow_url) as api:
            queued_at = api.run(run.dag_id, run.run_id).queued_at
        if queued_at is None:
            return None
        report = run_command("hour", hour, "--asked", queued_at, "--record", "--json")
    except (SlicewiseError, OSError) as error:
        # also a program that is not there: the job needs none of it
        warning(
            "hour_not_judged",
            hour=hour,
            error=error.what if isinstance(error, SlicewiseError) else str(error),
        )
        return None
    event("hour_judged", hour=hour, outcome=report["outcome"], why=report.get("why", ""))
    return report if report["outcome"] == "clean" else None
