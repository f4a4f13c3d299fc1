"""build views again from the archive's compacted hours, while the stream runs; goes on where it was
stopped

Without a view: all that are not ready, as after a loss of the store. With one that is ready: its
keys are left for new ones (a build of its own), and it is answered with 503 and its progress until
it stands; other views are not touched. The plan is shown first: hours, rows and bytes that are
read, and how long that takes by what was measured last.

  slicewise rebuild --plan              what would be done
  slicewise rebuild                     build what is not ready
  slicewise rebuild by_carrier          build this view again
  slicewise rebuild by_carrier --here   without Airflow
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.cli.rebuilding import UnitPlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("view", nargs="?", help="a view's name; all that are not ready by default")
    parser.add_argument("--plan", action="store_true", help="show the plan, and change nothing")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it stands")
    parser.add_argument(
        "--here", action="store_true", help="run the job from here, where Airflow does not answer"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli import rebuilding
    from slicewise.cli.bars import bars
    from slicewise.cli.building import build
    from slicewise.local import deploy

    def notify(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    plans = rebuilding.plans(
        settings, arguments.view, deploy.looked_at if arguments.plan else deploy.connected
    )
    if not arguments.json:
        _show(plans)
    begun: list[str] = []
    if plans and not arguments.plan:
        begun = rebuilding.begin(settings, plans)
        for name in begun:
            notify(f"begun anew {name}")
        views = {plan.view for plan in plans}
        command = " ".join(["slicewise rebuild", *([arguments.view] if arguments.view else [])])
        with bars(notify, wanted=not arguments.json) as shown:
            build(
                settings,
                views,
                shown,
                command=command,
                wait=not arguments.no_wait,
                view=arguments.view,
                here=arguments.here,
            )
    if arguments.json:
        waited = bool(plans) and not arguments.plan and (arguments.here or not arguments.no_wait)
        print(
            json.dumps(
                {
                    "units": [asdict(plan) for plan in plans],
                    "begun": begun,
                    "ready": waited or not plans,
                }
            )
        )
    return 0


def _show(plans: list[UnitPlan]) -> None:
    from slicewise.cli.table import print_table

    if not plans:
        print("all views are ready; name one to build it again")
        return
    header = ("view", "unit", "is", "hours", "rows", "bytes", "about")
    print_table(header, [_row(plan) for plan in plans])


def _row(plan: UnitPlan) -> tuple[str, ...]:
    about = "not measured yet" if plan.seconds is None else f"{plan.seconds:,.0f} s"
    figures = (f"{plan.hours:,}", f"{plan.rows:,}", f"{plan.bytes:,}")
    return (plan.view, plan.unit, "ready" if plan.ready else "building", *figures, about)
