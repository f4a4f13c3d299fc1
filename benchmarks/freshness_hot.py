"""One user gets nearly all events, and a view of everyone all of them: how many pending events
there are, what it costs others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import redis

from benchmarks.freshness_sides import (
    Request,
    listening,
    memory_mib,
    offsets,
    our_drivers,
    realtime_is,
    used,
)
from benchmarks.whole import probes
from benchmarks.whole.figures import Figure, Percentiles
from benchmarks.whole.servers import PROJECTS, TOPIC, load, measure, notify, pid_of
from slicewise.local.deploy import current
from slicewise.stores.online.keys import PENDING_COUNT, entity_tags, hot_key, status_key
from slicewise.stores.online.redis import open_store
from tests.support.platform.stack import Stack, stack

HOT, OTHERS = 20_000.0, 500.0
LOOK_S = 0.1
LOOKS_PER_ANSWER = 5
WARM_UP_S = 20.0


@dataclass
class Looks:
    """At the pending events, every LOOK_S, from a thread of its own."""

    keys: Mapping[str, Sequence[bytes]]
    """View -> hot keys of the entity that is looked at."""
    lengths: dict[str, list[int]] = field(default_factory=dict)
    """View -> events among the pending events, of all its keys, at each look."""
    answers_ms: list[float] = field(default_factory=list)
    """Milliseconds of both views' features of the hot user, asked now and then."""

    def watch(self, stack: Stack, over: threading.Event) -> None:
        client = redis.Redis.from_url(stack.settings.redis_url)
        with (
            closing(client),
            httpx.Client(base_url=stack.settings.serving_url, trust_env=False, timeout=30) as http,
        ):
            number = 0
            while not over.wait(LOOK_S):
                for view, keys in self.keys.items():
                    hgets = [client.hget(key, PENDING_COUNT) for key in keys]
                    self.lengths.setdefault(view, []).append(
                        sum(int(length) for length in hgets if length)
                    )
                number += 1
                if number % LOOKS_PER_ANSWER == 0:
                    body = {
                        "features": ["listening:plays_30m", "listening:seconds_30m"],
                        "entities": [{"user_id": "u0"}],
                    }
                    begun = time.perf_counter()
                    http.post("/v1/features", json=body).raise_for_status()
                    self.answers_ms.append((time.perf_counter() - begun) * 1000)


def run(overrides: Mapping[str, str], seconds: float) -> tuple[list[Figure], dict[str, Any]]:
    """Figures and details."""
    with stack(PROJECTS / "hot", overrides) as running:
        running.up("redis", "kafka", "serving")
        running.cli("apply", "--no-wait")
        with realtime_is(running, on=True), our_drivers(running) as drivers:
            return _measured(running, drivers, seconds)


def _measured(
    running: Stack, drivers: Mapping[str, int], seconds: float
) -> tuple[list[Figure], dict[str, Any]]:
    settings, logs = running.settings, running.settings.state_dir / "logs"
    names = {name: pid_of(running, name) for name in ("redis", "serving")}
    pids = {**drivers, **names, "broker": pid_of(running, "kafka")}
    request = Request(OTHERS, seconds, WARM_UP_S, 10.0)
    whole = WARM_UP_S + seconds + 20
    looks, over = Looks(hot_keys(running)), threading.Event()
    watching = threading.Thread(target=looks.watch, args=(running, over))
    with (
        load(settings, HOT, whole, logs / "hot.log", "--users", "1"),
        load(settings, OTHERS, whole, logs / "load.log"),
    ):
        before, begun, produced = used(pids), time.perf_counter(), offsets(settings)
        watching.start()
        try:
            seen = measure(
                "probes", asdict(listening(settings, "h-", request)), whole + probes.PATIENCE_S
            )
        finally:
            over.set()
            watching.join()
        took = time.perf_counter() - begun
        rate = (offsets(settings) - produced) / took
        cores = {
            name: round((spent - before[name]) / took, 3) for name, spent in used(pids).items()
        }
        memory, by_writer = memory_mib(pids), writers(running)
    notify(
        f"{rate:,.0f} events/s; the others {seen['freshness']}; cores {cores}; writers {by_writer}"
    )
    section = (
        f"{HOT:,.0f} events/s of one user, {OTHERS:,.0f} of the others ({rate:,.0f} produced/s)"
    )
    figures = [
        Figure(section, f"the others, produce → answer {q}", "ms", seen["freshness"][q])
        for q in ("p50", "p99", "worst")
    ]
    bound = settings.realtime_fields
    for view, lengths in looks.lengths.items():
        percentiles = Percentiles.of([float(length) for length in lengths])
        most = bound * len(looks.keys[view])
        figures.append(
            Figure(
                section,
                f"pending events of {view}, p50",
                "events",
                percentiles.p50,
                others={"p99": percentiles.p99},
            )
        )
        figures.append(
            Figure(
                section,
                f"pending events of {view}, longest",
                "events",
                percentiles.worst,
                bound=most,
            )
        )
    if looks.answers_ms:
        percentiles = Percentiles.of(looks.answers_ms)
        figures.append(
            Figure(
                section,
                "answer of the hot user, p50",
                "ms",
                percentiles.p50,
                others={"p99": percentiles.p99},
            )
        )
    figures.append(
        Figure(section, "skipped", "events", sum(counts.get("skipped", 0) for counts in by_writer))
    )
    figures += [
        Figure(section, f"{name}, processor", "cores", value) for name, value in cores.items()
    ]
    figures += [Figure(section, f"{name}, memory", "MiB", value) for name, value in memory.items()]
    return figures, {"lengths": looks.lengths, "seen": seen, "writers": by_writer}


def hot_keys(running: Stack) -> dict[str, list[bytes]]:
    """View -> the hot keys of user u0, or of everyone."""
    with closing(open_store(running.settings.redis_url)) as store:
        stored = current(store)
    assert stored.deployment is not None
    keys: dict[str, list[bytes]] = {}
    for unit in stored.deployment.units:
        name = stored.metadata.name(unit.storage_fingerprint)
        values = [["u0"]] if unit.entity else []
        partitions = range(running.settings.kafka_partitions) if unit.per_partition else [None]
        tags = [entity_tags(unit.entity, values, partition)[0] for partition in partitions]
        keys[unit.view] = [hot_key(stored.metadata.store_id, tag, name) for tag in tags]
    return keys


def writers(running: Stack) -> list[dict[str, Any]]:
    """Status of the real-time lane's writers, per partition."""
    with closing(redis.Redis.from_url(running.settings.redis_url)) as client:
        texts = [
            client.get(status_key(f"tail:{TOPIC}:{p}"))
            for p in range(running.settings.kafka_partitions)
        ]
    return [json.loads(text) for text in texts if isinstance(text, bytes)]
