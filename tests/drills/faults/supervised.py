"""Drivers and servers are lost under Airflow alone: nobody starts a driver but `ingest_stream`, and
each fault is one page and one word that it is over, at a receiver of alerts."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slicewise.lifecycle.supervision import NAMED
from slicewise.local import deploy
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import drivers, stream, supervisor
from slicewise.local.servers.process import Birth, descendants
from slicewise.stores.online.model.status import Status
from slicewise.windows.durations import HOUR_US
from tests.drills.faults.compactions import HOURS, hour
from tests.drills.faults.planted import planter_of
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
from tests.e2e.payments import CARDS
from tests.support.platform.receiver import receiving
from tests.support.stores.planted import expired

_DAG, _AIRFLOW, _VIEW = "ingest_stream", "airflow", "per_card"
_PATIENCE_S = 300.0
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
                api.wait_for_dags([_DAG, "sweep_expired"], _PATIENCE_S)
                api.unpause(_DAG)
                api.unpause("sweep_expired")
            made.feed.resume()
            for name in NAMED:
                await_that(
                    partial(_applies, made, name), f"{NAMED[name]} to apply events", _PATIENCE_S
                )
            yield made


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
    await_that(lambda: bool(victims()), f"{NAMED[name]} to have what is to be lost", _PATIENCE_S)
    pid = stream.driver_status(made.platform.settings, name).pid
    pages = _Paged(made, f"driver.{name}")
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
            _PATIENCE_S,
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
    pages = _Paged(made, f"lag.{TOPIC}")
    most = _rate(made)
    made.feed.pace(3 * most)
    begun = time.monotonic()
    await_that(lambda: bool(pages.events[pages.before :]), "the lag to be told of", _PATIENCE_S)
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
        3 * _PATIENCE_S,
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
        _compaction(run, api)
        _wrong_value(run, api)
    _serving(run)
    receiver = made.receiver
    assert receiver is not None
    opened = Counter(post["key"] for post in receiver.posts if post["state"] == "open")
    over = Counter(post["key"] for post in receiver.posts if post["state"] == "over")
    print(f"pages: {dict(opened)}; words that it is over: {dict(over)}", flush=True)
    wanted = {"broker", "store", "compact_slices.compact", "check_red", "probes"}
    wanted |= {key for key in opened if key.startswith("build_training_set")}
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


def _compaction(run: Run, api: AirflowApi) -> None:
    """A file stands where the warehouse is to be: an hour cannot be compacted until it is gone."""
    made = run.scene
    api.unpause("compact_slices")  # which begins a run
    settle_runs(api)
    made.feed.burst(_LATE, HOURS)
    made.await_applied()
    warehouse = made.platform.settings.state_dir / "warehouse"
    aside = warehouse.with_name("aside")
    pages = _Paged(made, "compact_slices.compact")
    begun = time.monotonic()
    if warehouse.exists():
        warehouse.rename(aside)
    warehouse.write_text("")
    key = f"{hour()}:00:00"
    _triggered(api, "compact_slices", well=False, partition_key=key)
    assert pages.events[pages.before :] == ["task_failed"], f"{pages.events} of a run that failed"
    run.detect_s.append(time.monotonic() - begun)
    mended = time.monotonic()
    warehouse.unlink()
    if aside.exists():
        aside.rename(warehouse)
    _triggered(api, "compact_slices", well=True, partition_key=key)
    pages.awaits(["task_failed", "incident_over"])
    run.recover_s.append(time.monotonic() - mended)
    what = "a compaction without its warehouse, then with it"
    run.parts.append(Part(what, "task_failed", run.detect_s[-1], run.recover_s[-1]))


def _wrong_value(run: Run, api: AirflowApi) -> None:
    """Compacted hours of a card are gone: the check is red, and green once they are recomputed."""
    made = run.scene
    (unit,) = made.deployment.view(_VIEW)
    compacted = time.time_ns() // 1000 // HOUR_US - 1
    with made.operator() as client, made.platform.store() as stored:
        planter = planter_of(made, stored, client, unit)
        card = next(one for one in CARDS if one and planter.fields(planter.day(one, compacted)))
        made.watch.spares({(_VIEW, (card,))})
        begun = time.monotonic()
        expired(planter, card)
    pages = _Paged(made, "check_red")
    api.unpause("check_consistency")
    checked = api.trigger("check_consistency", conf={"sample": len(CARDS) + 100})
    await_that(lambda: bool(pages.events[pages.before :]), "a red check", _PATIENCE_S)
    run.detect_s.append(time.monotonic() - begun)
    over = api.wait(checked, timeout_s=3 * _PATIENCE_S)
    assert over.well, f"{over.run_id} is {over.state}"
    pages.awaits(["check_red", "incident_over"])
    run.recover_s.append(time.monotonic() - begun)
    made.watch.spares(())
    what = "the compacted hours of a card are gone"
    run.parts.append(Part(what, "check_red", run.detect_s[-1], run.recover_s[-1]))


def _serving(run: Run) -> None:
    """The prediction API hangs: the prober, which gets no answer, is not started again for it."""
    made = run.scene
    birth = made.server("serving")
    pages, lost = _Paged(made, "probes"), _Paged(made, f"driver.{stream.PROBES}")
    begun = time.monotonic()
    with run.still([birth, *descendants(birth)]):
        await_that(lambda: bool(pages.events[pages.before :]), "late answers", _PATIENCE_S)
        run.detect_s.append(time.monotonic() - begun)
    mended = time.monotonic()
    await_that(
        lambda: pages.events[pages.before :] == ["answers_late", "incident_over"],
        "the word that answers are fresh again",
        3 * _PATIENCE_S,  # figures of five minutes hold the late ones
    )
    run.recover_s.append(time.monotonic() - mended)
    assert lost.events[lost.before :] == [], "the prober was started again for a server that hangs"
    what = "the prediction API hangs (SIGSTOP)"
    run.parts.append(Part(what, "answers_late", run.detect_s[-1], run.recover_s[-1]))
    made.await_whole()


_LATE = 1_500
"""Events of hours that are over, to be compacted."""


def _triggered(
    api: AirflowApi,
    dag: str,
    *,
    well: bool,
    conf: Mapping[str, object] | None = None,
    partition_key: str | None = None,
) -> DagRun:
    begun = api.trigger(dag, conf=dict(conf or {}), partition_key=partition_key)
    over = api.wait(begun, timeout_s=3 * _PATIENCE_S)
    assert over.well == well, f"{dag}: {over.run_id} is {over.state}"
    return over
