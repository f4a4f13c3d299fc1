"""A side is measured as people run it, with one load at a time, and each process's use is counted.

microbatch: slicewise without its real-time lane; realtime: with it; one: with it, both in one
driver (`benchmarks.one_driver`); recipe: the usual recipe. All of them read one topic of one
broker.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.whole import probes
from benchmarks.whole.servers import PATIENCE_S, TOPIC, Recipe, load, measure, notify, pid_of, until
from slicewise.local.servers import stream
from slicewise.settings import Settings
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.stack import Stack

MICROBATCH, REALTIME, ONE, RECIPE = "fold", "tail", "one", "recipe"
OVERRUN_S = 20.0
"""The load outlives the probes."""
SETTLE_S = 3.0
"""Between the start of a load and the first probe."""


@dataclass(frozen=True)
class Request:
    """Demand while one load runs."""

    rate: float
    seconds: float
    warm_up_s: float
    probes_per_s: float
    in_full: bool = False


@dataclass(frozen=True)
class Measured:
    """Measurement of one side under one load."""

    side: str
    rate: float
    seconds: float
    """For how long it was probed."""
    produced_per_s: float
    seen: Mapping[str, Any]
    """`probes.Seen`, as JSON."""
    cores: Mapping[str, float]
    """Processor seconds a second of each process with all below it."""
    memory_mib: Mapping[str, float]
    """The same, at the end; shared pages are divided among those that share them (PSS)."""


def used(pids: Mapping[str, int]) -> dict[str, float]:
    """Processor seconds so far, of each process and all below it."""
    return {name: sum(map(_cpu_s, _tree(pid))) for name, pid in pids.items()}


def memory_mib(pids: Mapping[str, int]) -> dict[str, float]:
    """Memory of each process and all below it."""
    return {name: round(sum(map(_pss, _tree(pid))) / 2**20, 1) for name, pid in pids.items()}


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _cpu_s(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        # without what ended children used: a worker that ends is not counted twice
        return float(sum(process.cpu_times()[:2]))
    return 0.0


def _pss(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        full = process.memory_full_info()
        return float(getattr(full, "pss", 0) or full.rss)
    return 0.0


def offsets(settings: Settings) -> int:
    """Records in the topic."""
    with KafkaLog(settings.kafka_bootstrap) as log:
        return sum(log.latest(TOPIC).offsets.values())


def listening(settings: Settings, prefix: str, request: Request) -> probes.Spec:
    """Probes that ask slicewise's API."""
    return probes.Spec(
        bootstrap=settings.kafka_bootstrap,
        topic=TOPIC,
        partitions=settings.kafka_partitions,
        host="127.0.0.1",
        port=urlsplit(settings.serving_url).port or 0,
        path="/v1/features",
        body={"features": ["listening:plays_30m"], "entities": [{"user_id": "{user}"}]},
        value=("results", 0, "values", "listening:plays_30m"),
        seconds=request.seconds,
        rate=request.probes_per_s,
        warm_up_s=request.warm_up_s,
        prefix=prefix,
        in_full=request.in_full,
    )


class Side:
    """One of those that are compared; `run` measures it while its processes run."""

    def __init__(self, name: str, stack: Stack, recipe: Recipe, logs: Path) -> None:
        self.name, self.stack, self.recipe, self.logs = name, stack, recipe, logs
        self._runs = 0

    @contextmanager
    def up(self) -> Iterator[None]:
        """Runs its processes until what stands in the topic is applied, and stops them
        afterwards."""
        if self.name == RECIPE:
            with self.recipe.stream(200_000) as made, self.recipe.api() as (port, api):
                self._pids = {"stream": made.pid, "serving": api, "redis": self.recipe.redis_pid}
                self._port, total = port, offsets(self.stack.settings)
                until(lambda: self.recipe.events() >= total, "the recipe to catch up")
                yield
            return
        begun = one_driver if self.name == ONE else our_drivers
        with realtime_is(self.stack, on=self.name != MICROBATCH), begun(self.stack) as drivers:
            settled = {name: pid_of(self.stack, name) for name in ("serving", "redis")}
            self._pids = {**drivers, **settled}
            self.stack.wait_applied(TOPIC)
            yield

    def run(self, request: Request) -> Measured:
        """Under one load."""
        self._runs += 1
        stack, prefix = self.stack, f"{self.name[0]}{self._runs}-"
        whole = SETTLE_S + request.warm_up_s + request.seconds
        with load(
            stack.settings, request.rate, whole + OVERRUN_S, self.logs / "load.log"
        ) as producer:
            time.sleep(SETTLE_S)
            pids = {**self._pids, "broker": pid_of(stack, "kafka"), "producer": producer}
            before, begun, produced = used(pids), time.perf_counter(), offsets(stack.settings)
            spec = listening(stack.settings, prefix, request)
            if self.name == RECIPE:
                path, shown = "/features/{user}", ("plays_30m",)
                spec = replace(spec, port=self._port, path=path, body=None, value=shown)
            seen = measure("probes", asdict(spec), whole + probes.PATIENCE_S)
            seconds = time.perf_counter() - begun
            rate = (offsets(stack.settings) - produced) / seconds
            after, memory = used(pids), memory_mib(pids)
        cores = {name: round((spent - before[name]) / seconds, 3) for name, spent in after.items()}
        cores["probes"] = round(seen["cpu_s"] / seconds, 3)
        if self.name != RECIPE:
            stack.wait_applied(TOPIC)
        measured = Measured(
            self.name, request.rate, request.seconds, round(rate, 1), seen, cores, memory
        )
        notify(f"{self.name} at {request.rate:,.0f} events/s: {in_a_line(measured)}")
        return measured


def in_a_line(measured: Measured) -> str:
    """In a line."""
    fresh, step = measured.seen["freshness"], measured.seen["resolution"]
    percentiles = ", ".join(
        f"{name} {fresh[name]:,.1f}" for name in ("p50", "p90", "p99", "p999", "worst")
    )
    return (
        f"{percentiles} ms ({fresh['n']} probes, {measured.seen['lost']} lost; resolution "
        f"{step['p50']:.1f}/{step['p99']:.1f} "
        f"ms); {measured.produced_per_s:,.0f} produced/s; cores {dict(measured.cores)}"
    )


@contextmanager
def realtime_is(stack: Stack, *, on: bool) -> Iterator[None]:
    """Turns the real-time lane on or off for what runs in it; the store keeps what it has."""
    before = stack.settings
    stack.settings = replace(before, realtime="on" if on else "off")
    try:
        yield
    finally:
        stack.settings = before


@contextmanager
def our_drivers(stack: Stack) -> Iterator[dict[str, int]]:
    """The drivers' process ids by name, from the moment at which their queries run; drained at the
    end."""
    names = [stream.NAME, *([REALTIME] if stack.settings.realtime == "on" else [])]
    stack.start_stream()
    try:
        for name in names:
            until(query_runs(stack.settings, name), f"the query of {name}", PATIENCE_S)
        yield {name: pid_of(stack, name) for name in names}
    finally:
        stack.stop_stream()


@contextmanager
def one_driver(stack: Stack) -> Iterator[dict[str, int]]:
    """The same of both in one process."""
    settings = stack.settings
    python = str(settings.spark_python)
    env = (
        os.environ | settings.to_env() | {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    )
    with (settings.state_dir / "logs" / "one_driver.log").open("ab") as log:
        process = subprocess.Popen(
            [python, "-m", "benchmarks.one_driver"],
            cwd=settings.home,
            env=env,
            stdout=log,
            stderr=log,
        )
    try:
        for name in (stream.NAME, REALTIME):
            until(query_runs(settings, name), f"the query of {name} in one driver", PATIENCE_S)
        yield {"one driver": process.pid}
    finally:
        process.terminate()
        process.wait(60)


def query_runs(settings: Settings, name: str) -> Callable[[], bool]:
    """Tells whether a driver's query of the topic runs, when it is asked."""

    def is_running() -> bool:
        sources: dict[str, Any] = stream.driver_status(settings, name).heartbeat.get("sources", {})
        return bool(sources.get(TOPIC, {}).get("state") == "running")

    return is_running


def sides(names: Sequence[str], stack: Stack, recipe: Recipe, logs: Path) -> Iterator[Side]:
    """Sides of these names, in this order."""
    for name in names:
        yield Side(name, stack, recipe, logs)
