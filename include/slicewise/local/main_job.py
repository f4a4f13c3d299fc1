"""The main job: from nothing to a platform that answers and was checked; each step first looks
whether it is done.

Airflow does the work (it watches the stream, compacts the past hours, checks); this module asks it
to, and waits. Only the stream's driver does not wait for Airflow to be up: it is started beside it,
by the rule by which Airflow's own task ensures it (docs/adr/0076). A second run finds every step
done and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from slicewise.clock import SystemClock
from slicewise.errors import ServerError, StoreUnavailable
from slicewise.features.plan.changes.projects import whole
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.lifecycle.health.alerts import runbook_link
from slicewise.lifecycle.jobs import hour_number
from slicewise.local import deploy, first_answer, songs
from slicewise.local.airflow.api import AirflowApi, DagRun
from slicewise.local.catching_up import CatchingUp
from slicewise.local.run_report import Report, Seconds, job_record, job_report, report_of
from slicewise.local.servers import services, supervisor
from slicewise.local.servers.services import AIRFLOW, PLAYS, REPLAY, STREAM, WATCH
from slicewise.local.servers.stream import ensure_driver, stream_status
from slicewise.log import Progress
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog, first_time_us
from slicewise.stores.online.redis.status import StoreStatus, read_status
from slicewise.windows.durations import HOUR_US

# Those that run by their own schedule once they are unpaused.
SCHEDULED = (
    "compact_slices",
    "backfill_view",
    "check_consistency",
    "check_expectations",
    "check_open_hour",
    "maintain_iceberg",
    "sweep_expired",
)
SNAPSHOTS = "take_snapshots"
"""One that has nothing to do unless a file lists snapshots."""
Notify = Callable[[str], None]
_PATIENCE_S = 1800.0
_LEADERBOARD_WITHIN_S = 60.0


def run(settings: Settings, notify: Notify) -> Report:
    """Runs every step that is not done yet; the figures afterwards. Raises SlicewiseError."""
    seconds = Seconds()
    # what is wrong in it is said before anything starts
    planned = plan(load_project(settings.definitions))
    changed: list[str] = []
    beside = (services.SHADOW,) if services.shadowed(settings) else ()
    settings = supervisor.up(settings, notify, only=("redis", "kafka", "serving", *beside, WATCH))
    seconds.done("stores and API up")
    deployment = _deployed(settings, planned, notify, changed)
    seconds.done("deployed")
    if any(source.topic == songs.FLIGHTS_TOPIC for source in deployment.sources):
        _started(settings, REPLAY, "loading the flights of the past, then live", notify, changed)
    was_streaming = _streaming(settings, notify, changed)
    if was_streaming and job_record(read_status(settings.redis_url, ["check"]), "check").get("ok"):
        seconds.done("caught up")  # a run before saw it: since then the stream counts what comes
    supervisor.begin(settings, notify, only=(AIRFLOW,))  # the events flow meanwhile
    if "caught up" not in seconds.of and stream_status(settings).running:
        _caught_up(settings, deployment, was_streaming, notify, seconds)
    settings = supervisor.up(settings, notify, only=(AIRFLOW,))
    seconds.done("Airflow up")
    with AirflowApi(settings.airflow_url) as airflow:
        scheduled = (*SCHEDULED, *((SNAPSHOTS,) if settings.snapshots.is_file() else ()))
        paused = airflow.wait_for_dags(["ingest_stream", *scheduled])
        _handed_over(settings, airflow, paused["ingest_stream"], was_streaming, notify, changed)
        if "caught up" not in seconds.of:
            _caught_up(settings, deployment, was_streaming, notify, seconds)
        if songs.has_songs(settings, deployment):
            _started(settings, PLAYS, "songs: playing, live", notify, changed)
        _compacted(settings, deployment, airflow, notify, changed)
        seconds.done("hours compacted")
        _checked(settings, airflow, notify, changed)
        seconds.done("checked")
        for dag, is_paused in (airflow.paused_by_dag() if changed else paused).items():
            if dag in scheduled and is_paused:
                airflow.unpause(dag)
                changed.append(f"scheduled {dag}")
        if songs.has_songs(settings, deployment) and changed:
            _leaderboard_stands(settings, notify)
    report = report_of(settings, deployment, changed)
    seconds.done("summary")
    return replace(report, seconds=seconds.of)


def _deployed(
    settings: Settings, planned: Deployment, notify: Notify, changed: list[str]
) -> Deployment:
    with deploy.connected(settings) as store:
        current = deploy.current(store)
        if current.deployment is None:
            beside = songs.songs_beside(settings, planned)
            of_songs = "" if beside is None else f", and {beside.project} beside them"
            notify(f"deploying {planned.project}: {len(planned.views)} views{of_songs}")
            first = whole(planned, None, probes=settings.probes == "on")
            if beside is not None:
                first = whole(beside, first, probes=settings.probes == "on")
            deploy.deploy(settings, store, first, current.metadata.deployment_version, how="run")
            changed.append("deployed")
            return first
    if (
        whole(planned, current.deployment, probes=settings.probes == "on").digest
        != current.deployment.digest
    ):
        notify(
            "the definitions differ from what is deployed: slicewise plan shows how, "
            "slicewise apply deploys"
        )
    return current.deployment


def _started(
    settings: Settings, producer: str, words: str, notify: Notify, changed: list[str]
) -> None:
    """A producer of the example's events runs; it goes on where its topic ends."""
    if supervisor.runs(settings, producer):
        return
    notify(words)
    supervisor.up(settings, notify, only=[producer])
    changed.append(f"started {producer}")


def _leaderboard_stands(settings: Settings, notify: Notify) -> None:
    """Until the songs' leaderboard has rows, or it takes too long: the page tells by itself when
    they come."""
    deadline, shown = time.monotonic() + _LEADERBOARD_WITHIN_S, songs.leaderboard_shown(settings)
    while not shown.rows and time.monotonic() < deadline:
        time.sleep(0.5)
        shown = songs.leaderboard_shown(settings)
    rows = ", ".join(f"{song} ({plays:g})" for song, plays in shown.rows[:3])
    notify(f"played most, live at {shown.page}: {rows or 'no leaderboard yet'}")


def _streaming(settings: Settings, notify: Notify, changed: list[str]) -> bool:
    """Starts the stream's driver, unless it runs or Airflow is another's, who starts it where he
    wants it; did it run before."""
    if stream_status(settings).running:
        return True
    if AIRFLOW not in services.build(settings).external:
        notify("the stream: starting its driver")
        ensure_driver(settings, STREAM)
        changed.append("started the stream")
    return False


def _handed_over(
    settings: Settings,
    airflow: AirflowApi,
    is_paused: bool,
    was_streaming: bool,
    notify: Notify,
    changed: list[str],
) -> None:
    """Airflow watches the stream, and starts what belongs to it."""
    if is_paused:
        notify("ingest_stream: handing the stream to Airflow")
        airflow.unpause("ingest_stream")
        changed.append("handed the stream to Airflow")
    elif not was_streaming:
        # its watch ends by itself within the hour; after a reboot nobody wants to wait for that
        for left in airflow.runs("ingest_stream", limit=5):
            if not left.over:
                airflow.end(left)
        # a run that was ended from outside is followed by the next one only when the file is parsed
        # again
        airflow.trigger("ingest_stream")
    _wait(
        lambda: None if stream_status(settings).running else "not started by Airflow yet",
        "the stream",
        notify,
        300.0,
    )


def _caught_up(
    settings: Settings,
    deployment: Deployment,
    was_streaming: bool,
    notify: Notify,
    seconds: Seconds,
) -> None:
    """Until the committed offsets have reached the end that the logs have once the past is loaded.
    Of a stream that was started just now the first answer that says something is told at once."""
    topics = frozenset(source.topic for source in deployment.sources) & {songs.FLIGHTS_TOPIC}
    left = CatchingUp(
        settings, deployment, topics, SystemClock(), lambda: seconds.done("first event in")
    )
    with KafkaLog(settings.kafka_bootstrap) as log, deploy.connected(settings) as store:

        def reason() -> str | None:
            why = left.reason(store, log)
            if (
                not was_streaming
                and "first event in" in seconds.of
                and "first answer" not in seconds.of
            ):
                with suppress(ServerError):  # the API is busy: the next look asks again
                    shown = first_answer.example(settings, deployment)
                    if answered := first_answer.values(shown):
                        seconds.done("first answer")
                        notify(
                            f"first answer of {shown['request']['feature_set']}: "
                            f"{json.dumps(answered)}"
                        )
            return why

        _wait(reason, "the stream catches up", notify, _PATIENCE_S)
    seconds.done("caught up")


def hours_missing(status: StoreStatus, ran: Set[int], first_us: int) -> list[int]:
    """Finished hours, counted since the epoch, from the first event on, that no run has taken yet.

    ran: those of successful runs, which compact nothing where an hour has no events; so does a run
    that left nothing dirty, of all hours that were over by then. What is dirty in an hour that was
    taken, the scheduled runs bring.
    """
    taken = {hour for hours in status.published.values() for hour in hours} | ran
    first = max(first_us // HOUR_US, _settled_before(status))
    return [hour for hour in range(first, status.now_us // HOUR_US) if hour not in taken]


def _settled_before(status: StoreStatus) -> int:
    """The hour before which the last compaction left nothing dirty."""
    report = job_report(status, "compact")
    return (
        hour_number(str(report["over_until"]))
        if report.get("dirty") == 0 and "over_until" in report
        else 0
    )


def _compacted(
    settings: Settings,
    deployment: Deployment,
    airflow: AirflowApi,
    notify: Notify,
    changed: list[str],
) -> None:
    """One run of Airflow's takes all hours: its key, and as many other dirty ones."""
    if not hours_missing(read_status(settings.redis_url, ["compact"]), frozenset(), 0):
        return  # whenever the first event was: the log need not be asked
    first_us, begun, some = _first_event_us(settings, deployment), time.monotonic(), 0
    while missing := _missing(settings, airflow, first_us):
        some = some or len(missing)
        run = _next_run(airflow, "compact_slices") if airflow.is_paused("compact_slices") else None
        if run is None:
            notify(f"compact_slices: {len(missing)} hours, in one run of Airflow's")
            key = f"{_hour(missing[-1]):%Y-%m-%dT%H:00:00}"
            run = airflow.trigger(
                "compact_slices", partition_key=key, conf={"max_hours": len(missing)}
            )
        over = airflow.wait(run, timeout_s=_PATIENCE_S * 2)
        left = _missing(settings, airflow, first_us)
        if not over.well or left == missing:
            raise ServerError(
                f"compaction failed, {len(left)} hours are left: run {run.run_id}",
                where=f"{settings.airflow_url}/dags/compact_slices",
                next_step="read the task's log there; docs/runbook.md says what to do",
            )
    if some:
        notify(f"compact_slices: {some} hours after {time.monotonic() - begun:.0f} s")
        changed.append(f"compacted {some} hours")


def _missing(settings: Settings, airflow: AirflowApi, first_us: int) -> list[int]:
    status = read_status(settings.redis_url, ["compact"])
    if not hours_missing(status, frozenset(), first_us):
        return []
    ran = {
        hour_number(run.partition_key)
        for run in airflow.runs("compact_slices")
        if run.well and run.partition_key
    }
    return hours_missing(status, ran, first_us)


def _next_run(airflow: AirflowApi, dag_id: str) -> DagRun | None:
    """Lets a paused DAG run; the run that its schedule begins at once, where one is due."""
    is_due = airflow.is_due(dag_id, SystemClock().now_us())
    before = {run.run_id for run in airflow.runs(dag_id)} if is_due else set()
    airflow.unpause(dag_id)
    deadline = time.monotonic() + 20
    while is_due and time.monotonic() < deadline:
        for run in airflow.runs(dag_id, limit=5):
            if run.run_id not in before:
                return run
        time.sleep(0.5)
    return None


def _checked(settings: Settings, airflow: AirflowApi, notify: Notify, changed: list[str]) -> None:
    record = job_record(read_status(settings.redis_url, ["check"]), "check")
    if not changed and record.get("ok"):
        return
    notify("check_consistency: online against offline, by Airflow")
    before_us = int(record.get("at_us", -1))
    run = airflow.wait(_check_run(airflow), timeout_s=_PATIENCE_S)
    changed.append("checked")
    if not run.well:
        raise _not_green(settings, before_us)


def _not_green(settings: Settings, before_us: int) -> ServerError:
    """The error of a check by Airflow that is not green, by what it recorded later than
    before_us."""
    try:
        record = job_record(read_status(settings.redis_url, ["check"]), "check")
    except StoreUnavailable as error:
        record = {"report": {"why": error.what}}
    else:
        if int(record.get("at_us", -1)) <= before_us:
            record = {}  # of an earlier run
    report = record.get("report", {})
    why = str(report.get("why") or "its task ended without a report")
    section = "check_red" if report.get("result") == "red" else "check_not_made"
    what = "the check is red" if section == "check_red" else "the check could not be made"
    return ServerError(
        f"{what}: {why}",
        where=(
            f"{settings.airflow_url}/dags/check_consistency; reports in "
            f"{settings.state_dir / 'reports' / 'check'}"
        ),
        next_step=runbook_link(section, settings.runbook_url),
    )


def _check_run(airflow: AirflowApi) -> DagRun:
    """A run of the check that began after now."""
    run = (
        _next_run(airflow, "check_consistency") if airflow.is_paused("check_consistency") else None
    )
    return run or airflow.trigger("check_consistency")


def _first_event_us(settings: Settings, deployment: Deployment) -> int:
    """Kafka time at which the logs begin; earlier hours, of late events, are left to the scheduled
    run."""
    with KafkaLog(settings.kafka_bootstrap) as log:
        times = [first_time_us(log, source.topic) for source in deployment.declared.sources]
    return min(
        (time_us for time_us in times if time_us is not None), default=SystemClock().now_us()
    )


def _hour(number: int) -> datetime:
    return datetime.fromtimestamp(number * HOUR_US / 1e6, UTC)


def _wait(reason: Callable[[], str | None], what: str, notify: Notify, timeout_s: float) -> None:
    begun = notified = time.monotonic()
    while (why := reason()) is not None:
        now = time.monotonic()
        if now - begun > timeout_s:
            raise ServerError(
                f"{what}: {why} after {timeout_s:.0f} s", next_step="slicewise status; its logs"
            )
        if now - notified > 5:
            notified = now
            line = f"{what}: {why}"
            notify(
                Progress(line, why.what, why.done, why.of) if isinstance(why, Progress) else line
            )
        time.sleep(0.25)
