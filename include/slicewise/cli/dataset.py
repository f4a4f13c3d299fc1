"""build training sets and snapshots, and build one again from its manifest"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from slicewise.settings import Settings

_AT = "aware instant: 2026-11-21T08:00:00Z"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    build = actions.add_parser("build", help="a training set for a spine")
    build.add_argument("--spine", required=True, type=Path, help="Parquet file: entity columns, at, labels")
    build.add_argument("--knowledge", default="event_time", choices=("event_time", "token"))
    snapshot = actions.add_parser("snapshot", help="all entities at one or several instants, without a spine")
    snapshot.add_argument("--at", help=_AT)
    snapshot.add_argument("--start", help=_AT)
    snapshot.add_argument("--end", help=_AT + ", not included")
    snapshot.add_argument("--every", help="a duration such as 1h")
    for each in (build, snapshot):
        each.add_argument(
            "--features", required=True, nargs="+", help='a feature set, or refs "view:column", also comma separated'
        )
        each.add_argument("--deployment", type=Path, help="a deployment's JSON in place of the one that runs")
    rebuild = actions.add_parser("rebuild", help="the same bytes once more, from a manifest")
    rebuild.add_argument("manifest", type=Path)
    rebuild.add_argument("--spine", type=Path, help="by default the file beside the manifest")
    for each in (build, snapshot, rebuild):
        each.add_argument("--out", required=True, type=Path, help="Parquet file; manifest and spine go beside it")
        each.add_argument("--json", action="store_true", help="the report as one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.features.plan import Deployment
    from slicewise.training import dataset as made
    from slicewise.training.api import snapshot_instants
    from slicewise.training.manifest import SPINE_SUFFIX, SUFFIX, Manifest
    from slicewise.training.offline import Offline

    begun = time.monotonic()
    again = arguments.action == "rebuild"
    if again:
        manifest = Manifest.read(arguments.manifest)
        deployment: Deployment | None = manifest.deployed()
    elif arguments.deployment is not None:
        deployment = Deployment.from_json(arguments.deployment.read_text(encoding="utf-8"))
    else:
        deployment = None
    _say("opening the archive")
    offline = Offline.open(settings, deployment)
    if again:
        name = arguments.manifest.name.removesuffix(SUFFIX)
        beside = arguments.manifest.with_name(name + SPINE_SUFFIX)
        _say(f"building {manifest.rows} rows of {len(manifest.features)} features again")
        spine = arguments.spine or (beside if manifest.spine else None)
        built = made.rebuild(offline.archive, manifest, spine, str(arguments.manifest))
    else:
        features = [each for text in arguments.features for each in text.split(",") if each]
        wanted = features[0] if len(features) == 1 and ":" not in features[0] else features
        _say(f"building {', '.join(features)}")
        if arguments.action == "build":
            built = made.build_training_set(
                offline.deployment, offline.archive, arguments.spine, wanted, arguments.knowledge
            )
        else:
            ats = snapshot_instants(arguments.at, arguments.start, arguments.end, arguments.every)
            built = made.build_snapshot(offline.deployment, offline.archive, wanted, ats)
    _say(f"writing {built.table.num_rows} rows")
    written = built.to_parquet(arguments.out)
    if not again:  # a data set that is built again is the one that was recorded
        offline.record(written, arguments.out.name)
    report = {
        "dataset": written.name,
        "rows": written.rows,
        "features": len(written.features),
        "knowledge": written.knowledge,
        "sources": {source: each["seq"] for source, each in written.sources.items()},
        "errors": dict(written.errors),
        "incomplete": dict(written.incomplete),
        "sha256": written.content,
        "out": str(arguments.out),
        "seconds": round(time.monotonic() - begun, 2),
    }
    if arguments.json:
        print(json.dumps(report))
    else:
        for key, value in report.items():
            print(f"{key:<10} {value}")
    return 0


def _say(what: str) -> None:
    print(f"dataset: {what}", file=sys.stderr, flush=True)
