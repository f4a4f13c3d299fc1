"""show what a name means now: its definition, who uses it, its versions, and how fresh it is

A name is a source's, a view's, a feature set's or a leaderboard's that is deployed. Of one that is
gone slicewise history shows the versions. Data sets that were built of it are its users too; the
values of its features in the newest of them stand beside the features.

  slicewise show per_card
  slicewise show per_card --json
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from typing import TYPE_CHECKING

from slicewise.errors import SlicewiseError
from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.lifecycle.registry.shown import Shown
    from slicewise.stores.lake.kept import RecordedSet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="one name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.lifecycle.registry.shown import shown, shown_json
    from slicewise.lifecycle.registry.uses import uses_of
    from slicewise.local import deploy
    from slicewise.stores.lake.stood import read_registry
    from slicewise.stores.online.redis.status import read_status

    with deploy.looked_at(settings) as store:
        deployment = deploy.require_units(deploy.current(store))
        registry = read_registry(settings, store)
    status, sets = read_status(settings.redis_url), _sets(settings)
    uses = None if sets is None else uses_of(arguments.name, deployment, sets)
    every = shown(arguments.name, deployment, registry, status, uses)
    if arguments.json:
        print(json.dumps(shown_json(every)))
        return 0
    for one in every:
        _print(one)
    return 0


def _sets(settings: Settings) -> tuple[RecordedSet, ...] | None:
    """The data sets that were built; None where the archive does not answer."""
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.stores.lake.kept import recorded_sets

    try:
        return recorded_sets(open_catalog(settings))
    except (SlicewiseError, OSError) as error:
        print(f"data sets and values are left out: {error}", file=sys.stderr)
        return None


def _print(one: Shown) -> None:
    from slicewise.cli.table import print_table, shortened
    from slicewise.lifecycle.registry.uses import values_text

    definition = one.definition
    print(f"{definition.kind} {definition.name}")
    if definition.description:
        print(textwrap.indent(definition.description, "  "))
    for word, text in one.facts.items():
        print(f"  {word:<16}{text}")
    if definition.features:
        print()
        statistics = one.statistics()
        names: tuple[str, ...] = ("feature", "aggregate", "window", "description")
        rows: list[tuple[str, ...]] = []
        for feature in definition.features:
            text = shortened(" ".join(feature.description.split()))
            values = values_text(statistics.get(feature.column, {}))
            row = (feature.column, feature.aggregate, feature.window, text)
            rows.append((*row, values) if statistics else row)
        print_table((*names, "values of the newest data set") if statistics else names, rows)
    print()
    for version in one.versions:
        by = f", by {version.by}" if version.by else ""
        what = "; ".join(version.differences) or "new"
        print(f"version {version.number}, deployment {version.deployment_version}{by}: {what}")
