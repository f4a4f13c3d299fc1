"""Reads, beside the usual recipe: latency at one connection, requests per second at eight.

  make bench-reads
  make bench-reads BENCH="--seconds 2 --json figures.json"

The shipped example's own feature set (`delay_risk`: nine features of three views, argmax and top-k
among them), one view × 3 windows, five views × 10 features, a batch of 100 entities, and a table of
a view's width times what is asked of it. The baseline is the usual recipe with ready values: what
it costs where nothing is left to do; of `delay_risk` also Feast's server with ready values. One
serving process each, the same machine, one after the other; the client is a process of its own that
speaks HTTP over raw sockets (one connection: a blocking one).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

import psutil
import redis

from benchmarks import serving_data
from benchmarks.baseline import feast_server
from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure, Percentiles
from benchmarks.whole.http_load import OPEN, Load, Spec, post
from benchmarks.whole.servers import measure as timed
from benchmarks.whole.servers import notify
from slicewise.features.plan.deployment import Deployment
from slicewise.local.servers import ports
from slicewise.local.servers import redis as redis_server
from slicewise.serving.client import Client
from slicewise.settings import Settings
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer, running

BATCH, BATCH_MS = 100, 10.0
"""Entities of one request of a batch, and what its answer may take."""
FEAST_TIMES = 5.0
AGAIN_S = 30.0
"""Longest that a server may take to listen again."""
MOST_CLOSED = 100
"""Connections in a row that a server may close without an answer."""
EIGHT = "of eight connections, requests/s"
WIDTH = "processor of a read in process, by the partials of a view"
UNCOMPACTED_RATE = 500.0
UNCOMPACTED = (
    f"5 views x 10 features, a day of which no hour is compacted, {UNCOMPACTED_RATE:.0f} requests/s"
)
Entity = dict[str, Any]
Measured = dict[str, float]


# ------------------------------------------------------------------ the client, a process of its
# own
class Taken:
    """Seconds that each answer took, and how often a connection was closed meanwhile: a server may
    close one between two requests, and the request goes again over another."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.closed = 0


async def _connection(
    host: str, port: int, requests: list[bytes], until: float, taken: Taken
) -> None:
    turn = 0
    reader, writer = await asyncio.open_connection(host, port)
    try:
        while time.perf_counter() < until:
            start, closed = time.perf_counter(), 0
            while True:
                try:
                    writer.write(requests[turn % len(requests)])
                    await reader.readexactly(_length(await reader.readuntil(b"\r\n\r\n")))
                    break
                except (ConnectionError, asyncio.IncompleteReadError):
                    if (closed := closed + 1) > MOST_CLOSED:
                        raise
                    taken.closed += 1
                    writer.close()
                    reader, writer = await _again(host, port)
            taken.seconds.append(time.perf_counter() - start)
            turn += 1
    finally:
        writer.close()


async def _again(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Another connection, where a server may be about to begin again."""
    deadline = time.monotonic() + AGAIN_S
    while True:
        try:
            return await asyncio.open_connection(host, port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.01)


def _length(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    return next(
        int(line[15:])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )


def _one_connection(
    host: str, port: int, requests: list[bytes], until: float, taken: Taken
) -> None:
    """One connection needs no loop of events: its own turns would be part of every figure."""
    turn = 0
    connection = _opened(host, port)
    try:
        while time.perf_counter() < until:
            start, closed = time.perf_counter(), 0
            while True:
                try:
                    _answer(connection, requests[turn % len(requests)])
                    break
                except ConnectionError:
                    if (closed := closed + 1) > MOST_CLOSED:
                        raise
                    taken.closed += 1
                    connection.close()
                    connection = _opened(host, port)
            taken.seconds.append(time.perf_counter() - start)
            turn += 1
    finally:
        connection.close()


def _opened(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + AGAIN_S
    while True:
        try:
            connection = socket.create_connection((host, port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _answer(connection: socket.socket, request: bytes) -> None:
    """Sends a request and takes its answer whole."""
    connection.sendall(request)
    reply = b""
    while b"\r\n\r\n" not in reply:
        reply += _some(connection, 65_536)
    head, _, body = reply.partition(b"\r\n\r\n")
    missing = _length(head) - len(body)
    while missing > 0:
        missing -= len(_some(connection, missing))


def _some(connection: socket.socket, most: int) -> bytes:
    data = connection.recv(most)
    if not data:
        raise ConnectionResetError("the connection was closed within an answer")
    return data


async def _together(
    host: str, port: int, requests: list[bytes], until: float, taken: Taken, count: int
) -> None:
    turned = (requests[i:] + requests[:i] for i in range(count))
    await asyncio.gather(*(_connection(host, port, request, until, taken) for request in turned))


def _measure(plan: dict[str, Any]) -> dict[str, float]:
    requests = [_request(plan["path"], body) for body in plan["bodies"]]
    address = "127.0.0.1", plan["port"]
    sent = 0
    for seconds, counted in ((min(1.0, plan["seconds"]), False), (plan["seconds"], True)):
        taken = Taken()
        start = time.perf_counter()
        if plan["connections"] == 1:
            _one_connection(*address, requests, start + seconds, taken)
        else:
            asyncio.run(_together(*address, requests, start + seconds, taken, plan["connections"]))
        spent = time.perf_counter() - start
        sent += len(taken.seconds)
        if counted:
            return figures(taken.seconds, spent) | {"sent": sent, "closed": taken.closed}
    raise AssertionError("the second round is counted")


def figures(took: list[float], spent: float) -> dict[str, float]:
    """Requests per second and percentiles in milliseconds."""
    ordered = sorted(took)
    return {
        "requests_per_s": round(len(took) / spent, 1),
        "p50_ms": round(statistics.median(ordered) * 1e3, 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1e3, 3),
    }


def _request(path: str, body: Any) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: "
        "application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def over_http(port: int, path: str, bodies: list[Any], connections: int, seconds: float) -> Any:
    """Figures of one case, by a client process. A body that is None is a GET."""
    plan = {
        "port": port,
        "path": path,
        "bodies": bodies,
        "connections": connections,
        "seconds": seconds,
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving", "--client"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def with_processor(
    port: int, path: str, bodies: list[Any], connections: int, seconds: float
) -> Any:
    """The same, with the processor time of a request in the serving process."""
    process = processor(port)
    before = _worked_s(process)
    measured = over_http(port, path, bodies, connections, seconds)
    worked_s = _worked_s(process) - before
    return measured | {"processor_ms": round(worked_s / measured["sent"] * 1e3, 3)}


# ------------------------------------------------------------------ the two sides
@contextmanager
def recipe(url: str) -> Iterator[int]:
    """The usual recipe on a free port."""
    port = ports.choose()
    argv = [sys.executable, "-m", "benchmarks.baseline.recipe_serving"]
    process = subprocess.Popen([*argv, "--redis-url", url, "--port", str(port)])
    try:
        _await(port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _await(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            asyncio.run(_touch(port))
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the recipe does not listen within 30 s")


async def _touch(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


def fill_recipe(url: str) -> None:
    """Values that a job of the recipe has left ready."""
    with redis.Redis.from_url(url) as client:
        pipeline = client.pipeline(transaction=False)
        for user in range(serving_data.USERS):
            pipeline.hset(f"ready:user{user}", mapping={"30m": 1.5, "1h": 2.5, "2h": 3.5})
        pipeline.execute()


def processor(port: int) -> psutil.Process:
    """The process that listens on a port of this machine: what it has worked is what a case
    costs."""
    (pid,) = {
        made.pid
        for made in psutil.net_connections("tcp")
        if made.status == psutil.CONN_LISTEN and made.laddr[1:] == (port,) and made.pid
    }
    return psutil.Process(pid)


def _worked_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def in_process(url: str, refs: list[str], entities: list[Entity], seconds: float) -> Measured:
    """One caller of slicewise.Client, with its processor time."""
    took: list[float] = []
    with Client(url) as client:
        for turn in range(200):
            client.get(refs, entities[turn % len(entities)])
        until = time.perf_counter() + seconds
        begin, spent = time.perf_counter(), time.process_time()
        while (start := time.perf_counter()) < until:
            client.get(refs, entities[len(took) % len(entities)])
            took.append(time.perf_counter() - start)
        processor = (time.process_time() - spent) / len(took)
        return {
            **figures(took, time.perf_counter() - begin),
            "processor_ms": round(processor * 1e3, 3),
        }


class Case(NamedTuple):
    """One request, of many entities in turn."""

    name: str
    body: dict[str, Any]
    refs: list[str]
    entities: list[Entity]
    bounds: Mapping[str, float] = {}
    """Figure -> what is wanted of it."""


def side(url: str, cases: Sequence[Case], seconds: float) -> dict[str, Measured]:
    """All cases of one store, over HTTP and in process."""
    results: dict[str, Measured] = {}
    with serving(url) as address:
        port = int(address.rpartition(":")[2])
        for case in cases:
            notify(case.name)
            bodies = [{**case.body, "entities": [entity]} for entity in case.entities]
            one, eight = (with_processor(port, "/v1/features", bodies, n, seconds) for n in (1, 8))
            own = in_process(url, case.refs, case.entities, seconds)
            results[case.name] = {
                "p50, ms": one["p50_ms"],
                "p99, ms": one["p99_ms"],
                EIGHT: eight["requests_per_s"],
                "of eight connections, processor of a request, ms": eight["processor_ms"],
                "in process, p50, ms": own["p50_ms"],
                "in process, processor, ms": own["processor_ms"],
            }
    return results


def batches(url: str, entities: list[Entity], seconds: float) -> list[Figure]:
    """One request of many entities, over one connection: of one view, and of five."""
    five = serving_data.refs("five")
    one = [ref for ref in five if ref.startswith("view0:")]
    result = []
    with serving(url) as address:
        port = int(address.rpartition(":")[2])
        for refs, views, bound in ((one, "1 view", BATCH_MS), (five, "5 views", None)):
            body = {
                "features": refs,
                "entities": [entities[i % len(entities)] for i in range(BATCH)],
            }
            measured = with_processor(port, "/v1/features", [body], 1, seconds)
            section = f"{BATCH} entities x {len(refs)} features of {views}, in one request"
            result += [
                Figure(section, "p50", "ms", measured["p50_ms"], bound=bound),
                Figure(section, "p99", "ms", measured["p99_ms"]),
                Figure(section, "processor of a request", "ms", measured["processor_ms"]),
            ]
    return result


def of_feast(url: str, of: Deployment, case: Case, seconds: float) -> dict[str, Measured]:
    """Feast's server, with the values that this store answers: at one connection and at eight."""
    notify("Feast")
    answers = feast_server.answers(url, case.refs, case.entities)
    with (
        running(RedisServer) as server,
        feast_server.serving(f"127.0.0.1:{server.port}", of, answers, case.entities) as port,
    ):
        bodies = [feast_server.body_of(entity) for entity in case.entities]
        return {
            of_n: over_http(port, feast_server.PATH, bodies, n, seconds)
            for of_n, n in (("one", 1), ("eight", 8))
        }


def beside_feast(case: Case, own: Measured, theirs: Mapping[str, Measured]) -> list[Figure]:
    """Figures of the same case, ours and Feast's."""
    section = f"{case.name} (baseline: Feast {feast_server.version()}, ready values)"
    one, eight = theirs["one"], theirs["eight"]
    return [
        Figure(section, "p50", "ms", own["p50, ms"], one["p50_ms"]),
        Figure(section, "p99", "ms", own["p99, ms"], one["p99_ms"]),
        Figure(
            section,
            "of eight connections",
            "requests/s",
            own[EIGHT],
            eight["requests_per_s"],
            "higher",
            aim=FEAST_TIMES,
            others={"connections that it closed": one["closed"] + eight["closed"]},
        ),
    ]


def widths(url: str, entities: list[Entity], seconds: float) -> list[Figure]:
    """Processor time of a read in process: partials of a view times features asked for."""
    result = []
    for width in serving_data.WIDTHS:
        for n in sorted({n for n in (1, 10, width) if n <= width}):
            refs = [f"wide{width}:f{i}_1h" for i in range(n)]
            measured = in_process(url, refs, entities, seconds)
            name = f"of {width}, {n} asked for"
            result.append(Figure(WIDTH, name, "ms", measured["processor_ms"]))
    return result


def uncompacted(url: str, entities: list[Entity], seconds: float) -> list[Figure]:
    """Reads of five views of which no hour is compacted, as requests come."""
    refs = serving_data.refs("five")
    bodies = [{"features": refs, "entities": [entity]} for entity in entities]
    with serving(url) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        requests = tuple(post("/v1/features", body) for body in bodies)
        spec = Spec(host, int(port), requests, OPEN, 64, seconds, UNCOMPACTED_RATE)
        load = Load(**timed("http_load", asdict(spec), seconds + 120))
    latency = Percentiles(**cast(Any, load.latency))
    first, turns = 0.0, 0
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:  # a client of its own remembers nothing of the others
        with Client(url) as client:
            client.get(refs, {"user_id": "nobody"})
            spent = time.process_time()
            for entity in entities:
                client.get(refs, entity)
            first += time.process_time() - spent
            turns += len(entities)
    return [
        Figure(UNCOMPACTED, "p50", "ms", round(latency.p50, 3)),
        Figure(UNCOMPACTED, "p99", "ms", round(latency.p99, 3), bound=20.0),
        Figure(
            UNCOMPACTED,
            "refused or without an answer",
            "requests",
            load.failed + load.unanswered,
            bound=0.0,
        ),
        Figure(
            UNCOMPACTED,
            "first read of an entity in process, processor",
            "ms",
            round(first / turns * 1e3, 3),
        ),
    ]


def measure(seconds: float) -> list[Figure]:
    """All cases."""
    users: list[Entity] = [{"user_id": f"user{u}"} for u in range(serving_data.USERS)]
    now_us = time.time_ns() // 1_000
    example = serving_data.flights()
    flown = serving_data.flown(example, now_us)
    routes: list[Entity] = [
        {name: event.columns[name] for name in ("carrier", "origin", "dest")}
        for event in flown[-500:]
    ]
    risk = next(s for s in example.feature_sets if s.name == "delay_risk")
    cases = [
        Case(name, {"features": serving_data.refs(case)}, serving_data.refs(case), users, bounds)
        for case, name, bounds in (
            ("one", "1 view x 3 windows", {"p50, ms": 0.25, EIGHT: 10_000.0}),
            ("five", "5 views x 10 features", {EIGHT: 3_000.0}),
        )
    ]
    shipped = Case(
        f"delay_risk, {len(risk.features)} features of 3 views",
        {"feature_set": risk.name},
        list(risk.features),
        routes,
        {"p50, ms": 1.0, "p99, ms": 3.0, EIGHT: 1_500.0},
    )
    with running(RedisServer) as server, running(RedisServer) as other:
        serving_data.fill(server.url, example, flown, now_us)
        ours = side(server.url, [shipped], seconds)
        fill_recipe(other.operator_url)
        with recipe(other.operator_url) as port:
            ready = [over_http(port, "/ready", users, n, seconds) for n in (1, 8)]
        feasts = of_feast(server.url, example, shipped, seconds)
    with running(RedisServer) as server:
        plays = serving_data.events(now_us)
        serving_data.fill(server.url, serving_data.deployment(), plays, now_us)
        ours |= side(server.url, cases, seconds)
        many = batches(server.url, users, seconds)
        table = widths(server.url, users, seconds / 2)
    with running(RedisServer) as server:
        serving_data.fill(server.url, serving_data.deployment(), plays, now_us, compacted=False)
        of_running = uncompacted(server.url, users, max(seconds, 2.0))
    theirs = {
        "p50, ms": ready[0]["p50_ms"],
        "p99, ms": ready[0]["p99_ms"],
        EIGHT: ready[1]["requests_per_s"],
    }
    result = []
    for case in (shipped, *cases):
        for figure, value in ours[case.name].items():
            name, _, unit = figure.rpartition(", ")
            better = "higher" if unit == "requests/s" else "lower"
            section = f"{case.name} (baseline: the recipe, ready values)"
            bound = case.bounds.get(figure)
            result.append(
                Figure(section, name, unit, value, theirs.get(figure), better, bound=bound)
            )
    compared = beside_feast(shipped, ours[shipped.name], feasts)
    return [*result, *compared, *many, *of_running, *table]


def main() -> None:
    parser = argparse.ArgumentParser(
        "bench-reads", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each figure (5)")
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        sys.stdout.write(json.dumps(_measure(json.load(sys.stdin))))
        return
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    measured = measure(given.seconds)
    seconds = round(time.monotonic() - begun)
    publish("make bench-reads", sys.argv[1:], given, facts, seconds, measured)


if __name__ == "__main__":
    main()
