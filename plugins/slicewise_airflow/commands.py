"""A program of a task runs in an environment of its own; its exit code and its report are
believed."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from airflow.sdk.exceptions import AirflowFailException

from slicewise.errors import SettingsError
from slicewise.lifecycle.reports import TASK, JobFailed, ReportReader, summary
from slicewise.log import event
from slicewise.settings import Settings
from slicewise_airflow.record import record

log = logging.getLogger("slicewise.commands")
WRONG_USAGE = 2
"""Exit code of a command that does not take the arguments that it was given."""


class JobRefused(JobFailed, AirflowFailException):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """A job or command failed for a reason that another try would meet again: its task is tried no
    more."""

    lasting = True


def run_command(*arguments: str) -> dict[str, object]:
    """Runs `slicewise <arguments>` in the platform environment; returns the report it printed.

    Its output goes to the task's log line by line, as it comes. Raises JobFailed when the
    exit code is not 0, JobRefused where another try would fail for the same reason, ReportMissing
    when it printed no JSON object.
    """
    settings = Settings.load()
    program = str(settings.platform_python.parent / "slicewise")
    reader = ReportReader()
    code = run_program([program, *arguments], settings.to_env() | {TASK: "1"}, reader)
    if code:
        record(settings, arguments[0], reader.report or {}, ok=False)
        kind = JobRefused if reader.lasting or code == WRONG_USAGE else JobFailed
        raise kind(
            f"slicewise {arguments[0]} ended with exit code {code}: {reader.why}",
            next_step=reader.next_step or f"run it by hand: slicewise {' '.join(arguments)}",
        )
    report = dict(reader.required(f"slicewise {arguments[0]}"))
    if not report.get("dry_run"):
        record(settings, arguments[0], report, ok=True)
    event("command_reported", **(summary(report) | {"command": arguments[0]}))
    return report


def run_program(
    argv: Sequence[str],
    env: Mapping[str, str],
    reader: ReportReader,
    begun: Callable[[subprocess.Popen[str]], None] = lambda _: None,
) -> int:
    """Runs a program to its end; its exit code. What it prints goes to the task's log and through
    the reader. A task that is ended takes it along. env: variables beside this process's own.
    begun: called once it runs. Raises SettingsError where there is no such program."""
    try:
        started = subprocess.Popen(
            argv,
            env=os.environ | dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise SettingsError(
            f"the program {argv[0]} cannot be started: {error.strerror}",
            expected="an environment as make setup makes it",
            next_step="run make setup, or correct the setting that names the environment",
        ) from error
    with started as process:
        begun(process)
        assert process.stdout is not None
        try:
            for line in reader.read(process.stdout):
                log.info("%s", line.rstrip())
        except BaseException:
            process.kill()
            raise
    return process.returncode
