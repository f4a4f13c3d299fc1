"""show events that the log lost before they were archived, and accept their loss so that the
archive goes on

Without --accept nothing is changed. Shown are, per source and partition, the offsets that are lost
and which times their events may have; the digest under which the loss can be accepted; and what was
accepted before, by whom and why. Accepting needs that digest, a name and a reason; all of it is
kept with the archive. Answers and data sets whose windows touch the lost range are flagged from
then on.

  slicewise hole
  slicewise hole --accept 3f2a9c41d07e --by "Ada Lovelace" --why "broker disk lost, agreed with the source's owner"
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.cli.gaps import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", help="of this source alone; all that are deployed by default")
    parser.add_argument(
        "--accept", metavar="DIGEST", help="accept the loss that was shown under this digest"
    )
    parser.add_argument("--by", default="", help="who accepts it")
    parser.add_argument("--why", default="", help="why, and with whom it was agreed")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli import gaps as accepted_gaps
    from slicewise.clock import SystemClock
    from slicewise.errors import BadRequest

    plans = accepted_gaps.plans(settings, SystemClock(), arguments.source)
    lost = [plan for plan in plans if plan.loss.missing]
    if arguments.accept is None:
        _show(
            {"sources": [_plan(plan) for plan in plans], "lost": sum(map(_offsets, lost))},
            arguments.json,
        )
        return 0
    chosen = next((plan for plan in lost if plan.digest == arguments.accept), None)
    if chosen is None:
        raise BadRequest(
            f"no loss of digest {arguments.accept!r}",
            where="--accept",
            expected=", ".join(plan.digest for plan in lost) or "nothing: no event is missing",
            next_step="look at `slicewise hole` again: what is lost may have changed",
        )
    for name in ("by", "why"):
        if not getattr(arguments, name).strip():
            raise BadRequest(
                f"nobody says {'who' if name == 'by' else 'why'}",
                where=f"--{name}",
                expected="a name and a reason: they are kept with the archive",
                next_step=f"add --{name}",
            )
    archive_version = accepted_gaps.accept(
        settings, SystemClock(), chosen, arguments.by.strip(), arguments.why.strip()
    )
    report = {
        "source": chosen.source.name,
        "seq": archive_version,
        "lost": _offsets(chosen),
        "by": arguments.by.strip(),
    }
    further = "run compact_slices; docs/runbook.md, 'Events are gone before they were archived'"
    _show(report | {"next": further}, arguments.json)
    return 0


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "source": plan.source.name,
        "digest": plan.digest if plan.loss.missing else None,
        "missing": [
            {
                "partition": accepted_gap.partition,
                "first": accepted_gap.first,
                "end": accepted_gap.end,
                "events_from": event_time_text(accepted_gap.from_us),
                "events_until": event_time_text(accepted_gap.until_us),
            }
            for accepted_gap in plan.accepted_gaps("", "")
        ],
        "accepted": [asdict(gap) for gap in plan.accepted],
    }


def event_time_text(us: int) -> str:
    """An instant as people read it; 0: nothing is known before it."""
    from datetime import UTC, datetime, timedelta

    return (
        "the beginning"
        if us == 0
        else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()
    )


def _offsets(plan: Plan) -> int:
    return sum(lost.end - lost.first for lost in plan.loss.missing)


def _show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    for source in report.get("sources", ()):
        if not source["missing"]:
            print(f"{source['source']}: nothing is missing")
        for missing in source["missing"]:
            print(
                f"{source['source']}: partition {missing['partition']} lost offsets "
                f"{missing['first']} to {missing['end'] - 1}, "
                f"events of {missing['events_from']} to {missing['events_until']}"
            )
        if source["missing"]:
            print(
                f"  to accept this loss: slicewise hole --accept {source['digest']} --by "
                '"<name>" --why "<reason>"'
            )
        for gap in source["accepted"]:
            lost = f"partition {gap['partition']} offsets {gap['first']} to {gap['end'] - 1}"
            print(f"  accepted: {lost}, by {gap['by']}: {gap['why']}")
    for name, value in report.items():
        if name != "sources":
            print(f"{name:<8} {value}")
