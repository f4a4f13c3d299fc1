"""Watching the stream holds no worker: a trigger looks at it, and wakes the task when it is lost or
time is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from slicewise.errors import SlicewiseError
from slicewise.lifecycle.deployed import Deployed
from slicewise.lifecycle.findings import missed_jobs
from slicewise.lifecycle.health.alerts import Missed
from slicewise.lifecycle.health.judge import Health, Limits, Part
from slicewise.lifecycle.health.overview import JOBS, health_of, late_of
from slicewise.lifecycle.health.watch import Watch
from slicewise.log import event as log_event
from slicewise.settings import Settings
from slicewise_airflow.alerts import NotWell, page_parts, settle_causes
from slicewise_airflow.api import is_awaited
from slicewise_airflow.commands import run_command
from slicewise_airflow.lineage import facets_of
from slicewise_airflow.monitors.looking import keep_looking
from slicewise_airflow.paused import remember
from slicewise_airflow.record import keep_minutes
from slicewise_airflow.supervise import Supervisor, instance_of

RUNS_EVERY_S = 10.0
"""Seconds between two looks at the runs of the DAG."""
PAUSED_EVERY_S = 30.0
"""Seconds between two looks at which DAGs are paused."""
DRIVERS_EVERY_S = 1.0
"""Seconds between two looks at the drivers of this machine, which cost no question to a server."""


class StreamNotWell(NotWell):
    """The stream, or what it needs, was lost for several looks in a row; the next run ensures it
    again."""


class StreamHealthTrigger(BaseTrigger):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """Looks at the stream's status every `every_s` seconds until the deadline.

    Fires once: {"outcome": "well" | "lost" | "aging" | "wanting" | "stopped", "reasons": [...],
    "looks": n, and in "parts" what is to be told, by what it is about}.
    Deadline and grace are points in time, so that a restart of the triggerer does not extend them.
    """

    def __init__(
        self,
        deadline_s: float,
        grace_until_s: float,
        every_s: float,
        patience: int,
        heartbeat_age_s: float,
        stall_s: float = 120.0,
        named: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.named = dict(named or {})
        self.deadline_s = deadline_s
        self.grace_until_s = grace_until_s
        self.every_s = every_s
        self.patience = patience
        self.heartbeat_age_s = heartbeat_age_s
        self.stall_s = stall_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "slicewise_airflow.stream.StreamHealthTrigger",
            {
                "deadline_s": self.deadline_s,
                "grace_until_s": self.grace_until_s,
                "every_s": self.every_s,
                "patience": self.patience,
                "heartbeat_age_s": self.heartbeat_age_s,
                "stall_s": self.stall_s,
                "named": self.named,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        supervisor = Supervisor(Settings.load(), self.named)
        # in a task of its own: an API that does not answer holds up no look
        awaited = asyncio.create_task(self._await_another())
        minutes = asyncio.create_task(keep_minutes())
        monitors = asyncio.create_task(keep_looking(instance_of(self.named)))
        try:
            outcome = await self._watched(supervisor, awaited)
            await supervisor.end()
        finally:  # a watch whose run was ended is cancelled
            awaited.cancel()
            minutes.cancel()
            monitors.cancel()
            supervisor.close()
        yield TriggerEvent(outcome)

    async def _watched(
        self, supervisor: Supervisor, awaited: asyncio.Task[None]
    ) -> dict[str, object]:
        """Looks until the watch is over; its outcome."""
        watch = Watch(self.patience, int(self.grace_until_s * 1e6))
        limits = Limits(
            heartbeat_age_us=int(self.heartbeat_age_s * 1e6), stall_us=int(self.stall_s * 1e6)
        )
        looks, next_s = 0, 0.0
        while not awaited.done():
            if await supervisor.look():
                return {"outcome": "ensure", "deadline_s": self.deadline_s}
            if time.monotonic() >= next_s:
                health, deployed, missed = await asyncio.to_thread(
                    look, limits, frozenset(supervisor.ill)
                )
                await supervisor.look_at_deployment(deployed)
                await supervisor.look_at_deadlines(missed)
                looks += 1
                if missed is None:  # the store does not answer
                    supervisor.server_was_away()
                watch = watch.after(health, time.time_ns() // 1_000)
                next_s = time.monotonic() + self.every_s
                supervisor.tend(watch.recovered)
            now_us, until_us = time.time_ns() // 1_000, int(self.deadline_s * 1e6)
            if watch.ends(health, now_us, until_us, ill=bool(supervisor.ill)):
                return _outcome(watch, health, supervisor.ill, looks)
            left_s = max(0, until_us - now_us) / 1e6
            pause_s = min(self.every_s, DRIVERS_EVERY_S)
            await asyncio.sleep(min(pause_s, left_s) if left_s else pause_s)
        return {"outcome": "awaited", "reasons": [], "looks": looks}

    async def _await_another(self) -> None:
        """Until a run that somebody asked for is queued behind this one: only one runs at a time.
        Meanwhile keeps which DAGs are paused."""
        dag, run = self.named.get("dag", ""), self.named.get("run", "")
        behind, next_s = False, 0.0
        while not behind:
            await asyncio.sleep(RUNS_EVERY_S)
            if run and time.monotonic() >= next_s:
                await asyncio.to_thread(remember)
                next_s = time.monotonic() + PAUSED_EVERY_S
            behind = bool(run) and bool(await asyncio.to_thread(is_awaited, dag, run))


def _outcome(
    watch: Watch, health: Health, ill: Mapping[Part, tuple[str, ...]], looks: int
) -> dict[str, object]:
    """Outcome of a watch at its end. Each tells of a driver that is still lost."""
    if ill and watch.outcome == "well":
        outcome: str = "lost"
        parts = {part: list(why) for part, why in ill.items()}
        reasons: Sequence[str] = [f"{part}: {text}" for part, why in parts.items() for text in why]
    else:
        outcome = watch.outcome
        parts = {part: list(why) for part, why in watch.reported(health).items()}
        of_outcome = {"aging": health.aging, "wanting": (*health.starting, *health.warming)}
        reasons = of_outcome.get(outcome, health.reasons)
    return {"outcome": outcome, "reasons": list(reasons), "looks": looks, "parts": parts}


Look = tuple[Health, Deployed | None, tuple[Missed, ...] | None]
"""Health of the stream, what is deployed, and deadlines that are missed; None where a store that is
away says nothing of them."""


def look(limits: Limits, supervised: Collection[Part] = ()) -> Look:
    """One look at the stream, through the status that its drivers write into the store, and at what
    is deployed. supervised: parts that are known to be lost, and are being started again."""
    from slicewise.stores.online.redis.status import read_status

    try:
        settings = Settings.load()
        status = read_status(settings.redis_url, JOBS)
    except SlicewiseError as error:
        return Health.of({"store": Health((f"it cannot be asked: {error.what}",))}), None, None
    stated = Limits.of(settings)
    limits = replace(limits, probe_ms=stated.probe_ms, fresh_within_ms=stated.fresh_within_ms)
    health = health_of(status, limits, supervised)
    return health, Deployed.of(status), (*late_of(status, limits), *missed_jobs(status))


class StreamHealth(BaseOperator):  # type: ignore[misc]  # Airflow is opaque to the type checker here
    """Succeeds after `for_s` seconds of a stream that is well, and starts drivers of this machine
    that are lost meanwhile. Fails as soon as the stream is lost in a way that a start does not
    mend. Where a driver is lost or starts at the end it goes on until that is over, for two minutes
    at most, and fails where one is lost still. A run that somebody triggers or clears does not wait
    for the hour to be over: the watch ends for it. Where its real-time lane alone is lost, or
    answers are late, it pages and succeeds at once: answers are right, and the next run ensures all
    again. Where a deployment wants a driver that nobody has started yet it succeeds at once too:
    the next run starts it."""

    def __init__(
        self,
        *,
        for_s: float,
        every_s: float = 5.0,
        patience: int = 4,
        heartbeat_age_s: float = 30.0,
        stall_s: float = 120.0,
        grace_s: float = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.for_s = for_s
        self.every_s = every_s
        self.patience = patience
        self.heartbeat_age_s = heartbeat_age_s
        self.stall_s = stall_s
        self.grace_s = grace_s

    def execute(self, context: Any) -> None:
        # params can shorten the watch, for a try by hand and for tests
        for_s = float(context["params"].get("watch_s") or self.for_s)
        instance = context.get("task_instance")
        self._watch(instance, time.time() + for_s, min(self.grace_s, for_s))

    def get_openlineage_facets_on_complete(self, instance: Any) -> Any:  # noqa: ARG002
        """Data sets of the stream that is watched, for Airflow's OpenLineage provider."""
        return facets_of("stream")

    def _watch(self, instance: Any, deadline_s: float, grace_s: float) -> None:
        self.defer(
            trigger=StreamHealthTrigger(
                deadline_s=deadline_s,
                grace_until_s=time.time() + grace_s,
                every_s=self.every_s,
                patience=self.patience,
                heartbeat_age_s=self.heartbeat_age_s,
                stall_s=self.stall_s,
                named={} if instance is None else _named(instance),
            ),
            method_name="done",
        )

    def done(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Turns what the trigger saw into the task's state. Where a driver is to be started that
        the trigger cannot see, starts it and watches on."""
        if event["outcome"] == "ensure":
            run_command("stream", "ensure")
            self._watch(context.get("task_instance"), float(event["deadline_s"]), self.grace_s)
        log_event("stream_watched", outcome=event["outcome"], looks=event["looks"])
        if event["outcome"] == "lost":
            reasons = event["reasons"] or ["it was never seen well"]
            raise StreamNotWell(event.get("parts") or {"stream": reasons})
        if event["outcome"] == "aging":
            page_parts(context, event.get("parts") or {"tail": event["reasons"]})
        if event["outcome"] == "stopped":
            settle_causes(set(get_args(Part)) - {"store"})
            raise AirflowSkipException("the stream was stopped on purpose")
        return event


def _named(instance: Any) -> dict[str, str]:
    """Names of a task instance that a trigger can keep."""
    return {
        "dag": instance.dag_id,
        "task": instance.task_id,
        "run": instance.run_id,
        "url": getattr(instance, "log_url", "") or "",
    }
