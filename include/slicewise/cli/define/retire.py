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

from slicewise.cli.deploying import add_deploying, deployed
from slicewise.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", nargs="+", help="names of versions, as by_card@1")
    add_deploying(parser)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.features.plan.changes.projects import retired
    from slicewise.local import deploy
    from slicewise.stores.lake import slices
    from slicewise.stores.lake.catalog import open_catalog

    def notify(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    names = list(dict.fromkeys(arguments.version))
    with deployed(settings, plan=arguments.plan) as (store, stored):
        now, version = deploy.require_units(stored), stored.metadata.deployment_version
        after = retired(now, names)
        kept = {unit.storage_fingerprint for unit in after.units}
        gone = [u.storage_fingerprint for u in now.sliced if u.storage_fingerprint not in kept]
        # before anything is written: of an archive that is away nothing would be dropped later
        catalog = open_catalog(settings)
        tables = [unit for unit in gone if slices.load(catalog, unit) is not None]
        if not arguments.plan:
            metadata = deploy.deploy(settings, store, after, version, by=arguments.by, how="retire")
            version = metadata.deployment_version
            for unit in tables:
                slices.drop(catalog, unit)
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
