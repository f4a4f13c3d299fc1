"""Drivers and servers are lost under Airflow alone: nobody starts a driver but `ingest_stream`, and
each fault is one page and one word that it is over, at a receiver of alerts."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slicewise.lifecycle.supervision import NAMED
from slicewise.local import deploy
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import drivers, stream, supervisor
from slicewise.local.servers.process import Birth
from tests.drills.faults.processes import workers
from tests.drills.judging.records import Part
from tests.drills.stage.run import Run, await_that
from tests.drills.stage.scene import (
    MICROBATCH,
    PROJECT,
    TOPIC,
    Scene,
    scene,
    signal_all,
    write_project,
)
from tests.support.platform.receiver import receiving

_DAG, _AIRFLOW, _VIEW = "ingest_stream", "airflow", "per_card"
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
ENDLESS = """

class Endless(sw.Aggregate):
    columns = {"shop": "string"}
    fields = {"n": "long"}
    output = "long"

    def empty(self):
        return (0,)

    def accumulate(self, state, event):
        n = 0
        if event["shop"] == "endless":
            for turn in range(1_000_000_000_000_000):
                n = turn
        return (state[0] + 1,)

    def combine(self, a, b):
        return (a[0] + b[0],)

    def finish(self, state):
        return state[0]


endless = sw.FeatureView(
    "endless",
    source=payments,
    entity=["card"],
    slice="1m",
    features=[sw.Feature("payments", Endless("shop"), windows=["10m"])],
)
"""
"""A view that no driver gets past an event of that shop with."""


@contextmanager
def with_all_drivers(rng: random.Random) -> Iterator[Scene]:
    """A scene with an emission and a prober too; `ingest_stream` alone looks after all four."""
    with (
        TemporaryDirectory(prefix="slicewise-drill-") as folder,
        receiving() as receiver,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLICEWISE_ALERT_WEBHOOK", receiver.url)
        project = Path(folder)
        text = (PROJECT / "features.py").read_text(encoding="utf-8")
        write_project(project, text + EMITTED)
        with scene(rng, project, SLICEWISE_PROBES="on") as made:
            made.receiver = receiver
            made.platform.up(_AIRFLOW)
            with AirflowApi(made.platform.settings.airflow_url) as api:
                api.wait_for_dags([_DAG, "sweep_expired"], _PATIENCE_S)
                api.unpause(_DAG)
                api.unpause("sweep_expired")
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
    pages = _Paged(made, f"driver.{name}")
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
    pages.awaits(["driver_lost", "driver_well"])
    made.await_whole()


def undone(run: Run) -> None:
    """A deployment under which no driver gets on: the one before stands again, with no hand."""
    made, settings = run.scene, run.scene.platform.settings
    receiver = made.receiver
    assert receiver is not None
    await_that(
        lambda: drivers.kept_deployments(made.state).good == made.deployment.digest,
        "the deployment to be known as good",
        _PATIENCE_S,
    )
    posted = len(receiver.posts)
    project = settings.project_dir
    text = (project / "features.py").read_text(encoding="utf-8")
    write_project(project, text + ENDLESS)
    made.platform.cli("apply", "--no-wait")
    run.some(5, 10)
    event = {"card": "card 1", "shop": "endless", "amount": 1.5, "items": 1, "accepted": True}
    event |= {"paid_at": time.time_ns() // 1000} | dict.fromkeys(("born", "fee", "at", "tags"))
    begun = time.monotonic()
    made.platform.produce(TOPIC, [(0, json.dumps(event).encode(), time.time_ns() // 1_000_000)])
    run.noticed(begun, lambda: _is_open(made, MICROBATCH))
    await_that(
        lambda: drivers.kept_deployments(made.state).undone_version > 0,
        "the deployment to be undone",
        3 * _PATIENCE_S,
    )
    print(f"undone after {time.monotonic() - begun:.0f} s", flush=True)
    await_that(lambda: _applies(made, MICROBATCH), "events to be applied again", _PATIENCE_S)
    made.await_whole()
    run.recover_s.append(time.monotonic() - begun)
    run.parts.append(
        Part(
            "a view that ends at no event", "deployment_undone", run.detect_s[-1], run.recover_s[-1]
        )
    )
    with deploy.connected(settings) as store:
        assert deploy.current(store).deployment == made.deployment, "not what was good"
    lost = [name for name in NAMED if receiver.events(f"driver.{name}")]
    await_that(
        lambda: all(receiver.events(f"driver.{name}")[-1] == "driver_well" for name in lost),
        "the word that it is over",
        _PATIENCE_S,
    )
    pages = Counter(post["event"] for post in receiver.posts[posted:])
    print(f"pages: {dict(pages)} of {lost}", flush=True)
    assert pages["deployment_undone"] == 1
    assert pages["driver_lost"] == pages["driver_well"] == len(lost)
    assert pages.total() == 2 * len(lost) + 1, f"pages of what follows from it: {pages}"
    write_project(project, text)


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


class _Paged:
    """Pages about one incident's key from now on."""

    def __init__(self, scene: Scene, key: str) -> None:
        assert scene.receiver is not None, "this platform has no receiver of alerts"
        self.key = key
        self.receiver = scene.receiver
        self.before = len(self.events)

    @property
    def events(self) -> list[str]:
        return self.receiver.events(self.key)

    def awaits(self, events: list[str]) -> None:
        """Waits until these pages have come; any other is a failure at once."""

        def come() -> bool:
            paged = self.events[self.before :]
            assert paged == events[: len(paged)], f"{self.key}: {paged}, and {events} are due"
            return paged == events

        await_that(come, f"{events} of {self.key}", _PATIENCE_S)


def paged(run: Run) -> None:
    """Breaks one thing after another: each is one page, and one word that it is over."""
    made, settings = run.scene, run.scene.platform.settings
    _broken(
        run,
        "the broker is away for longer than half a minute",
        "broker",
        ["broker_away", "broker_back"],
        lambda: supervisor.down(settings, print, only=("kafka",)),
        lambda: made.platform.up("kafka"),
    )
    with AirflowApi(settings.airflow_url) as api:
        _broken(
            run,
            "the store is away, and a sweep fails for it",
            "store",
            ["store_not_well", "incident_over"],
            lambda: supervisor.down(settings, print, only=("redis",)),
            lambda: made.platform.up("redis"),
            meanwhile=lambda: _triggered(api, "sweep_expired", well=False),
        )
        _training_set(run, api)
    receiver = made.receiver
    assert receiver is not None
    opened = Counter(post["key"] for post in receiver.posts if post["state"] == "open")
    over = Counter(post["key"] for post in receiver.posts if post["state"] == "over")
    print(f"pages: {dict(opened)}; words that it is over: {dict(over)}", flush=True)
    wanted = {"broker", "store", *(key for key in opened if key.startswith("build_training_set"))}
    others = {post["key"]: post["error"] for post in receiver.posts if post["key"] not in wanted}
    assert not others, f"pages of what follows from another fault: {others}"
    assert opened == over == dict.fromkeys(wanted, 1), f"{opened} opened, {over} are over"


def _broken(
    run: Run,
    what: str,
    key: str,
    events: list[str],
    breaks: Callable[[], object],
    mends: Callable[[], object],
    *,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """A thing breaks, which pages once, and is mended once it was told."""
    run.some(1, 3)
    pages = _Paged(run.scene, key)
    begun = time.monotonic()
    breaks()
    run.noticed(begun, lambda: bool(pages.events[pages.before :]))
    meanwhile()
    mended = time.monotonic()
    mends()
    pages.awaits(events)
    run.recover_s.append(time.monotonic() - mended)
    run.parts.append(Part(what, events[0], run.detect_s[-1], run.recover_s[-1]))
    run.scene.await_whole()


def _training_set(run: Run, api: AirflowApi) -> None:
    """A run that a person triggers fails for a spine that is not there, and the next one has it."""
    made = run.scene
    folder = made.platform.settings.state_dir.parent
    unit = next(unit for unit in made.deployment.units if unit.view == _VIEW)
    conf = {
        "spine": str(folder / "spine.parquet"),
        "features": f"{unit.view}:{unit.features[0].column}",
        "out": str(folder / "set.parquet"),
    }
    begun = time.monotonic()
    failed = _triggered(api, "build_training_set", well=False, conf=conf)
    pages = _Paged(made, f"build_training_set.build.{failed.run_id}")
    assert pages.events == ["task_failed"], f"{pages.events} of a run that failed"
    run.detect_s.append(time.monotonic() - begun)
    now = datetime.now(UTC)
    entity = unit.entity[0][0]
    rows = {entity: ["card 1"], "at": pa.array([now], pa.timestamp("us", tz="UTC"))}
    pq.write_table(pa.table(rows), folder / "spine.parquet")
    mended = time.monotonic()
    _triggered(api, "build_training_set", well=True, conf=conf)
    pages.awaits(["incident_over"])
    run.recover_s.append(time.monotonic() - mended)
    what = "a training set without its spine, then with it"
    run.parts.append(Part(what, "task_failed", run.detect_s[-1], run.recover_s[-1]))


def _triggered(
    api: AirflowApi, dag: str, *, well: bool, conf: Mapping[str, object] | None = None
) -> DagRun:
    over = api.wait(api.trigger(dag, conf=dict(conf or {})), timeout_s=_PATIENCE_S)
    assert over.well == well, f"{dag}: {over.run_id} is {over.state}"
    return over
