"""A `slicewise` command of a task runs in the platform environment; its exit code and its report
are believed."""

from __future__ import annotations

import logging
import os
import subprocess

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
    with subprocess.Popen(
        [program, *arguments],
        env=os.environ | settings.to_env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in reader.read(process.stdout):
            log.info("%s", line.rstrip())
    if process.returncode:
        record(settings, arguments[0], reader.report or {}, ok=False)
        raise JobFailed(
            f"slicewise {arguments[0]} ended with exit code {process.returncode}: {reader.why}",
            next_step=f"run it by hand: slicewise {' '.join(arguments)}",
        )
    report = dict(reader.required(f"slicewise {arguments[0]}"))
    record(settings, arguments[0], report, ok=True)
    event("command_reported", **(summary(report) | {"command": arguments[0]}))
    return report
