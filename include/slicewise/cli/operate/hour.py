"""say whether a compaction of an hour would find anything to do, without starting Spark

An hour is clean when all that the log had at --asked (now, unless given) is archived, and
everything that the archive holds of the hour is compacted and in the online store. The tasks of a
backfill ask this before they submit a job.

  slicewise hour 2026-11-21T08
  slicewise hour 2026-11-21T08 --asked 2026-11-21T11:30:00+00:00 --json
"""

from __future__ import annotations

import argparse
import json

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("hour", help="in UTC: 2026-11-21T08")
    parser.add_argument(
        "--asked", help="ISO 8601 with its zone: what the log had by then counts; default: now"
    )
    parser.add_argument(
        "--record", action="store_true", help="enter a clean hour as a run among ops.runs"
    )
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from datetime import datetime

    from slicewise.cli import clean_hour
    from slicewise.clock import SystemClock
    from slicewise.errors import BadRequest
    from slicewise.lifecycle.jobs import hour_number

    clock = SystemClock()
    try:
        requested = datetime.fromisoformat(arguments.asked) if arguments.asked else None
    except ValueError:
        requested = None
    if arguments.asked and (requested is None or requested.tzinfo is None):
        raise BadRequest(
            f"{arguments.asked!r} is no instant",
            where="--asked",
            expected="as in 2026-11-21T11:30:00+00:00",
            next_step="give an instant with its zone",
        )
    requested_us = clock.now_us() if requested is None else round(requested.timestamp() * 1_000_000)
    why = clean_hour.why_not_clean(settings, hour_number(arguments.hour), requested_us)
    report: dict[str, object] = {
        "job": "compact",
        "hour": arguments.hour,
        "outcome": "dirty" if why else "clean",
    }
    # as every compaction's report
    report |= {"left_over": 0, "archived": [], "hours": [], "days": [], "slices": []}
    if why:
        report["why"] = why
    elif arguments.record:
        report["run_id"] = clean_hour.recorded(settings, clock)
    if arguments.json:
        print(json.dumps(report))
    else:
        print(
            f"{arguments.hour} is clean"
            if why is None
            else f"{arguments.hour} is to be compacted: {why}"
        )
    return 0
