"""answer logged requests once more, from the archive, and compare the answers as bytes

A feature set with log= has its answers in a request log, which is archived by the hour. Each of
them has a token that says what it contained: by it the archive gives the answer again, by the
definitions of that day. An answer that differs is shown, and the command ends with 1; so it does
where nothing was compared. Answers that the store did not give (stale, default, offline), and those
without a token, are counted by reason.

  slicewise replay-requests
  slicewise replay-requests --set churn_v1 --start 2026-11-21T08:00:00Z --end 2026-11-22T08:00:00Z
  slicewise replay-requests --limit 10000 --json
"""

from __future__ import annotations

import argparse
import json
import sys

from slicewise.settings import Settings

_AT = "aware instant, of when it was logged: 2026-11-21T08:00:00Z"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", help="the source of the request log, where there are several")
    parser.add_argument("--set", help="answers of this feature set alone")
    parser.add_argument("--start", help=_AT)
    parser.add_argument("--end", help=_AT + ", not included")
    parser.add_argument("--limit", type=int, help="the newest so many alone")
    parser.add_argument("--no-archive", action="store_true", help="refuse what is not archived yet")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.errors import BadRequest
    from slicewise.training.logged.replaying import replay_requests
    from slicewise.training.tables.instants import instant_us

    if arguments.limit is not None and arguments.limit < 1:
        raise BadRequest(
            f"--limit {arguments.limit}",
            where="--limit",
            expected="1 or more",
            next_step="leave it out for all",
        )
    with bars(_notify, wanted=not arguments.json) as notify:
        replayed = replay_requests(
            settings,
            source=arguments.log,
            start_us=instant_us(arguments.start, "--start") if arguments.start else 0,
            end_us=instant_us(arguments.end, "--end") if arguments.end else None,
            feature_set=arguments.set,
            limit=arguments.limit,
            archive=not arguments.no_archive,
            notify=notify,
        )
    report = replayed.to_json()
    if arguments.json:
        print(json.dumps(report))
    else:
        for key in ("source", "archived_until", "answers", "equal", "different"):
            print(f"{key:<14} {report[key]}")
        for reason, answers in report["left_out"].items():
            print(f"{'left out':<14} {answers}: {reason}")
        for one in replayed.differing:
            print(f"\n{one.feature_set} of {one.entity}, request {one.request_id}")
            print(f"  logged {one.logged}\n  again  {one.again}")
    if not replayed.equal and not replayed.different:
        print("replay: nothing was compared", file=sys.stderr)
    return 0 if replayed.equal and not replayed.different else 1


def _notify(line: str) -> None:
    print(f"replay: {line}", file=sys.stderr, flush=True)
