"""Every query of the dashboard finds in a real Prometheus what the platform really exports.

Prometheus and Alertmanager run under the shipped configurations, with the addresses of a small
platform and of an Airflow; an alert of a rule reaches a receiver.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import yaml

from slicewise.clock import SystemClock
from slicewise.emission.ticks import Tick
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.lifecycle import incidents
from slicewise.lifecycle.health.alerts import matter_alert
from slicewise.lifecycle.health.overview import job_record
from slicewise.probes.figures import Metrics as ProbeMetrics
from slicewise.probes.prober import Prober
from slicewise.spark.emission.figures import ViewFigures
from slicewise.spark.microbatch.figures import BatchFigures, SourceFigures
from slicewise.spark.realtime.figures import WriterFigures, WriterStatus
from slicewise.spark.runtime.status_sinks import (
    Metrics,
    emission_metrics,
    put_statuses,
    realtime_metrics,
)
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.operations.readiness import MarkBuilding
from slicewise.stores.online.redis.status import record_part
from tests.cluster.composed import ROOT, RULES, mounted
from tests.cluster.processes import (
    AIRFLOW_UP_S,
    Prometheus,
    airflow,
    alertmanager,
    prometheus,
    statsd_exporter,
    until,
)
from tests.integration.serving.support import deployment, everyone, serving
from tests.integration.serving.test_store import BODY, play, post, value
from tests.support.platform.receiver import Receiver, receiving
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Served
from tests.unit.serving.test_platform_metrics import CHECKED, COMPACTED

DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs/monitoring/dashboard.json").read_text())
QUERIES = [
    (f"{panel['title']} {target['refId']}", target["expr"])
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
]
AIRFLOW = sorted({name for _, text in QUERIES for name in re.findall(r"\bairflow_\w+", text)})
RULED = [(rule["alert"], rule["expr"]) for group in RULES["groups"] for rule in group["rules"]]
SETTINGS = {"SLICEWISE_SERVING_AT_ONCE": "1", "SLICEWISE_SERVING_TIMEOUT_MS": "1000"}
"""One request in work at a time: others wait, and are seen to."""
CLOCK = SystemClock()


@dataclass
class Lanes:
    """Figures of the drivers and the metrics that they serve, as a driver shows them."""

    stream: BatchFigures
    realtime: WriterFigures
    emission: ViewFigures
    rows: int = 0

    @staticmethod
    def begun() -> Lanes:
        sources = [SourceFigures("plays", CLOCK) for _ in range(3)]
        lanes = Lanes(BatchFigures(sources[0]), WriterFigures(sources[1]), ViewFigures(sources[2]))
        sources[0].lost = 0
        lanes.emission.begun("everyone", CLOCK.now_us())
        return lanes

    def work(self) -> None:
        """A batch of each lane: three records, of which one is bad and one is left out."""
        self.rows += 3
        units = {"u1": {"left_out": {"1": 1}}}
        batch = {"records": 3, "freshness_ms": [5.0, 40.0], "bad": {"not_json": 1}, "units": units}
        self.stream.applied([batch], 0.1, {1: "too_late"})
        writer = {
            "run": "a",
            "partition": 0,
            "acked": self.rows - 1,
            "rows": self.rows,
            "ms": {"bounds": [1.0, 10.0], "counts": [self.rows - 1, self.rows, self.rows]},
        }
        self.realtime.take_in([WriterStatus.parse(json.dumps(writer))])
        self.emission.read(3, 0.1)
        unit = SimpleNamespace(state=SimpleNamespace(rows=9), late_rows=1, too_late=1)
        view = SimpleNamespace(view="everyone", emissions=[unit])
        nothing: Any = None
        tick = Tick("n", nothing, 0, 0, nothing, nothing, np.array([True]), nothing)
        instant: Any = SimpleNamespace(instant_us=CLOCK.now_us())
        self.emission.published(cast(Any, view), instant, [tick])
        for figures in (self.stream, self.realtime, self.emission):
            figures.source.lagging({0: 2})


@contextmanager
def repeated(work: Any, every_s: float) -> Iterator[None]:
    """Work that goes on beside the block."""
    ended = threading.Event()

    def loop() -> None:
        while not ended.wait(every_s):
            work()

    with ThreadPoolExecutor(1) as pool:
        running_work = pool.submit(loop)
        try:
            yield
        finally:
            ended.set()
            running_work.result()


def served_lanes(served: Served) -> tuple[dict[str, str], Any]:
    """Addresses by the names of the shipped configuration, and what makes their figures grow."""
    lanes = Lanes.begun()
    shown: dict[int, tuple[Metrics, BatchFigures | WriterFigures | ViewFigures]] = {
        9400: (Metrics(), lanes.stream),
        9401: (emission_metrics(), lanes.emission),
        9402: (realtime_metrics(), lanes.realtime),
    }

    def work() -> None:
        lanes.work()
        for metrics, figures in shown.values():
            metrics.show(figures.status())
        put_statuses(served.store, "stream", [lanes.stream.status()])

    work()
    served_at = {port: metrics.serve("127.0.0.1:0") for port, (metrics, _) in shown.items()}
    return {
        f"airflow-scheduler:{port}": f"127.0.0.1:{own}" for port, own in served_at.items()
    }, work


def probing(served: Served, url: str) -> tuple[str, Any]:
    """A prober's address and its step: a probe is an event in the store until an answer counts
    it."""
    metrics, seen = ProbeMetrics(), list[str]()
    offset = 1
    """Number of plays before the first probe."""

    def produce(probe: str) -> None:
        seen.append(probe)
        served.apply([play(offset + len(seen) - 1)])

    def request(probes: Sequence[str]) -> list[bool] | None:
        reply = post(url, BODY)
        if reply.status_code != 200:
            return None
        return [seen.index(probe) < value(reply) - offset for probe in probes]

    prober = Prober(produce, request, time.monotonic, "p")

    def step() -> None:
        result = prober.step()
        for seconds in result.freshness:
            metrics.freshness.observe(seconds)
        metrics.lost.inc(result.lost)
        metrics.waiting.set(prober.waiting_s())

    return f"127.0.0.1:{metrics.serve('127.0.0.1:0')}", step


def recorded(url: str) -> None:
    """Reports of jobs and an open incident, as tasks leave them in the store."""
    now_us = CLOCK.now_us()
    record_part(url, "job:compact", job_record(COMPACTED, ok=True, at_us=now_us))
    record_part(url, "job:check", job_record(CHECKED, ok=False, at_us=now_us))
    red = matter_alert("check_red", "check_consistency", "check", "r", ["2 of 5000 differ"])
    opened, _ = incidents.met((), red, now_us, 1)
    record_part(url, incidents.PART, incidents.to_text(opened))


def refused(redis: RedisServer, url: str) -> None:
    """Requests that are refused or answered without the store: of a view that is being built, of no
    feature, and while the store hangs."""
    body = {"features": ["listening:plays_1h"], "entities": [{"user_id": "ann"}]}
    assert post(url, body).json()["error"]["kind"] == "NotReady"
    assert post(url, {"features": ["nobody:nothing"]}).status_code == 404
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        assert post(url, BODY).json()["error"]["kind"] == "StoreUnavailable"
        assert post(url, {"feature_set": "remembered"}).json()["flags"] == ["stale"]
    finally:
        os.kill(redis.pid, signal.SIGCONT)


@dataclass(frozen=True)
class Monitored:
    """A small platform under Prometheus and Alertmanager."""

    prometheus: Prometheus
    receiver: Receiver


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    folder = tmp_path_factory.mktemp("monitoring")
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        small = plan(Project("tests", (everyone,)))
        served = stack.enter_context(Served.on(redis.url, small))
        served.apply([play(0)])
        url = stack.enter_context(serving(redis.url, settings=SETTINGS))
        whole = Served(served.store, deployment())
        topics = {source.topic: TOPIC for source in whole.deployment.sources}
        version = whole.store.run(ReadMetadata()).deployment_version
        whole.store.run(Deploy(whole.deployment, version, topics=topics))
        whole.store.run(MarkBuilding(whole.deployment.view("listening")[0], 1, 4))
        recorded(redis.url)
        assert value(post(url, {"feature_set": "remembered"})) == 1
        refused(redis, url)
        targets, work = served_lanes(served)
        beside = Served.on(redis.url, small, deploy=False)
        probes, step = probing(stack.enter_context(beside), url)
        targets["airflow-scheduler:9403"] = probes
        targets["serving:8000"] = url.removeprefix("http://")
        exported, port = stack.enter_context(statsd_exporter(folder))
        targets["statsd-exporter:9102"] = exported
        stack.enter_context(airflow(folder, port))

        def requests() -> None:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda _: post(url, BODY), range(4)))

        for load, every_s in ((work, 0.3), (step, 0.02), (requests, 0.3)):
            stack.enter_context(repeated(load, every_s))
        receiver = stack.enter_context(receiving())
        manager = stack.enter_context(alertmanager(folder, receiver.url))
        running_prometheus = stack.enter_context(prometheus(folder, targets, manager))
        # serving is scraped twice over
        scraped = f"count(sum_over_time(up[5m]) >= 4) == {len(targets) + 1}"
        until(
            lambda: running_prometheus.query(scraped),
            "not every target is scraped",
            folder / "prometheus.log",
        )

        def sent() -> bool:
            counted = (f"count_over_time({name}[5m]) > 1" for name in AIRFLOW)
            return all(running_prometheus.query(expression) for expression in counted)

        message = f"Airflow did not send all of {AIRFLOW}"
        until(sent, message, folder / "airflow.log", AIRFLOW_UP_S)
        yield Monitored(running_prometheus, receiver)


@pytest.mark.parametrize(
    "expression", [text for _, text in QUERIES], ids=[name for name, _ in QUERIES]
)
def test_a_query_of_the_dashboard_finds_what_is_exported(
    monitored: Monitored, expression: str
) -> None:
    series = monitored.prometheus.query(expression)
    assert series
    assert not all(math.isnan(value) for _, value in series), series


def test_every_rule_is_evaluated_and_those_of_this_platform_fire(monitored: Monitored) -> None:
    expected = {
        "SlicewiseCheckRed": "firing",
        "SlicewiseIncidentsOpen": "pending",
        "SlicewiseRecordsBad": "pending",
        "SlicewiseViewNotReady": "pending",
    }
    states: dict[str, str] = {}

    def evaluated() -> list[dict[str, Any]] | None:
        groups = monitored.prometheus.api("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        states.update({rule["name"]: rule["state"] for rule in rules})
        # answers that were late while Airflow started are so no more a moment later
        stand = {name: state for name, state in states.items() if state != "inactive"} == expected
        return rules if stand and all(rule["health"] == "ok" for rule in rules) else None

    rules = until(evaluated, "the rules are not evaluated, or others stand")
    assert rules is not None, states
    assert {rule["name"] for rule in rules} == {name for name, _ in RULED}


def test_an_alert_of_a_rule_reaches_the_receiver_of_its_severity(monitored: Monitored) -> None:
    def arrived() -> Any:
        for body in monitored.receiver.posts:
            for alert in body.get("alerts", ()):
                if alert["labels"]["alertname"] == "SlicewiseCheckRed":
                    return alert
        return None

    alert = until(arrived, "no alert arrived")
    assert alert["labels"]["severity"] == "critical"
    assert alert["annotations"]["summary"] == "the check is red, and 2 values or plain sums differ"
    assert alert["annotations"]["runbook"].endswith("#the-check-is-red")


# ------------------------------------------------------------- without a server
def test_every_panel_asks_the_data_source_that_is_provisioned() -> None:
    [source] = yaml.safe_load(mounted("grafana-datasource"))["datasources"]
    provisioned = {"type": source["type"], "uid": source["uid"]}
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"] == provisioned
        assert all(target["datasource"] == provisioned for target in panel["targets"])
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_metric_that_is_asked_for_is_listed() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(slicewise_\w+)` \| (\w+) \|", page, re.MULTILINE)
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
    listed = {name + suffix for name, kind in rows for suffix in ("", *suffixes.get(kind, ()))}
    names = {
        name
        for _, expression in (*QUERIES, *RULED)
        for name in re.findall(r"\bslicewise_\w+", expression)
    }
    assert len(names) > 40
    assert names <= listed


def test_every_query_has_a_name_of_its_own() -> None:
    assert len(dict(QUERIES)) == len(QUERIES)
    assert len(AIRFLOW) == 6
