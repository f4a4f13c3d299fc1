"""Things of a platform break one after another: each is one page and one word that it is over, at a
receiver of alerts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import stream, supervisor
from slicewise.local.servers.process import descendants
from slicewise.windows.durations import HOUR_US
from tests.drills.faults.compactions import HOURS, hour
from tests.drills.faults.planted import planter_of
from tests.drills.faults.scheduled import settle_runs
from tests.drills.judging.records import Part
from tests.drills.stage.run import Run, await_that
from tests.drills.stage.scene import (
    Scene,
)
from tests.e2e.payments import CARDS
from tests.support.stores.planted import expired

_VIEW = "per_card"
PATIENCE_S = 300.0
_LATE = 1_500
"""Events of hours that are over, to be compacted."""


class Paged:
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

        await_that(come, f"{events} of {self.key}", PATIENCE_S)


def paged(run: Run) -> None:
    """Breaks one thing after another: each is one page, and one word that it is over."""
    made, settings = run.scene, run.scene.platform.settings
    assert made.receiver is not None
    posted = len(made.receiver.posts)  # those of drills before it on this platform
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
    posts = made.receiver.posts[posted:]
    opened = Counter(post["key"] for post in posts if post["state"] == "open")
    over = Counter(post["key"] for post in posts if post["state"] == "over")
    print(f"pages: {dict(opened)}; words that it is over: {dict(over)}", flush=True)
    wanted = {"broker", "store", "compact_slices.compact", "check_red", "probes"}
    wanted |= {key for key in opened if key.startswith("build_training_set")}
    others = {post["key"]: post["error"] for post in posts if post["key"] not in wanted}
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
    pages = Paged(run.scene, key)
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
    pages = Paged(made, f"build_training_set.build.{failed.run_id}")
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
    pages = Paged(made, "compact_slices.compact")
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
    pages = Paged(made, "check_red")
    api.unpause("check_consistency")
    checked = api.trigger("check_consistency", conf={"sample": len(CARDS) + 100})
    await_that(lambda: bool(pages.events[pages.before :]), "a red check", PATIENCE_S)
    run.detect_s.append(time.monotonic() - begun)
    over = api.wait(checked, timeout_s=3 * PATIENCE_S)
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
    pages, lost = Paged(made, "probes"), Paged(made, f"driver.{stream.PROBES}")
    begun = time.monotonic()
    made.watch.pause()  # a process that stands still refuses nobody
    with run.still([birth, *descendants(birth)]):
        await_that(lambda: bool(pages.events[pages.before :]), "late answers", PATIENCE_S)
        run.detect_s.append(time.monotonic() - begun)
    made.watch.resume()
    mended = time.monotonic()
    await_that(
        lambda: pages.events[pages.before :] == ["answers_late", "incident_over"],
        "the word that answers are fresh again",
        3 * PATIENCE_S,  # figures of five minutes hold the late ones
    )
    run.recover_s.append(time.monotonic() - mended)
    assert lost.events[lost.before :] == [], "the prober was started again for a server that hangs"
    what = "the prediction API hangs (SIGSTOP)"
    run.parts.append(Part(what, "answers_late", run.detect_s[-1], run.recover_s[-1]))
    made.await_whole()


def _triggered(
    api: AirflowApi,
    dag: str,
    *,
    well: bool,
    conf: Mapping[str, object] | None = None,
    partition_key: str | None = None,
) -> DagRun:
    begun = api.trigger(dag, conf=dict(conf or {}), partition_key=partition_key)
    over = api.wait(begun, timeout_s=3 * PATIENCE_S)
    assert over.well == well, f"{dag}: {over.run_id} is {over.state}"
    return over
