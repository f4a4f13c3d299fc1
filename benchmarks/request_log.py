"""Answers that are logged, beside the same that are not: latency, requests, processor time.

  make bench-request-log
  make bench-request-log BENCH="--seconds 2 --json figures.json"

The shipped example's feature set `delay_risk`, once as it is and once with log= for every entity,
from one API process over a real store and a real broker, in turns. Every answer of the second is
written to the broker meanwhile; the count of those that were lost stands beside the figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

import slicewise as sw
from benchmarks import serving_data
from benchmarks.serving import with_processor
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.servers import notify
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis.adapter import open_store
from tests.integration.serving.support import serving
from tests.support.platform.servers import KafkaBroker, RedisServer, running
from tests.support.stores.served import TOPIC

PLAIN, LOGGED = "delay_risk", "delay_risk_logged"
TURNS = 5
OTHER = "6" * 32
"""Id of the log's topic, as the store has it."""
P99_TIMES = 1.1
"""Most that logging may take of the 99th percentile: what two turns of the same differ by."""


def with_log() -> Deployment:
    """The shipped example, with a second set of the same features that logs its answers."""
    project = load_project(serving_data.FLIGHTS)
    requests = sw.request_log()
    risk = next(one for one in project.feature_sets if one.name == PLAIN)
    return plan(
        replace(
            project,
            views=(*project.views, sw.request_view(requests)),
            feature_sets=(*project.feature_sets, replace(risk, name=LOGGED, log=requests)),
        )
    )


def deploy(url: str, deployment: Deployment) -> None:
    """Deploys it beside what stands."""
    topics = {source.topic: TOPIC for source in deployment.sources} | {"requests": OTHER}
    with open_store(url) as store:
        version = store.run(ReadMetadata()).deployment_version
        store.run(Deploy(deployment, version, topics=topics))


def accounted(url: str) -> tuple[float, float]:
    """Answers that stand, and those that are lost, as the API counts them."""
    lines = httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
    names = ("slicewise_logged_answers_total", "slicewise_lost_answers_total{")
    stands, lost = (
        sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
        for name in names
    )
    return stands, lost


def measure(seconds: float) -> list[Figure]:
    """All figures. seconds: of each turn."""
    now_us = time.time_ns() // 1_000
    example = serving_data.flights()
    flown = serving_data.flown(example, now_us)
    routes = [
        {name: event.columns[name] for name in ("carrier", "origin", "dest")}
        for event in flown[-500:]
    ]
    measured: dict[tuple[str, int], list[dict[str, Any]]] = {}
    with running(RedisServer) as store, running(KafkaBroker) as broker:
        serving_data.fill(store.url, example, flown, now_us)
        deploy(store.url, with_log())
        with KafkaLog(broker.bootstrap) as log:
            log.create("requests", 2)
        with serving(store.url, settings={"SLICEWISE_KAFKA_BOOTSTRAP": broker.bootstrap}) as url:
            port = int(url.rpartition(":")[2])
            for turn in range(TURNS):
                notify(f"turn {turn + 1} of {TURNS}")
                for connections in (1, 8):
                    for name in (PLAIN, LOGGED):
                        bodies = [{"feature_set": name, "entities": [route]} for route in routes]
                        one = with_processor(port, "/v1/features", bodies, connections, seconds)
                        measured.setdefault((name, connections), []).append(one)
            sent = sum(one["sent"] for n in (1, 8) for one in measured[LOGGED, n])
            deadline = time.monotonic() + 30.0
            while sum(accounted(url)) < sent and time.monotonic() < deadline:
                time.sleep(0.1)
            lost = accounted(url)[1]
        with KafkaLog(broker.bootstrap) as log:
            stands = sum(log.latest("requests").offsets.values())

    def middle(name: str, connections: int, figure: str) -> float:
        """Median over the turns: one turn of this machine may be anybody's."""
        return float(statistics.median(one[figure] for one in measured[name, connections]))

    result = []
    for connections, of in ((1, "one connection"), (8, "eight connections")):
        section = f"{PLAIN}, {of}, logged (baseline: not logged)"
        for figure, name, unit, better in (
            ("p50_ms", "p50", "ms", "lower"),
            ("p99_ms", "p99", "ms", "lower"),
            ("requests_per_s", "requests", "requests/s", "higher"),
            ("processor_ms", "processor of a request", "ms", "lower"),
        ):
            ours, theirs = (middle(one, connections, figure) for one in (LOGGED, PLAIN))
            aim = 1 / P99_TIMES if (connections, figure) == (1, "p99_ms") else None
            result.append(
                Figure(section, name, unit, round(ours, 3), round(theirs, 3), better, aim)
            )
    section = "events of the log"
    result.append(Figure(section, "answers given", "answers", sent))
    result.append(Figure(section, "stand in the topic", "answers", stands))
    result.append(Figure(section, "lost and counted", "answers", lost))
    result.append(Figure(section, "neither", "answers", sent - stands - lost, bound=0.0))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        "bench-request-log", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn (5)")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args()
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    measured = measure(given.seconds)
    seconds = round(time.monotonic() - begun)
    publish("make bench-request-log", sys.argv[1:], given, facts, seconds, measured)


if __name__ == "__main__":
    main()
