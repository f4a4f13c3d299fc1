"""Servers of monitoring and an Airflow, on ports and in folders of a test's own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from slicewise.local.servers import airflow as airflow_server
from slicewise.local.servers import ports
from slicewise.local.servers.state import StateFolder
from slicewise.settings import Settings
from tests.cluster.composed import COMPOSE, ROOT, mounted

T = TypeVar("T")
UP_S = 60.0
AIRFLOW_UP_S = 420.0
FAILING = """
from airflow.sdk import DAG, task

with DAG("fails", schedule="@once", is_paused_upon_creation=False):

    @task
    def raises() -> None:
        raise RuntimeError("as it should")

    raises()
"""
"""A DAG whose only task fails at once."""


@contextmanager
def started(
    url: str, log: Path, *command: object, env: Mapping[str, str] = os.environ, up_s: float = UP_S
) -> Iterator[None]:
    """A process until the block ends, ready by its own word at this address."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*map(str, command)], stdout=out, stderr=out, cwd=log.parent, env=env
        )
    try:
        until(
            lambda: process.poll() is not None or _ready(url), f"{command[0]} is not up", log, up_s
        )
        assert process.poll() is None, f"{command[0]} ended\n{log.read_text()}"
        yield
    finally:
        process.terminate()
        process.wait(30)


def _ready(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def until(look: Callable[[], T], what: str, log: Path | None = None, up_s: float = UP_S) -> T:
    """The first result of `look` that is true."""
    deadline = time.monotonic() + up_s
    while not (result := look()):
        assert time.monotonic() < deadline, f"{what}\n{log.read_text() if log else ''}"
        time.sleep(0.2)
    return result


@contextmanager
def prometheus(folder: Path, targets: dict[str, str], alertmanager: str) -> Iterator[Prometheus]:
    """Prometheus under the shipped configuration: each target of it is another's address, and
    everything happens every second."""
    config: dict[str, Any] = yaml.safe_load(mounted("prometheus"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(folder / "rules.yml")]
    (folder / "rules.yml").write_text(mounted("prometheus-rules"), encoding="utf-8")
    for job in config["scrape_configs"]:
        job.pop("scrape_interval", None)
        for static in job["static_configs"]:
            static["targets"] = [targets[target] for target in static["targets"]]
    [manager] = config["alerting"]["alertmanagers"]
    [static] = manager["static_configs"]
    assert static["targets"] == ["alertmanager:9093"]
    static["targets"] = [alertmanager]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"{ports.HOST}:{ports.choose(owner=folder)}"
    with (
        started(
            f"http://{address}/-/ready",
            folder / "prometheus.log",
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ),
        httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=30) as client,
    ):
        yield Prometheus(client)


@contextmanager
def alertmanager(folder: Path, webhook: str) -> Iterator[str]:
    """Alertmanager under the shipped configuration; its address."""
    file = folder / "alertmanager.yml"
    text = mounted("alertmanager", SLICEWISE_ALERTMANAGER_WEBHOOK=webhook)
    file.write_text(text, encoding="utf-8")
    address = f"{ports.HOST}:{ports.choose(owner=folder)}"
    with started(
        f"http://{address}/-/ready",
        folder / "alertmanager.log",
        "prometheus-alertmanager",
        f"--config.file={file}",
        f"--storage.path={folder / 'alerts'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ):
        yield address


@contextmanager
def statsd_exporter(folder: Path) -> Iterator[tuple[str, int]]:
    """Exporter of Airflow's metrics, as docker-compose.yaml starts it. Yields the address that is
    scraped, and the port to which is sent."""
    program = ROOT / ".venvs" / "go" / "statsd_exporter"
    assert program.exists(), f"{program} is missing: make test-cluster builds it"
    address = f"{ports.HOST}:{ports.choose(owner=folder)}"
    port = ports.choose(owner=folder)
    given = COMPOSE["services"]["statsd-exporter"]["command"]
    own = {":9125": f"{ports.HOST}:{port}", ":9102": address}
    options = [f"{name}={own[value]}" for name, _, value in (word.partition("=") for word in given)]
    with started(
        f"http://{address}/-/ready",
        folder / "statsd.log",
        program,
        *options,
        "--statsd.listen-tcp=",
    ):
        yield address, port


@contextmanager
def airflow(folder: Path, statsd_port: int) -> Iterator[None]:
    """Airflow that sends its metrics as docker-compose.yaml has it. A task of it fails, and a DAG
    cannot be read."""
    dags = folder / "dags"
    dags.mkdir()
    (dags / "fails.py").write_text(FAILING, encoding="utf-8")
    (dags / "broken.py").write_text("import nothing_has_this_name  # DAG of airflow\n")
    settings = Settings.load({"SLICEWISE_STATE": str(folder / "state")})
    state = StateFolder(settings.state_dir)
    state.create()
    port = ports.choose(owner=settings.state_dir)
    service = airflow_server.service(settings, state, port)
    (state.path / airflow_server.NAME).mkdir()
    shipped = COMPOSE["services"]["airflow-scheduler"]["environment"]
    sent = {name: value for name, value in shipped.items() if "__METRICS__" in name}
    env = {
        **os.environ,
        **service.env,
        **sent,
        "AIRFLOW__METRICS__STATSD_HOST": ports.HOST,
        "AIRFLOW__METRICS__STATSD_PORT": str(statsd_port),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "none"),
    }
    health = f"{service.address}/api/v2/monitor/health"
    with started(health, folder / "airflow.log", *service.argv, env=env, up_s=AIRFLOW_UP_S):
        yield


class Prometheus:
    """Prometheus' HTTP API."""

    def __init__(self, client: httpx.Client) -> None:
        self._http = client

    def api(self, path: str, **params: str) -> Any:
        """Data of a reply; AssertionError for a query that is not valid."""
        reply = self._http.get(f"/api/v1/{path}", params=params)
        assert reply.status_code == 200, f"{params}: {reply.text}"
        return reply.json()["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series, now."""
        result = self.api("query", query=expression)["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]
