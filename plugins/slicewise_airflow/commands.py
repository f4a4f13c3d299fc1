"""A `slicewise` command of a task runs in the platform environment; its exit code and its report are believed."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Sequence

from slicewise.errors import SlicewiseError
from slicewise.lifecycle.reports import ReportReader, summary
from slicewise.settings import Settings
from slicewise_airflow.record import record

log = logging.getLogger("slicewise.commands")


class CommandFailed(SlicewiseError):
    """A slicewise command ended with an error: its output, above, says which."""


def run_command(*arguments: str) -> dict[str, object]:
    """Runs `slicewise <arguments>` in the platform environment; returns the report it printed.

    Its output goes to the task's log line by line, as it comes. Raises CommandFailed when the
    exit code is not 0, ReportMissing when it printed no JSON object.
    """
    settings = Settings.load()
    program = str(settings.platform_python.parent / "slicewise")
    reader = ReportReader()
    last = _stream([program, *arguments], os.environ | settings.to_env(), reader)
    if last is not None:
        record(settings, arguments[0], reader.report or {}, ok=False)
        raise CommandFailed(
            f"slicewise {arguments[0]} ended with exit code {last.code}: {last.line}",
            next_step=f"run it by hand: slicewise {' '.join(arguments)}",
        )
    report = dict(reader.required(f"slicewise {arguments[0]}"))
    record(settings, arguments[0], report, ok=True)
    log.info("event=command_reported command=%s %s", arguments[0], summary(report))
    return report


class _Ended:
    def __init__(self, code: int, line: str) -> None:
        self.code = code
        self.line = line


def _stream(command: Sequence[str], env: dict[str, str], reader: ReportReader) -> _Ended | None:
    last = ""
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in reader.read(process.stdout):
            last = line.strip() or last
            log.info("%s", line.rstrip())
    return _Ended(process.returncode, last) if process.returncode else None
