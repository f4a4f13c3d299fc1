"""build training sets and snapshots, take scheduled ones, and build one again from its manifest

A spine is a file of rows to be answered: the entity's columns, `at`, and whatever else is to be
kept, such as labels. It is Parquet, Feather or CSV. Of a CSV file the entity has the types that its
view declares, so that user 007 stays 007; `at` is RFC 3339 with a zone, or a column of whole
numbers: microseconds since 1970. The result is Parquet, or CSV by its name (lists and structs as
JSON). docs/guides/training.md says more.

A spine may also be a table of the Iceberg catalog (iceberg:namespace.table) or a query
(sql:SELECT …) over sources by their names, such tables, and files; --out takes a table too.

Where the spine asks for more than is archived, the log is archived first: by Spark, some half a
minute. --no-archive refuses instead.

  slicewise dataset build --spine spine.csv --features churn_v1 --out train.parquet
  slicewise dataset build --spine served.parquet --features listening:plays_1h --knowledge token --out train.csv
  slicewise dataset build --spine spine.csv --features churn_v1 --knowledge arrival --out then.parquet
  slicewise dataset build --spine spine.csv --features churn_v1 --known-at 2026-11-21T08:00:00Z \\
      --as-of-definition 2026-11-21T08:00:00Z --out that_day.parquet
  slicewise dataset build --spine spine.csv --features churn_v1 --out train.csv --statistics
  slicewise dataset build --spine year.parquet --features churn_v1 --out year_set.parquet --engine spark
  slicewise dataset build --spine "sql:SELECT user_id, played_at AS at FROM plays" \\
      --features churn_v1 --out iceberg:training.churn
  slicewise dataset snapshot --features churn_v1 --at 2026-11-21T08:00:00Z --out all.parquet
  slicewise dataset snapshot --features churn_v1 --at 2026-11-21T08:00:00Z \\
      --known-at 2026-11-21T09:00:00Z --out all_as_known.parquet
  slicewise dataset scheduled
  slicewise dataset take
  slicewise dataset rebuild train.manifest.json --out again.parquet
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from slicewise.errors import BadRequest
from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slicewise.training.archiving.offline import Offline
    from slicewise.training.dataset import DataSet
    from slicewise.training.scaled.building import ScaledSet
    from slicewise.training.statistics import Statistics

_AT = "aware instant: 2026-11-21T08:00:00Z"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    build = actions.add_parser("build", help="a training set for a spine")
    build.add_argument(
        "--spine",
        required=True,
        help="entity columns, at, labels: a Parquet, Feather or CSV file, iceberg:namespace.table, "
        "or sql:SELECT …",
    )
    build.add_argument(
        "--knowledge",
        default="event_time",
        choices=("event_time", "token", "arrival"),
        help="event_time: all that is known now of events before `at`; token: what the answers had "
        "whose tokens stand in the spine; arrival: what the stream had applied by `at`",
    )
    snapshot = actions.add_parser(
        "snapshot", help="all entities at one or several instants, without a spine"
    )
    snapshot.add_argument("--at", help=_AT)
    snapshot.add_argument("--start", help=_AT)
    snapshot.add_argument("--end", help=_AT + ", not included")
    snapshot.add_argument("--every", help="a duration such as 1h")
    for command in (build, snapshot):
        command.add_argument(
            "--known-at", help=f"by arrival: what was applied by one instant, for all rows; {_AT}"
        )
        command.add_argument(
            "--features",
            required=True,
            nargs="+",
            help='a feature set, or refs "view:column", also comma separated',
        )
        command.add_argument(
            "--deployment", type=Path, help="a deployment's JSON in place of the one that runs"
        )
        command.add_argument(
            "--as-of-definition", help=f"with the deployment that stood at this instant; {_AT}"
        )
        command.add_argument(
            "--engine",
            default="auto",
            choices=("auto", "local", "spark"),
            help="local: this process; spark: the same bits, of more events than it has room for; "
            "auto chooses by size",
        )
        command.add_argument(
            "--no-archive", action="store_true", help="refuse what is not archived yet"
        )
    scheduled = actions.add_parser("scheduled", help="snapshots that are taken on a schedule")
    take = actions.add_parser("take", help="take the scheduled snapshots that are due")
    take.add_argument("names", nargs="*", help="these alone; all by default")
    for command in (scheduled, take):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    rebuild = actions.add_parser("rebuild", help="the same bytes once more, from a manifest")
    rebuild.add_argument("manifest", type=Path)
    rebuild.add_argument("--spine", type=Path, help="by default the file beside the manifest")
    for command in (build, snapshot, rebuild):
        command.add_argument(
            "--out",
            required=True,
            help="Parquet file, or CSV by its name; manifest and spine go beside it. Or "
            "iceberg:namespace.table, written in one commit",
        )
        command.add_argument("--json", action="store_true", help="the report as one JSON object")
        command.add_argument(
            "--statistics", action="store_true", help="show what there is of each feature"
        )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.training.tables.locations import ICEBERG

    if arguments.action in ("scheduled", "take"):
        return (_scheduled if arguments.action == "scheduled" else _take)(arguments, settings)
    begun = time.monotonic()
    _refuse_out(arguments)
    again = arguments.action == "rebuild"
    with bars(_notify, wanted=not arguments.json) as notify:
        make = _rebuilt if again else _built
        offline, built = make(arguments, settings, notify)
        notify(f"writing {built.manifest.rows} rows")
        with built:
            table = arguments.out.removeprefix(ICEBERG)
            if table != arguments.out:
                written = built.to_iceberg(table, settings)
            else:
                written = built.write(Path(arguments.out))
    if not again:  # a data set that is built again is the one that was recorded
        offline.record(written, table if table != arguments.out else Path(arguments.out).name)
    report = {
        "dataset": written.name,
        "rows": written.rows,
        "features": len(written.features),
        "knowledge": written.knowledge,
        "sources": {source: contents["seq"] for source, contents in written.sources.items()},
        "errors": dict(written.errors),
        "incomplete": dict(written.incomplete),
        "sha256": written.content,
        "out": arguments.out,
        "seconds": round(time.monotonic() - begun, 2),
    }
    if arguments.json:
        print(json.dumps(report | {"statistics": written.statistics}))
    else:
        for key, value in report.items():
            print(f"{key:<10} {value}")
        if arguments.statistics:
            print()
            _print_statistics(written.rows, written.statistics)
    return 0


def _scheduled(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.table import print_table
    from slicewise.training.scheduled.planned import load_scheduled
    from slicewise.training.scheduled.taking import newest_of
    from slicewise.training.tables.instants import text_of

    planned = load_scheduled(settings)
    newest, now_us = newest_of(settings, planned), time.time_ns() // 1_000
    rows = []
    for one in planned:
        until_us = newest[one.name]
        features = one.features if isinstance(one.features, str) else ", ".join(one.features)
        taken = "" if until_us is None else text_of(until_us)
        due = str(len(one.missing(until_us, now_us)))
        rows.append((one.name, features, one.table, one.every, taken, due))
    names = ("name", "features", "table", "every", "newest", "due")
    if arguments.json:
        print(json.dumps({"snapshots": [dict(zip(names, row, strict=True)) for row in rows]}))
    elif rows:
        print_table(names, rows)
    else:
        print(f"nothing is scheduled: there is no {settings.snapshots}")
    return 0


def _take(arguments: argparse.Namespace, settings: Settings) -> int:
    """Takes what is due. One that fails keeps none of the others from being taken."""
    from slicewise.errors import SlicewiseError
    from slicewise.training.scheduled.planned import chosen, load_scheduled
    from slicewise.training.scheduled.taking import newest_of, take

    planned = chosen(load_scheduled(settings), tuple(arguments.names))
    newest, now_us = newest_of(settings, planned), time.time_ns() // 1_000
    taken, failed = [], []
    for one in planned:
        ats = one.missing(newest[one.name], now_us)
        try:
            taken += [take(settings, one, ats, _notify)] if ats else []
        except SlicewiseError as error:
            print(f"{one.name}: {error}", file=sys.stderr)
            failed.append({"name": one.name, "error": error.what})
    report = {"scheduled": len(planned), "taken": taken, "failed": failed}
    if arguments.json:
        print(json.dumps(report))
    else:
        for row in taken:
            print(f"{row['name']}: {row['rows']} rows of {len(row['ats'])} instants")
        if not taken and not failed:
            print("nothing is due")
    return 1 if failed else 0


def _print_statistics(rows: int, statistics: Mapping[str, Statistics]) -> None:
    """Prints what there is of each feature: a column that is all null, or constant, shows."""
    from slicewise.cli.table import print_table

    lines = []
    for ref, column in statistics.items():
        given = rows - int(column["nulls"])
        rest = (f"{name} {_short(value)}" for name, value in column.items() if name != "nulls")
        lines.append((ref, f"{given:,} of {rows:,}", ", ".join(rest)))
    print_table(("feature", "not null", "values"), lines)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _rebuilt(
    arguments: argparse.Namespace, settings: Settings, notify: Callable[[str], None]
) -> tuple[Offline, DataSet]:
    from slicewise.training.api import open_again

    return open_again(settings, arguments.manifest, arguments.spine, step=notify)


def _built(
    arguments: argparse.Namespace, settings: Settings, notify: Callable[[str], None]
) -> tuple[Offline, DataSet | ScaledSet]:
    from slicewise.features.plan.deployment import Deployment
    from slicewise.training.api import as_of, open_snapshot, open_training_set, snapshot_instants

    features = [part for text in arguments.features for part in text.split(",") if part]
    wanted = features[0] if len(features) == 1 and ":" not in features[0] else features
    deployment = None
    if arguments.deployment is not None:
        deployment = Deployment.from_json(_text_of(arguments.deployment))
    deployment = as_of(settings, deployment, arguments.as_of_definition)
    archive = not arguments.no_archive
    if arguments.action == "snapshot":
        ats = snapshot_instants(arguments.at, arguments.start, arguments.end, arguments.every)
        return open_snapshot(
            settings,
            wanted,
            ats,
            deployment,
            known_at=arguments.known_at,
            engine=arguments.engine,
            archive=archive,
            notify=notify,
            step=notify,
        )
    spine, knowledge = arguments.spine, arguments.knowledge
    return open_training_set(
        settings,
        spine,
        wanted,
        knowledge,
        deployment,
        known_at=arguments.known_at,
        engine=arguments.engine,
        archive=archive,
        notify=notify,
        step=notify,
    )


def _refuse_out(arguments: argparse.Namespace) -> None:
    """Before any work: a result that has no place to go, or would stand in the place of what it is
    made of."""
    from slicewise.training.api import checked_target
    from slicewise.training.tables.locations import ICEBERG, SQL

    if arguments.out.startswith(ICEBERG):
        from slicewise.stores.lake.named import refuse_own

        refuse_own(arguments.out.removeprefix(ICEBERG), "--out")
        return
    out = checked_target(Path(arguments.out))
    if not out.parent.is_dir():
        raise BadRequest(
            f"there is no folder {out.parent}",
            where="--out",
            expected="a folder that exists",
            next_step="make it first",
        )
    spine = str(getattr(arguments, "spine", None) or "")
    if spine.startswith((SQL, ICEBERG)) or not out.exists():
        return
    if spine and Path(spine).is_file() and out.samefile(spine):
        raise BadRequest(
            f"{out} is the spine",
            where="--out",
            expected="a file of its own",
            next_step="name another file",
        )


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadRequest(
            f"{path} cannot be read: {error.strerror}",
            where="--deployment",
            expected="a deployment's JSON",
            next_step="leave it out to ask for what runs",
        ) from error


def _notify(line: str) -> None:
    print(f"dataset: {line}", file=sys.stderr, flush=True)
