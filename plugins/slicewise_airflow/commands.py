"""A program of a task runs in an environment of its own; its exit code and its report are
believed."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence

from slicewise.lifecycle.reports import JobFailed, ReportReader, summary
from slicewise.log import event
from slicewise.settings import Settings
from slicewise_airflow.record import record

log = logging.getLogger("slicewise.commands")


def run_command(*arguments: str) -> dict[str, object]:
    """Runs `slicewise <arguments>` in the platform environment; returns the report it printed.

    Its output goes to the task's log line by line, as it comes. Raises JobFailed when the
    exit code is not 0, ReportMissing when it printed no JSON object.
    """
    settings = Settings.load()
    program = str(settings.platform_python.parent / "slicewise")
    reader = ReportReader()
    code = run_program([program, *arguments], settings.to_env(), reader)
    if code:
        record(settings, arguments[0], reader.report or {}, ok=False)
        raise JobFailed(
            f"slicewise {arguments[0]} ended with exit code {code}: {reader.why}",
            next_step=f"run it by hand: slicewise {' '.join(arguments)}",
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
    begun: called once it runs."""
    with subprocess.Popen(
        argv,
        env=os.environ | dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        begun(process)
        assert process.stdout is not None
        try:
            for line in reader.read(process.stdout):
                log.info("%s", line.rstrip())
        except BaseException:
            process.kill()
            raise
    return process.returncode
