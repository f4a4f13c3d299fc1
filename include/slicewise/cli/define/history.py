"""show every deployment that stood, who made it and what it changed; or all versions of a name

A name is a source's, a view's, a feature set's, a leaderboard's or a suite of expectations', also
of one that is no longer deployed. Its versions count its definitions: what a deployment left as it
was has no line. Deployments are kept for good in the archive's table ops.deployments, where the
hourly compaction enters them; until then the store says them.

  slicewise history                   the newest 20 deployments
  slicewise history --limit 0         all
  slicewise history per_card          what per_card has been, and since when
  slicewise history per_card --json
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slicewise.features.plan.changes.explain import Changed, Stood, Version
    from slicewise.stores.lake.stood import Registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="one name; all deployments without it")
    parser.add_argument(
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="the newest so many deployments, or versions (default: 20; 0: all)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.errors import BadRequest, ServerError, StoreUnavailable
    from slicewise.local import deploy
    from slicewise.stores.lake.stood import read_registry

    if arguments.limit < 0:
        raise BadRequest(
            f"{arguments.limit} deployments",
            where="--limit",
            expected="0 or more",
            next_step="give a number; 0 shows all",
        )
    try:
        with deploy.looked_at(settings) as store:
            registry = read_registry(settings, store)
    except (ServerError, StoreUnavailable):
        registry = read_registry(settings, None)
        if not registry.stood:
            raise
    if arguments.name is None:
        _show_deployments(registry, arguments.limit, as_json=arguments.json)
    else:
        of_name = registry.versions(arguments.name)[-arguments.limit :]
        _show_versions(registry, of_name, as_json=arguments.json)
    return 0


def _show_deployments(registry: Registry, limit: int, *, as_json: bool) -> None:
    from slicewise.cli.table import print_table

    lines = registry.changes()[-limit:]
    if as_json:
        deployments = [_json_of(one, changes) for one, changes in lines]
        print(json.dumps({"deployments": deployments} | _rest(registry)))
        return
    rows = [
        (str(one.version), one.made, one.by or "-", one.how or "-", _summary(changes))
        for one, changes in lines
    ]
    if rows:
        print_table(("version", "made (UTC)", "by", "how", "changes"), rows)
    elif not registry.unread:
        print("nothing was deployed yet: slicewise apply")
    _show_unread(registry)


def _show_versions(registry: Registry, of_name: Sequence[Version], *, as_json: bool) -> None:
    from slicewise.cli.table import print_table

    if as_json:
        shown = [version.to_json() for version in of_name]
        print(json.dumps({"versions": shown} | _rest(registry)))
        return
    rows = [
        (
            f"{version.kind} {version.name}",
            str(version.number),
            str(version.deployment_version),
            version.since,
            version.until,
            version.by or "-",
            version.owner or "-",
            "; ".join(version.differences) or "new",
        )
        for version in of_name
    ]
    header = ("name", "number", "version", "since (UTC)", "until", "by", "owner", "differences")
    print_table(header, rows)
    _show_unread(registry)


def _json_of(one: Stood, changes: Iterable[Changed]) -> dict[str, object]:
    return {
        "version": one.version,
        "at_us": one.at_us,
        "by": one.by,
        "how": one.how,
        "digest": one.deployment.digest,
        "changes": [change.to_json() for change in changes],
    }


def _summary(changes: Iterable[Changed]) -> str:
    """One line: names by what became of them."""
    names: dict[str, list[str]] = {}
    for change in changes:
        names.setdefault(change.effect, []).append(f"{change.kind} {change.name}")
    return "; ".join(f"{effect}: {', '.join(of)}" for effect, of in names.items()) or "none"


def _rest(registry: Registry) -> dict[str, object]:
    unread = [{"version": version, "reason": reason} for version, reason in registry.unread]
    return {"unread": unread, "gaps": list(registry.gaps)}


def _show_unread(registry: Registry) -> None:
    for version, reason in registry.unread:
        print(f"version {version} is not shown: {reason}")
    for gap in registry.gaps:
        print(f"there may have been others: {gap}")
