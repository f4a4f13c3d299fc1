"""show each part as it is now: services, views, jobs, and what is wrong, with where to look

First a line per service, then per view whether it answers (or how far its history is and what it
waits for) and per job how its last run ended. Then what is not well now: views that answer 503, a
stream that hangs, lags or lost events, answers that are late, jobs that failed or are overdue,
servers that die again and again. Then what is not wrong now: alerts and restarts of the last day,
losses that somebody accepted, and what is starting beside right answers.

Exit status: 0 all is well; 1 a service that is always on is not up; 3 all are up, and something
else is not well.

  slicewise status
  slicewise status --json    a list: rows of kind service, view, job and finding (state ill: wrong now; else past)
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.cli.findings import Picture
    from slicewise.lifecycle.health.overview import ViewLine
    from slicewise.local.servers.supervisor import ServiceStatus

NOT_WELL = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.findings import picture
    from slicewise.local.servers import supervisor

    shown = picture(settings, supervisor.status(settings))
    if arguments.json:
        services = [dataclasses.asdict(row) | {"kind": "service"} for row in shown.services]
        print(json.dumps([*services, *_rows(shown)]))
    else:
        show(shown)
    if not shown.up:
        return 1
    return 0 if shown.well else NOT_WELL


def _rows(picture: Picture) -> Iterator[dict[str, Any]]:
    """Rows for what is no service, in the form of services: name, state, detail, and in `log` where
    to look."""
    empty = {"address": "", "pid": None, "uptime_s": None, "memory_bytes": None, "log": ""}
    if picture.overview is not None:
        for view in picture.overview.views:
            state, detail = _view(view)
            yield empty | {"kind": "view", "name": view.view, "state": state, "detail": detail}
        for job in picture.overview.jobs:
            figures = {"age_s": job.age_s, "report": dict(job.report)}
            state = "well" if job.ok else "failed"
            yield (
                empty
                | {"kind": "job", "name": job.job, "state": state, "detail": _ago(job.age_s)}
                | figures
            )
    for finding in picture.findings:
        state = "ill" if finding.now else "past"
        yield empty | {
            "kind": "finding",
            "name": finding.part,
            "state": state,
            "detail": finding.text,
            "log": finding.look,
        }


def show(picture: Picture) -> None:
    for row in picture.services:
        print(_line(row))
    if picture.overview is not None:
        for view in picture.overview.views:
            print("{:<8} {:<24} {:<8} {}".format("view", view.view, *_view(view)))
        for job in picture.overview.jobs:
            print(f"{'job':<8} {job.job:<24} {'well' if job.ok else 'failed':<8} {_ago(job.age_s)}")
    for title, now in (("not well", True), ("of the last day, accepted, or starting", False)):
        some = [finding for finding in picture.findings if finding.now is now]
        if some:
            print(f"{title}:")
        for finding in some:
            print(f"  {finding.part}: {finding.text}\n      see {finding.look}")
    # a stream that somebody stopped is no fault, and answers grow old
    if picture.well and not (picture.overview is not None and picture.overview.health.stopped):
        print("all is well")


def _view(view: ViewLine) -> tuple[str, str]:
    """State and detail."""
    if not view.ready:
        return "building", view.waits
    newest = view.newest_hour
    return (
        "ready",
        f"{view.hours} hours compacted, the newest {newest}" if newest else "no hour compacted yet",
    )


def _line(row: ServiceStatus) -> str:
    uptime = "" if row.uptime_s is None else _span(row.uptime_s)
    memory = "" if row.memory_bytes is None else f"{row.memory_bytes / 2**20:.0f} MiB"
    pid = "" if row.pid is None else str(row.pid)
    detail = (
        f"{row.address}  {row.detail}"
        if row.state == "up" and row.address
        else row.detail or row.address
    )
    return f"{row.name:<8} {row.state:<8} {pid:>8} {uptime:>8} {memory:>9}  {detail}".rstrip()


def _ago(seconds: float) -> str:
    return f"{_span(seconds)} ago"


def _span(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{left:02}s"
