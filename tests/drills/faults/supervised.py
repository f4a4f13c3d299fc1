"""Drivers are lost under Airflow alone, where nobody starts one but `ingest_stream`. Each fault is
one page and one word that it is over, at a receiver of alerts."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest

from slicewise.lifecycle.supervision import NAMED
from slicewise.local import deploy
from slicewise.local.airflow.api import AirflowApi
from slicewise.local.servers import drivers, stream
from slicewise.local.servers.process import Birth
from slicewise.spark.runtime.classes import sharing
from slicewise.stores.online.model.status import Status
from tests.drills.faults.compactions import HOURS, hour
from tests.drills.faults.paged import PATIENCE_S, Paged
from tests.drills.faults.processes import workers
from tests.drills.faults.scheduled import settle_runs
from tests.drills.faults.threads import others_of, stopped, tasks_of
from tests.drills.judging.records import Part
from tests.drills.stage.run import Run, await_that
from tests.drills.stage.scene import (
    MICROBATCH,
    PER_SECOND,
    PROJECT,
    REALTIME,
    TOPIC,
    Scene,
    scene,
    signal_all,
    write_project,
)
from tests.support.platform.receiver import receiving

_DAG, _AIRFLOW, _VIEW = "ingest_stream", "airflow", "per_card"
_FIRST = 300
"""Events of hours that are over, for a first compaction."""
T = TypeVar("T")
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


_LAGGING = {
    "SLICEWISE_MAX_EVENTS_PER_BATCH": "300",
    "SLICEWISE_MICROBATCH_INTERVAL_MS": "2000",
    "SLICEWISE_REALTIME_MICROBATCH_INTERVAL_MS": "2000",
    "SLICEWISE_LAG_LIMIT_S": "10",
}
"""Settings of a micro-batch lane that can do so much and no more, however long it is behind."""


@contextmanager
def with_all_drivers(rng: random.Random, **settings: str) -> Iterator[Scene]:
    """A scene with an emission and a prober too; `ingest_stream` alone looks after all four.
    settings: by which it runs beside those of all drills."""
    with (
        TemporaryDirectory(prefix="slicewise-drill-") as folder,
        receiving() as receiver,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLICEWISE_ALERT_WEBHOOK", receiver.url)
        project = Path(folder)
        text = (PROJECT / "features.py").read_text(encoding="utf-8")
        write_project(project, text + EMITTED)
        with scene(rng, project, SLICEWISE_PROBES="on", **settings) as made:
            made.receiver = receiver
            made.platform.up(_AIRFLOW)
            with AirflowApi(made.platform.settings.airflow_url) as api:
                api.wait_for_dags([_DAG, "sweep_expired"], PATIENCE_S)
                api.unpause(_DAG)
                api.unpause("sweep_expired")
                _compacted_before(made, api)
            made.feed.resume()
            for name in NAMED:
                await_that(
                    partial(_applies, made, name), f"{NAMED[name]} to apply events", PATIENCE_S
                )
            yield made


def _compacted_before(made: Scene, api: AirflowApi) -> None:
    """Compacts an hour, unless one was compacted in this set-up before: drivers map the classes
    that the first compaction leaves."""
    if sharing(made.platform.settings):
        return
    made.feed.burst(_FIRST, HOURS)
    made.await_applied()
    api.unpause("compact_slices")  # which begins a run
    settle_runs(api)
    key = f"{hour()}:00:00"
    run = api.wait(api.trigger("compact_slices", partition_key=key), timeout_s=PATIENCE_S)
    assert run.well, f"{run.run_id} is {run.state}"
    api.pause("compact_slices")
    assert sharing(made.platform.settings), "a compaction left no classes"


def with_a_lane_that_lags(rng: random.Random) -> AbstractContextManager[Scene]:
    """The same, with a micro-batch lane that can do so much and no more."""
    return with_all_drivers(rng, **_LAGGING)


def killed(run: Run) -> None:
    """Kills each driver in turn, with all that it started."""
    for name in NAMED:
        _lost(run, name, "SIGKILL", partial(run.scene.tree, name), _killing)


def hung(run: Run) -> None:
    """Stops each driver in turn where it stands, with all that it started."""
    for name in NAMED:
        _lost(run, name, "SIGSTOP", partial(run.scene.tree, name), _stopping)


def stuck(run: Run) -> None:
    """Drivers live, show signs of life, and do not get on, one after another."""
    made = run.scene
    _lost(
        run,
        MICROBATCH,
        "SIGSTOP of its Python workers",
        lambda: workers(made.tree(MICROBATCH)),
        _stopping,
        speaks=True,
    )
    for name, what, threads in (
        (REALTIME, "its tasks stand still", lambda: tasks_of(made.tree(REALTIME))),
        (stream.EMIT, "its reading thread stands still", lambda: others_of(made.tree("emit")[0])),
    ):
        _lost(run, name, what, threads, stopped, speaks=True)


@contextmanager
def _stopping(processes: Sequence[Birth]) -> Iterator[None]:
    """Stops processes; they are ended as they stand."""
    signal_all(processes, signal.SIGSTOP)
    yield


@contextmanager
def _killing(processes: Sequence[Birth]) -> Iterator[None]:
    signal_all(processes, signal.SIGKILL)
    yield


def _lost(
    run: Run,
    name: str,
    what: str,
    victims: Callable[[], Sequence[T]],
    harm: Callable[[Sequence[T]], AbstractContextManager[None]],
    *,
    speaks: bool = False,
) -> None:
    """One driver is lost, told and well again: one incident, which is told once. speaks: whether
    its signs of life go on until it is ended."""
    made = run.scene
    run.some(1, 3)
    await_that(lambda: bool(victims()), f"{NAMED[name]} to have what is to be lost", PATIENCE_S)
    pid = stream.driver_status(made.platform.settings, name).pid
    pages = Paged(made, f"driver.{name}")
    with harm(victims()):
        begun = time.monotonic()
        run.kills += 1
        run.noticed(begun, lambda: _is_open(made, name))
        if speaks:
            fault = drivers.kept(made.state)[name].fault
            assert "none was applied" in fault, f"{NAMED[name]} was to live: {fault}"
        await_that(
            lambda: (
                stream.driver_status(made.platform.settings, name).pid not in (None, pid)
                and _applies(made, name)
            ),
            f"{NAMED[name]} to apply events again",
            PATIENCE_S,
        )
    run.recover_s.append(time.monotonic() - begun)
    run.parts.append(
        Part(f"{NAMED[name]}: {what}", "driver_lost", run.detect_s[-1], run.recover_s[-1])
    )
    pages.awaits(["driver_lost", "driver_well"])
    made.await_whole()


def lagging(run: Run) -> None:
    """More events come than the micro-batch lane can apply: it is told, left alone, and over once
    it has caught up."""
    made, settings = run.scene, run.scene.platform.settings
    receiver = made.receiver
    assert receiver is not None
    posted = len(receiver.posts)
    pids = {name: stream.driver_status(settings, name).pid for name in NAMED}
    pages = Paged(made, f"lag.{TOPIC}")
    most = _rate(made)
    made.feed.pace(3 * most)
    begun = time.monotonic()
    await_that(lambda: bool(pages.events[pages.before :]), "the lag to be told of", PATIENCE_S)
    run.detect_s.append(time.monotonic() - begun)
    [finding] = [
        one
        for one in drivers.findings(settings, time.time_ns() // 1_000)
        if one.part == f"source {TOPIC}"
    ]
    assert "falling behind" in finding.text, finding.text
    print(f"{most:,.0f} events/s at most; {finding.text}", flush=True)
    made.feed.pause()
    mended = time.monotonic()
    await_that(
        lambda: pages.events[pages.before :] == ["stream_lags", "stream_caught_up"],
        "the word that the lane has caught up",
        3 * PATIENCE_S,
    )
    made.feed.pace(PER_SECOND)
    made.feed.resume()
    run.recover_s.append(time.monotonic() - mended)
    what = "three times as many events as the micro-batch lane can apply"
    run.parts.append(Part(what, "stream_lags", run.detect_s[-1], run.recover_s[-1]))
    made.await_whole()
    others = [post for post in receiver.posts[posted:] if post["key"] != pages.key]
    assert not others, f"pages of what follows from it: {others}"
    assert pids == {name: stream.driver_status(settings, name).pid for name in NAMED}, (
        "a driver was started again, which is no quicker"
    )


_BACKLOG = 4_000
"""Events that are worked off while it is measured how many a lane can apply."""
_MEASURED_S = 15.0


def _rate(made: Scene) -> float:
    """Events a second that the micro-batch lane applies while more wait."""
    made.feed.burst(_BACKLOG)
    before, begun = _microbatch(made).records, time.monotonic()
    time.sleep(_MEASURED_S)
    rate = (_microbatch(made).records - before) / (time.monotonic() - begun)
    assert rate > 0, "the micro-batch lane applies nothing"
    return rate


def _microbatch(made: Scene) -> Status:
    look = drivers.look(made.state, MICROBATCH)
    assert look is not None
    return next(status for status in look.statuses if status.source == TOPIC)


def undone(run: Run) -> None:
    """A deployment under which no driver gets on: the one before stands again, with no hand."""
    made, settings = run.scene, run.scene.platform.settings
    receiver = made.receiver
    assert receiver is not None
    await_that(
        lambda: drivers.kept_deployments(made.state).good == made.deployment.digest,
        "the deployment to be known as good",
        PATIENCE_S,
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
        3 * PATIENCE_S,
    )
    print(f"undone after {time.monotonic() - begun:.0f} s", flush=True)
    await_that(lambda: _applies(made, MICROBATCH), "events to be applied again", PATIENCE_S)
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
        PATIENCE_S,
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
