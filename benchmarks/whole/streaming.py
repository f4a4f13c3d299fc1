"""Ingest from a backlog, and freshness under a steady load: the same events, broker and questions
for both sides.

Ingest counts from the moment at which the query runs (a driver's start is not in it) to the last
event's visibility. The steady rate leaves the first batch out, in which worker processes are
started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.whole import probes
from benchmarks.whole.figures import Figure, shares
from benchmarks.whole.options import Options
from benchmarks.whole.servers import (
    TOPIC,
    Recipe,
    cpu_by_program,
    load,
    measure,
    notify,
    pair,
    per_unit,
    pid_of,
    until,
)
from slicewise.local.servers.stream import stream_status
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.redis import open_store
from tests.support.platform.stack import Stack

HEADROOM_S = 20.0
"""The load outlives the probes."""


@dataclass(frozen=True)
class Ingest:
    """One side's way through a backlog. seconds: from the running query to the last event."""

    events: int
    seconds: float
    events_per_s: float
    steady_events_per_s: float
    cpu_us_per_event: float
    """Processor time of driver, workers and store, over the steady part."""
    cpu_us_by_program: Mapping[str, float]


def follow(
    applied: Callable[[], int], total: int, first: int, begun: float, pids: Sequence[int]
) -> Ingest:
    """Watches until all events are visible. first: size of the batch that the steady rate leaves
    out; pids: of driver and store."""
    seen = 0

    def beyond(bound: int) -> bool:
        nonlocal seen
        seen = applied()
        return seen >= bound

    warm = until(lambda: beyond(first), "the first batch of the backlog")
    at_warm, before = seen, cpu_by_program(pids)
    done = until(lambda: beyond(total), "the backlog")
    after = cpu_by_program(pids)
    rest = total - at_warm
    if rest < total / 2:
        raise RuntimeError(
            f"{at_warm} of {total} events were visible at once: too few are left for a steady rate"
        )
    rates = round(total / (done - begun)), round(rest / (done - warm))
    cpu = per_unit(before, after, rest)
    return Ingest(total, round(done - begun, 3), *rates, round(sum(cpu.values()), 2), cpu)


def backlog(stack: Stack, events: int) -> int:
    """Fills the topic; how many events stand in it."""
    stack.cli(
        "load", "--topic", TOPIC, "--rate", "0", "--seconds", str(events / 2000), timeout_s=600
    )
    with KafkaLog(stack.settings.kafka_bootstrap) as log:
        return sum(log.latest(TOPIC).offsets.values())


@contextmanager
def our_stream(stack: Stack, *, started: Callable[[], None] = lambda: None) -> Iterator[int]:
    """The driver's process id, from the moment at which its query runs; drained at the end."""
    log = stack.settings.state_dir / "logs" / "stream.log"
    before = log.read_text().count("query_started") if log.exists() else 0
    pid = stack.start_stream()
    until(
        lambda: log.exists() and log.read_text().count("query_started") > before,
        "the stream's query",
    )
    started()
    try:
        yield pid
    finally:
        stack.stop_stream()


def freshness(
    stack: Stack, recipe: Recipe | None, options: Options, logs: Path, pids: Sequence[int]
) -> dict[str, Any]:
    """Probes under the load; of the recipe, or of slicewise where there is none. pids: of driver
    and store, whose use of cores is told."""
    before, begun = cpu_by_program(pids), time.perf_counter()
    probed = _probed(stack, recipe, options, logs)
    seconds = time.perf_counter() - begun
    probed["cores"] = {
        name: round((spent - before.get(name, 0.0)) / seconds, 3)
        for name, spent in cpu_by_program(pids).items()
    }
    return probed


def _probed(stack: Stack, recipe: Recipe | None, options: Options, logs: Path) -> dict[str, Any]:
    bootstrap, partitions = stack.settings.kafka_bootstrap, stack.settings.kafka_partitions
    warm_up = min(8.0, options.seconds)
    common: dict[str, Any] = {
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "partitions": partitions,
        "host": "127.0.0.1",
        "seconds": options.seconds,
        "rate": options.probes_per_s,
        "warm_up_s": warm_up,
    }
    whole = warm_up + options.seconds + HEADROOM_S
    with load(stack.settings, options.rate, whole, logs / "load.log"):
        if recipe is None:
            address = urlsplit(stack.settings.serving_url)
            body = {"features": ["listening:plays_30m"], "entities": [{"user_id": "{user}"}]}
            value = ("results", 0, "values", "listening:plays_30m")
            spec = probes.Spec(
                **common,
                port=address.port or 0,
                path="/v1/features",
                body=body,
                value=value,
                prefix="a",
            )
            return measure("probes", asdict(spec), whole + probes.PATIENCE_S)
        with recipe.api() as (port, _):
            path, shown = "/features/{user}", ("plays_30m",)
            spec = probes.Spec(**common, port=port, path=path, body=None, value=shown, prefix="b")
            return measure("probes", asdict(spec), whole + probes.PATIENCE_S)


def run(options: Options) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    batch = max(1, min(200_000, options.events // 5))
    with pair("plays", {"SLICEWISE_MAX_EVENTS_PER_BATCH": str(batch)}) as (stack, recipe, logs):
        notify(f"filling the topic with {options.events:,} events")
        total = backlog(stack, options.events)

        notify("slicewise: from the backlog, then under the load")
        with open_store(stack.settings.redis_url) as store:
            begun = 0.0

            def note() -> None:
                nonlocal begun
                begun = time.perf_counter()

            with our_stream(stack, started=note) as driver:
                pids = driver, pid_of(stack, "redis")
                ours = follow(
                    lambda: sum(store.run(ReadMetadata()).committed.offsets.values()),
                    total,
                    batch,
                    begun,
                    pids,
                )
                our_freshness = freshness(stack, None, options, logs, pids)
                beat = stream_status(stack.settings).heartbeat

        with KafkaLog(stack.settings.kafka_bootstrap) as log:
            total = sum(log.latest(TOPIC).offsets.values())
        notify("the recipe: the same")
        with recipe.stream(batch) as made:
            pids = made.pid, recipe.redis_pid
            theirs = follow(recipe.events, total, batch, time.perf_counter(), pids)
            their_freshness = freshness(stack, recipe, options, logs, pids)
    figures = [
        Figure(
            "ingest from a backlog",
            "sustained",
            "events/s",
            ours.steady_events_per_s,
            theirs.steady_events_per_s,
            "higher",
            aim=3,
        ),
        Figure(
            "ingest from a backlog",
            "end to end",
            "events/s",
            ours.events_per_s,
            theirs.events_per_s,
            "higher",
        ),
        Figure(
            "ingest from a backlog",
            "CPU of stream and store",
            "µs/event",
            ours.cpu_us_per_event,
            theirs.cpu_us_per_event,
        ),
        *shares(
            "ingest from a backlog", "µs/event", ours.cpu_us_by_program, theirs.cpu_us_by_program
        ),
    ]
    named = f"freshness at {options.rate:,.0f} events/s"
    for q, aim, bound in (
        ("p50", 3.0, None),
        ("p90", None, None),
        ("p99", 3.0, 1000.0),
        ("worst", None, None),
    ):
        own, other = our_freshness["freshness"][q], their_freshness["freshness"][q]
        figures.append(
            Figure(named, f"produce → answer {q}", "ms", own, other, aim=aim, bound=bound)
        )
    cores = sum(our_freshness["cores"].values()), sum(their_freshness["cores"].values())
    figures.append(Figure(named, "used by stream and store", "cores", *cores))
    details = {
        "ingest": {"slicewise": asdict(ours), "recipe": asdict(theirs)},
        "freshness": {"slicewise": our_freshness, "recipe": their_freshness},
        "stream": beat,
    }
    return figures, details
