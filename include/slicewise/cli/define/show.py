"""show what a name means now: its definition, who uses it, its versions, and how fresh it is

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
    from slicewise.lifecycle.registry.shown import Shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="one name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.lifecycle.registry.shown import shown, shown_json
    from slicewise.local import deploy
    from slicewise.stores.lake.stood import read_registry
    from slicewise.stores.online.redis.status import read_status

    with deploy.looked_at(settings) as store:
        deployment = deploy.require_units(deploy.current(store))
        registry = read_registry(settings, store)
    every = shown(arguments.name, deployment, registry, read_status(settings.redis_url))
    if arguments.json:
        print(json.dumps(shown_json(every)))
        return 0
    for one in every:
        _print(one)
    return 0


def _print(one: Shown) -> None:
    from slicewise.cli.table import print_table, shortened

    definition = one.definition
    print(f"{definition.kind} {definition.name}")
    if definition.description:
        print(textwrap.indent(definition.description, "  "))
    for word, text in one.facts.items():
        print(f"  {word:<16}{text}")
    if definition.features:
        print()
        rows = [
            (
                feature.column,
                feature.aggregate,
                feature.window,
                shortened(" ".join(feature.description.split())),
            )
            for feature in definition.features
        ]
        print_table(("feature", "aggregate", "window", "description"), rows)
    print()
    for version in one.versions:
        by = f", by {version.by}" if version.by else ""
        what = "; ".join(version.differences) or "new"
        print(f"version {version.number}, deployment {version.deployment_version}{by}: {what}")
