"""let a view's name stand for another of its versions: at once, for every reader

A version is promoted once its history is built, and while no check found it wrong. Not a byte that
is stored changes: the deployment names other units. A read that is under way is answered by one
version, whole. The version that was live stays readable under its own name (by_card@1) until
slicewise retire; promoting it again goes back. Feature sets that wait for what only the version has
go with it. docs/guides/versions.md says more.

  slicewise promote by_card@2 --plan    what would be done
  slicewise promote by_card@2           do it
  slicewise promote by_card@1           go back
  slicewise promote by_card@2 shops@3   both at once, where a feature set reads both
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from slicewise.cli.deploying import add_deploying, deployed
from slicewise.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slicewise.features.plan.changes.explain import Change
    from slicewise.features.plan.deployment import Deployment
    from slicewise.stores.online.control_record import StoreMetadata


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", nargs="+", help="versions' names, as by_card@2")
    add_deploying(parser)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.by_view import view_changes
    from slicewise.features.plan.changes.explain import changes, leaderboard_changes
    from slicewise.features.plan.changes.projects import promoted
    from slicewise.features.plan.deployment import base_of
    from slicewise.local import deploy
    from slicewise.local.servers import stream

    def notify(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    names = list(dict.fromkeys(arguments.version))
    with deployed(settings, plan=arguments.plan) as (store, stored):
        now, version = deploy.require_units(stored), stored.metadata.deployment_version
        after = promoted(now, *names)
        wanted = [
            *view_changes(c for c in changes(after, now) if c.kind != "unchanged"),
            *(c for c in leaderboard_changes(after, now) if c.kind != "unchanged"),
            *_set_changes(after, now),
        ]
        for change in wanted:
            notify(f"{change.kind:<10} {change.view:<24} {change.reason}")
        if after != now:
            for name in names:
                _require_ready(name, now, stored.metadata)
            _require_green(names, settings)
        done = after != now and not arguments.plan
        if done:
            metadata = deploy.deploy(
                settings, store, after, version, by=arguments.by, how="promote"
            )
            version = metadata.deployment_version
    live = {view: after.live_version("view", view).live for view in map(base_of, names)}
    words = ", ".join(f"{view} stands for version {number}" for view, number in live.items())
    if after == now:
        notify(f"{words}: nothing to do")
    elif not done:
        notify(f"{words}, would be deployed")
    else:
        notify(f"deployed: version {version}; {words}")
        if stream.stream_status(settings).running:
            stream.ensure_emission(settings)
    if arguments.json:
        outcome = {
            "done": done,
            "epoch": version,
            "live": live,
            "changes": [
                {"name": change.view, "change": change.kind, "reason": change.reason}
                for change in wanted
            ],
        }
        print(json.dumps(outcome))
    return 0


def _set_changes(after: Deployment, now: Deployment) -> list[Change]:
    """Feature sets whose live version is another, or that have none then."""
    from slicewise.features.plan.changes.explain import Change
    from slicewise.features.plan.deployment import version_of

    then = {one.name: one for one in now.feature_sets}
    result = []
    for one in after.feature_sets:
        number = after.live_version("feature set", one.name).live
        if one != then.pop(one.name, None) and version_of(one.name) is None:
            reason = f"version {number} of the feature set is live: {', '.join(one.features)}"
            result.append(Change(one.name, "definition", reason))
    gone = (name for name in then if version_of(name) is None)
    return [
        *result,
        *(Change(name, "removed", "it waits for the version that it reads") for name in gone),
    ]


def _require_ready(name: str, now: Deployment, metadata: StoreMetadata) -> None:
    """Raises NotReady while the version's history is not built."""
    from slicewise.errors import NotReady
    from slicewise.local import deploy
    from slicewise.stores.online.model import phases

    left = deploy.building(now, metadata).get(now.current_name("view", name))
    if left is not None:
        raise NotReady(
            f"{name} is not built yet: {phases.progress(*left)}",
            progress=left[0] / left[1] if left[1] else 0.0,
            where=f"promote {name}",
            expected="a version whose history is built",
            next_step="wait for backfill_view, or see what it waits for: slicewise status",
        )


def _require_green(names: Sequence[str], settings: Settings) -> None:
    """Raises ServerError while a check found a version wrong, or suspects it."""
    from slicewise.errors import ServerError
    from slicewise.lifecycle.healing.record import PART, Healing
    from slicewise.stores.online.redis.status import read_part

    red = {*names} & {*Healing.of(read_part(settings.redis_url, PART)).views}
    if red:
        raise ServerError(
            f"a check found values of {', '.join(sorted(red))} that differ, or suspects some",
            where=f"promote {' '.join(names)}",
            expected="a version that the check finds green",
            next_step="see what it found and what is done about it: slicewise checks",
        )
