"""Up twice changes nothing, down leaves no process, status tells what is and not what was noted.

No process of this stays to supervise; what dies, the watcher has started again by `revive`
(docs/adr/0071).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import psutil

from slicewise.clock import SystemClock
from slicewise.errors import NotReady, ServerError, SettingsError, StoreUnavailable
from slicewise.lifecycle import restarts
from slicewise.lifecycle.deployed import Deployments
from slicewise.lifecycle.findings import Finding
from slicewise.lifecycle.incidents import Incidents
from slicewise.lifecycle.restarts import Restarts
from slicewise.local.servers import control, drivers, services, stream, watch
from slicewise.local.servers.control import Notify
from slicewise.local.servers.inbox import Inbox
from slicewise.local.servers.process import Birth, descendants
from slicewise.local.servers.redis import NAME as REDIS
from slicewise.local.servers.redis import names as redis_names
from slicewise.local.servers.service import Service
from slicewise.local.servers.services import Platform
from slicewise.local.servers.state import StateFolder
from slicewise.names import unknown
from slicewise.settings import Settings, urls_of


@dataclass(frozen=True)
class ServiceStatus:
    """One service, as it is now."""

    name: str
    state: str
    """up, ill (runs and is not well), down, idle (nothing asks for it), or external (a server of
    the user's)."""
    detail: str
    address: str
    pid: int | None
    uptime_s: float | None
    memory_bytes: int | None
    """Memory of the process and all below it, shared pages counted once each."""
    log: str


def up(settings: Settings, notify: Notify, only: Iterable[str] | None = None) -> Settings:
    """Starts what does not run, waits until all are well; the settings that lead to them.

    only: names of services to start, "redis" of all nodes of the store; all that are always on by
    default. Raises ServerError, SettingsError, UnknownName.
    """
    chosen = _chosen(settings, only, "slicewise up")
    state = StateFolder(settings.state_dir)
    state.create()
    with state.locked():
        platform = _build_for_start(settings, state)
        wanted = [
            service
            for service in platform.services.values()
            if (service.always_on if chosen is None else service.name in chosen)
            and (service.name != services.WATCH or settings.watch == "on")
        ]
        for name, address in platform.external.items():
            notify(f"{name:<8} external at {address.rpartition('@')[2]}")
        _start_all(wanted, platform, notify)
    return platform.settings


def begin(settings: Settings, notify: Notify, only: Iterable[str]) -> None:
    """Starts those of `only` that do not run, and waits for none of them: `up` does. Raises
    ServerError."""
    chosen, state = set(only), StateFolder(settings.state_dir)
    state.create()
    with state.locked():
        platform = _build_for_start(settings, state)
        for name, service in platform.services.items():
            if name in chosen and control.running(service, state) is None:
                notify(f"{name:<8} starting, meanwhile")
                control.start(service, state, platform.settings)


def _chosen(settings: Settings, only: Iterable[str] | None, command: str) -> set[str] | None:
    """Raises UnknownName."""
    if only is None:
        return None
    nodes = redis_names(settings.store_nodes)
    chosen = {node for name in only for node in (nodes if name == REDIS else [name])}
    for name in sorted(chosen - set(services.names_of(settings))):
        raise unknown("service", name, services.names_of(settings), command)
    return chosen


def _check_nodes(settings: Settings, recorded: str | None) -> None:
    """Another number of nodes is another, empty store: nobody means that of a folder that has
    one."""
    if recorded is not None and recorded != str(settings.store_nodes):
        raise SettingsError(
            f"{settings.store_nodes} nodes, and the store of {settings.state_dir} has {recorded}",
            where="SLICEWISE_STORE_NODES",
            expected=recorded,
            next_step=(
                "leave it out; or begin anew, in another SLICEWISE_STATE or after `slicewise clean`"
            ),
        )


def _build_for_start(settings: Settings, state: StateFolder) -> Platform:
    before = services.build(settings)
    if REDIS not in before.external:
        _check_nodes(settings, state.addresses().get("store_nodes"))
    remembered = state.ports()
    ports = {
        port: remembered[port]
        for name, service in before.services.items()
        if control.running(service, state) is not None
        for port in services.ports_of(settings).get(name, ())
    }
    return services.build(settings, services.chooser(ports, state.path))


def _start_all(wanted: list[Service], platform: Platform, notify: Notify) -> None:
    """Starts each service as soon as those that it comes after are well; services.build names those
    first."""
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        started: dict[str, Future[None]] = {}
        for service in wanted:
            before = [started[name] for name in service.after if name in started]
            started[service.name] = pool.submit(_ensure_after, before, service, platform, notify)
        wait(started.values())
        for future in started.values():
            future.result()


def _ensure_after(
    before: list[Future[None]], service: Service, platform: Platform, notify: Notify
) -> None:
    for future in before:
        future.result()
    _ensure(service, platform, notify)


def _ensure(service: Service, platform: Platform, notify: Notify) -> None:
    birth = control.running(service, platform.state)
    if birth is not None and service.health(birth.pid) is None:
        notify(f"{service.name:<8} runs already{_at(service)}")
        return
    if birth is None:
        notify(f"{service.name:<8} starting")
        birth = control.start(service, platform.state, platform.settings)
    seconds = control.await_well(service, birth, platform.state, notify)
    notify(f"{service.name:<8} up after {seconds:.1f} s{_at(service)}")


def _at(service: Service) -> str:
    return f" at {service.address}" if service.address else ""


def revive(settings: Settings, name: str) -> bool:
    """Starts a server that died, where it was; whether it did. One without a pid file was stopped
    on purpose, and one that runs was started by somebody else: neither is touched. Does not wait
    until it is well. Raises ServerError."""
    state = StateFolder(settings.state_dir)
    with state.locked():
        service = services.build(settings).services.get(name)
        if (
            service is None
            or not state.pid_file(name).exists()
            or control.running(service, state) is not None
        ):
            return False
        control.start(service, state, settings)
    return True


def down(settings: Settings, notify: Notify, only: Iterable[str] | None = None) -> None:
    """Stops all, the stream too, then whatever they left behind. only: names of services to stop,
    which nobody starts again but `up` or their owner. Raises UnknownName."""
    chosen = _chosen(settings, only, "slicewise down")
    state = StateFolder(settings.state_dir)
    if not state.path.exists():
        notify("nothing runs")
        return
    state.create()
    with state.locked():
        processes = services.build(settings).services
        stopped = 0
        meant = [
            process for process in processes.values() if chosen is None or process.name in chosen
        ]
        by_order = sorted(meant, key=lambda service: service.stop_order)
        for _, together in groupby(by_order, key=lambda service: service.stop_order):
            wave = list(together)
            with ThreadPoolExecutor(len(wave)) as pool:
                stopped += sum(pool.map(lambda process: _stop(process, state, notify), wave))
        if chosen is None:
            stopped += control.sweep(state)
    if not stopped:
        notify("nothing runs")


def _stop(service: Service, state: StateFolder, notify: Notify) -> bool:
    if control.running(service, state) is not None:
        notify(f"{service.name:<8} stopping")
    begun = time.monotonic()
    stopped = control.stop(service, state)
    if stopped:
        notify(f"{service.name:<8} stopped after {time.monotonic() - begun:.1f} s")
    return stopped


def clean(settings: Settings, notify: Notify) -> None:
    """Stops all and forgets everything that they kept."""
    down(settings, notify)
    StateFolder(settings.state_dir).remove()
    notify(f"removed {settings.state_dir}")


def runs(settings: Settings, name: str) -> bool:
    """Tells whether one of our services has a process; nothing is asked of it."""
    service = services.build(settings).services.get(name)
    return (
        service is not None
        and control.running(service, StateFolder(settings.state_dir)) is not None
    )


def status(settings: Settings) -> list[ServiceStatus]:
    """The status of all services as they are now; asks the processes and the servers themselves."""
    state = StateFolder(settings.state_dir)
    platform = services.build(settings)
    nodes_are_ours = REDIS not in platform.external
    names = [
        name for name in services.names_of(settings) if nodes_are_ours or name in services.NAMES
    ]
    return [_status_of(name, platform, state) for name in names]


def _status_of(name: str, platform: Platform, state: StateFolder) -> ServiceStatus:
    log = str(state.log(name))
    if name in platform.external:
        address = ",".join(url.rpartition("@")[2] for url in urls_of(platform.external[name]))
        return ServiceStatus(name, "external", "", address, None, None, None, "")
    service = platform.services.get(name)
    birth = control.running(service, state) if service else None
    again = restarts.summary(watch.read(state).get(name, Restarts()), SystemClock().now_us())
    if service is None or birth is None:
        why = _idle(name, platform)
        state_now, detail = ("down", again) if why is None else ("idle", why)
        return ServiceStatus(name, state_now, detail, "", None, None, None, log)
    reason = service.health(birth.pid)
    usage = _usage(birth)
    summary_of = _SUMMARIES.get(name)
    summary = summary_of(drivers.heartbeat_of(state, name)[1]) if summary_of is not None else again
    return ServiceStatus(
        name,
        "up" if reason is None else "ill",
        reason or summary,
        service.address,
        birth.pid,
        usage.get("uptime_s"),
        int(usage["memory"]) if "memory" in usage else None,
        log,
    )


_SUMMARIES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    services.REALTIME: stream.realtime_summary,
    services.EMIT: stream.emission_summary,
    services.PROBES: stream.probes_summary,
    services.SHADOW: services.shadow_summary,
}
_WANTED: Mapping[str, tuple[Callable[[Settings], bool], str]] = {
    services.EMIT: (stream.publishes, "nothing is published"),
    services.PROBES: (stream.probed, "no probes are deployed"),
}


def _idle(name: str, platform: Platform) -> str | None:
    """Tells why nothing asks for a service that does not run; None where something does, or the
    store cannot say."""
    if name == services.REALTIME and platform.settings.realtime == "off":
        return "off (SLICEWISE_REALTIME)"
    if name == services.WATCH and platform.settings.watch == "off":
        return "off (SLICEWISE_WATCH)"
    if name == services.SHADOW and not services.shadowed(platform.settings):
        return "no model has shadow"
    redis = platform.services.get(REDIS)
    if name not in _WANTED or (
        redis is not None and control.running(redis, platform.state) is None
    ):
        return None
    wanted, why = _WANTED[name]
    try:
        return None if wanted(platform.settings) else why
    except (StoreUnavailable, NotReady):
        return None


def _usage(birth: Birth) -> Mapping[str, float]:
    try:
        root = psutil.Process(birth.pid)
        memory = 0
        for process in (birth, *descendants(birth)):
            full = psutil.Process(process.pid).memory_full_info()
            memory += getattr(full, "pss", 0) or full.rss
        return {"uptime_s": max(0.0, time.time() - root.create_time()), "memory": memory}
    except (psutil.Error, OSError):
        return {}


def require_up(settings: Settings, names: Iterable[str]) -> None:
    """Raises ServerError, naming what to do, unless all of these are up or external."""
    ill = [
        service
        for service in status(settings)
        if service.name in set(names) and service.state in ("down", "ill")
    ]
    if ill:
        raise ServerError(
            ", ".join(f"{service.name} is {service.state}" for service in ill),
            where=str(settings.state_dir),
            expected="all up",
            next_step="slicewise up starts them; slicewise status shows each",
        )


def incidents(settings: Settings) -> Incidents:
    """Incidents of the last seven days, and those that are open, as far as file and store can be
    read."""
    return Inbox(settings).read()


def deployments(settings: Settings) -> Deployments:
    """Deployments as the watch of `ingest_stream` keeps them."""
    return drivers.kept_deployments(StateFolder(settings.state_dir))


def faults(settings: Settings, rows: Sequence[ServiceStatus]) -> tuple[Finding, ...]:
    """Findings about servers and drivers that died, are ill or were started again; rows: as
    `status` gives."""
    state = StateFolder(settings.state_dir)
    kept = watch.read(state)
    results: list[Finding] = []
    for row in rows:
        died = row.state == "down" and state.pid_file(row.name).exists()
        if row.state == "ill":
            results.append(Finding(row.name, row.detail, row.log))
        elif row.name == services.WATCH and died:
            results.append(Finding(row.name, "it died: servers that die stay down", "slicewise up"))
        elif died and row.name not in services.ON_DEMAND:
            results.append(
                Finding(row.name, f"it died; {row.detail or 'nobody starts it again'}", row.log)
            )
        elif row.state == "up" and row.name in kept and kept[row.name].at_us:
            loops = kept[row.name].in_a_row >= restarts.LOOP
            results.append(Finding(row.name, row.detail, row.log, now=loops))
    # a broker of this platform that is down or ill is a row already
    broker = any(row.name == services.KAFKA and row.state in ("up", "external") for row in rows)
    return (*results, *drivers.findings(settings, SystemClock().now_us(), broker=broker))
