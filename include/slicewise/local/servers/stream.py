"""The drivers of stream, real-time lane and emission, and the prober, outlive whoever starts them;
at most one of each runs per state folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slicewise.errors import NotReady, ServerError, StoreUnavailable
from slicewise.features import own
from slicewise.lifecycle import supervision
from slicewise.lifecycle.supervision import Patience
from slicewise.local.servers import control, drivers
from slicewise.local.servers.drivers import heartbeat_file, heartbeat_of
from slicewise.local.servers.process import Birth
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.log import Progress, event, warning
from slicewise.settings import Settings
from slicewise.stores.online.redis.status import record_instants

# What is deployed is read with libraries that take a second to import, of which the watch's command
# needs none before the driver that was lost has begun.
if TYPE_CHECKING:
    from slicewise.features.plan.deployment import Deployment
    from slicewise.features.plan.unit import Source
    from slicewise.offsets.vector import OffsetVector

NAME = "stream"
EMIT = "emit"
"""Runs beside the stream where a view has `emit=`."""
PROBES = "probes"
"""Runs beside the stream where probes are deployed: a process of its own, without Spark."""
REALTIME = "tail"
"""Runs beside the stream unless SLICEWISE_REALTIME=off."""
_STOP_ORDER = {PROBES: 16, EMIT: 18, REALTIME: 18, NAME: 20}
HEARTBEAT_LIMIT_S = 60.0
_LOOK_EVERY_S, _NOTIFY_EVERY_S = 0.25, 5.0
PATIENCE = Patience()
START_LIMIT_S = 120.0


@dataclass(frozen=True)
class DriverProcess:
    """State of the driver as a process; what it says of its sources is
    stores.online.model.status.Status."""

    running: bool
    pid: int | None
    heartbeat_age_s: float | None
    """Seconds since its last sign of life, None before the first."""
    heartbeat: dict[str, Any]
    """Words that it said with it."""

    @property
    def well(self) -> bool:
        """Runs, and has shown life lately."""
        age = self.heartbeat_age_s
        return self.running and age is not None and age < HEARTBEAT_LIMIT_S


def service(settings: Settings, state: StateFolder, name: str = NAME) -> Service:
    """A driver as a service: started by the DAG ingest_stream, stopped by SIGTERM (it drains)."""
    driver = str(settings.spark_python), str(settings.home / "spark_jobs" / f"{name}.py")
    prober = str(settings.platform_python), "-m", "slicewise.probes"
    return Service(
        name=name,
        argv=prober if name == PROBES else driver,
        cwd=state.path,
        health=lambda _: reason_of(heartbeat_of(state, name)),
        address="",
        env={
            "PYSPARK_PYTHON": str(settings.spark_python),
            "PYSPARK_DRIVER_PYTHON": str(settings.spark_python),
        },
        prepare=lambda: _prepare(state, name),
        stop_order=_STOP_ORDER[name],
        start_timeout_s=START_LIMIT_S,
        stop_timeout_s=60.0,
        always_on=False,
    )


def ensure_stream(settings: Settings) -> DriverProcess:
    """Starts the drivers that do not run: the stream's, the real-time lane's unless that is off.
    What is wanted of the emission's and the prober starts too. One that runs under another setting
    of the real-time lane is drained and started anew."""
    _switch(settings)
    driver = ensure_driver(settings, NAME)
    ensure_realtime(settings)
    ensure_emission(settings)
    ensure_probes(settings)
    return driver


def _switch(settings: Settings) -> None:
    """Stops a driver of the stream that applies under another setting of the real-time lane than
    the one that holds. A real-time lane that is off is gone before: nobody removes what it writes
    from then on."""
    if settings.realtime == "off":
        stop_driver(settings, REALTIME)
    driver = driver_status(settings, NAME)
    if driver.running and driver.heartbeat.get("tail", settings.realtime) != settings.realtime:
        event("realtime_switched", realtime=settings.realtime)
        stop_driver(settings, NAME)


def ensure_realtime(settings: Settings) -> DriverProcess | None:
    """Starts the real-time lane's driver unless it runs; None where it is off."""
    return None if settings.realtime == "off" else ensure_driver(settings, REALTIME)


def ensure_emission(settings: Settings) -> DriverProcess | None:
    """Starts the emission's driver where what is deployed publishes anything, and stops it where
    nothing does; None where none is wanted, or where the store cannot say: then all stays as it
    is."""
    return _ensure_wanted(settings, EMIT, publishes)


def ensure_probes(settings: Settings) -> DriverProcess | None:
    """The same of the prober, which is wanted where its view is deployed."""
    return _ensure_wanted(settings, PROBES, probed)


def _ensure_wanted(
    settings: Settings, name: str, wanted: Callable[[Settings], bool]
) -> DriverProcess | None:
    try:
        is_wanted = wanted(settings)
    except (StoreUnavailable, NotReady) as error:
        warning("left_as_it_is", driver=name, error=error.what)
        return None
    if is_wanted:
        return ensure_driver(settings, name)
    stop_driver(settings, name)
    return None


def publishes(settings: Settings) -> bool:
    """Tells whether anything that is deployed is published. Raises StoreUnavailable, NotReady."""
    deployment = _deployed(settings)
    return deployment is not None and bool(deployment.publishes)


def probed(settings: Settings) -> bool:
    """Tells whether probes are deployed, and on. Raises StoreUnavailable, NotReady."""
    deployment = _deployed(settings) if settings.probes == "on" else None
    return deployment is not None and any(unit.project == own.PROJECT for unit in deployment.units)


def _deployed(settings: Settings) -> Deployment | None:
    from slicewise.features.plan.deployment import Deployment
    from slicewise.stores.online.operations.connecting import ReadMetadata
    from slicewise.stores.online.operations.deploying import ReadManifest
    from slicewise.stores.online.redis import open_store

    store = open_store(settings.redis_url)
    try:
        metadata = store.run(ReadMetadata())
        text = store.run(ReadManifest(metadata.units)) if metadata.units else None
    finally:
        store.close()
    return None if text is None else Deployment.from_json(text)


def ensure_driver(settings: Settings, name: str) -> DriverProcess:
    """Starts a driver unless it runs; does not wait for it to be well. Any number may call.

    One that has shown no life for long, or none since its start, hangs; one whose batch does not
    end is stuck: either is replaced, which is safe at any moment, unless a server that it waits for
    is away.
    """
    state = StateFolder(settings.state_dir)
    state.create()
    spec = service(settings, state, name)
    with state.locked(name):
        look = drivers.look(state, name)
        fault = (
            None if look is None else supervision.fault_of(look, time.time_ns() // 1_000, PATIENCE)
        )
        if fault is not None and fault.kind != "died" and not drivers.server_away(settings):
            warning("driver_replaced", driver=name, fault=fault.kind, reason=fault.reason)
            control.kill(spec, state)
        started = control.running(spec, state) is None
        if started:
            control.start(spec, state, settings)
    _note(settings, name, started=started)
    return driver_status(settings, name)


def _note(settings: Settings, name: str, *, started: bool) -> None:
    """Lets the store say since when the driver may be starting: whoever watches it gives it time
    from then on."""
    parts = [f"ensured:{name}", *([f"started:{name}"] if started else [])]
    try:
        record_instants(settings.redis_url, parts)
    except StoreUnavailable as error:
        warning("start_not_recorded", driver=name, reason=error.what)


def stop_stream(settings: Settings) -> bool:
    """Lets the drivers drain and end; was there one of the stream."""
    stop_driver(settings, PROBES)
    stop_driver(settings, EMIT)
    stop_driver(settings, REALTIME)
    return stop_driver(settings, NAME)


def stop_driver(settings: Settings, name: str) -> bool:
    """Lets a driver drain and end; was there one."""
    state = StateFolder(settings.state_dir)
    state.create()
    with state.locked(name):
        return control.stop(service(settings, state, name), state)


def restart(settings: Settings, names: Collection[str]) -> None:
    """Lets these drivers drain and end, and starts what is wanted."""
    for name in sorted(names, key=lambda name: _STOP_ORDER[name]):
        stop_driver(settings, name)
    ensure_stream(settings)


def await_applied(settings: Settings, wait_s: float, notify: Callable[[str], None]) -> int:
    """Waits until all that the log holds now is applied; how many events that were. Raises
    ServerError after wait_s: the drivers go on."""
    from slicewise.offsets.vector import joined
    from slicewise.stores.log.topics import KafkaLog

    with KafkaLog(settings.kafka_bootstrap) as log:
        topics = sorted({source.topic for source in _sources(settings)})
        ends = joined(map(log.latest, topics))
    begun = last = time.monotonic()
    missing = waiting = _behind(settings, ends)
    while missing:
        now = time.monotonic()
        if now - begun > wait_s:
            raise ServerError(
                f"{missing:,} events of {waiting:,} are not applied after {wait_s:.0f} s",
                where=str(settings.state_dir / "logs" / f"{NAME}.log"),
                expected="a stream that catches up",
                next_step="see slicewise status; wait longer, or stop it as it is",
            )
        if now - last > _NOTIFY_EVERY_S:
            last = now
            line = f"{missing:,} of {waiting:,} events to go, {now - begun:.0f} s"
            notify(Progress(line, "events applied", waiting - missing, waiting))
        time.sleep(_LOOK_EVERY_S)
        missing = _behind(settings, ends)
    return waiting


def _sources(settings: Settings) -> tuple[Source, ...]:
    """Sources that are deployed. Raises NotReady where nothing is."""
    deployment = _deployed(settings)
    if deployment is None:
        raise NotReady("nothing is deployed", progress=0.0, next_step="slicewise apply")
    return deployment.sources


def _behind(settings: Settings, ends: OffsetVector) -> int:
    """Events below these offsets that are not applied yet."""
    from slicewise.stores.online.operations.connecting import ReadMetadata
    from slicewise.stores.online.redis import open_store

    store = open_store(settings.redis_url)
    try:
        committed = store.run(ReadMetadata()).committed
    finally:
        store.close()
    return sum(max(0, end - committed.get(at)) for at, end in ends.offsets.items())


def stream_status(settings: Settings) -> DriverProcess:
    """The status of the stream's driver. Changes nothing."""
    return driver_status(settings, NAME)


def driver_status(settings: Settings, name: str) -> DriverProcess:
    """Changes nothing."""
    state = StateFolder(settings.state_dir)
    birth: Birth | None = control.running(service(settings, state, name), state)
    age, heartbeat = heartbeat_of(state, name)
    return DriverProcess(birth is not None, birth.pid if birth else None, age, heartbeat)


def emission_summary(beat: Mapping[str, Any]) -> str:
    """Answers first questions on call about the emission, from its last sign of life."""
    sources = list(beat.get("sources", {}).values())
    waiting = sum(sum(source.get("lag", {}).values()) for source in sources)
    skipped = sum(
        view.get("boards_skipped", 0)
        for source in sources
        for view in source.get("views", {}).values()
    )
    summary = f"lag {waiting:,} events" if sources else ""
    return f"{summary}, {skipped:,} leaderboards skipped while it caught up" if skipped else summary


def probes_summary(beat: Mapping[str, Any]) -> str:
    """Answers first questions on call about freshness."""
    if not beat:
        return ""
    if beat.get("minute_p50_ms") is None:
        return f"no probe in an answer for a minute, {beat.get('lost', 0)} lost"
    p50, p99, lost = beat["minute_p50_ms"], beat["minute_p99_ms"], beat.get("lost", 0)
    return f"produce to answer p50 {p50:,.0f} ms, p99 {p99:,.0f} ms; {lost} lost in five minutes"


def realtime_summary(beat: Mapping[str, Any]) -> str:
    """The same of the real-time lane: lag and freshness of what it brings, or why it does not, and
    what it left to the micro-batch lane."""
    sources = list(beat.get("sources", {}).values())
    if not sources:
        return "nothing to bring"
    waits = [
        f"{source['source']} waits: {source['waiting']}"
        for source in sources
        if source.get("waiting")
    ]
    slow = max(
        (source["freshness_p99_ms"] for source in sources if source.get("freshness_p99_ms")),
        default=None,
    )
    skipped = sum(source.get("skipped", 0) for source in sources)
    fresh = [f"99 % visible within {slow:g} ms"] if slow is not None else []
    left = [f"{skipped:,} events left to the micro-batch lane (skipped)"] if skipped else []
    lag = sum(sum(source.get("lag", {}).values()) for source in sources)
    return ", ".join([*(waits or [f"lag {lag:,} events"]), *fresh, *left])


def _prepare(state: StateFolder, name: str) -> None:
    # the last driver's sign of life is not the new one's
    (state.path / name).mkdir(exist_ok=True)
    heartbeat_file(state, name).unlink(missing_ok=True)


def reason_of(beat: tuple[float | None, dict[str, Any]]) -> str | None:
    """Reason why a part of these signs of life is not well; None where it is."""
    age = beat[0]
    if age is None:
        return "no sign of life yet"
    return None if age < HEARTBEAT_LIMIT_S else f"last sign of life {age:.0f} s ago"
