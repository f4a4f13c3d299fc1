"""A model is judged by the command that a person would run; a page is whole, or not there."""

from __future__ import annotations

from typing import Any

from slicewise.lifecycle.jobs import Run
from slicewise.lifecycle.models.backtests import (
    Backtested,
    backtest_arguments,
    page_name,
    text_of,
)
from slicewise.local import run_pages
from slicewise.settings import Settings
from slicewise_airflow.commands import JobRefused, run_command
from slicewise_airflow.notes import leave
from slicewise_airflow.spark import run_of


def backtested(context: Any) -> dict[str, Any]:
    """Judges the run's model; the report, with its page and a text on it. Raises JobRefused where
    fewer rows were measured than the run wants: the page is there all the same."""
    run = run_of(context)
    report = judged(context, run)
    least = int(str(run.params.get("min_rows") or 0))
    if report["measured"] < least:
        raise JobRefused(
            f"{report['measured']:,} rows are measured, and the run wants {least:,}",
            where=report["page"],
            expected="rows with a label and a score of each model",
            next_step="see on the page what was left out; name a longer time, or want fewer rows",
        )
    return report


def judged(context: Any, run: Run) -> dict[str, Any]:
    """Judges a model by these params of a run, and leaves page and note. The report, with both."""
    run_id = str(context["dag_run"].run_id)
    name = page_name(run_id, run.run_after)
    pages = run_pages.backtests(Settings.load())
    report: Any = run_command("backtest", *backtest_arguments(run, str(pages.target(name))))
    outcome = Backtested.of(report, run_id)
    pages.describe(name, outcome.to_json())
    page = f"/slicewise/reports/backtests/{name}"
    text = text_of(report, outcome)
    leave(context, f"{text}\n\n[With pictures]({page})")
    return {**report, "page": page, "text": text}
