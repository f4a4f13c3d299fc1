"""Both sides run on servers started alike; what a measurement starts, it stops by its own process
id.

slicewise runs as people run it: its supervisor, its stream driver, its serving process. The recipe
gets a Redis of its own from the same supervisor, its driver and its API, and shares the broker and
the topic.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import psutil
import redis

from slicewise.local.servers import ports
from slicewise.local.servers.process import Birth, descendants, wait_gone
from slicewise.settings import Settings
from tests.support.platform.stack import Stack

HOME = Path(__file__).resolve().parents[2]
PROJECTS = HOME / "benchmarks" / "projects"
TOPIC = "plays"
PATIENCE_S = 300.0
RECIPE_BATCH = 200_000
"""Most events of one of the recipe's batches."""


def notify(line: str) -> None:
    """Progress, apart from the results."""
    print(f"bench: {line}", file=sys.stderr, flush=True)


def until(
    is_met: Callable[[], bool], what: str, seconds: float = PATIENCE_S, pause_s: float = 0.02
) -> float:
    """Polls; the clock (perf_counter) at which it was reached. Raises TimeoutError."""
    deadline = time.perf_counter() + seconds
    while not is_met():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause_s)
    return time.perf_counter()


@contextmanager
def process(
    argv: Sequence[str], env: Mapping[str, str], log: Path, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process of ours; it and all below it are gone afterwards."""
    with log.open("a") as file:
        started = subprocess.Popen(
            argv,
            cwd=HOME,
            env={**os.environ, **env},
            stderr=file,
            text=True,
            start_new_session=True,
            **options,
        )
        birth = Birth.of(started.pid)
        try:
            yield started
        finally:
            tree = [birth, *descendants(birth)] if birth is not None else []
            started.terminate()
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait(10)
            for remaining in wait_gone(tree, 10.0):
                os.kill(remaining.pid, 9)


def measure(module: str, spec: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Runs a measuring module of benchmarks.whole in a process of its own; its result."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.whole.{module}"],
        input=json.dumps(spec),
        capture_output=True,
        text=True,
        cwd=HOME,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} ended with {done.returncode}: {done.stderr[-3000:]}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@contextmanager
def load(
    settings: Settings, rate: float, seconds: float, log: Path, *options: str
) -> Iterator[int]:
    """`slicewise load` in a process of its own; its id."""
    argv = [str(settings.platform_python.parent / "slicewise"), "load", "--topic", TOPIC]
    argv += ["--rate", str(rate), "--seconds", str(seconds), "--seed", "11", *options]
    with process(argv, settings.to_env(), log, stdout=subprocess.DEVNULL) as made:
        yield made.pid


def cpu_by_program(pids: Iterable[int]) -> dict[str, float]:
    """CPU seconds that these processes, and all below them, have used, by program: java, python,
    redis-server."""
    spent: dict[str, float] = {}
    for pid in pids:
        root = psutil.Process(pid)
        for child in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                name = child.name().rstrip("0123456789.")
                spent[name] = spent.get(name, 0.0) + sum(child.cpu_times()[:4])
    return spent


def per_unit(
    before: Mapping[str, float], after: Mapping[str, float], units: int
) -> dict[str, float]:
    """Processor time between two `cpu_by_program`, in microseconds for each of `units`."""
    return {
        name: round((spent - before.get(name, 0.0)) / units * 1e6, 2)
        for name, spent in after.items()
    }


def pid_of(stack: Stack, service: str) -> int:
    """The process id of a service that runs."""
    [pid] = [running.pid for running in stack.status() if running.name == service]
    assert pid is not None, f"{service} does not run"
    return pid


def produce_plays(stack: Stack, plays: Iterable[Mapping[str, Any]], *, late: bool = False) -> int:
    """Plays as records, by their users' partitions, which arrived when they happened, or, late,
    now; how many."""
    left, n = iter(plays), 0
    partitions = stack.settings.kafka_partitions
    while some := list(islice(left, 20_000)):
        now_ms = time.time_ns() // 1_000_000
        records = [
            (
                zlib.crc32(play["user_id"].encode()) % partitions,
                json.dumps(play).encode(),
                now_ms if late else play["played_at"] // 1_000,
            )
            for play in some
        ]
        stack.produce(TOPIC, records)
        n += len(records)
    return n


class Recipe:
    """The recipe's processes over a store of its own."""

    def __init__(self, stack: Stack, theirs: Stack, logs: Path) -> None:
        self.broker = stack.settings
        self.settings = theirs.settings
        self.redis = redis.Redis.from_url(theirs.settings.redis_url)
        self.redis_pid = pid_of(theirs, "redis")
        self._logs = logs

    @contextmanager
    def stream(self, max_events: int) -> Iterator[subprocess.Popen[str]]:
        """Runs the recipe's driver; yields when its query runs."""
        argv = [str(self.settings.spark_python), "-m", "benchmarks.baseline.recipe_stream"]
        argv += [
            "--bootstrap",
            self.broker.kafka_bootstrap,
            "--topic",
            TOPIC,
            "--redis-url",
            self.settings.redis_url,
        ]
        argv += ["--jars", str(self.settings.spark_jars), "--max-events", str(max_events)]
        with process(
            argv, spark_env(self.settings), self._logs / "recipe_stream.log", stdout=subprocess.PIPE
        ) as made:
            wait_line(made.stdout, "ready", self._logs / "recipe_stream.log")
            yield made

    @contextmanager
    def api(self) -> Iterator[tuple[int, int]]:
        """Runs the recipe's API; yields port and process id."""
        port = ports.choose()
        argv = [
            sys.executable,
            "-m",
            "uvicorn",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--loop",
            "uvloop",
        ]
        argv += [
            "--http",
            "httptools",
            "--no-access-log",
            "--log-level",
            "warning",
            "benchmarks.baseline.recipe_api:app",
        ]
        env = {"RECIPE_REDIS_URL": self.settings.redis_url}
        with process(argv, env, self._logs / "recipe_api.log", stdout=subprocess.DEVNULL) as made:
            until(lambda: not ports.is_free(port), "the recipe's API", 60)
            yield port, made.pid

    def events(self) -> int:
        """Events that it has written so far: one HINCRBY each."""
        return calls(self.redis, "hincrby")


def spark_env(settings: Settings) -> dict[str, str]:
    """For a driver that is started by hand."""
    python = str(settings.spark_python)
    return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}


def wait_line(stream: IO[str] | None, wanted: str, log: Path) -> None:
    """Reads until the line stands; RuntimeError where the process ends before."""
    assert stream is not None
    for line in stream:
        if line.strip() == wanted:
            return
    raise RuntimeError(f"ended before it was {wanted}: {log.read_text()[-3000:]}")


def calls(client: redis.Redis, command: str) -> int:
    """The number of times that the server has run a command."""
    stats: Mapping[str, Any] = client.info("commandstats")
    stats_of_command = stats.get(f"cmdstat_{command}")
    return int(stats_of_command["calls"]) if stats_of_command else 0


@contextmanager
def pair(
    project: str, overrides: Mapping[str, str] | None = None
) -> Iterator[tuple[Stack, Recipe, Path]]:
    """slicewise with a deployed project, and the recipe's store; (stack, recipe, folder of
    logs)."""
    with TemporaryDirectory(prefix="slicewise-bench-") as folder:
        logs = Path(folder)
        ours = Stack(logs / "ours", PROJECTS / project, overrides)
        theirs = Stack(logs / "theirs", PROJECTS / project)
        try:
            ours.up()
            ours.cli("apply", "--no-wait")
            theirs.up("redis")
            yield ours, Recipe(ours, theirs, logs), logs
        finally:
            ours.down()
            theirs.down()
