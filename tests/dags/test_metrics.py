"""Airflow sends what the dashboard and the rules ask for, under the variables of
docker-compose.yaml."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
VARIABLES: dict[str, str] = {
    name: value
    for name, value in COMPOSE["services"]["airflow-scheduler"]["environment"].items()
    if name.startswith("AIRFLOW__METRICS__")
}
NAMES = {
    "airflow_dag_processing_import_errors": "dag_processing.import_errors",
    "airflow_dag_processor_heartbeat": "dag_processor_heartbeat",
    "airflow_dagrun_duration_failed_count": "dagrun.duration.failed",
    "airflow_scheduler_heartbeat": "scheduler_heartbeat",
    "airflow_ti_failures": "ti_failures",
    "airflow_triggerer_heartbeat": "triggerer_heartbeat",
}
"""Prometheus' name -> Airflow's: the exporter writes dots as underscores, and adds `_count` to a
timer."""


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD daemon, under the shipped variables but for its own address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", 0))
        own.settimeout(10)
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(own.getsockname()[1]))
        yield own


def test_queries_name_what_airflow_counts() -> None:
    from airflow._shared.observability.metrics.metrics_registry import MetricsRegistry

    rules = COMPOSE["configs"]["prometheus-rules"]["content"]
    queries = json.dumps(json.loads((ROOT / "docs/monitoring/dashboard.json").read_text()))
    assert set(re.findall(r"\bairflow_\w+", rules + queries)) == set(NAMES)
    registry = MetricsRegistry()
    assert all(registry.get(name=name) for name in NAMES.values())


def test_a_failed_task_is_sent_with_its_labels_and_under_one_name(daemon: socket.socket) -> None:
    from airflow.configuration import conf
    from airflow.observability.metrics.statsd_logger import get_statsd_logger

    assert conf.getboolean("metrics", "statsd_on")
    assert not conf.getboolean("metrics", "legacy_names_on")
    labels = {"dag_id": "compact_slices", "task_id": "compact", "run_id": "scheduled__1"}
    logger = get_statsd_logger()
    logger.incr("ti_failures", tags=labels)
    logger.statsd.close()
    sent = daemon.recv(1500).decode()
    # the exporter reads labels in this form without a mapping; a run is none
    assert sent == "airflow.ti_failures,dag_id=compact_slices,task_id=compact:1|c"
