"""list what is expected of events and of features' values; changes nothing

Every hour is judged after its compaction (DAG check_expectations). `implied` follows from the
definitions, `declared` is `expect=[…]` of a source or a feature, or stands in a suite file of the
folder `expectations`. What depends on other hours is added when an hour is judged: the volume, the
share of nulls and the distance of a distribution from the reference hour.

  slicewise expectations                 of this project
  slicewise expectations --only orders   of one source or view
  slicewise expectations --json          for programs
    events.orders   declared  critical  expect_column_values_to_not_be_null  amount  mostly=0.99
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "project", nargs="?", help="folder of slicewise.toml (default: found upwards from here)"
    )
    parser.add_argument("--only", metavar="NAME", help="a source or a view")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.checks.expectations.suites import FROM_OTHER_HOURS, suites
    from slicewise.cli.define.check import definitions_of
    from slicewise.cli.table import print_table
    from slicewise.features.plan.planner import plan
    from slicewise.features.project import load_project
    from slicewise.names import unknown

    deployment = plan(load_project(definitions_of(arguments.project, settings)))
    every = suites(deployment)
    chosen = [suite for suite in every if arguments.only in (None, suite.of)]
    if not chosen:
        raise unknown("source or view", arguments.only, {suite.of for suite in every})
    if arguments.json:
        listed = [
            {
                "suite": suite.name,
                "owner": suite.owner or None,
                "expectations": [wanted.to_json() for wanted in suite.wanted],
                "from_other_hours": FROM_OTHER_HOURS[suite.kind],
            }
            for suite in chosen
        ]
        print(json.dumps({"project": deployment.project, "suites": listed}))
        return 0
    print_table(
        ("suite", "origin", "severity", "expectation", "column", "arguments"),
        [
            (suite.name, w.origin, w.severity, w.type, w.column, _arguments(w.kwargs))
            for suite in chosen
            for w in suite.wanted
        ],
    )
    for suite in chosen:
        for name in FROM_OTHER_HOURS[suite.kind]:
            print(f"{suite.name}: {name}, by other hours, when an hour is judged")
    return 0


def _arguments(kwargs: Mapping[str, object]) -> str:
    given = (f"{name}={value}" for name, value in kwargs.items() if name != "column")
    return ", ".join(given)
