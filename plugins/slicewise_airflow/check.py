"""A check's report goes below the platform's state, where the UI page finds the newest; red is told
from not made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from slicewise.lifecycle.checking import CheckRed, closed, failure, judged
from slicewise.lifecycle.healing.record import PART, Healing
from slicewise.lifecycle.jobs import (
    Run,
    check_arguments,
    compact_arguments,
    recompute_arguments,
)
from slicewise.lifecycle.reports import ReportReader
from slicewise.local import history
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import read_part, read_status
from slicewise_airflow.record import heals_last_check
from slicewise_airflow.spark import Failure, SparkJob

JOB = "check"
CONCERNED = "concerned"
"""Key of XCom: what a red check leaves for the job that recomputes."""


def check_run_arguments(run: Run) -> tuple[str, ...]:
    """Arguments of the check job of this run."""
    return check_arguments(run, str(history.checks(Settings.load())))


class GateClosed(CheckRed, AirflowFailException):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """The last check is red: mend it, or build all the same by the param `gate`."""


def require_gate(run: Run) -> None:
    """Raises GateClosed where the last check was red, unless the run's param `gate` is `any`."""
    if run.params.get("gate") == "any":
        return
    url = Settings.load().redis_url
    healing = Healing.of(read_part(url, PART))
    reason = closed(read_status(url, [JOB]).parts.get(f"job:{JOB}"), healing)
    if reason:
        raise GateClosed(
            f"the last check is red: {reason}",
            where="check_consistency",
            expected="a check that is green",
            next_step="mend what it found and check again, or set the param gate to any",
        )


def skip_of_some(context: Any) -> None:
    """Skips a task that speaks for all views in a run of some."""
    if context["params"].get("views"):
        raise AirflowSkipException("some views were checked alone")


class CheckJob(SparkJob):
    """The check as a task: fails with CheckRed where values differ, with CheckNotMade where nothing
    was proved."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job=JOB, arguments=check_run_arguments, **kwargs)

    def execute(self, context: Any) -> dict[str, object]:
        try:
            return super().execute(context)
        except CheckRed as error:
            context["ti"].xcom_push(key=CONCERNED, value=dict(error.concerned))
            raise

    def replaces(self, settings: Settings, params: Mapping[str, object]) -> bool:
        """A green check of some views says nothing of the others: it replaces no report but one of
        what it healed."""
        return not params.get("views") or heals_last_check(settings, params)

    def failure(self, reader: ReportReader, settings: Settings) -> Failure:
        verdict = judged(reader.report, reader.why)
        return Failure(
            failure(verdict, str(history.checks(settings))),
            {**(reader.report or {}), **verdict.to_json()},
        )


class RecomputeJob(SparkJob):
    """Recomputes the hours that a red check is about from their raw events. Skipped where the check
    before it was not red, or a run does not want it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="compact", arguments=compact_arguments, **kwargs)

    def execute(self, context: Any) -> dict[str, object]:
        concerned = context["ti"].xcom_pull(task_ids=JOB, key=CONCERNED) or {}
        if not concerned:
            raise AirflowSkipException("the check found no difference in any hour")
        if not context["params"].get("recompute", True):
            raise AirflowSkipException("this run is to recompute nothing")
        # here, as Airflow runs a copy of what the DAG's file made
        self.arguments = lambda _: recompute_arguments(concerned)
        return super().execute(context)
