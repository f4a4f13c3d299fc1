"""The history of views is built by a job; who asked for it is told how far it is, from the store's
own metadata."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from slicewise.clock import SystemClock
from slicewise.errors import ServerError
from slicewise.features.plan.deployment import Deployment
from slicewise.local import deploy
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.log import Progress
from slicewise.settings import Settings
from slicewise.stores.online.control_record import StoreMetadata
from slicewise.stores.online.model import phases

PATIENCE_S = 1800.0
_DAG = "backfill_view"
_LONG_US = 600_000_000


class Job(Protocol):
    """A run of the job."""

    where: str
    since_us: int
    """Beginning of the build: nobody at work said what was said of it before."""

    def begin(self) -> None: ...
    def over(self) -> bool | None:
        """None while it runs; else whether it ended well."""
        ...

    def waits(self) -> str:
        """The reason why it waits, until it says so itself; empty where that is not known."""
        ...


class ByAirflow:
    """Build as a run of `backfill_view`."""

    def __init__(self, airflow: AirflowApi, view: str | None) -> None:
        self._airflow, self._conf = airflow, {"view": view} if view else {}
        self.where = f"{airflow.url}/dags/{_DAG}"
        self._run: DagRun | None = None
        self._now: DagRun | None = None
        # a run that is under way already may say of a view what it did long before this one is its
        # turn
        self.since_us = SystemClock().now_us() - _LONG_US
        airflow.unpause(_DAG)

    def begin(self) -> None:
        self._run = self._airflow.trigger(_DAG, conf=self._conf)

    def over(self) -> bool | None:
        assert self._run is not None
        self._now = now = self._airflow.run(self._run.dag_id, self._run.run_id)
        return now.well if now.over else None

    def waits(self) -> str:
        if self._now is None or self._now.state == "queued":
            return f"queued in Airflow: runs of {_DAG} come one after another"
        return "Airflow starts its tasks"


class Here:
    """Build as a process of this one's, for when Airflow does not answer. It ends with it, and the
    next goes on."""

    def __init__(self, settings: Settings, view: str | None) -> None:
        job = settings.home / "spark_jobs" / "backfill.py"
        self._argv = [
            str(settings.spark_python),
            str(job),
            "--json",
            *(["--view", view] if view else []),
        ]
        self._env = os.environ | settings.to_env()
        self.where = str(settings.state_dir / "logs" / "backfill.log")
        self._process: subprocess.Popen[bytes] | None = None
        self.since_us = SystemClock().now_us()

    def begin(self) -> None:
        with open(self.where, "ab") as log:  # noqa: PTH123
            self._process = subprocess.Popen(self._argv, stdout=log, stderr=log, env=self._env)

    def over(self) -> bool | None:
        assert self._process is not None
        code = self._process.poll()
        return None if code is None else code == 0

    def waits(self) -> str:
        return phases.STARTING

    def end(self) -> None:
        """Ends whatever is left of it."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


def build(
    settings: Settings,
    views: Collection[str],
    notify: Callable[[str], None],
    *,
    command: str,
    wait: bool = True,
    view: str | None = None,
    here: bool = False,
) -> None:
    """Builds what is not ready; waits until these views are. view: that one alone; command: what to
    run again."""
    with _job(settings, view, here) as job:
        job.begin()
        notify(f"building the history: {job.where}")
        reported: dict[str, str] = {}
        deadline = time.monotonic() + PATIENCE_S
        while wait or here:
            over = job.over()  # before the metadata: a run that is over has written its own
            with deploy.connected(settings) as store:
                stored = deploy.current(store)
                current = deploy.require_units(stored)
                if gone := sorted(set(views) - set(current.views)):
                    raise ServerError(
                        f"{', '.join(gone)} is no longer deployed: deployment version "
                        f"{stored.metadata.deployment_version} stands, without it",
                        expected="what was deployed to stay until its history is built",
                        next_step="slicewise status says whether it was undone, and why",
                    )
                left = deploy.waiting(store, current, stored.metadata, job.waits(), job.since_us)
            left = {name: text for name, text in left.items() if name in views}
            if not left:
                return
            for name, text in left.items():
                if reported.get(name) != text:
                    done, total = _built(current, stored.metadata, name)
                    line = f"building   {name:<24} {text}"
                    notify(Progress(line, f"building {name}", done, total) if total else line)
            reported = left
            if over is False:
                raise ServerError(
                    f"{_DAG} failed: {', '.join(left)} not built",
                    where=job.where,
                    next_step=f"read its log there, mend it, and run {command} again: it goes on",
                )
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{', '.join(left)} not built after {PATIENCE_S:.0f} s",
                    next_step=(
                        f"slicewise status shows how far it is; then run {command} again: it goes "
                        "on"
                    ),
                )
            if over:  # entities were left over that the stream applied meanwhile
                job.begin()
            time.sleep(0.5)


def _built(deployment: Deployment, metadata: StoreMetadata, view: str) -> tuple[int, int]:
    """Pieces of a view's history that are built, and all."""
    units = (unit.storage_fingerprint for unit in deployment.view(view))
    pieces = [metadata.building[unit] for unit in units if unit in metadata.building]
    return sum(done for done, _ in pieces), sum(total for _, total in pieces)


@contextmanager
def _job(settings: Settings, view: str | None, here: bool) -> Iterator[Job]:
    if not here:
        with AirflowApi(settings.airflow_url) as airflow:
            yield ByAirflow(airflow, view)
        return
    own = Here(settings, view)
    try:
        yield own
    finally:
        own.end()
