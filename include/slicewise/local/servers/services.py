"""Services of the platform, and their addresses: the only place that an embedded server is added
to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slicewise.errors import SlicewiseError
from slicewise.local.servers import airflow as airflow_server
from slicewise.local.servers import drivers, health, ports, stream, watch
from slicewise.local.servers import kafka as kafka_broker
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.ports import HOST
from slicewise.local.servers.service import Service
from slicewise.local.servers.state import StateFolder
from slicewise.models.declared import declared_models
from slicewise.settings import Settings

REDIS = redis_server.NAME
KAFKA = kafka_broker.NAME
AIRFLOW = airflow_server.NAME
SERVING = "serving"
STREAM = stream.NAME
EMIT = stream.EMIT
PROBES = stream.PROBES
REALTIME = stream.REALTIME
REPLAY = "replay"
PLAYS = "plays"
SHADOW = "shadow"
WATCH = watch.NAME

# Every port that a service listens on.
PORTS: Mapping[str, tuple[str, ...]] = {
    REDIS: ("redis",),
    KAFKA: ("kafka", "kafka_controller"),
    SERVING: ("serving",),
    AIRFLOW: ("airflow",),
}
# The setting by which the others find a service.
SETTING: Mapping[str, str] = {
    REDIS: "redis_url",
    kafka_broker.NAME: "kafka_bootstrap",
    SERVING: "serving_url",
    AIRFLOW: "airflow_url",
}
NAMES = (*PORTS, STREAM, REALTIME, EMIT, PROBES, REPLAY, PLAYS, SHADOW, WATCH)
# Started by their owner, and down for as long as nobody wants them.
ON_DEMAND = frozenset({STREAM, REALTIME, EMIT, PROBES, REPLAY, PLAYS, SHADOW, WATCH})


def ports_of(settings: Settings) -> Mapping[str, tuple[str, ...]]:
    """Service -> its ports, with a server for each node of the store."""
    nodes = redis_server.names(settings.store_nodes)[1:]
    return {**{name: (name.replace("-", "_"),) for name in nodes}, **PORTS}


def names_of(settings: Settings) -> tuple[str, ...]:
    """All services."""
    return (
        *redis_server.names(settings.store_nodes),
        *(name for name in NAMES if name != REDIS),
    )


@dataclass(frozen=True)
class Platform:
    """The embedded services of one state folder, and the settings that lead to them."""

    state: StateFolder
    settings: Settings
    services: Mapping[str, Service]
    external: Mapping[str, str]
    """Name and address of servers that a setting of the user's names instead of ours."""


def build(
    settings: Settings,
    choose_port: Callable[[str, int | None], int] | None = None,
    env: Mapping[str, str] = os.environ,
) -> Platform:
    """The services at the ports that they had last.

    choose_port(name, last one) names a port for each that is wanted anew; without it nothing is
    chosen, and a service that never had a port is left out. env tells which addresses the user set.
    """
    state = StateFolder(settings.state_dir)
    ports, nodes = ports_of(settings), redis_server.names(settings.store_nodes)
    remembered, written = state.ports(), state.addresses()
    # set by the user, and not merely what our own supervisor handed to its children: that has a
    # port of ours
    external = {
        name: getattr(settings, setting)
        for name, setting in SETTING.items()
        if (given := env.get(f"SLICEWISE_{setting.upper()}")) is not None
        and (given != written.get(setting) or not all(port in remembered for port in PORTS[name]))
    }
    if choose_port is not None:
        remembered = {
            port: choose_port(port, remembered.get(port))
            for service, needed in ports.items()
            if _setter(service) not in external
            for port in needed
        }
    here = [
        name
        for name, needed in ports.items()
        if _setter(name) not in external and all(port in remembered for port in needed)
    ]
    ours: dict[str, Any] = {
        SETTING[name]: _address(name, remembered) for name in here if name in SETTING
    }
    if set(nodes) <= set(here):
        ours["redis_url"] = ",".join(_address(name, remembered) for name in nodes)
    settings = replace(settings, **ours)
    if choose_port is not None:
        addresses = {setting: getattr(settings, setting) for setting in SETTING.values()}
        # else who does not say it again knows the first of them alone
        if REDIS not in external:
            addresses["store_nodes"] = str(settings.store_nodes)
        state.write_endpoints(remembered, addresses)
    services = {name: _service(name, settings, state, remembered) for name in here}
    for name in (STREAM, REALTIME, EMIT, PROBES):
        services[name] = stream.service(settings, state, name)
    for name, command in (
        (REPLAY, ("replay", "--share", settings.replay_share)),
        (
            PLAYS,
            (
                "load",
                "--live",
                "--rate",
                str(settings.plays_rate),
                "--users",
                "10000",
                "--songs",
                "1000",
            ),
        ),
    ):
        services[name] = _example(settings, state, name, command)
    services[SHADOW] = _shadow(settings, state, here)
    services[WATCH] = _watch(settings, state, here)
    return Platform(state, settings, services, external)


def chooser(
    owned: Mapping[str, int], owner: Path | None = None
) -> Callable[[str, int | None], int]:
    """Chooses ports for the state folder `owner`: those in `owned` are its running servers' and
    stay."""
    taken: set[int] = set(owned.values())

    def choose(name: str, last: int | None) -> int:
        port = owned[name] if name in owned else ports.choose(last, taken, owner)
        taken.add(port)
        return port

    return choose


def _setter(name: str) -> str:
    """The service that the setting is of by which the others find this one."""
    return name if name in PORTS else REDIS


def _address(name: str, remembered: Mapping[str, int]) -> str:
    port = remembered[PORTS[name][0] if name in PORTS else name.replace("-", "_")]
    schemes = {REDIS: "redis://{}:{}/0", kafka_broker.NAME: "{}:{}"}
    return schemes.get(_setter(name), "http://{}:{}").format(HOST, port)


def _example(settings: Settings, state: StateFolder, name: str, command: Sequence[str]) -> Service:
    """A producer of the example's events, which goes on for ever, and after a stop where it was."""
    return Service(
        name=name,
        argv=(str(settings.platform_python.parent / "slicewise"), *command),
        cwd=state.path,
        health=lambda _: None,
        address="",
        after=(kafka_broker.NAME,),
        stop_order=15,
        always_on=False,
    )


def shadowed(settings: Settings) -> bool:
    """Tells whether the project's file gives a model `shadow`, whatever version is live: a newer
    one may come at any time. Of a file that is wrong, the process says so."""
    if not settings.models.is_file():
        return False
    try:
        return any(model.shadow for model in declared_models(settings).values())
    except SlicewiseError:
        return True


def shadow_summary(beat: Mapping[str, Any]) -> str:
    """Answers first questions on call about each model: how many scores, what is wrong."""
    lines = []
    for name, model in beat.get("models", {}).items():
        lacking, skipped = model.get("without_score", 0), model.get("skipped", 0)
        parts = [f"{name}: {model.get('scored', 0):,} scores"]
        parts += [f"{lacking:,} without a score"] if lacking else []
        parts += [f"{skipped:,} answers skipped"] if skipped else []
        parts += [f"waits: {str(model['error']).splitlines()[0]}"] if model.get("error") else []
        lines.append(", ".join(parts))
    return "; ".join(lines) or "no model answers beside a live one now"


def _shadow(settings: Settings, state: StateFolder, servers: Sequence[str]) -> Service:
    """The process that answers logged requests by other models; wanted where one has `shadow`."""
    return Service(
        name=SHADOW,
        argv=(str(settings.platform_python.parent / "slicewise"), "shadow"),
        cwd=state.path,
        health=lambda _: stream.reason_of(drivers.heartbeat_of(state, SHADOW)),
        address="",
        prepare=lambda: drivers.heartbeat_file(state, SHADOW).unlink(missing_ok=True),
        after=tuple(servers),
        stop_order=16,
        stop_timeout_s=30.0,
        always_on=shadowed(settings),
    )


def _watch(settings: Settings, state: StateFolder, servers: Sequence[str]) -> Service:
    """The service that starts servers again that die; it comes last, and is gone first: it fights
    neither `up` nor `down`."""
    return Service(
        name=WATCH,
        argv=(
            str(settings.platform_python),
            "-m",
            "slicewise.local.servers.watch",
            *servers,
            SHADOW,
        ),
        cwd=state.path,
        health=lambda _: None,
        address="",
        after=tuple(servers),
        without=tuple(f"SLICEWISE_{SETTING[name].upper()}" for name in servers if name in SETTING),
        stop_order=0,
        always_on=settings.watch == "on",
    )


def _service(
    name: str, settings: Settings, state: StateFolder, remembered: Mapping[str, int]
) -> Service:
    own = [remembered[port] for port in ports_of(settings)[name]]
    if _setter(name) == REDIS:
        return redis_server.service(settings, state, own[0], name)
    if name == kafka_broker.NAME:
        return kafka_broker.service(settings, state, own[0], own[1])
    if name == AIRFLOW:
        return airflow_server.service(settings, state, own[0])
    return Service(
        name=SERVING,
        argv=(str(settings.platform_python), "-m", "slicewise.serving"),
        cwd=state.path,
        health=lambda _: health.http_ok(own[0], "/healthz"),
        address=f"http://{HOST}:{own[0]}",
        after=tuple(redis_server.names(settings.store_nodes)),
        stop_order=30,
    )


def environment_of_tasks(settings: Settings) -> dict[str, str]:
    """The environment of Airflow's tasks: of the embedded one what the supervisor gives it, else
    what is set here."""
    env = os.environ | settings.to_env()
    state = StateFolder(settings.state_dir)
    port = state.ports().get(AIRFLOW)
    if "AIRFLOW_HOME" not in env and port is not None:
        env |= airflow_server.environment(settings, state, port)
    plugins = str(settings.home / "plugins")
    env["PYTHONPATH"] = os.pathsep.join([plugins, *filter(None, [env.get("PYTHONPATH")])])
    # connections that were added in Airflow's UI stand in its database
    return {**env, "_AIRFLOW_PROCESS_CONTEXT": "server"}
