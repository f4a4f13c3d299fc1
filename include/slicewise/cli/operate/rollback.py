"""put the last good deployment back: the one under which all drivers were last well

The watch of ingest_stream does so by itself where a driver cannot live under a new deployment: two
starts did not help it. By hand it undoes a deployment for any other reason. What the deployment
before had not is gone with it, its history too; what it had and the new one removed is built again.
A deployment that changed a source's schema is not undone: records are read by it from a recorded
offset on.

  slicewise rollback --plan          what would be done
  slicewise rollback                 do it
  slicewise rollback --version 7     only where version 7 is what stands
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", type=int, help="the deployment version that is to be undone")
    add_deploying(parser)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from slicewise.cli.building import build
    from slicewise.cli.by_view import view_changes
    from slicewise.errors import DeploymentSuperseded, ServerError
    from slicewise.features.plan.changes.explain import changes, refuse_changed_schemas
    from slicewise.features.plan.deployment import Deployment
    from slicewise.local import deploy
    from slicewise.local.servers import stream, supervisor
    from slicewise.stores.online.operations.deploying import ReadManifest

    def notify(line: str) -> None:
        if not arguments.json:
            print(line, flush=True)

    kept = supervisor.deployments(settings)
    with deployed(settings, plan=arguments.plan) as (store, stored):
        now, version = deploy.require_units(stored), stored.metadata.deployment_version
        if arguments.version not in (None, version):
            raise DeploymentSuperseded(
                f"deployment version {version} stands, and {arguments.version} is to be undone",
                next_step="see what stands: slicewise status",
            )
        text = store.run(ReadManifest(kept.good)) if kept.good else None
        if text is None:
            raise ServerError(
                "no deployment is known under which all drivers were well",
                where=str(settings.state_dir),
                expected="a deployment that ingest_stream watched for two minutes",
                next_step="put the definitions back as they were, and run slicewise apply --remove",
            )
        good = Deployment.from_json(text)
        wanted = [change for change in changes(good, now) if change.kind != "unchanged"]
        for change in view_changes(wanted):
            notify(f"{change.kind:<10} {change.view:<24} {change.reason}")
        refuse_changed_schemas(now, good)
        if good != now and not arguments.plan:
            metadata = deploy.deploy(
                settings, store, good, version, by=arguments.by, how="rollback"
            )
            version = metadata.deployment_version
            left = deploy.building(good, metadata)
        else:
            left = {}
    if good == now:
        notify(f"deployment version {version} is the last good one: nothing to do")
    elif arguments.plan:
        notify(f"version {version} would be undone for what was version {kept.good_version}")
    else:
        notify(f"deployed: version {version}, as version {kept.good_version} was")
        if stream.stream_status(settings).running:
            stream.ensure_emission(settings)
            stream.ensure_probes(settings)
        if left:
            build(settings, good.views, notify, wait=False, command="slicewise rollback")
    if arguments.json:
        print(json.dumps(_outcome(wanted, good, version, done=good != now and not arguments.plan)))
    return 0


def _outcome(
    wanted: Sequence[Change], good: Deployment, version: int, *, done: bool
) -> dict[str, object]:
    return {
        "done": done,
        "version": version,
        "digest": good.digest,
        "changes": [
            {"view": change.view, "change": change.kind, "reason": change.reason}
            for change in wanted
        ],
    }
