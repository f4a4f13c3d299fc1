"""The main job: from nothing to a platform that answers and was checked; each step first looks whether it is done.

Airflow does the work (it starts the stream, compacts the past hours as a backfill, checks); this module asks it to, and
waits. A second run finds every step done and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from slicewise.clock import SystemClock
from slicewise.errors import ServerError, StoreUnavailable
from slicewise.features import own
from slicewise.features.plan import Deployment, plan
from slicewise.features.probes import whole
from slicewise.features.project import load_project
from slicewise.lifecycle.alerts import runbook_link
from slicewise.lifecycle.health import StreamStatus
from slicewise.lifecycle.jobs import hour_of
from slicewise.lifecycle.overview import freshness_of
from slicewise.local import deploy, supervisor
from slicewise.local.airflow_api import AirflowApi, DagRun
from slicewise.local.control import Say
from slicewise.local.services import REPLAY
from slicewise.local.stream import stream_status
from slicewise.settings import Settings
from slicewise.slices import HOUR_US
from slicewise.stores.kafka.log import KafkaLog
from slicewise.stores.kafka.times import first_time_us
from slicewise.stores.redis.status import StoreStatus, read_status

# Those that run by their own schedule once they are unpaused.
SCHEDULED = ("compact_slices", "backfill_view", "check_consistency", "maintain_iceberg", "sweep_expired")
REPLAYED_TOPIC = "flights"
_PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Report:
    """What a newcomer is shown at the end."""

    events_in: int
    views: int
    features: int
    hours_compacted: int
    values_checked: int
    mismatches: int
    freshness_p50_ms: float | None
    freshness_p99_ms: float | None
    example: dict[str, Any]
    addresses: dict[str, str]
    changed: tuple[str, ...] = field(default_factory=tuple)
    """What this run did; empty where everything was done already."""


def run(settings: Settings, say: Say) -> Report:
    """Runs every step that is not done yet; the figures afterwards. Raises SlicewiseError."""
    planned = plan(load_project(settings.definitions))  # what is wrong in it is said before anything starts
    changed: list[str] = []
    settings = supervisor.up(settings, say, only=("redis", "kafka", "serving"))
    deployment = _deployed(settings, planned, say, changed)
    if any(source.topic == REPLAYED_TOPIC for source in deployment.sources):
        _replayed(settings, say, changed)
    settings = supervisor.up(settings, say, only=("airflow",))  # it takes longest: the replay works meanwhile
    with AirflowApi(settings.airflow_url) as airflow:
        airflow.wait_for_dags(["ingest_stream", *SCHEDULED])
        _streaming(settings, airflow, say, changed)
        _caught_up(settings, deployment, say)
        _compacted(settings, deployment, airflow, say, changed)
        _checked(settings, airflow, say, changed)
        for dag in SCHEDULED:
            if airflow.is_paused(dag):
                airflow.unpause(dag)
                changed.append(f"scheduled {dag}")
    return _report(settings, deployment, changed)


def _deployed(settings: Settings, planned: Deployment, say: Say, changed: list[str]) -> Deployment:
    with deploy.connected(settings) as store:
        found = deploy.standing(store)
        if found.deployment is None:
            say(f"deploying {planned.project}: {len(planned.views)} views")
            first = whole(planned, None, probes=settings.probes == "on")
            deploy.deploy(settings, store, first, found.marks.epoch)
            changed.append("deployed")
            return first
    if whole(planned, found.deployment, probes=settings.probes == "on").digest != found.deployment.digest:
        say("the definitions differ from what is deployed: slicewise plan shows how, slicewise apply deploys")
    return found.deployment


def _replayed(settings: Settings, say: Say, changed: list[str]) -> None:
    """The past is loaded and the live events flow: one process does both, and goes on where the topic ends."""
    if any(each.name == REPLAY and each.state == "up" for each in supervisor.status(settings)):
        return
    say("loading the flights of the past, then live")
    supervisor.up(settings, say, only=[REPLAY])
    changed.append("loaded")


def _streaming(settings: Settings, airflow: AirflowApi, say: Say, changed: list[str]) -> None:
    if airflow.is_paused("ingest_stream"):
        say("ingest_stream: handing the stream to Airflow")
        airflow.unpause("ingest_stream")
        changed.append("started the stream")
    elif not stream_status(settings).running:
        # its watch ends by itself within the hour; after a reboot nobody wants to wait for that
        for left in airflow.runs("ingest_stream", limit=5):
            if not left.over:
                airflow.end(left)
        # a run that was ended from outside is followed by the next one only when the file is parsed again
        airflow.trigger("ingest_stream")
        changed.append("started the stream again")
    _wait(lambda: None if stream_status(settings).running else "not started by Airflow yet", "the stream", say, 300.0)


def _caught_up(settings: Settings, deployment: Deployment, say: Say) -> None:
    """Until the ledger has reached the end that the logs have now."""
    with KafkaLog(settings.kafka_bootstrap) as log:
        sources = deployment.declared.sources
        end = {place: offset for s in sources for place, offset in log.latest(s.topic).offsets.items()}

    def reason() -> str | None:
        with deploy.connected(settings) as store:
            ledger = store.marks().ledger
        left = sum(max(0, offset - ledger.get(place)) for place, offset in end.items())
        return f"{left:,} of {sum(end.values()):,} events to go" if left else None

    _wait(reason, "the stream catches up", say, _PATIENCE_S)


def hours_missing(status: StoreStatus, ran: Set[int], first_us: int) -> list[int]:
    """Finished hours, counted since the epoch, from the first event on, that no run has taken yet.

    ran: those of successful runs, which compact nothing where an hour has no events. What is dirty in an hour that
    was taken, the scheduled runs bring.
    """
    taken = {hour for hours in status.swapped.values() for hour in hours} | ran
    return [hour for hour in range(first_us // HOUR_US, status.now_us // HOUR_US) if hour not in taken]


def _compacted(settings: Settings, deployment: Deployment, airflow: AirflowApi, say: Say, changed: list[str]) -> None:
    status = read_status(settings.redis_url)
    ran = {_number(run.partition_key) for run in airflow.runs("compact_slices") if run.well and run.partition_key}
    missing = hours_missing(status, ran, _first_event_us(settings, deployment))
    if not missing:
        return
    was_paused = airflow.is_paused("compact_slices")
    if was_paused:  # a backfill of a paused DAG stays queued
        airflow.unpause("compact_slices")
    say(f"compact_slices: backfill of {len(missing)} hours, by Airflow")
    begun, told = time.monotonic(), [0]

    def progress(runs: Sequence[DagRun]) -> None:
        over = sum(run.over for run in runs)
        if over > told[0]:
            told[0] = over
            say(f"compact_slices: {over} of {len(missing)} hours after {time.monotonic() - begun:.0f} s")

    runs = airflow.backfill(
        "compact_slices", _hour(missing[0]), _hour(missing[-1]), timeout_s=_PATIENCE_S * 2, progress=progress
    )
    failed = [run.partition_key or run.run_id for run in runs if not run.well]
    if failed:
        raise ServerError(
            f"compaction failed for {', '.join(failed)}",
            where=f"{settings.airflow_url}/dags/compact_slices",
            next_step="read the task's log there; docs/runbook.md says what to do",
        )
    changed.append(f"compacted {len(missing)} hours")


def _checked(settings: Settings, airflow: AirflowApi, say: Say, changed: list[str]) -> None:
    known = _job_record(read_status(settings.redis_url, ["check"]), "check")
    if not changed and known.get("ok"):
        return
    say("check_consistency: online against offline, by Airflow")
    before_us = int(known.get("at_us", -1))
    run = airflow.wait(_check_run(airflow), timeout_s=_PATIENCE_S)
    changed.append("checked")
    if not run.well:
        raise _not_green(settings, before_us)


def _not_green(settings: Settings, before_us: int) -> ServerError:
    """Why a check that Airflow ran is not green, by what it recorded later than before_us."""
    try:
        said = _job_record(read_status(settings.redis_url, ["check"]), "check")
    except StoreUnavailable as error:
        said = {"report": {"why": error.what}}
    else:
        if int(said.get("at_us", -1)) <= before_us:
            said = {}  # of an earlier run
    report = said.get("report", {})
    why = str(report.get("why") or "its task ended without a report")
    section = "check_red" if report.get("result") == "red" else "check_not_made"
    what = "the check is red" if section == "check_red" else "the check could not be made"
    return ServerError(
        f"{what}: {why}",
        where=f"{settings.airflow_url}/dags/check_consistency; reports in {settings.state_dir / 'reports' / 'check'}",
        next_step=runbook_link(section, settings.runbook_url),
    )


def _check_run(airflow: AirflowApi) -> DagRun:
    """A run of the check that began after now; the schedule begins one by itself when the DAG is unpaused."""
    if airflow.is_paused("check_consistency"):
        known = {run.run_id for run in airflow.runs("check_consistency")}
        airflow.unpause("check_consistency")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            fresh = [run for run in airflow.runs("check_consistency", limit=5) if run.run_id not in known]
            if fresh:
                return fresh[0]
            time.sleep(0.5)
    return airflow.trigger("check_consistency")


def _report(settings: Settings, deployment: Deployment, changed: Sequence[str]) -> Report:
    status = read_status(settings.redis_url, ["check"])
    check = _job_report(status, "check")
    streams = [each for each in freshness_of(status) if each.source != own.SOURCE]
    with deploy.connected(settings) as store:
        marks = store.marks()
    topics = {marks.topics.get(source.topic) for source in deployment.declared.sources}
    hours = {hour for swapped in status.swapped.values() for hour in swapped}
    return Report(
        events_in=sum(offset for (topic, _), offset in marks.ledger.offsets.items() if topic in topics),
        views=len(deployment.views),
        features=sum(len(unit.features) for unit in deployment.declared.units),
        hours_compacted=len(hours),
        values_checked=int(check.get("values", 0)),
        mismatches=int(check.get("mismatches", 0)),
        freshness_p50_ms=_worst(streams, "freshness_p50_ms"),
        freshness_p99_ms=_worst(streams, "freshness_p99_ms"),
        example=_example(settings, deployment),
        addresses={
            "features": settings.serving_url,
            "Airflow": settings.airflow_url,
            "check report": str(settings.state_dir / "reports" / "check"),
        },
        changed=tuple(changed),
    )


def _worst(streams: Sequence[StreamStatus], name: str) -> float | None:
    values = [getattr(each, name) for each in streams if getattr(each, name) is not None]
    return max(values, default=None)


def _job_record(status: StoreStatus, job: str) -> dict[str, Any]:
    """What the job's last run left: ok, at_us and its report; empty where it left nothing."""
    text = status.parts.get(f"job:{job}")
    return dict(json.loads(text)) if text else {}


def _job_report(status: StoreStatus, job: str) -> dict[str, Any]:
    return dict(_job_record(status, job).get("report", {}))


def _example(settings: Settings, deployment: Deployment) -> dict[str, Any]:
    """One real answer, for an entity of the example project; for another project its global views, if any."""
    entity = {"carrier": "UA", "origin": "EWR", "dest": "SFO"}
    feature_set = next((each.name for each in deployment.feature_sets), None)
    if feature_set is None:
        return {}
    body = {"feature_set": feature_set, "entities": [entity]}
    try:
        answer = httpx.post(f"{settings.serving_url}/v1/features", json=body, timeout=10, trust_env=False)
    except httpx.HTTPError as error:
        raise ServerError(
            f"the serving API does not answer: {error}",
            where=settings.serving_url,
            next_step="see its log in the state folder, then slicewise up",
        ) from error
    return {"request": body, "status": answer.status_code, "answer": answer.json()}


def _first_event_us(settings: Settings, deployment: Deployment) -> int:
    """Kafka time at which the logs begin; earlier hours, of late events, are left to the scheduled run."""
    with KafkaLog(settings.kafka_bootstrap) as log:
        times = [first_time_us(log, each.topic) for each in deployment.declared.sources]
    return min((each for each in times if each is not None), default=SystemClock().now_us())


def _hour(number: int) -> datetime:
    return datetime.fromtimestamp(number * HOUR_US / 1e6, UTC)


def _number(partition_key: str) -> int:
    """The hour of a partition key, counted since the epoch."""
    hour = datetime.strptime(hour_of(partition_key), "%Y-%m-%dT%H").replace(tzinfo=UTC)
    return int(hour.timestamp()) * 1_000_000 // HOUR_US


def _wait(reason: Callable[[], str | None], what: str, say: Say, timeout_s: float) -> None:
    begun = told = time.monotonic()
    while (why := reason()) is not None:
        now = time.monotonic()
        if now - begun > timeout_s:
            raise ServerError(f"{what}: {why} after {timeout_s:.0f} s", next_step="slicewise status; its logs")
        if now - told > 5:
            told = now
            say(f"{what}: {why}")
        time.sleep(0.25)
