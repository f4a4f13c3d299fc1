"""A task that must change Airflow itself asks its REST API, as a person would: tasks may not open
its database."""

from __future__ import annotations

import time

from slicewise.errors import ServerError, SlicewiseError
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.log import event, warning
from slicewise.settings import Settings
from slicewise_airflow.paused import remember

_AT_WORK = frozenset({"queued", "running", "restarting"})


def rest(dag_id: str, until_done: str, patience_s: float = 120.0) -> list[str]:
    """Pauses a DAG and ends its open runs; gives their ids.

    A task `until_done` that is at work is waited for, so that what it does is done before this
    returns. The runs must be ended: the scheduler queues nothing of a paused DAG, so that a task
    that was deferred would never get its trigger's word. Once the DAG is not paused any more its
    next run begins at once. Raises ServerError after patience_s.
    """
    with AirflowApi(Settings.load().airflow_url) as api:
        api.pause(dag_id)
        remember(dag_id)
        deadline = time.monotonic() + patience_s
        ended = []
        for run in api.runs(dag_id, limit=20):
            if not run.over:
                _await_task(api, run, until_done, deadline)
                api.end(run, "success")
                ended.append(run.run_id)
        if ended:
            api.reparse(dag_id)
    event("dag_rests", dag=dag_id, ended=len(ended))
    return ended


def is_awaited(dag_id: str, run_id: str) -> bool:
    """Tells whether a run that somebody asked for is queued behind this one: triggered by hand, or
    an older one that was cleared. No where Airflow cannot say."""
    own = run_id.partition("__")[2]
    return any(
        run.run_type == "manual" or run.run_id.partition("__")[2] < own
        for run in _queued(dag_id, run_id)
    )


def is_superseded(dag_id: str, run_id: str) -> bool:
    """Tells whether a run that an asset's event asked for is queued behind this one. No where
    Airflow cannot say."""
    return any(run.run_type.startswith("asset") for run in _queued(dag_id, run_id))


def _queued(dag_id: str, run_id: str) -> list[DagRun]:
    """Runs that are queued beside this one, of the latest; none where Airflow cannot say."""
    try:
        with AirflowApi(Settings.load().airflow_url) as api:
            runs = api.runs(dag_id, limit=10, state="queued")
    except (SlicewiseError, OSError) as error:
        warning("runs_not_seen", dag=dag_id, error=type(error).__name__)
        return []
    return [run for run in runs if run.state == "queued" and run.run_id != run_id]


def _await_task(api: AirflowApi, run: DagRun, task_id: str, deadline: float) -> None:
    while api.task_states(run).get(task_id) in _AT_WORK:
        if time.monotonic() > deadline:
            raise ServerError(
                f"task {task_id} of {run.dag_id} does not end",
                where=run.run_id,
                next_step="look at its log in the Airflow UI, then run this task again",
            )
        time.sleep(0.5)
