"""deploy the project's definitions onto the running platform, and wait until new views answer

What the project computes by code of its own is tried first, as slicewise check does, and the plan
is shown. A new view is picked up by the stream at once; its history is built from the archive by
Airflow's backfill_view, and it answers when that stands. A view whose logic changed keeps its name:
the new version stands beside the live one, as by_card@2, until slicewise promote moves the name
(docs/guides/versions.md). The first deployment hands the
stream to Airflow, and waits until it reads the project's topics, which are made where they are
missing; --no-wait leaves the stream as it is.

A source's schema changes in place: records wait for some five seconds, and from the offsets that
are told then every part judges by the new schema, below them by the one before. A column added, one
removed that no view reads, required, limits and an integer's width are absorbed; views that read a
column that is wider now (a decimal's digits, float to double) are built again under their names;
what the archive cannot go on with is refused. Apply first, and let producers change afterwards: a
record that does not fit the schema of its offset is kept as a bad one, and told.
docs/guides/schemas.md says more.

  slicewise apply                 plan, deploy, wait
  slicewise apply --no-wait       deploy, and let Airflow build the history
  slicewise apply --no-wait --here    leave the stream as it is, and build without Airflow
  slicewise apply --remove --json also stop serving views that the project no longer has

  slicewise plan && slicewise apply        a schema that changed: what it costs, and then from where it holds
    records of orders wait some seconds, until nobody reads by the schema before
    schema of orders: column 'coupon' (string) is added; from offset 1811 of partition 0, 1882 of partition 1 on
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slicewise.features.plan.changes.explain import Change
    from slicewise.features.plan.deployment import Deployment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the outcome for programs")
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait for the history of new views"
    )
    parser.add_argument(
        "--here",
        action="store_true",
        help="build the history by a process of this one's, where Airflow does not answer",
    )
    parser.add_argument(
        "--by", default="", metavar="NAME", help="who deploys, for slicewise history (default: you)"
    )
    parser.add_argument(
        "--remove", action="store_true", help="allow views to go that the project no longer has"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli import streaming as _streaming
    from slicewise.cli.bars import bars
    from slicewise.cli.building import build
    from slicewise.cli.by_view import view_changes
    from slicewise.cli.define._costing import COST_HEAD, cost_rows, costs_of
    from slicewise.cli.define.check import law_checks
    from slicewise.cli.table import print_table
    from slicewise.errors import DefinitionError
    from slicewise.features.plan.changes.explain import (
        changes,
        refuse_changed_units,
        schema_history,
    )
    from slicewise.features.plan.changes.projects import whole as with_probes
    from slicewise.features.plan.planner import plan
    from slicewise.features.project import load_project
    from slicewise.local import deploy
    from slicewise.local.servers import stream, supervisor

    def notify(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    project = load_project(settings.definitions)
    planned = plan(project)
    for passed in law_checks(project, planned):
        notify(
            f"law check  {passed.aggregate.describe():<24} obeys the laws on "
            f"{passed.histories} histories"
        )
    supervisor.require_up(settings, ["redis", "kafka"])
    with deploy.connected(settings) as store:
        current = deploy.current(store)
        if current.deployment is not None and current.deployment.opening:
            current = deploy.in_effect(settings, store)  # an apply was ended before it was done
        whole = with_probes(planned, current.deployment, probes=settings.probes == "on")
        own = replace(
            whole, units=tuple(unit for unit in whole.units if unit.project == planned.project)
        )
        wanted = [
            change
            for change in changes(whole, current.deployment)
            if change.view in own.views or change.kind == "removed"
        ]
        for change in view_changes(wanted):
            notify(f"{change.kind:<10} {change.view:<24} {change.reason}")
        refuse_changed_units(whole, current.deployment)
        costs, unread = costs_of(settings, own, current.deployment, wanted)
        if costs and not arguments.json:
            print_table(COST_HEAD, cost_rows(costs))
        if unread:
            notify(f"what a build costs is not known: {unread}")
        gone = [change.view for change in wanted if change.kind == "removed"]
        if gone and not arguments.remove:
            raise DefinitionError(
                f"the project no longer has {', '.join(gone)}, which is served",
                where=str(settings.definitions),
                next_step="put it back, or remove it for good: slicewise apply --remove",
            )
        metadata = deploy.deploy(
            settings, store, whole, current.metadata.deployment_version, by=arguments.by
        )
        if whole.opening:
            names = whole.opening
            notify(
                f"records of {', '.join(names)} wait some seconds, until nobody reads by the "
                "schema before"
            )
            current = deploy.with_schemas(settings, store, metadata, by=arguments.by)
            metadata, whole = current.metadata, deploy.require_units(current)
            for name in names:
                notify(f"schema of {name}: {schema_history(whole.source(name))[-1].text}")
        left = deploy.building(own, metadata)
    notify(f"deployed: version {metadata.deployment_version}, {len(own.views)} views")
    for leaderboard in planned.leaderboards:
        notify(
            f"leaderboard {leaderboard.name}: "
            f"{settings.serving_url}/leaderboards/{leaderboard.name}"
        )
    if stream.stream_status(settings).running:
        # it is to publish what is new, or has nothing to do any more
        stream.ensure_emission(settings)
        stream.ensure_probes(settings)
    elif current.deployment is None and not arguments.no_wait:
        _streaming.begin(settings, [source.name for source in planned.sources], notify)
    else:
        _streaming.report_stopped(notify)  # somebody stopped it, or starts it later
    if left:
        with bars(notify, wanted=not arguments.json) as shown:
            build(
                settings,
                own.views,
                shown,
                wait=not arguments.no_wait,
                command="slicewise apply",
                here=arguments.here,
            )
    if arguments.json:
        schemas = {
            source.name: [e.to_json() for e in schema_history(source)]
            for source in whole.sources
            if source.earlier
        }
        waited = arguments.here or not arguments.no_wait
        outcome = _outcome(planned, wanted, metadata.deployment_version, waited=waited)
        print(json.dumps(outcome | {"schemas": schemas}))
    else:
        _example(settings, own, wanted)
        _beside(wanted)
    return 0


def _outcome(
    planned: Deployment, wanted: Sequence[Change], deployment_version: int, waited: bool
) -> dict[str, object]:
    return {
        "project": planned.project,
        "digest": planned.digest,
        "epoch": deployment_version,
        "ready": waited,
        "changes": [asdict(change) for change in wanted],
    }


def _example(settings: Settings, own: Deployment, wanted: Sequence[Change]) -> None:
    fresh = [change.view for change in wanted if change.kind == "new"]
    if not fresh:
        return
    unit = own.view(fresh[0])[0]
    entity = {name: "…" for name, _ in unit.entity}
    body = {"features": [f"{unit.view}:{unit.features[0].column}"], "entities": [entity]}
    print("ask it:")
    print(
        f"  curl -s {settings.serving_url}/v1/features -H 'content-type: application/json' "
        f"-d '{json.dumps(body, ensure_ascii=False)}'"
    )


def _beside(wanted: Sequence[Change]) -> None:
    """Prints how each new version becomes the live one."""
    from slicewise.features.plan.deployment import version_of

    for name in dict.fromkeys(change.view for change in wanted if change.kind == "new"):
        if version_of(name) is not None:
            print(f"compare it, and move the name: slicewise diff {name}, slicewise promote {name}")
