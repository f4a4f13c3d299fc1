"""explain slices, sizes, reads and what deploying the project would change; changes nothing

A view whose logic changed is a version beside the live one, as by_card@2, under `new`: what it
stores, and what differs; docs/guides/versions.md says more.

A source's schema may change in place. `definition` is what a view absorbs: a column added, one
removed that no view reads, required, limits, an integer's width. `new` is built again from the
archive, under its name: where the view reads a column that is wider now (a decimal's digits, float
to double) or stands elsewhere. `refused` is what the archive cannot go on with, and the exit status
is 1. `schema of …` lists each schema of a deployed source and the first offsets that it judges; the
next one holds from where the log ends when it is applied. docs/guides/schemas.md says more.

  slicewise plan                                    this project, against what runs
  slicewise plan changed/ --against .               against another version of the project; asks no server
    paid: new; the source's price changed: built again from the archive, 503 until then; …
    schema of orders: column 'price' is decimal(12,2), was decimal(6,2); from where the log ends when it is applied
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from slicewise.cli.table import print_table
from slicewise.errors import StoreUnavailable
from slicewise.settings import Settings, redacted, urls_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slicewise.features.plan.changes.explain import Explained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "project", nargs="?", help="folder of slicewise.toml (default: found upwards from here)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--events-per-hour",
        type=_rate,
        metavar="N",
        help="of one entity, for sizes (default: any number)",
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--offline", action="store_true", help="do not compare with the running platform"
    )
    other.add_argument(
        "--against",
        metavar="PROJECT",
        help="compare with this project instead, as if it were deployed",
    )


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e12:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of events (more than 0, less than 1e12)"
        )
    return rate


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.by_view import view_changes
    from slicewise.cli.define._costing import COST_HEAD, cost_rows, costs_of
    from slicewise.cli.define.check import definitions_of
    from slicewise.features.plan.changes.explain import (
        SIZES,
        changes,
        explain,
        leaderboard_changes,
        published,
        schema_history,
    )
    from slicewise.features.plan.changes.projects import joined
    from slicewise.features.plan.deployment import Deployment
    from slicewise.features.plan.planner import plan
    from slicewise.features.project import load_project
    from slicewise.lifecycle.realtime import microbatch_only
    from slicewise.stores.online.redis.status import read_status

    deployment = plan(load_project(definitions_of(arguments.project, settings)))
    running, compared, is_platform = None, "compared with nothing, as asked", False
    if arguments.against is not None:
        running = plan(load_project(definitions_of(arguments.against, settings)))
        compared = f"compared with the project in {arguments.against}"
    elif not arguments.offline:
        try:
            # reads only, unlike a deployment's connection
            manifest = read_status(settings.redis_url).manifest
            running = Deployment.from_json(json.dumps(manifest)) if manifest else None
            is_platform = running is not None
            compared = (
                "nothing is deployed yet"
                if running is None
                else f"compared with deployment {running.digest[:16]}"
            )
        except StoreUnavailable:
            compared = f"nothing runs at {redacted(settings.redis_url)}: compared with nothing"
    after = joined(deployment, running)
    own = tuple(
        dict.fromkeys(unit.view for unit in after.units if unit.project == deployment.project)
    )
    rows = [row for row in explain(after, running, arguments.events_per_hour) if row.view in own]
    every = [
        change
        for change in changes(after, running)
        if change.view in own or change.kind == "removed"
    ]
    costs, unread = costs_of(settings, after, running if is_platform else None, every)
    own = tuple(leaderboard.name for leaderboard in deployment.leaderboards)
    leaderboards = [
        leaderboard_change
        for leaderboard_change in leaderboard_changes(after, running)
        if leaderboard_change.view in own or leaderboard_change.kind == "removed"
    ]
    topics = published(deployment)
    nodes = (
        1
        if settings.realtime == "on"
        else max(len(urls_of(settings.redis_url)), settings.store_nodes)
    )
    by_microbatch = microbatch_only(deployment, nodes)
    schemas = {
        source.name: schema_history(source) for source in after.declared.sources if source.earlier
    }
    if arguments.json:
        whole = {
            "project": deployment.project,
            "digest": deployment.digest,
            "compared": compared,
            "units": [row.to_json() for row in rows],
            "changes": [
                {"view": c.view, "change": c.kind, "reason": c.reason, "unit": c.unit}
                for c in every
            ],
            "builds": [cost.to_json() for cost in costs],
            "fold_alone": [{"view": view, "reason": why} for view, why in by_microbatch],
            "published": [{"view": view, "what": what} for view, what in topics],
            "schemas": {
                name: [version.to_json() for version in took] for name, took in schemas.items()
            },
            "leaderboards": [
                {"name": c.view, "change": c.kind, "reason": c.reason} for c in leaderboards
            ],
        }
        print(json.dumps(whole))
        return 1 if any(change.kind == "refused" for change in every) else 0

    print_units(rows)
    print()
    print_reads(rows)
    print()
    for change in view_changes(every):
        print(f"{change.view}: {change.kind}; {change.reason}")
    for change in leaderboards:
        print(f"leaderboard {change.view}: {change.kind}; {change.reason}")
    if costs:
        print()
        print_table(COST_HEAD, cost_rows(costs))
        print()
    if unread:
        print(f"what a build costs is not known: {unread}")
    for view, why in by_microbatch:
        print(f"{view}: visible when the micro-batch lane has it, not at once; {why}")
    for name, history in schemas.items():
        for took in history:
            print(f"schema of {name}: {took.text}")
    for view, what in topics:
        print(f"{view}: published {what}")
    per_hour = arguments.events_per_hour
    rate = "" if per_hour is None else f" and {per_hour:g} events of an entity an hour"
    print(f"\n{compared}\n{SIZES}{rate}; reads are fields besides the hot hash, at most")
    return 1 if any(change.kind == "refused" for change in every) else 0


def print_units(rows: Sequence[Explained]) -> None:
    """The views of a plan as a table, one row for each."""
    from slicewise.cli.by_view import by_view

    header = (
        "view",
        "entity",
        "slice",
        "levels",
        "kept",
        "features",
        "partials",
        "row",
        "row at most",
        "entity at most",
        "reads",
        "change",
    )
    print_table(header, [_row(group) for group in by_view(rows)])


def _row(units: Sequence[Explained]) -> tuple[str, ...]:
    """The cells of a view: what differs between its units side by side, what adds up as one
    number."""
    from slicewise.cli.by_view import view_changes

    (change,) = view_changes(unit.change for unit in units)
    return (
        units[0].view,
        units[0].entity,
        _distinct(unit.slice for unit in units),
        _distinct(_levels(unit) for unit in units),
        _distinct(unit.retention for unit in units),
        str(sum(unit.features for unit in units)),
        str(sum(len(unit.partials) for unit in units)),
        _distinct(f"{unit.bytes_per_row} B" for unit in units),
        _distinct(_size(unit.most_bytes_per_row) for unit in units),
        _size(sum(unit.bytes_per_entity for unit in units)),
        str(sum(unit.reads_per_request for unit in units)),
        change.kind,
    )


def _levels(unit: Explained) -> str:
    return (
        "-"
        if unit.slice == "events"
        else ", ".join(("slice", *unit.levels, "1h", "1d", *(("5d",) * unit.pentads)))
    )


def _distinct(texts: Iterable[str]) -> str:
    """The texts that differ, with a plus between them."""
    return " + ".join(dict.fromkeys(texts))


def print_reads(rows: Sequence[Explained]) -> None:
    """Prints how many fields of each level a read takes, by window of slices, as a table."""
    header = ("view", "window", "5d", "1d", "1h", "minutes", "slices", "lists of hours")
    table = [
        (row.view, read.window, *map(str, counts))
        for row in rows
        for read in row.reads
        for counts in [(read.pentads, read.days, read.hours, read.minutes, read.slices, read.lists)]
    ]
    if table:
        print_table(header, table)


def _size(count: int) -> str:
    if count < 2**10:
        return f"{count} B"
    return f"{count / 1024:.0f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"
