"""move views to how this version of slicewise stores them: apply, build, diff, promote, retire

A version of slicewise may store an aggregate otherwise than the one before: its semantic version is
raised. A deployed view goes on as it was, read and written by the class of before, until it is
migrated. Then the new version is registered beside it, built from the archive, compared, promoted,
and the old one is retired: by the commands that do so for any version (docs/guides/versions.md).

The plan is shown first. What is done already is not done again: run it again, and it goes on. Where
values of both differ it stops before the name moves, and --changed goes on. Views may be named:
then any change that needs a version is moved so. Other changes of the project that nobody has
applied are listed, and it stops; --with-others deploys them too. Of each view the version that was
live goes; others stay readable by their own names, until slicewise retire.

  slicewise migrate --plan              what would be done
  slicewise migrate                     every view that needs it
  slicewise migrate by_card --here      one view; its history is built without Airflow
  slicewise migrate by_card --changed   also where the values differ, once somebody saw how
  slicewise migrate --with-others       and deploy what else changed in the project
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING

from slicewise.cli.deploying import add_deploying, deployed
from slicewise.errors import DefinitionError, ServerError
from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slicewise.features.plan.changes.explain import Changed
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
    parser.add_argument(
        "--with-others", action="store_true", help="deploy other changes of the project too"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    def notify(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    names = list(dict.fromkeys(arguments.view))
    plan, others = _left(settings, names, plan=arguments.plan)
    for one in plan:
        notify(f"{one.view:<24} {one.version:<24} {', '.join(one.steps)}")
        for reason in one.reasons:
            notify(f"{'':<24} {reason}")
        for name in one.stays:
            notify(
                f"{'':<24} {name} stays, by its class of before: slicewise retire {name} before a "
                "release without it"
            )
    for change in others:
        notify(f"{change.name:<24} {change.effect}: not part of it, and not applied yet")
    if not plan:
        notify("nothing to migrate")
    done = bool(plan) and not arguments.plan
    if done:
        if others and not arguments.with_others:
            raise _others_wait(others)
        with redirect_stdout(sys.stderr if arguments.json else sys.stdout):
            _migrate(arguments, settings, [one.view for one in plan], plan, notify)
    if arguments.json:
        others_json = [change.to_json() for change in others]
        migrations = [asdict(one) for one in plan]
        print(json.dumps({"done": done, "migrations": migrations, "others": others_json}))
    return 0


def _others_wait(others: Sequence[Changed]) -> DefinitionError:
    names = ", ".join(f"{change.kind} {change.name} ({change.effect})" for change in others)
    return DefinitionError(
        f"the project has other changes that are not applied: {names}",
        where="migrate",
        expected="a migration by itself",
        next_step="slicewise apply first; or slicewise migrate --with-others deploys them too",
    )


def _left(
    settings: Settings, names: Sequence[str], *, plan: bool
) -> tuple[tuple[Migration, ...], tuple[Changed, ...]]:
    """Migrations that are left, by what is deployed and built now; and the project's changes that
    would be deployed along with them."""
    from slicewise.features.plan.changes.projects import beside, migrations, whole
    from slicewise.features.plan.deployment import base_of
    from slicewise.features.plan.planner import plan as planned
    from slicewise.features.project import load_project
    from slicewise.local import deploy
    from slicewise.stores.lake.stood import read_registry

    project = planned(load_project(settings.definitions))
    with deployed(settings, plan=plan) as (store, stored):
        now = deploy.require_units(stored)
        after = whole(project, now, probes=settings.probes == "on")
        has_versions = any(base_of(name) != name for name in now.views)
        stood = read_registry(settings, store).stood if has_versions else ()
        left = migrations(
            project,
            after,
            now,
            deploy.building(now, stored.metadata),
            names,
            [one.deployment for one in stood],
        )
        return left, beside(after, now, left)


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
    left, _ = _left(settings, views, plan=False)
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
