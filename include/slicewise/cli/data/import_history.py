"""take a table in as the past of a source: events of before its topic began

The source names the table and the instant up to which events come from it:

  payments = sw.KafkaSource("payments", …, history="parquet:/data/payments/*.parquet",
                            history_until="2026-11-01T00:00:00Z")

Rows before that instant are archived as events of a topic of their own; records of the topic that
are as old are refused (reason in_history), so that no event counts twice. The table is read twice:
once to count and digest each hour, once to write it. Stopped at any moment, the command goes on
when it is run again; once all is archived it changes nothing. A row that the source refuses is kept
aside with its reason, as a record of the topic is. Then the source's views are built again, with
their history.

  slicewise import-history payments --plan      rows, hours, what is left out, how long it takes
  slicewise import-history payments             take it in, and build the views
  slicewise import-history payments --no-wait   leave the views to slicewise rebuild
  slicewise import-history payments --anew      forget what a stopped import of another table wrote
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from slicewise.features.schema.kafka_source import KafkaSource
    from slicewise.training.history.importing import Import, ImportPlan, TakenInto


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a source that declares history= and history_until=")
    parser.add_argument("--plan", action="store_true", help="show the plan, and change nothing")
    parser.add_argument(
        "--anew", action="store_true", help="begin anew what was stopped and is not archived"
    )
    parser.add_argument(
        "--at-once", type=int, metavar="ROWS", help="about so many in memory (default: 500000)"
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="leave the views to slicewise rebuild"
    )
    parser.add_argument(
        "--here", action="store_true", help="run the job from here, where Airflow does not answer"
    )
    parser.add_argument(
        "--by", default="", metavar="NAME", help="who does so, for slicewise history (default: you)"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome for programs")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.bars import bars
    from slicewise.cli.building import build
    from slicewise.errors import BadRequest
    from slicewise.local.deploy import contain_history
    from slicewise.training.history.importing import Imported

    work = _import_of(settings, arguments.source, plan=arguments.plan)
    if arguments.at_once is not None:
        if arguments.at_once < 1:
            raise BadRequest(
                f"--at-once {arguments.at_once}",
                where="--at-once",
                expected="1 or more",
                next_step="leave it out for 500,000",
            )
        work.part_rows = arguments.at_once
    if arguments.anew and not arguments.plan:
        work.discard()
    if arguments.plan:
        planned = work.plan()
        if arguments.json:
            print(json.dumps(planned.to_json()))
        else:
            _show(planned)
        return 0

    def contained(taken: TakenInto) -> list[str]:
        every = taken.rows + taken.bad
        return contain_history(settings, work.source, taken.topic_id, every, by=arguments.by)

    # One that was ended between its archive and the views needs the table no more.
    stood = work.stood()
    views = [] if stood is None else contained(stood)
    if stood is not None and views:
        imported = Imported(stood, {}, is_new=False)
        work.forget()
    else:
        with bars(_notify, wanted=not arguments.json) as notify:
            imported = work.run(notify)
        views = contained(imported.taken)
    taken = imported.taken
    every = taken.rows + taken.bad
    if not arguments.json:
        verb = "archived" if imported.is_new else "was archived before:"
        print(f"{work.source.name}: {verb} {taken.rows:,} events, {taken.bad:,} rows kept aside")
        for reason, count in sorted(imported.bad.items()):
            print(f"  {reason}: {count:,}")
        print("views that are built again: " + (", ".join(views) or "none"))
    if views and not arguments.no_wait:
        with bars(_notify, wanted=not arguments.json) as notify:
            build(settings, set(views), notify, command="slicewise rebuild", here=arguments.here)
    elif views and not arguments.json:
        print("next: slicewise rebuild, or the DAG backfill_view, builds them")
    if arguments.json:
        outcome = {
            "source": work.source.name,
            "rows": every,
            "events": taken.rows,
            "bad_rows": taken.bad,
            "bad": dict(imported.bad),
            "digest": taken.digest,
            "archive_version": taken.archive_version,
            "new": imported.is_new,
            "views": views,
        }
        print(json.dumps(outcome))
    return 0


def _import_of(settings: Settings, name: str, *, plan: bool) -> Import:
    """The import of a source. Raises UnknownName, BadRequest, DefinitionError, ServerError."""
    from slicewise.clock import SystemClock
    from slicewise.errors import BadRequest
    from slicewise.features.plan.planner import plan_source
    from slicewise.features.project import load_project
    from slicewise.local import deploy
    from slicewise.stores.lake.catalog import open_catalog
    from slicewise.training.history.importing import Import

    declared = _declared(load_project(settings.definitions).sources, name)
    with (deploy.looked_at if plan else deploy.connected)(settings) as store:
        deployment = deploy.require_units(deploy.current(store))
    if declared.history is None:
        raise BadRequest(
            f"source {name!r} declares no history",
            where=str(settings.definitions),
            expected='history="parquet:…" and history_until="…" in its declaration',
            next_step="declare both, then slicewise apply",
        )
    source = deployment.source(name)
    if source.schema_fingerprint != plan_source(declared).schema_fingerprint:
        raise BadRequest(
            f"source {name!r} is deployed with another schema",
            where=str(settings.definitions),
            expected="the declaration that is deployed, with its history_until",
            next_step="slicewise apply",
        )
    return Import(
        settings, open_catalog(settings), deployment, source, declared.history, SystemClock()
    )


def _declared(sources: tuple[KafkaSource, ...], name: str) -> KafkaSource:
    from slicewise.names import unknown

    by_name = {source.name: source for source in sources}
    if name not in by_name:
        raise unknown("source", name, by_name, "slicewise import-history")
    return by_name[name]


def _show(planned: ImportPlan) -> None:
    about = "not measured yet" if planned.seconds is None else f"{planned.seconds:,.0f} s"
    text = planned.to_json()
    lines = {
        "table": planned.location,
        "rows": f"{planned.rows:,}, in {planned.hours:,} hours",
        "from, to": f"{text['first']}, {text['last']}",
        "cut at": text["until"],
        "left out": f"{planned.beyond:,} rows from there on",
        "without a time": f"{planned.no_time:,} rows, to be kept aside",
        "other columns": ", ".join(planned.left_out) or "none",
        "digest": planned.digest,
        "written so far": f"{planned.written:,} rows",
        "takes about": "nothing: it is archived" if planned.is_done else about,
    }
    for name, line in lines.items():
        print(f"{name:<15} {line}")


def _notify(line: str) -> None:
    print(f"import-history: {line}", file=sys.stderr, flush=True)
