"""show what checks found and what was done about it, or look at the open hour

The stories go from the first value that differed, or was suspected, to the check that was green:
which values, which hours were recomputed by which run, whether the gate is open.

look is a light check of the open hour, without Spark: it compares answers about entities that have
events in it with the log itself. It reports what differs, and leaves the judgement to
check_consistency. Exit code 0: it looked, whatever it saw.

  slicewise checks
  slicewise checks --json
  slicewise checks look --sample 50 --json
"""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.lifecycle.healing.record import Healing, Step, Story


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("show", "look"), default="show")
    parser.add_argument("--sample", type=int, default=20, help="look: entities per view")
    parser.add_argument("--run", help="look: the same name takes the same sample")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.lifecycle.healing.record import PART, Healing
    from slicewise.stores.online.redis.status import read_part

    healing = Healing.of(read_part(settings.redis_url, PART))
    if arguments.action == "look":
        report = _look(settings, healing, max(1, arguments.sample), arguments.run)
        print(json.dumps(report) if arguments.json else _looked(report))
        return 0
    if arguments.json:
        print(healing.text())
    elif not healing.stories:
        print("no check has found a difference")
    else:
        print("\n\n".join(_story(story) for story in reversed(healing.stories)))
    return 0


# ------------------------------------------------------------ the light check
def _look(settings: Settings, healing: Healing, sample: int, name: str | None) -> dict[str, Any]:
    from uuid import uuid4

    from slicewise.checks.light import LightCheck
    from slicewise.clock import SystemClock
    from slicewise.features.plan.unit import Source
    from slicewise.lifecycle.healing.record import PART, Healing, Job
    from slicewise.stores.log.topics import KafkaLog
    from slicewise.stores.online.redis.status import amend_part
    from slicewise.training.archiving.offline import Offline
    from slicewise.training.recent.events import RecentEvents

    clock, log = SystemClock(), KafkaLog(settings.kafka_bootstrap)
    begun_us, run_id = clock.now_us(), name or uuid4().hex[:12]
    offline = Offline.open(settings)

    def recent(source: Source) -> RecentEvents | str:
        return RecentEvents.of(offline, log, source)

    again, url = healing.compared_again(), settings.serving_url
    light = LightCheck.over_http(url, offline.deployment, recent, run_id, sample, again)
    looked = light.execute()
    suspects = healing.new_suspects(looked.differs, begun_us)
    if suspects:
        job = Job.of(clock.now_us(), run_id, os.environ)

        def change(text: str | None) -> str:
            return Healing.of([text]).suspected(job, suspects, looked.wrong).text()

        amend_part(settings.redis_url, PART, change)
    waits = healing.is_waiting(begun_us) or healing.may_be_over(looked.equal, begun_us)
    is_due = bool(suspects) or waits
    return {
        "job": "checks",
        "run_id": run_id,
        "outcome": "differs" if any(looked.differs.values()) else "equal",
        "values": looked.values,
        "entities": looked.entities,
        "differs": {view: len(of) for view, of in looked.differs.items() if of},
        "wrong": looked.wrong[:10],
        # views that the check is to judge now
        "judge": sorted({*suspects, *healing.views}) if is_due else [],
        "left_out": {reason: count for reason, count in looked.left_out.items() if count},
        "notes": looked.notes,
        "took_ms": (clock.now_us() - begun_us) // 1_000,
    }


def _looked(report: dict[str, Any]) -> str:
    seconds = f"{report['took_ms'] / 1e3:.1f} s"
    counts = f"{report['values']} values of {report['entities']} entities"
    lines = [f"{counts} compared in {seconds}: {report['outcome']}"]
    lines += [
        f"  {one['view']}:{one['feature']} of {one['entity']}: {one['online']}, "
        f"from the log {one['offline']}"
        for one in report["wrong"]
    ]
    lines += [f"  not compared: {count} {of}" for of, count in report["left_out"].items()]
    return "\n".join([*lines, *(f"  {note}" for note in report["notes"])])


# ------------------------------------------------------------ the stories
def _story(story: Story) -> str:
    head = "over: the gate is open" if story.over_us else "not over: see slicewise hours"
    return "\n".join([f"{_instant(story.steps[0].at_us)}  {head}", *map(_step, story.steps)])


def _step(step: Step) -> str:
    from slicewise.lifecycle.jobs import hour_text

    words = {
        "suspected": f"{step.count} entities are suspected by a light check",
        "red": f"the check is red: {step.count} values differ",
        "recomputed": "recomputed from raw events",
        "green": f"the check is green: {step.count} values are the same bytes",
    }[step.kind]
    hours = ", ".join(
        f"{view} {hour_text(first)} to {hour_text(last)}"
        for view, (first, last) in step.hours.items()
    )
    by = f" ({step.dag} {step.run})" if step.run else ""
    lines = [f"  {_instant(step.at_us)}  {words}{': ' if hours else ''}{hours}{by}"]
    lines += [
        f"      {one['view']}:{one.get('feature', '*')} of {one['entity']}: online "
        f"{one['online']}, offline {one['offline']} {one.get('cause', '')}".rstrip()
        for one in step.values
        if "online" in one
    ]
    return "\n".join(lines)


def _instant(us: int) -> str:
    from slicewise.client.instants import instant_text

    return instant_text(us // 1_000_000 * 1_000_000)
