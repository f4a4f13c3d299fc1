"""stop keeping versions that are not live: their keys and their compacted hours go

A version beside the live one takes as much of the store and of each micro-batch as the live one
does. Retiring it is a deployment without it: the stream stops writing it at once, sweep_expired
frees its keys, and the tables of its compacted hours are dropped. A version that a feature set
reads is refused with its readers; the sets' own versions are retired beside it. Events stay in the
archive: the definition can be applied again, and is built again.

  slicewise retire by_card@1 --plan
  slicewise retire by_card@1 risk@1
"""

from __future__ import annotations

import argparse
import json

from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", nargs="+", help="names of versions, as by_card@1")
    parser.add_argument("--plan", action="store_true", help="show the plan, and change nothing")
    parser.add_argument(
        "--by", default="", metavar="NAME", help="who does so, for slicewise history (default: you)"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.features.plan.changes.projects import retired
    from slicewise.local import deploy
    from slicewise.stores.lake import slices
    from slicewise.stores.lake.catalog import open_catalog

    def notify(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    names = list(dict.fromkeys(arguments.version))
    connect = deploy.looked_at if arguments.plan else deploy.connected
    with connect(settings) as store:
        stored = deploy.current(store)
        now, version = deploy.require_units(stored), stored.metadata.deployment_version
        after = retired(now, names)
        if not arguments.plan:
            metadata = deploy.deploy(settings, store, after, version, by=arguments.by, how="retire")
            version = metadata.deployment_version
    kept = {unit.storage_fingerprint for unit in after.units}
    gone = [unit for unit in now.sliced if unit.storage_fingerprint not in kept]
    catalog = open_catalog(settings)
    tables: list[str] = []
    for unit in gone:
        exists = slices.load(catalog, unit.storage_fingerprint) is not None
        if exists and not arguments.plan:
            slices.drop(catalog, unit.storage_fingerprint)
        tables += [unit.storage_fingerprint] * exists
    for name in names:
        notify(f"{'would go' if arguments.plan else 'retired'}  {name}")
    notify(f"{len(tables)} tables of compacted hours; sweep_expired frees the keys")
    if not arguments.plan:
        notify(f"deployed: version {version}")
    if arguments.json:
        outcome = {
            "done": not arguments.plan,
            "epoch": version,
            "retired": names,
            "tables": tables,
        }
        print(json.dumps(outcome))
    return 0
