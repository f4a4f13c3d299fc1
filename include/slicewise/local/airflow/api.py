"""Airflow is asked over its REST API, as a person would ask it, and answers are typed.

Used by `slicewise run` (backfills of the past hours, the first check), by the DAG that pauses
another, and by tests. Airflow's own words: a run belongs to a DAG; a backfill makes runs, one per
partition key.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from slicewise.errors import BadRequest, ServerError
from slicewise.local.airflow.http import TRIES, AirflowHttp, Conflict, ServerFault

_OVER = ("success", "failed")
_PAGE = 100
Progress = Callable[[Sequence["DagRun"]], None]


@dataclass(frozen=True)
class DagRun:
    """One run of a DAG."""

    dag_id: str
    run_id: str
    run_type: str
    state: str
    partition_key: str | None
    seconds: float | None
    """None until it is over."""
    queued_at: str | None = None
    """ISO 8601: when it was asked for, the last time."""
    conf: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Params that it was triggered with."""

    @property
    def over(self) -> bool:
        return self.state in _OVER

    @property
    def well(self) -> bool:
        return self.state == "success"


@dataclass(frozen=True)
class TaskRun:
    """One task of a run, or one instance of a mapped task."""

    task_id: str
    map_index: int
    """-1 of a task that is not mapped."""
    name: str
    """The name that a mapped task gave itself."""
    state: str
    note: str
    started: str | None
    ended: str | None
    """Both ISO 8601, in UTC."""
    pool: str


class AirflowApi:
    """A session with one Airflow. Use as a context manager.

    Without user and password (SLICEWISE_AIRFLOW_USER, SLICEWISE_AIRFLOW_PASSWORD) it asks for the
    token that Airflow's simple auth manager gives to everybody on an embedded platform.
    """

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._http = AirflowHttp(url, sleep=sleep)

    def __enter__(self) -> AirflowApi:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------- Airflow itself
    def health(self) -> Mapping[str, str]:
        """The state of each component: metadatabase, scheduler, triggerer, dag_processor."""
        answer = self._http.send("GET", "/api/v2/monitor/health", signed=False)
        return {name: str((part or {}).get("status")) for name, part in answer.items()}

    def paused_by_dag(self) -> dict[str, bool]:
        """Tells of each DAG that Airflow has parsed whether it is paused: one request for all."""
        answer = self._http.send("GET", "/api/v2/dags", params={"limit": 200})
        return {str(dag["dag_id"]): bool(dag["is_paused"]) for dag in answer["dags"]}

    def import_errors(self) -> tuple[str, ...]:
        """DAG files that do not load, with the reason."""
        answer = self._http.send("GET", "/api/v2/importErrors", params={"limit": 100})
        return tuple(f"{e['filename']}: {e['stack_trace']}" for e in answer["import_errors"])

    def wait_for_dags(self, names: Sequence[str], timeout_s: float = 120.0) -> dict[str, bool]:
        """Returns when all of `names` are parsed: whether each DAG is paused. Raises ServerError
        naming those that are not."""
        deadline = time.monotonic() + timeout_s
        while missing := set(names) - (paused := self.paused_by_dag()).keys():
            if time.monotonic() > deadline:
                errors = "; ".join(self.import_errors()) or "no import errors"
                raise ServerError(
                    f"Airflow has not parsed {', '.join(sorted(missing))}: {errors}",
                    where=self.url,
                    next_step="look at the log of the dag processor",
                )
            self._sleep(0.5)
        return paused

    # ------------------------------------------------------------- DAGs and runs
    def is_paused(self, dag_id: str) -> bool:
        return bool(self._http.send("GET", f"/api/v2/dags/{dag_id}")["is_paused"])

    def is_due(self, dag_id: str, now_us: int) -> bool:
        """Tells whether the schedule begins a run as soon as the DAG is not paused."""
        after = self._http.send("GET", f"/api/v2/dags/{dag_id}").get("next_dagrun_run_after")
        return after is not None and datetime.fromisoformat(after).timestamp() * 1e6 <= now_us

    def pause(self, dag_id: str) -> None:
        """The scheduler starts no new run."""
        self._http.send("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": True})

    def unpause(self, dag_id: str) -> None:
        self._http.send("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})

    def trigger(
        self,
        dag_id: str,
        *,
        conf: Mapping[str, object] | None = None,
        partition_key: str | None = None,
        run_id: str | None = None,
    ) -> DagRun:
        """Queues a run; conf sets the DAG's params. A paused DAG's run stays queued. run_id: of a
        run that there is to be once, however often it is triggered."""
        # a name of our own makes asking again after an answer that was lost safe
        name = run_id or f"manual__{datetime.now(UTC).isoformat()}__{secrets.token_hex(4)}"
        body: dict[str, object] = {
            "dag_run_id": name,
            "logical_date": None,
            "conf": dict(conf or {}),
        }
        if partition_key is not None:
            body["partition_key"] = partition_key
        try:
            return _run(
                self._http.send("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body, tries=TRIES)
            )
        except Conflict:
            return self.run(dag_id, name)

    def run(self, dag_id: str, run_id: str) -> DagRun:
        return _run(self._http.send("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"))

    def runs(
        self,
        dag_id: str,
        *,
        limit: int = 100,
        run_type: str | None = None,
        state: str | None = None,
    ) -> list[DagRun]:
        """The newest runs first."""
        runs: list[DagRun] = []
        while len(runs) < limit:  # Airflow gives a page of a hundred at most
            page = min(limit - len(runs), _PAGE)
            params: dict[str, object] = {"limit": page, "offset": len(runs), "order_by": "-id"}
            if run_type:
                params["run_type"] = run_type
            if state:
                params["state"] = state
            answer = self._http.send("GET", f"/api/v2/dags/{dag_id}/dagRuns", params=params)
            runs += [_run(run) for run in answer["dag_runs"]]
            if len(answer["dag_runs"]) < page:
                break
        return runs

    def wait(self, run: DagRun, *, timeout_s: float, progress: Progress | None = None) -> DagRun:
        """The run when it is over. Raises ServerError after timeout_s."""
        done = self._wait(
            lambda: [self.run(run.dag_id, run.run_id)], f"run {run.run_id}", timeout_s, progress
        )
        return done[0]

    def end(self, run: DagRun, state: str = "failed") -> None:
        """Ends a run that is under way, as a person can from the UI."""
        path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}"
        self._http.send("PATCH", path, json={"state": state})

    def reparse(self, dag_id: str) -> None:
        """Has Airflow read the DAG's file soon. When a run of a continuous DAG was ended by hand,
        no next one is due until then, which takes up to five minutes otherwise."""
        token = self._http.send("GET", f"/api/v2/dags/{dag_id}")["file_token"]
        try:
            self._http.send("PUT", f"/api/v2/parseDagFile/{token}")
        except Conflict:
            return  # somebody has requested that already

    def task_states(self, run: DagRun) -> Mapping[str, str]:
        """Task id -> state; of a mapped task the state of its last instance."""
        return {task.task_id: task.state for task in self.task_runs(run)}

    def task_runs(self, run: DagRun) -> list[TaskRun]:
        """The tasks of a run, those of a mapped task in its order."""
        path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances"
        tasks = self._http.send("GET", path, params={"limit": _PAGE})["task_instances"]
        return [
            TaskRun(
                *(str(task["task_id"]), int(task["map_index"])),
                str(task["rendered_map_index"] or ""),
                str(task["state"]),
                *(str(task["note"] or ""), task["start_date"], task["end_date"]),
                str(task["pool"]),
            )
            for task in sorted(tasks, key=lambda task: int(task["map_index"]))
        ]

    def note(self, dag_id: str, run_id: str, task_id: str, text: str, map_index: int = -1) -> None:
        """Sets a task's note, which its page shows; markdown, of a thousand characters at most."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        mapped = f"/{map_index}" if map_index >= 0 else ""
        self._http.send("PATCH", f"{path}{mapped}", json={"note": text})

    def xcom(self, run: DagRun, task_id: str) -> object:
        """The value that a task returned."""
        path = f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        return self._http.send("GET", path, params={"stringify": "false"})["value"]

    def log(self, run: DagRun, task_id: str, attempt: int = 1) -> str:
        """A task's log as text."""
        path = (
            f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task_id}/logs/{attempt}"
        )
        content = self._http.send("GET", path)["content"]
        return "\n".join(_line(line) for line in content)

    # ------------------------------------------------------------- backfills
    def backfill(
        self,
        dag_id: str,
        first: datetime,
        last: datetime,
        *,
        timeout_s: float,
        progress: Progress | None = None,
    ) -> list[DagRun]:
        """Runs every partition whose start lies in [first, last], also those that ran before.

        Oldest first, one at a time. A partition that a run is taking already gets no second one
        from Airflow: that run is waited for instead. Returns the runs when all are over. Raises
        BadRequest when the range holds no partition, ServerError after timeout_s.
        """
        if first.tzinfo is None or last.tzinfo is None:
            raise BadRequest(
                "a backfill's range needs time zones",
                expected="aware datetimes",
                next_step="give both ends a time zone, as UTC",
            )
        deadline = time.monotonic() + timeout_s
        body: dict[str, object] = {
            "dag_id": dag_id,
            "from_date": first.astimezone(UTC).isoformat(),
            "to_date": last.astimezone(UTC).isoformat(),
            "max_active_runs": 1,
            "reprocess_behavior": "completed",
        }
        keys = self._partitions(dag_id, body)
        earlier = {run.run_id for run in self.runs(dag_id, run_type="backfill", limit=1)}
        before = self._create_backfill(dag_id, body, deadline)
        awaited = [run.run_id for run in self._newer(dag_id, earlier, len(keys))]
        if len(awaited) < len(keys):
            # none was made for a partition that is under way; its key may be written in another
            # form
            others = [*before, *(run for run in self.runs(dag_id) if not run.over)]
            awaited += sorted({run.run_id for run in others} - set(awaited))

        def look() -> list[DagRun]:
            by_id = {run.run_id: run for run in self.runs(dag_id, limit=len(awaited) + _PAGE)}
            runs = [by_id.get(run_id) or self.run(dag_id, run_id) for run_id in awaited]
            return sorted(runs, key=lambda run: run.partition_key or "")

        left = max(0.0, deadline - time.monotonic())
        return self._wait(look, f"backfill of {dag_id}", left, progress)

    def _newer(self, dag_id: str, earlier: Set[str], most: int) -> list[DagRun]:
        """The backfill's runs that were made since those of `earlier`."""
        runs = self.runs(dag_id, run_type="backfill", limit=most)
        return list(takewhile(lambda run: run.run_id not in earlier, runs))

    def _partitions(self, dag_id: str, body: Mapping[str, object]) -> list[str]:
        answer = self._http.send("POST", "/api/v2/backfills/dry_run", json=dict(body))
        keys = [str(backfill["partition_key"]) for backfill in answer["backfills"]]
        if not keys:
            raise BadRequest(
                (
                    f"no partition of {dag_id} starts between {body['from_date']} and "
                    f"{body['to_date']}"
                ),
                expected="a range that holds at least one partition's start",
                next_step="widen the range to whole hours",
            )
        return keys

    def _create_backfill(
        self, dag_id: str, body: Mapping[str, object], deadline: float
    ) -> list[DagRun]:
        """Makes it; the runs of the DAG that were under way right before."""
        # Airflow allows one backfill per DAG, and calls one complete some seconds after its last
        # run.
        while True:
            under_way = [run for run in self.runs(dag_id) if not run.over]
            try:
                self._http.send("POST", "/api/v2/backfills", json=dict(body))
                return under_way
            except (Conflict, ServerFault):
                # of two at the same moment Airflow's database refuses one with an error; one that
                # was made all the same, without its runs, is over soon
                if time.monotonic() > deadline:
                    raise
                self._sleep(1.0)

    # ------------------------------------------------------------- plumbing
    def _wait(
        self,
        look: Callable[[], list[DagRun]],
        what: str,
        timeout_s: float,
        progress: Progress | None,
    ) -> list[DagRun]:
        deadline = time.monotonic() + timeout_s
        seen: list[tuple[str, str]] = []
        while True:
            runs = look()
            states = [(run.run_id, run.state) for run in runs]
            if progress is not None and states != seen:
                progress(runs)
            seen = states
            if all(run.over for run in runs):
                return runs
            if time.monotonic() > deadline:
                listed = ", ".join(f"{run.run_id}={run.state}" for run in runs if not run.over)
                raise ServerError(
                    f"{what} is not over after {timeout_s:.0f} s: {listed}",
                    where=self.url,
                    next_step="look at it in the Airflow UI; is the DAG paused, the scheduler healthy?",
                )
            self._sleep(0.5)


def _line(raw: object) -> str:
    if not isinstance(raw, Mapping):
        return str(raw)
    text = str(raw.get("event", ""))
    errors = [f"{e.get('exc_type')}: {e.get('exc_value')}" for e in raw.get("error_detail") or ()]
    return "\n".join([text, *errors])


def _run(raw: Mapping[str, Any]) -> DagRun:
    return DagRun(
        dag_id=str(raw["dag_id"]),
        run_id=str(raw["dag_run_id"]),
        run_type=str(raw["run_type"]),
        state=str(raw["state"]),
        partition_key=raw.get("partition_key"),
        seconds=raw.get("duration"),
        queued_at=raw.get("queued_at"),
        conf=raw.get("conf") or {},
    )
