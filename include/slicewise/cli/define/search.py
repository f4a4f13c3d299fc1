"""find what is deployed by words: names, columns, aggregates, owners, projects, descriptions, tags

Lists the definitions that all words are about, whatever the case. Those with a word in their name
come first.

  slicewise search amount             what reads or aggregates an amount
  slicewise search mean 10m           means over ten minutes
  slicewise search team-risk --json   all that a team owns
  slicewise search pii                all that has this tag, or is described so
"""

from __future__ import annotations

import argparse
import json

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="WORD", help="all of them are to be met")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.table import print_table, shortened
    from slicewise.features.plan.changes.explain import descriptions, matching
    from slicewise.local import deploy

    with deploy.looked_at(settings) as store:
        deployment = deploy.require_units(deploy.current(store))
    text = " ".join(arguments.words)
    matches = matching(descriptions(deployment), text)
    if arguments.json:
        print(json.dumps({"words": text, "matches": [one.to_json() for one in matches]}))
        return 0
    if not matches:
        print(f"nothing that is deployed is about {text!r}")
        return 0
    words = text.lower().split()
    rows = []
    for one in matches:
        features = [
            feature.column
            for feature in one.features
            if any(word in feature.words for word in words)
        ]
        rows.append((one.kind, one.name, one.owner or "-", shortened(", ".join(features))))
    print_table(("kind", "name", "owner", "features"), rows)
    return 0
