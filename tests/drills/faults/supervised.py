"""Drivers are lost under Airflow alone: killed, hung or stuck, and nobody starts them but
`ingest_stream`."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from slicewise.lifecycle.incidents import Incident
from slicewise.lifecycle.supervision import NAMED
from slicewise.local.airflow.api import AirflowApi
from slicewise.local.servers import drivers, stream
from slicewise.local.servers.inbox import Inbox
from slicewise.local.servers.process import Birth
from tests.drills.faults.processes import workers
from tests.drills.judging.records import Part
from tests.drills.stage.run import Run, await_that
from tests.drills.stage.scene import (
    MICROBATCH,
    PROJECT,
    Scene,
    scene,
    signal_all,
    write_project,
)

_DAG, _AIRFLOW = "ingest_stream", "airflow"
_PATIENCE_S = 300.0
EMITTED = """

emitted = sw.FeatureView(
    "emitted",
    source=payments,
    entity=["shop"],
    slice="5s",
    emit="emitted.windows",
    features=[sw.Feature("payments", sw.count(), windows=[sw.tumbling("5s")])],
)
"""
"""A view that is published, so that there is an emission to lose."""


@contextmanager
def with_all_drivers(rng: random.Random) -> Iterator[Scene]:
    """A scene with an emission and a prober too; `ingest_stream` alone looks after all four."""
    with TemporaryDirectory(prefix="slicewise-drill-") as folder:
        project = Path(folder)
        text = (PROJECT / "features.py").read_text(encoding="utf-8")
        write_project(project, text + EMITTED)
        with scene(rng, project, SLICEWISE_PROBES="on") as made:
            made.platform.up(_AIRFLOW)
            with AirflowApi(made.platform.settings.airflow_url) as api:
                api.wait_for_dags([_DAG], _PATIENCE_S)
                api.unpause(_DAG)
            made.feed.resume()
            for name in NAMED:
                await_that(
                    partial(_applies, made, name), f"{NAMED[name]} to apply events", _PATIENCE_S
                )
            yield made


def killed(run: Run) -> None:
    """Kills each driver in turn, with all that it started."""
    for name in NAMED:
        _lost(run, name, "SIGKILL", signal.SIGKILL, partial(run.scene.tree, name))


def hung(run: Run) -> None:
    """Stops each driver in turn where it stands, with all that it started."""
    for name in NAMED:
        _lost(run, name, "SIGSTOP", signal.SIGSTOP, partial(run.scene.tree, name))


def stuck(run: Run) -> None:
    """The micro-batch lane's driver lives, and its tasks do not end."""
    _lost(
        run,
        MICROBATCH,
        "SIGSTOP of its Python workers",
        signal.SIGSTOP,
        lambda: workers(run.scene.tree(MICROBATCH)),
    )


def _lost(
    run: Run, name: str, what: str, number: signal.Signals, victims: Callable[[], Sequence[Birth]]
) -> None:
    """One driver is lost, told and well again: one incident, which is told once."""
    made = run.scene
    run.some(1, 3)
    await_that(lambda: bool(victims()), f"{NAMED[name]} to have what is to be lost", _PATIENCE_S)
    pid = stream.driver_status(made.platform.settings, name).pid
    before = _incidents(made, name)
    lost = victims()
    begun = time.monotonic()
    signal_all(lost, number)
    run.kills += 1
    run.noticed(begun, lambda: _is_open(made, name))
    await_that(
        lambda: (
            stream.driver_status(made.platform.settings, name).pid not in (None, pid)
            and _applies(made, name)
        ),
        f"{NAMED[name]} to apply events again",
        _PATIENCE_S,
    )
    run.recover_s.append(time.monotonic() - begun)
    run.parts.append(
        Part(f"{NAMED[name]}: {what}", "driver_lost", run.detect_s[-1], run.recover_s[-1])
    )
    await_that(
        lambda: [one.is_open for one in _incidents(made, name)[len(before) :]] == [False],
        "the word that it is over",
        _PATIENCE_S,
    )
    (incident,) = _incidents(made, name)[len(before) :]
    assert incident.pages == 1, f"{name}: {incident.pages} pages"
    made.await_whole()


def _applies(made: Scene, name: str) -> bool:
    """Tells whether the driver that runs now has applied, published or seen something by itself."""
    look = drivers.look(made.state, name)
    if look is None or not look.running or look.heartbeat_us is None:
        return False
    if look.heartbeat_us < look.started_us:
        return False
    if name == stream.PROBES:
        return int(drivers.heartbeat_of(made.state, name)[1].get("shown", 0)) > 0
    if name == stream.EMIT:
        views = [view for status in look.statuses for view in (status.views or {}).values()]
        return any(view.windows for view in views)
    return any(status.records for status in look.statuses)


def _is_open(made: Scene, name: str) -> bool:
    """Tells whether the watch holds the driver for lost, or not yet for well again."""
    kept = drivers.kept(made.state).get(name)
    return kept is not None and bool(kept.fault)


def _incidents(made: Scene, name: str) -> list[Incident]:
    """Incidents of a driver, by the platform's inbox."""
    before = Inbox(made.platform.settings).read()
    return [incident for incident in before if incident.key == f"driver.{name}"]
