"""Prometheus and Alertmanager of Debian's packages, on ports and in folders of a test's own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from slicewise.local.servers import ports
from tests.cluster.composed import mounted

T = TypeVar("T")
UP_S = 60.0


@contextmanager
def started(url: str, log: Path, *command: object) -> Iterator[None]:
    """A process until the block ends, ready by its own word."""
    with log.open("wb") as out:
        process = subprocess.Popen([*map(str, command)], stdout=out, stderr=out, cwd=log.parent)
    try:
        until(lambda: process.poll() is None and _ready(url), f"{command[0]} is not up", log)
        yield
    finally:
        process.terminate()
        process.wait(20)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def until(look: Callable[[], T], what: str, log: Path | None = None) -> T:
    """The first result of `look` that is true."""
    deadline = time.monotonic() + UP_S
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
            f"http://{address}",
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
        f"http://{address}",
        folder / "alertmanager.log",
        "prometheus-alertmanager",
        f"--config.file={file}",
        f"--storage.path={folder / 'alerts'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ):
        yield address


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
