"""A project that is deployed onto a store and a broker of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewise.cli import main
from slicewise.lifecycle.deployed import Deployments
from slicewise.local import deploy
from slicewise.local.servers import drivers
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from slicewise.stores.online.operations.readiness import MarkReady
from tests.support.platform.servers import RedisServer

VIEW = """
{name} = sw.FeatureView(
    "{name}",
    source=plays,
    entity=["user_id"],
    features=[sw.Feature("plays", sw.{aggregate}, windows=["1h"])],
)
"""
SOURCE = """
import slicewise as sw

plays = sw.KafkaSource(
    "plays",
    schema={{"user_id": "string", "seconds": "double", {more}"played_at": "timestamp_us"}},
    timestamp="played_at",
)
"""
PLAYS = VIEW.format(name="listening", aggregate="count()")
MORE = VIEW.format(name="longest", aggregate='max("seconds")')


class Platform:
    """A store and a broker, and one project that is deployed onto them."""

    def __init__(
        self,
        project: Path,
        settings: Settings,
        redis: RedisServer,
        out: pytest.CaptureFixture[str],
    ) -> None:
        self.project, self.settings, self.redis, self.out = project, settings, redis, out

    def writes(self, *definitions: str, more: str = "") -> None:
        """Writes the project's definitions, over its source."""
        text = SOURCE.format(more=more) + "".join(definitions)
        (self.project / "features.py").write_text(text)

    def deploys(self, *views: str, more: str = "") -> int:
        """Deploys a project of these views; the deployment version."""
        from slicewise.features.plan.planner import plan
        from slicewise.features.project import load_project

        self.writes(*views, more=more)
        planned = plan(load_project(self.project / "features.py"))
        with deploy.connected(self.settings) as store:
            version = deploy.current(store).metadata.deployment_version
            return deploy.deploy(self.settings, store, planned, version).deployment_version

    @property
    def stands(self) -> tuple[int, tuple[str, ...], str]:
        """Version, views and digest of what is deployed."""
        with deploy.connected(self.settings) as store:
            current = deploy.current(store)
        deployment = deploy.require_units(current)
        return current.metadata.deployment_version, deployment.views, deployment.digest

    def good(self) -> None:
        """Marks what stands as good."""
        version, _, digest = self.stands
        drivers.keep_deployments(
            StateFolder(self.settings.state_dir), Deployments(good=digest, good_version=version)
        )

    def runs(self, *words: str) -> tuple[int, str]:
        """Runs a command; its exit code and what it printed."""
        code = main(words)
        printed = self.out.readouterr()
        return code, printed.out + printed.err

    def ready(self) -> None:
        """Marks all that stands as built, as backfill_view does once it is."""
        with deploy.connected(self.settings) as store:
            current = deploy.current(store)
            views = dict[str, list[str]]()
            for unit in deploy.require_units(current).units:
                views.setdefault(unit.view, []).append(unit.storage_fingerprint)
            for unit in deploy.require_units(current).units:
                if unit.storage_fingerprint not in current.metadata.ready:
                    start = current.metadata.starts[unit.storage_fingerprint]
                    store.run(MarkReady(unit, start, views))

    def rollback(self, *words: str) -> tuple[int, str]:
        """Runs the command; its exit code and what it printed."""
        return self.runs("rollback", *words)

    def history(self, *words: str) -> dict[str, Any]:
        """The object that `slicewise history` prints."""
        code, printed = self.runs("history", *words, "--json")
        assert code == 0, printed
        shown: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return shown
