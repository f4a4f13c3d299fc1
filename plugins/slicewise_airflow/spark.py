"""A bounded Spark job runs through the Spark provider, under the job configuration of slicewise,
and must report.

The driver is spark-submit of the Spark environment; nothing of pyspark is imported here.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from slicewise.lifecycle.jobs import Run
from slicewise.lifecycle.reports import (
    SLICE_COLUMNS,
    JobFailed,
    ReportMissing,
    ReportReader,
    bad_shares,
    slice_rows,
    summary,
    table,
)
from slicewise.log import event
from slicewise.settings import Settings
from slicewise_airflow.alerts import page_records
from slicewise_airflow.record import record, starting

log = logging.getLogger("slicewise.jobs")


class _ReportingHook(SparkSubmitHook):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """The provider's hook; it also reads the job's report out of what it logs."""

    def __init__(self, reader: ReportReader, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._reader = reader

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._reader.read(itr))

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        try:
            driver: str | None = super().submit(application, **kwargs)
            return driver
        finally:
            if self._submit_sp is not None and self._submit_sp.stdout is not None:
                self._submit_sp.stdout.close()


@dataclass(frozen=True)
class Failure:
    """Failure of a job: the error of its task, and the report that is recorded."""

    error: JobFailed
    report: Mapping[str, object]


class SparkJob(SparkSubmitOperator):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """Runs `spark_jobs/<job>.py` with the arguments that `arguments(run)` gives.

    The Airflow connection `spark_default` names the master; without one it is the setting
    `spark_master`. Returns the job's report (XCom), and logs the slices that it lists. Where
    `unless_clean(run)` names an hour that is clean, nothing is submitted.
    """

    def __init__(
        self,
        *,
        job: str,
        arguments: Callable[[Run], Sequence[str]],
        unless_clean: Callable[[Run], str | None] = lambda _: None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", f"slicewise-{job}")
        super().__init__(**kwargs)
        self.job = job
        self.arguments = arguments
        self.unless_clean = unless_clean
        self._reader = ReportReader()

    def execute(self, context: Any) -> dict[str, object]:
        from slicewise.spark.runtime.conf import job_conf

        settings = Settings.load()
        if hour := self.unless_clean(run_of(context)):
            from slicewise_airflow.clean import clean_report

            if report_message := clean_report(settings, context, hour):
                return report_message
        self.application = str(settings.home / "spark_jobs" / f"{self.job}.py")
        self.application_args = list(self.arguments(run_of(context)))
        self.env_vars = settings.to_env() | {
            "PYSPARK_PYTHON": str(settings.spark_python),
            "PYSPARK_DRIVER_PYTHON": str(settings.spark_python),
            # spark-submit's first JVM only makes the command line of the second
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self._spark_binary = str(settings.spark_submit)
        self._default_connection(settings.spark_master)
        event("job_submitted", job=self.job, arguments=" ".join(self.application_args))
        if self.job == "backfill":
            starting(settings, dict(context["params"]).get("view"))
        try:
            with self._classes(settings, context) as option:
                conf = job_conf(settings, classes=option)
                # The session sets passwords itself; on a command line every user could read them.
                self.conf = {k: v for k, v in conf.items() if not k.endswith(".password")}
                super().execute(context)
            report = dict(self._reader.required(self.job))
        except AirflowException as error:
            failure = self.failure(self._reader, settings)
            record(settings, self.job, failure.report, ok=False)
            raise failure.error from error
        except ReportMissing:
            record(settings, self.job, {}, ok=False)
            raise
        record(settings, self.job, report, ok=True)
        event("job_reported", **(summary(report) | {"job": self.job}))
        if shares := bad_shares(report, settings.bad_percent):
            page_records(context, shares)
        rows = slice_rows(report)
        for line in table(rows, SLICE_COLUMNS) if rows else ():
            log.info("%s", line)
        return report

    def failure(self, reader: ReportReader, settings: Settings) -> Failure:  # noqa: ARG002
        """The failure that a job raises and leaves on the page when it ended badly."""
        failed = JobFailed(
            f"job {self.job!r} failed: {reader.why}", next_step="its output stands above"
        )
        return Failure(failed, reader.report or {})

    def _classes(self, settings: Settings, context: Any) -> AbstractContextManager[str]:
        """The JVM's option about the archive of classes: the job of every hour leaves it, all
        others map it.

        A task that is tried again does neither, and makes a new one due: the archive may be why it
        failed.
        """
        from slicewise.spark.runtime.classes import forget, leaving, sharing

        if getattr(context.get("ti"), "try_number", 1) > 1:
            forget(settings)
            return nullcontext("")
        return leaving(settings) if self.job == "compact" else nullcontext(sharing(settings))

    def _get_hook(self) -> SparkSubmitHook:
        return _ReportingHook(
            self._reader,
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            env_vars=self.env_vars,
            spark_binary=self._spark_binary,
            verbose=self._verbose,
        )

    def _default_connection(self, master: str) -> None:
        # The provider falls back to YARN when the connection is missing, which nobody wants here.
        try:
            SparkSubmitHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            connection = json.dumps({"conn_type": "spark", "host": master})
            os.environ[f"AIRFLOW_CONN_{self._conn_id.upper()}"] = connection


def run_of(context: Any) -> Run:
    """The parts of an Airflow context that decisions may depend on."""
    run = context["dag_run"]
    return Run(
        run_type=getattr(run.run_type, "value", str(run.run_type)),
        partition_key=run.partition_key,
        run_after=run.run_after,
        params=dict(context["params"]),
    )
