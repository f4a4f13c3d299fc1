"""move views to how this version of slicewise stores them: apply, build, diff, promote, retire

A version of slicewise may store an aggregate otherwise than the one before: its semantic version is
raised. A deployed view goes on as it was, read and written by the class of before, until it is
migrated. Then the new version is registered beside it, built from the archive, compared, promoted,
and the old one is retired: by the commands that do so for any version (docs/guides/versions.md).

The plan is shown first. What is done already is not done again: run it again, and it goes on. Where
values of both differ it stops before the name moves, and --changed goes on. Views may be named:
then any change that needs a version is moved so.

  slicewise migrate --plan              what would be done
  slicewise migrate                     every view that needs it
  slicewise migrate by_card --here      one view; its history is built without Airflow
  slicewise migrate by_card --changed   also where the values differ, once somebody saw how
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from slicewise.cli.deploying import add_deploying, deployed
from slicewise.errors import ServerError
from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slicewise.features.plan.changes.projects import Migration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("view", nargs="*", help="views; all that need it by default")
    add_deploying(parser)
    parser.add_argument(
        "--here", action="store_true", help="build from here, where Airflow does not answer"
    )
    parser.add_argument(
        "--changed", action="store_true", help="promote also where values of both differ"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    def notify(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    names = list(dict.fromkeys(arguments.view))
    plan = _left(settings, names, plan=arguments.plan)
    for one in plan:
        notify(f"{one.view:<24} {one.version:<24} {', '.join(one.steps)}")
        for reason in one.reasons:
            notify(f"{'':<24} {reason}")
    if not plan:
        notify("nothing to migrate")
    done = bool(plan) and not arguments.plan
    if done:
        with redirect_stdout(sys.stderr if arguments.json else sys.stdout):
            _migrate(arguments, settings, [one.view for one in plan], plan, notify)
    if arguments.json:
        print(json.dumps({"done": done, "migrations": [asdict(one) for one in plan]}))
    return 0


def _left(settings: Settings, names: Sequence[str], *, plan: bool) -> tuple[Migration, ...]:
    """Migrations that are left, by what is deployed and built now."""
    from slicewise.features.plan.changes.projects import migrations, whole
    from slicewise.features.plan.planner import plan as planned
    from slicewise.features.project import load_project
    from slicewise.local import deploy

    project = planned(load_project(settings.definitions))
    with deployed(settings, plan=plan) as (_, stored):
        now = deploy.require_units(stored)
        after = whole(project, now, probes=settings.probes == "on")
        return migrations(project, after, now, deploy.building(now, stored.metadata), names)


def _migrate(
    arguments: argparse.Namespace,
    settings: Settings,
    views: Sequence[str],
    plan: Sequence[Migration],
    notify: Callable[[str], None],
) -> None:
    """Takes the steps that are left of these views, each for all of them."""
    from slicewise.cli.building import build

    by = ["--by", arguments.by] if arguments.by else []
    if any("apply" in one.steps for one in plan):
        _step(["apply", "--no-wait", *(["--here"] if arguments.here else []), *by])
    build_them = [one.version for one in plan if "build" in one.steps]
    if build_them:
        command = " ".join(["slicewise migrate", *arguments.view])
        build(settings, build_them, notify, command=command, here=arguments.here)
    compared = [one for one in plan if "diff" in one.steps]
    changed = [one.version for one in compared if not _equal(settings, one.version, notify)]
    if changed and not arguments.changed:
        raise ServerError(
            f"{', '.join(changed)} answers other values than the live version",
            where="migrate",
            expected="equal values, or somebody who wants the new ones",
            next_step=f"slicewise diff {changed[0]}; then slicewise migrate --changed goes on",
        )
    promoted = [one.version for one in plan if "promote" in one.steps]
    if promoted:
        _step(["promote", *promoted, *by])
    _step(["retire", *dict.fromkeys(name for one in plan for name in one.replaced), *by])
    left = _left(settings, views, plan=False)
    if left:
        raise ServerError(
            f"{', '.join(one.view for one in left)} is not migrated: something else was deployed",
            where="migrate",
            next_step="slicewise migrate --plan shows what is left",
        )
    notify(f"migrated: {', '.join(views)}")


def _equal(settings: Settings, version: str, notify: Callable[[str], None]) -> bool:
    """Compares a version with the live one, over the archive; tells what differs."""
    from slicewise.features.plan.deployment import base_of
    from slicewise.training.versions.comparing import compare

    outcome = compare(settings, base_of(version), version, None, notify)
    changed = {one.column: one.changed for one in outcome.columns if one.changed}
    text = ", ".join(f"{column} of {n:,}" for column, n in changed.items())
    notify(f"compared   {version:<24} {outcome.rows:,} entities: {text or 'all values equal'}")
    return outcome.is_equal


def _step(command: Sequence[str]) -> None:
    """Runs another command in this process; raises ServerError where it fails, which it has
    explained."""
    from slicewise.cli import main

    if main(command):
        raise ServerError(
            f"slicewise {' '.join(command)} failed",
            where="migrate",
            next_step="do what it says, and run slicewise migrate again: it goes on",
        )
