"""Three pieces of own code are measured, each beside the same without it, in turns.

  make bench-kept
  make bench-kept BENCH="--only loop classes --turns 3 --json figures.json"

loop: a burst of connections while answers are long, by our event loop and by uvloop's own.
protocol: a request that is never whole, and what the bounds cost those that are, by our protocol
    and by uvicorn's own.
classes: a Spark job that counts to a thousand, with the archive of classes and without.

Serving, store and broker are real ones of a platform of its own.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from benchmarks.whole.http_load import CLOSED, Connection, Spec, get, post
from benchmarks.whole.servers import HOME, measure, notify, pair, process, until
from slicewise.local.servers import ports
from slicewise.local.servers import redis as redis_server
from slicewise.settings import Settings
from slicewise.spark.runtime.classes import leaving, sharing

PARTS = ("loop", "protocol", "classes")
OURS = {
    "loop": "slicewise.serving.connection.loop:Loop",
    "http": "slicewise.serving.http.protocol:Protocol",
}
THEIRS = {"loop": "uvloop", "http": "httptools"}
BURST, ENTITIES = 300, 500
"""Connections at once, and entities of each request: long answers."""
SLOW_S = 15.0
"""Longest that a request which is never whole is watched."""
LOAD_S, CONNECTIONS = 10.0, 8
JOB = """
import sys
from pyspark.sql import SparkSession
from slicewise.settings import Settings
from slicewise.spark.runtime.conf import job_conf
builder = SparkSession.builder.appName("bench-kept").master("local[2]")
for name, value in job_conf(Settings.load(), classes=sys.argv[1]).items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
assert session.range(1000).count() == 1000
session.stop()
"""


class Turn(NamedTuple):
    """One measurement of both, in the same units by name."""

    ours: dict[str, float]
    theirs: dict[str, float]


# ---------------------------------------------------------------- serving
@contextmanager
def api(settings: Settings, loop: str, http: str, log: Path) -> Iterator[int]:
    """The application under a loop and a protocol; its port."""
    port = ports.choose()
    argv = [sys.executable, "-m", "uvicorn", "--factory", "slicewise.serving.http.app:create"]
    argv += ["--host", "127.0.0.1", "--port", str(port), "--loop", loop, "--http", http]
    argv += ["--ws", "none", "--no-access-log", "--log-level", "warning"]
    with process(argv, settings.to_env(), log, stdout=subprocess.DEVNULL) as _:
        until(lambda: not ports.is_free(port), "the API", 60)
        yield port


def burst(port: int) -> dict[str, float]:
    """Seconds until the last of many connections at once had an answer or a refusal. One beside
    them asks for health."""
    entities = [{"user_id": f"u{user}"} for user in range(ENTITIES)]
    request = post("/v1/features", {"feature_set": "listening_v1", "entities": entities}).encode()
    connections = [Connection("127.0.0.1", port) for _ in range(BURST)]
    begun = time.perf_counter()
    for connection in connections:
        connection.send(request, 0.0)
    health = Connection("127.0.0.1", port)
    health.send(get("/healthz").encode(), 0.0)
    waiting, seconds = {*connections, health}, dict[Connection, float]()
    while waiting:
        ready = select.select([*waiting], (), (), 60.0)[0]
        if not ready:
            raise TimeoutError(f"{len(waiting)} of {BURST} connections had no answer in 60 s")
        for connection in ready:
            if connection.receive() is not None:
                seconds[connection] = time.perf_counter() - begun
                waiting.discard(connection)
    for connection in (*connections, health):
        connection.socket.close()
    last = max(seconds[connection] for connection in connections)
    return {"last of the burst, s": last, "/healthz meanwhile, s": seconds[health]}


def unfinished(port: int) -> dict[str, float]:
    """Seconds for which a connection is held whose request is never whole; SLOW_S at most."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /v1/features HTTP/1.1\r\nhost: bench\r\ncontent-length: 100\r\n\r\n{")
        client.settimeout(SLOW_S)
        begun = time.perf_counter()
        with suppress(TimeoutError):
            while client.recv(1 << 16):
                pass
        return {"an unfinished request is held, s": time.perf_counter() - begun}


def answered(port: int) -> dict[str, float]:
    """Requests/s of one entity over a few connections."""
    body = {"feature_set": "listening_v1", "entities": [{"user_id": "u1"}]}
    spec = Spec("127.0.0.1", port, (post("/v1/features", body),), CLOSED, CONNECTIONS, LOAD_S)
    return {
        "of one entity, requests/s": measure("http_load", asdict(spec), 120.0)["requests_per_s"]
    }


def serving(part: str, turns: int) -> list[Turn]:
    """Turns of a part of the API."""
    results = []
    with pair("plays") as (stack, _, logs):
        for turn in range(turns):
            notify(f"{part}, turn {turn + 1} of {turns}")
            sides = []
            for own in (True, False):
                loop = OURS["loop"] if own or part == "protocol" else THEIRS["loop"]
                http = OURS["http"] if own or part == "loop" else THEIRS["http"]
                with api(stack.settings, loop, http, logs / "kept_api.log") as port:
                    answered(port)  # warm
                    figures = burst(port) if part == "loop" else unfinished(port) | answered(port)
                sides.append(figures)
            results.append(Turn(*sides))
    return results


# ---------------------------------------------------------------- Spark
def job(settings: Settings, option: str) -> dict[str, float]:
    """Seconds of a job that does next to nothing; option: the JVM's."""
    begun = time.perf_counter()
    python = str(settings.spark_python)
    subprocess.run(
        [python, "-c", JOB, option],
        env={**os.environ, **settings.to_env(), "PYSPARK_PYTHON": python},
        cwd=HOME,
        check=True,
        capture_output=True,
    )
    return {"a job's time, s": time.perf_counter() - begun}


def classes(turns: int) -> list[Turn]:
    """Turns with the archive of classes, which the first job leaves where none stands."""
    settings = Settings.load()
    (settings.state_dir / "spark" / "tmp").mkdir(parents=True, exist_ok=True)
    with leaving(settings) as option:
        job(settings, option)
    results = []
    for turn in range(turns):
        notify(f"classes, turn {turn + 1} of {turns}")
        results.append(Turn(job(settings, sharing(settings)), job(settings, "")))
    return results


# ---------------------------------------------------------------- figures
def figures_of(part: str, turns: Sequence[Turn]) -> list[Figure]:
    """Medians over the turns; the baseline is without the piece."""
    section = f"{part} (baseline: without it), {len(turns)} turns"
    return [
        Figure(
            section,
            name.rpartition(", ")[0] or name,
            name.rpartition(", ")[2],
            round(statistics.median(turn.ours[name] for turn in turns), 3),
            round(statistics.median(turn.theirs[name] for turn in turns), 3),
            better="higher" if name.endswith("requests/s") else "lower",
        )
        for name in turns[0].ours
    ]


MEASURES: dict[str, Callable[[int], list[Turn]]] = {
    "loop": lambda turns: serving("loop", turns),
    "protocol": lambda turns: serving("protocol", turns),
    "classes": classes,
}


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 whatever the figures are: they are no test."""
    parser = argparse.ArgumentParser(
        "bench-kept", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--turns", type=int, default=3, help="of each (3)")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    facts: dict[str, Any] = machine.facts(redis_server.binary(Settings.load()))
    begun, figures, details = time.monotonic(), list[Figure](), dict[str, Any]()
    for part in given.only:
        turns = MEASURES[part](given.turns)
        details[part] = [turn._asdict() for turn in turns]
        figures += figures_of(part, turns)
    seconds = round(time.monotonic() - begun)
    publish("make bench-kept", arguments, given, facts, seconds, figures, details)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
