"""type the project's definitions and run their tests; needs no server"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.settings import PROJECT_FILE, Settings

if TYPE_CHECKING:
    from slicewise.features.declare.project import Project
    from slicewise.features.plan.changes.law_check import LawCheck
    from slicewise.features.plan.deployment import Deployment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "project", nargs="?", help="folder of slicewise.toml (default: found upwards from here)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def definitions_of(project: str | None, settings: Settings) -> Path:
    """The file with the definitions of the named project, or of the one that settings found."""
    if project is None:
        return settings.definitions
    folder = Path(project).expanduser().absolute()
    folder = folder.parent if folder.name == PROJECT_FILE else folder
    return Settings.load({"SLICEWISE_PROJECT": str(folder)}).definitions


def law_checks(project: Project, deployment: Deployment) -> Iterator[LawCheck]:
    """The project's own aggregates, each once it has obeyed the laws. Raises DefinitionError where
    one does not, and where a row function does not follow from its row alone: neither is to be
    deployed."""
    from slicewise.cli.row_function_check import verify
    from slicewise.features.plan.changes.law_check import check_laws, own_aggregates

    yield from map(check_laws, own_aggregates(deployment))
    for view in project.views:
        for name, function in {
            named_function
            for unit in deployment.view(view.name)
            for named_function in unit.functions
        }:
            verify(function, f"column {name!r} of {view.subject}")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.aggregates.sketches.membership import answer_type
    from slicewise.cli.cases import run_case
    from slicewise.features.plan.planner import plan
    from slicewise.features.project import load_project

    file = definitions_of(arguments.project, settings)
    project = load_project(file)
    deployment = plan(project)
    own: list[dict[str, object]] = []
    for passed in law_checks(project, deployment):
        own.append({"aggregate": passed.aggregate.describe(), "histories": passed.histories})
        if not arguments.json:
            print(
                f"aggregate {passed.aggregate.describe()}: obeys the laws on "
                f"{passed.histories} histories"
            )
    report: list[dict[str, object]] = []
    failed = ran = 0
    for view in project.views:
        outcomes = [run_case(view, case, i) for i, case in enumerate(view.tests, 1)]
        ran += len(outcomes)
        failed += sum(not outcome.passed for outcome in outcomes)
        features = {
            f.column: str(answer_type(f.aggregate))
            for unit in deployment.view(view.name)
            for f in unit.features
        }
        report.append(
            {
                "view": view.name,
                "features": features,
                "tests": [
                    {
                        "name": outcome.name,
                        "passed": outcome.passed,
                        "error": outcome.error,
                        "refused": outcome.refused,
                        "raised": list(outcome.raised),
                        "differences": [
                            {
                                "column": d.column,
                                "expected": repr(d.expected),
                                "answered": repr(d.answered),
                            }
                            for d in outcome.differences
                        ],
                    }
                    for outcome in outcomes
                ],
            }
        )
        if not arguments.json:
            print(f"view {view.name}: {len(features)} features, {len(outcomes)} tests")
            for outcome in outcomes:
                print(f"  {'ok  ' if outcome.passed else 'FAIL'} {outcome.name}")
                for d in outcome.differences:
                    print(f"       {d.column}: expected {d.expected!r}, answered {d.answered!r}")
                if outcome.error:
                    print("       " + outcome.error.replace("\n", "\n       "))
                for text in outcome.raised:
                    print("       warning: " + text.replace("\n", "\n       "))
                if outcome.refused and not outcome.passed:
                    print(f"       left out: {outcome.refused}")
    if arguments.json:
        names = [
            [definition.name for definition in named]
            for named in (deployment.feature_sets, deployment.leaderboards)
        ]
        whole = {
            "project": project.name,
            "ok": not failed,
            "aggregates": own,
            "views": report,
            "feature_sets": names[0],
            "leaderboards": names[1],
        }
        print(json.dumps(whole))
    else:
        summary = f"{failed} of {ran} tests failed" if failed else f"{ran} tests passed"
        for leaderboard in deployment.leaderboards:
            print(
                f"leaderboard {leaderboard.name}: the {leaderboard.k} with the highest "
                f"{leaderboard.ref}"
            )
        sets = f"{len(project.feature_sets)} feature sets"
        leaderboards = f", {len(project.leaderboards)} leaderboards" if project.leaderboards else ""
        print(
            f"project {project.name}: {len(project.views)} views, {sets}{leaderboards}, {summary}"
        )
    return 1 if failed else 0
