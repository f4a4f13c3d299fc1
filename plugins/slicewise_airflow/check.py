"""A check's report goes below the platform's state, where the UI page finds the newest; red is told
from not made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slicewise.lifecycle.checking import failure, judged
from slicewise.lifecycle.jobs import Run, check_arguments
from slicewise.lifecycle.reports import ReportReader
from slicewise.settings import Settings
from slicewise_airflow.spark import Failure, SparkJob


def reports(settings: Settings) -> Path:
    """Folder of the checks' reports."""
    return settings.state_dir / "reports" / "check"


def check_run_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of the check job of this run."""
    return check_arguments(run, str(reports(Settings.load())))


class CheckJob(SparkJob):
    """The check as a task: fails with CheckRed where values differ, with CheckNotMade where nothing
    was proved."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="check", arguments=check_run_arguments, **kwargs)

    def failure(self, reader: ReportReader, settings: Settings) -> Failure:
        verdict = judged(reader.report, reader.why)
        return Failure(
            failure(verdict, str(reports(settings))), {**(reader.report or {}), **verdict.to_json()}
        )
