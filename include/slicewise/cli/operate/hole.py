"""show events that the log lost before they were archived, and accept their loss so that the archive goes on

Without --accept nothing is changed. Shown are, per source and partition, the offsets that are lost and which times
their events may have; the digest under which the loss can be accepted; and what was accepted before, by whom and why.
Accepting needs that digest, a name and a reason; all of it is kept with the archive.
Answers and data sets whose windows touch the lost range are flagged from then on.

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
    from slicewise.local.gaps import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", help="of this source alone; all that are deployed by default")
    parser.add_argument("--accept", metavar="DIGEST", help="accept the loss that was shown under this digest")
    parser.add_argument("--by", default="", help="who accepts it")
    parser.add_argument("--why", default="", help="why, and with whom it was agreed")
    parser.add_argument("--json", action="store_true", help="the report as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.clock import SystemClock
    from slicewise.errors import BadRequest
    from slicewise.local import gaps as holes

    plans = holes.plans(settings, SystemClock(), arguments.source)
    lost = [each for each in plans if each.loss.missing]
    if arguments.accept is None:
        _show({"sources": [_plan(each) for each in plans], "lost": sum(map(_offsets, lost))}, arguments.json)
        return 0
    chosen = next((each for each in lost if each.digest == arguments.accept), None)
    if chosen is None:
        raise BadRequest(
            f"no loss of digest {arguments.accept!r}",
            where="--accept",
            expected=", ".join(each.digest for each in lost) or "nothing: no event is missing",
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
    seq = holes.accept(settings, SystemClock(), chosen, arguments.by.strip(), arguments.why.strip())
    report = {"source": chosen.source.name, "seq": seq, "lost": _offsets(chosen), "by": arguments.by.strip()}
    further = "run compact_slices; docs/runbook.md, 'Events are gone before they were archived'"
    _show(report | {"next": further}, arguments.json)
    return 0


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "source": plan.source.name,
        "digest": plan.digest if plan.loss.missing else None,
        "missing": [
            {
                "partition": each.partition,
                "first": each.first,
                "end": each.end,
                "events_from": holes_text(each.from_us),
                "events_until": holes_text(each.until_us),
            }
            for each in plan.holes("", "")
        ],
        "accepted": [asdict(each) for each in plan.accepted],
    }


def holes_text(us: int) -> str:
    """An instant as people read it; 0: nothing is known before it."""
    from datetime import UTC, datetime, timedelta

    return "the beginning" if us == 0 else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()


def _offsets(plan: Plan) -> int:
    return sum(each.end - each.first for each in plan.loss.missing)


def _show(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    for source in report.get("sources", ()):
        if not source["missing"]:
            print(f"{source['source']}: nothing is missing")
        for each in source["missing"]:
            print(
                f"{source['source']}: partition {each['partition']} lost offsets {each['first']} to {each['end'] - 1}, "
                f"events of {each['events_from']} to {each['events_until']}"
            )
        if source["missing"]:
            print(f'  to accept this loss: slicewise hole --accept {source["digest"]} --by "<name>" --why "<reason>"')
        for each in source["accepted"]:
            lost = f"partition {each['partition']} offsets {each['first']} to {each['end'] - 1}"
            print(f"  accepted: {lost}, by {each['by']}: {each['why']}")
    for name, value in report.items():
        if name != "sources":
            print(f"{name:<8} {value}")
