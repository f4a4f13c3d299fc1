"""Compactions that Airflow runs, while its own parts are killed: what it ends with is what a run by
hand ends with.

Where a part of the embedded Airflow ends, all of it does, and is started again, as a supervisor or
a person would. The task is tried again: by its own process's end at once, by a scheduler that
begins anew when it has missed it.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from slicewise.local.airflow import paused as paused_states
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.servers import stream, supervisor
from slicewise.local.servers.process import Birth, marked
from tests.drills.faults.compactions import hour, late, settled
from tests.drills.stage.run import Run, await_that
from tests.drills.stage.scene import Scene, scene, signal_all

_AIRFLOW, _DAG, _TASK = "airflow", "compact_slices", "compact"
_TRAINING, _BUILD = "build_training_set", "build"
_PATIENCE_S = 900.0
"""A scheduler that begins anew looks for tasks that it has missed every five minutes."""
_BEGINS_S = 180.0
_PAUSED_HOURS = 6
_LATE = 1_500


@contextmanager
def with_airflow(rng: random.Random) -> Iterator[Scene]:
    """A scene whose drivers `ingest_stream` looks after, and which `compact_slices` compacts."""
    with scene(rng) as made:
        made.platform.up(_AIRFLOW)
        with AirflowApi(made.platform.settings.airflow_url) as api:
            api.wait_for_dags(["ingest_stream", _DAG], _PATIENCE_S)
            for dag in ("ingest_stream", _DAG):
                api.unpause(dag)
        yield made


def kill_scheduler(run: Run) -> None:
    _kill(run, lambda: _part(run.scene, "scheduler"), head=True)


def kill_triggerer(run: Run) -> None:
    _kill(run, lambda: _part(run.scene, "triggerer"), head=True)


def kill_task(run: Run) -> None:
    """The process of the task; the job that it submitted goes on without it, beside the next."""
    _kill(run, lambda: _task(run.scene), head=False)


def kill_all(run: Run) -> None:
    """Airflow with its tasks and their jobs, all at once: a compaction and a training set are under
    way, and `ingest_stream` watches. Its drivers are no part of it, and go on."""
    scene = run.scene
    drivers = _drivers(scene)
    with AirflowApi(scene.platform.settings.airflow_url) as api:
        settle_runs(api)
        late(run)
        made = _triggered(api)
        await_that(lambda: _task(scene) is not None, "the task to begin", _BEGINS_S)
        building = api.trigger(_TRAINING, conf=_spine(scene))
        await_that(
            lambda: api.task_states(building).get(_BUILD) == "running", "the build", _BEGINS_S
        )
        run.some(1, 4)
        begun = time.monotonic()
        victims = marked(scene.platform.settings.state_dir, _AIRFLOW)
        signal_all(victims, signal.SIGKILL)
        run.kills += len(victims)
    run.noticed(begun, lambda: not scene.is_up(_AIRFLOW))
    scene.platform.up(_AIRFLOW)
    with AirflowApi(scene.platform.settings.airflow_url) as api:
        _well(api, made)
        over = api.wait(building, timeout_s=_PATIENCE_S)
        assert over.well, f"{over.run_id} is {over.state}\n{api.log(over, _BUILD)[-3_000:]}"
        _watched(api)
        settle_runs(api)
    assert _drivers(scene) == drivers, "a driver was started beside one that ran"
    run.whole(begun)
    settled(run)


def forget(run: Run) -> None:
    """Airflow's metadata database is lost while it is down: DAGs go on as they were, the drivers
    that run are taken over, and hours are compacted by what lake and store say."""
    scene = run.scene
    settings = scene.platform.settings
    drivers = _drivers(scene)
    with AirflowApi(settings.airflow_url) as api:
        settle_runs(api)
        before = api.paused_by_dag()
        await_that(
            lambda: paused_states.read(settings.state_dir) == before, "the states", _BEGINS_S
        )
    supervisor.down(settings, print, only=(_AIRFLOW,))
    late(run)
    begun = time.monotonic()
    database = settings.state_dir / _AIRFLOW / "airflow.db"
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    run.kills += 1
    scene.platform.up(_AIRFLOW)
    with AirflowApi(settings.airflow_url) as api:
        api.wait_for_dags([*before], _PATIENCE_S)
        assert api.paused_by_dag() == before
        _watched(api)
        run.detect_s.append(time.monotonic() - begun)
        _well(api, _triggered(api))
        settle_runs(api)
    assert _drivers(scene) == drivers, "a driver was started beside one that ran"
    run.whole(begun)
    settled(run)


def _watched(api: AirflowApi) -> None:
    """A run of `ingest_stream` watches, once more."""
    await_that(
        lambda: any(
            api.task_states(one).get("watch") == "deferred"
            for one in api.runs("ingest_stream", limit=5)
            if not one.over
        ),
        "a watch of the stream",
        _PATIENCE_S,
    )


def _drivers(scene: Scene) -> dict[str, int | None]:
    settings = scene.platform.settings
    return {
        name: stream.driver_status(settings, name).pid for name in (stream.NAME, stream.REALTIME)
    }


def _spine(scene: Scene) -> dict[str, str]:
    """A training set of one card, as params of its DAG."""
    folder = scene.platform.settings.state_dir.parent
    unit = next(unit for unit in scene.deployment.units if unit.view == "per_card")
    at = pa.array([datetime.now(UTC)], pa.timestamp("us", tz="UTC"))
    rows = pa.table({unit.entity[0][0]: ["card 1"], "at": at})
    pq.write_table(rows, folder / "spine.parquet")
    return {
        "spine": str(folder / "spine.parquet"),
        "features": f"{unit.view}:{unit.features[0].column}",
        "out": str(folder / "set.parquet"),
        "gate": "any",
    }


def paused(run: Run) -> None:
    """The DAG is paused while six hours of events come, and the next run catches up."""
    scene = run.scene
    with AirflowApi(scene.platform.settings.airflow_url) as api:
        settle_runs(api)
        api.pause(_DAG)
        paused_run = _triggered(api)
        scene.feed.burst(_PAUSED_HOURS * _LATE, _PAUSED_HOURS)
        scene.await_applied()
        run.some(3, 6)
        assert not api.run(_DAG, paused_run.run_id).over, "a paused DAG ran"
        begun = time.monotonic()
        api.unpause(_DAG)
        _well(api, paused_run)
        run.recover_s.append(time.monotonic() - begun)
        settle_runs(api)
    settled(run)


def _kill(run: Run, victim: Callable[[], Birth | None], *, head: bool) -> None:
    scene = run.scene
    with AirflowApi(scene.platform.settings.airflow_url) as api:
        settle_runs(api)
        late(run)
        made = _triggered(api)
        await_that(lambda: _task(scene) is not None, "the task to begin", _BEGINS_S)
        run.some(2, 12)
        process = victim()
        assert process is not None, "nothing is left to kill"
        begun = time.monotonic()
        signal_all([process], signal.SIGKILL)
        run.kills += 1
        if head:
            run.noticed(begun, lambda: not scene.is_up(_AIRFLOW))
            await_that(
                lambda: not scene.is_up(_AIRFLOW) and _head(scene) is None,
                "what is left of Airflow to end",
                _BEGINS_S,
            )
            scene.platform.up(_AIRFLOW)
        else:
            run.noticed(begun, lambda: api.task_states(made).get(_TASK) != "running")
    with AirflowApi(scene.platform.settings.airflow_url) as api:
        _well(api, made)
        settle_runs(api)
    run.whole(begun)
    settled(run)


def _triggered(api: AirflowApi) -> DagRun:
    return api.trigger(_DAG, partition_key=f"{hour()}:00:00")


def _well(api: AirflowApi, run: DagRun) -> None:
    over = api.wait(run, timeout_s=_PATIENCE_S)
    assert over.well, f"{run.run_id} is {over.state}\n{api.log(run, _TASK)[-3_000:]}"


def settle_runs(api: AirflowApi) -> None:
    """No run is under way, those of the schedule neither."""
    for run in api.runs(_DAG, limit=20):
        if not run.over:
            api.wait(run, timeout_s=_PATIENCE_S)


def _head(scene: Scene) -> psutil.Process | None:
    return _process_that(scene, lambda command: "slicewise.local.airflow.head" in command)


def _part(scene: Scene, name: str) -> Birth | None:
    """The part that the head started under this name."""
    head = _head(scene)
    parts = [] if head is None else head.children()
    results = [part for part in parts if name in _command_of(part)]
    return Birth.of(results[0].pid) if results else None


def _task(scene: Scene) -> Birth | None:
    """The process of the task, which waits for the job that it submitted."""
    job = _process_that(scene, lambda command: "spark_jobs/compact.py" in command)
    if job is None:
        return None
    for above in job.parents():
        if "compact.py" not in _command_of(above):
            return Birth.of(above.pid)
    return None


def _process_that(scene: Scene, wanted: Callable[[str], bool]) -> psutil.Process | None:
    for child in marked(scene.platform.settings.state_dir, _AIRFLOW):
        try:
            process = psutil.Process(child.pid)
            if wanted(_command_of(process)):
                return process
        except psutil.Error:
            continue
    return None


def _command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
