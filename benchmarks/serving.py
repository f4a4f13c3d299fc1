"""Serving, beside the usual recipe: latency at one connection, requests per second at eight.

Prints one JSON object, then the same as a table. One serving process each, the same Redis, the same
machine, one after the other; the client is a process of its own that speaks HTTP over raw sockets
(one connection: a blocking one).

Run it with the platform's Python: python -m benchmarks.serving [--seconds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from benchmarks import serving_data
from slicewise.local.servers import ports
from slicewise.serving.client import Client
from tests.integration.serving.support import serving
from tests.support.platform.servers import RedisServer, running

BUCKET_S = 300


# ------------------------------------------------------------------ the client, a process of its
# own
async def _connection(
    host: str, port: int, requests: list[bytes], until: float, took: list[float]
) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    turn = 0
    while time.perf_counter() < until:
        start = time.perf_counter()
        writer.write(requests[turn % len(requests)])
        await reader.readexactly(_length(await reader.readuntil(b"\r\n\r\n")))
        took.append(time.perf_counter() - start)
        turn += 1
    writer.close()


def _length(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    return next(
        int(line[15:])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )


def _one_connection(
    host: str, port: int, requests: list[bytes], until: float, took: list[float]
) -> None:
    """One connection needs no loop of events: its own turns would be part of every figure."""
    turn = 0
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < until:
            start = time.perf_counter()
            connection.sendall(requests[turn % len(requests)])
            reply = b""
            while b"\r\n\r\n" not in reply:
                reply += _some(connection, 65_536)
            head, _, body = reply.partition(b"\r\n\r\n")
            left = _length(head) - len(body)
            while left > 0:
                left -= len(_some(connection, left))
            took.append(time.perf_counter() - start)
            turn += 1


def _some(connection: socket.socket, most: int) -> bytes:
    data = connection.recv(most)
    if not data:
        raise RuntimeError("the connection was closed within an answer")
    return data


async def _together(
    host: str, port: int, requests: list[bytes], until: float, took: list[float], count: int
) -> None:
    turned = (requests[i:] + requests[:i] for i in range(count))
    await asyncio.gather(*(_connection(host, port, request, until, took) for request in turned))


def _measure(plan: dict[str, Any]) -> dict[str, float]:
    requests = [_request(plan["path"], body) for body in plan["bodies"]]
    address = "127.0.0.1", plan["port"]
    for seconds, counted in ((min(1.0, plan["seconds"]), False), (plan["seconds"], True)):
        took: list[float] = []
        start = time.perf_counter()
        if plan["connections"] == 1:
            _one_connection(*address, requests, start + seconds, took)
        else:
            asyncio.run(_together(*address, requests, start + seconds, took, plan["connections"]))
        spent = time.perf_counter() - start
        if counted:
            return figures(took, spent)
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
    """The same events in the recipe's own buckets, and ready values."""
    with redis.Redis.from_url(url) as client:
        pipeline = client.pipeline(transaction=False)
        for event in serving_data.events(time.time_ns() // 1_000):
            user = event.columns["user_id"]
            key = f"plays:{user}:{event.time_us // 1_000_000 // BUCKET_S}"
            pipeline.hincrby(key, "plays", 1)
            pipeline.hincrbyfloat(key, "seconds", event.columns["seconds"])
            if len(pipeline) > 2_000:
                pipeline.execute()
        for user in range(serving_data.USERS):
            pipeline.hset(f"ready:user{user}", mapping={"30m": 1.5, "1h": 2.5, "2h": 3.5})
        pipeline.execute()


def in_process(url: str, refs: list[str], seconds: float) -> dict[str, float]:
    """One caller of slicewise.Client."""
    took: list[float] = []
    cpu = []
    with Client(url) as client:
        turn = 0
        until = time.perf_counter() + seconds
        begin = time.perf_counter()
        while time.perf_counter() < until:
            spent = time.process_time()
            start = time.perf_counter()
            client.get(refs, {"user_id": f"user{turn % serving_data.USERS}"})
            took.append(time.perf_counter() - start)
            cpu.append(time.process_time() - spent)
            turn += 1
        return {
            **figures(took, time.perf_counter() - begin),
            "cpu_p50_ms": round(statistics.median(cpu) * 1e3, 3),
        }


def measure(seconds: float) -> dict[str, Any]:
    """All cases."""
    users = [{"user_id": f"user{u}"} for u in range(serving_data.USERS)]
    results: dict[str, Any] = {
        "load_average": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
    }
    with running(RedisServer) as server, running(RedisServer) as other:
        serving_data.fill(server.url)
        fill_recipe(other.operator_url)
        names = {"one": "1 view x 3 windows", "five": "5 views x 10 features"}
        for case, name in names.items():
            refs = serving_data.refs(case)
            results[f"in process, {name}"] = in_process(server.url, refs, seconds)
        with serving(server.url) as url:
            port = int(url.rpartition(":")[2])
            for case, name in names.items():
                refs = serving_data.refs(case)
                bodies = [{"features": refs, "entities": [user]} for user in users]
                for connections in (1, 8):
                    key = f"HTTP, {name}, {connections} connection(s)"
                    results[key] = over_http(port, "/v1/features", bodies, connections, seconds)
        with recipe(other.operator_url) as port:
            for path, name in (
                ("/features", "recipe, sum of 24 buckets x 3 windows"),
                ("/ready", "recipe, ready values"),
            ):
                for connections in (1, 8):
                    key = f"{name}, {connections} connection(s)"
                    results[key] = over_http(port, path, users, connections, seconds)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        sys.stdout.write(json.dumps(_measure(json.load(sys.stdin))))
        return
    results = measure(arguments.seconds)
    lines = [json.dumps(results), "", f"{'case':<52}{'requests/s':>12}{'p50 ms':>10}{'p99 ms':>10}"]
    for name, case_figures in results.items():
        if isinstance(case_figures, dict):
            lines.append(
                f"{name:<52}{case_figures['requests_per_s']:>12}{case_figures['p50_ms']:>10}{case_figures['p99_ms']:>10}"
            )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
