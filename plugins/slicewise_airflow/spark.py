"""A bounded Spark job runs under the job configuration of slicewise, and must report.

The driver is spark-submit of the Spark environment; nothing of pyspark is imported here. The Spark
provider gives the connection. Its hook hands a job's output, where the report is, to the log alone
(docs/adr/0098).
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowNotFoundException

from slicewise.lifecycle.jobs import SPARK_POOL, Run, names
from slicewise.lifecycle.lineage.steps import Scope
from slicewise.lifecycle.reports import (
    SLICE_COLUMNS,
    JobFailed,
    ReportMissing,
    ReportReader,
    archived_sources,
    bad_shares,
    slice_rows,
    summary,
    table,
)
from slicewise.log import event
from slicewise.settings import Settings
from slicewise_airflow.alerts import page_records, settle_records
from slicewise_airflow.commands import JobRefused, run_program
from slicewise_airflow.lineage import facets_of, parent_variables
from slicewise_airflow.notes import leave, note_of
from slicewise_airflow.record import record, starting

log = logging.getLogger("slicewise.jobs")
CONNECTION: str = SparkSubmitHook.default_conn_name
"""Airflow's connection that names the master, if there is one."""


@dataclass(frozen=True)
class Failure:
    """Failure of a job: the error of its task, and the report that is recorded."""

    error: JobFailed
    report: Mapping[str, object]


class SparkJob(BaseOperator):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """Runs `spark_jobs/<job>.py` with the arguments that `arguments(run)` gives.

    The Airflow connection `spark_default` names the master; without one it is the setting
    `spark_master`. Returns the job's report (XCom), and logs the slices that it lists. Where
    `unless_clean(run)` names an hour that is clean, nothing is submitted.
    """

    ui_color = "#f7dcb4"

    def __init__(
        self,
        *,
        job: str,
        arguments: Callable[[Run], Sequence[str]],
        unless_clean: Callable[[Run], str | None] = lambda _: None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"pool": SPARK_POOL} | kwargs)
        self.job = job
        self.arguments = arguments
        self.unless_clean = unless_clean
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> dict[str, object]:
        settings = Settings.load()
        if hour := self.unless_clean(run_of(context)):
            from slicewise_airflow.clean import clean_report

            if report_message := clean_report(settings, context, hour):
                leave(context, note_of(self.job, report_message))
                return report_message
        arguments, reader = list(self.arguments(run_of(context))), ReportReader()
        params = dict(context["params"])
        master = master_of(settings)
        event("job_submitted", job=self.job, master=" ".join(master), arguments=" ".join(arguments))
        if self.job == "backfill":
            starting(settings, params.get("view"))
        with self._classes(settings, context) as option:
            argv = self._command(settings, master, option, arguments)
            environment = _environment(settings) | parent_variables(context)
            code = run_program(argv, environment, reader, self._begun)
        if code:
            failure = self.failure(reader, settings)
            record(settings, self.job, failure.report, ok=False)
            raise failure.error
        try:
            report = dict(reader.required(self.job))
        except ReportMissing:
            record(settings, self.job, {}, ok=False)
            raise
        if not report.get("dry_run"):
            record(settings, self.job, report, ok=True, replaces=self.replaces(settings, params))
        leave(context, note_of(self.job, report))
        event("job_reported", **(summary(report) | {"job": self.job}))
        shares = bad_shares(report, settings.bad_percent)
        page_records(context, shares)
        ill = {share.partition(":")[0] for share in shares}
        settle_records(set(archived_sources(report)) - ill)
        rows = slice_rows(report)
        for line in table(rows, SLICE_COLUMNS) if rows else ():
            log.info("%s", line)
        return report

    def get_openlineage_facets_on_complete(self, instance: Any) -> Any:
        """Data sets of the job, for Airflow's OpenLineage provider. Views that the run is about
        narrow them."""
        params = dict(instance.get_template_context()["params"])
        views = [params["view"]] if params.get("view") else names("views", params.get("views"))
        return facets_of(self.job, Scope(views=tuple(map(str, views))))

    def on_kill(self) -> None:
        """Ends the job with its task: what it had not committed, the next run does."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def _begun(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def _command(
        self, settings: Settings, master: Sequence[str], classes: str, arguments: Sequence[str]
    ) -> list[str]:
        from slicewise.spark.runtime.conf import job_conf

        conf = [
            word
            for name, value in job_conf(settings, classes=classes).items()
            # The session sets passwords itself; on a command line every user could read them.
            if not name.endswith(".password")
            for word in ("--conf", f"{name}={value}")
        ]
        application = str(settings.home / "spark_jobs" / f"{self.job}.py")
        named = ["--name", f"slicewise-{self.job}"]
        return [str(settings.spark_submit), *master, *named, *conf, application, *arguments]

    def replaces(self, settings: Settings, params: Mapping[str, object]) -> bool:  # noqa: ARG002
        """Tells whether the report of a run that was well stands for all that the job is about."""
        return True

    def failure(self, reader: ReportReader, settings: Settings) -> Failure:  # noqa: ARG002
        """The failure that a job raises and leaves on the page when it ended badly."""
        kind = JobRefused if reader.lasting else JobFailed
        what = f"job {self.job!r} failed: {reader.why}"
        failed = kind(what, next_step=reader.next_step or "its output stands above")
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


def master_of(settings: Settings) -> list[str]:
    """Options of spark-submit that name the master, from the connection or the settings. Raises
    JobRefused where the connection wants the driver elsewhere."""
    try:
        connection = SparkSubmitHook.get_connection(CONNECTION)
    except AirflowNotFoundException:
        return ["--master", settings.spark_master]
    host, extra = connection.host or settings.spark_master, connection.extra_dejson
    if extra.get("deploy-mode", "client") != "client":
        raise JobRefused(
            "the driver of a job runs where its task runs",
            where=f"Airflow's connection {CONNECTION}, extra deploy-mode {extra['deploy-mode']!r}",
            expected="client, or no deploy-mode",
            next_step="take it out of the connection's extra",
        )
    queue = ["--queue", str(extra["queue"])] if extra.get("queue") else []
    return ["--master", f"{host}:{connection.port}" if connection.port else host, *queue]


def _environment(settings: Settings) -> dict[str, str]:
    return settings.to_env() | {
        "PYSPARK_PYTHON": str(settings.spark_python),
        "PYSPARK_DRIVER_PYTHON": str(settings.spark_python),
        # spark-submit's first JVM only makes the command line of the second
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def run_of(context: Any) -> Run:
    """The parts of an Airflow context that decisions may depend on."""
    run = context["dag_run"]
    return Run(
        run_type=getattr(run.run_type, "value", str(run.run_type)),
        partition_key=run.partition_key,
        run_after=run.run_after,
        params=dict(context["params"]),
    )
