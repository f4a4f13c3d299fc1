"""show what a name means now: its definition in words, who uses it, and its versions

A name is a source's, a view's, a feature set's or a leaderboard's that is deployed. Of one that is
gone slicewise history shows the versions.

  slicewise show per_card
  slicewise show per_card --json
"""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.features.plan.changes.explain import Description, Version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="one name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.features.plan.changes.explain import descriptions
    from slicewise.local import deploy
    from slicewise.names import unknown

    with deploy.looked_at(settings) as store:
        deployment = deploy.require_units(deploy.current(store))
        registry = deploy.read_registry(settings, store)
    every = descriptions(deployment)
    shown = [one for one in every if one.name == arguments.name]
    if not shown:
        raise unknown("name", arguments.name, [one.name for one in every])
    versions = registry.versions(arguments.name)
    if arguments.json:
        print(
            json.dumps(
                {
                    "definitions": [one.to_json() for one in shown],
                    "versions": [version.to_json() for version in versions],
                }
            )
        )
        return 0
    for one in shown:
        _print(one, [version for version in versions if version.kind == one.kind])
    return 0


def _print(one: Description, versions: list[Version]) -> None:
    from slicewise.cli.table import print_table, shortened

    print(f"{one.kind} {one.name}")
    if one.description:
        print(textwrap.indent(one.description, "  "))
    facts = {"owner": one.owner, "project": one.project, "tags": ", ".join(one.tags)}
    facts |= one.facts
    facts["used by"] = ", ".join(one.uses) or "nothing that is deployed"
    for word, text in facts.items():
        if text:
            print(f"  {word:<16}{text}")
    if one.features:
        print()
        rows = [
            (feature.column, feature.aggregate, feature.window, shortened(feature.description))
            for feature in one.features
        ]
        print_table(("feature", "aggregate", "window", "description"), rows)
    print()
    for version in versions:
        by = f", by {version.by}" if version.by else ""
        what = "; ".join(version.differences) or "new"
        print(f"version {version.number}, deployment {version.deployment_version}{by}: {what}")
