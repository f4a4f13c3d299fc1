"""Expectations as a task: what is critical fails it, a warning opens an incident, all is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slicewise.lifecycle.checking import expectations_failure
from slicewise.lifecycle.jobs import Run, expect_arguments
from slicewise.lifecycle.reports import ReportReader
from slicewise.settings import Settings
from slicewise_airflow.alerts import page_expectations
from slicewise_airflow.spark import Failure, SparkJob

JOB = "expect"


def data_docs(settings: Settings) -> Path:
    """Folder of Great Expectations' data docs."""
    return settings.state_dir / "reports" / "data-docs"


def expect_run_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of the job of this run."""
    return expect_arguments(run, str(data_docs(Settings.load())))


class ExpectJob(SparkJob):
    """Judges an hour: fails with ExpectationsUnmet where something critical is not met, with
    ExpectationsNotMade where not all could be judged."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job=JOB, arguments=expect_run_arguments, **kwargs)

    def execute(self, context: Any) -> dict[str, object]:
        report = super().execute(context)
        page_expectations(context, report)
        return report

    def failure(self, reader: ReportReader, settings: Settings) -> Failure:  # noqa: ARG002
        error = expectations_failure(reader.report, reader.why)
        return Failure(error, {**(reader.report or {}), "why": error.what})
