"""Raw HTTP load from a process of its own: a stalled answer is not hidden by a client that waits
for it.

    python -m benchmarks.whole.http_load < spec.json

closed: each connection sends its next request when it has the answer to the last.
open: requests are due at Poisson times, whatever the server does; latency counts from the time at
which a request was due, also where it had to wait for a free connection; they are opened as they
are wanted. in_full: every request by itself is told too.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from benchmarks.whole.figures import Percentiles

CLOSED, OPEN = "closed", "open"
PATIENCE_S = 10.0
"""Seconds for which answers are awaited after the last request was due."""


@dataclass(frozen=True)
class Spec:
    """Requests of a load: what is sent, how, and for how long."""

    host: str
    port: int
    requests: tuple[str, ...]
    mode: str
    connections: int
    seconds: float
    rate: float = 0.0
    warm_up_s: float = 2.0
    seed: int = 7
    in_full: bool = False


class Sample(NamedTuple):
    """One request: when it was due (seconds of the wall clock), seconds to its answer, and status
    (0: none came)."""

    due: float
    seconds: float
    status: int


@dataclass(frozen=True)
class Load:
    """Result of a load. sent: the warm-up's requests too; failed: answers other than 200;
    unanswered: requests that were due and had no answer when the patience ended, or whose
    connection was closed: their age then is their latency."""

    requests_per_s: float
    latency: Percentiles
    sent: int
    failed: int
    unanswered: int = 0
    samples: tuple[Sample, ...] = ()


def get(path: str, host: str = "bench") -> str:
    """A keep-alive GET."""
    return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n"


def post(path: str, body: dict[str, Any], host: str = "bench") -> str:
    """A keep-alive POST of JSON."""
    text = json.dumps(body)
    size = len(text.encode())
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: "
        f"application/json\r\ncontent-length: {size}\r\n\r\n"
    )
    return head + text


class Connection:
    """One keep-alive connection with at most one request under way."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due, self.sent = 0.0, 0
        self._got = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, request: bytes, due: float) -> None:
        self.due, self._got = due, b""
        self.sent += 1
        self.socket.sendall(request)

    def closed(self) -> bool:
        """Tells whether the server has closed it, of one without a request under way: there is
        nothing else to read."""
        return bool(select.select([self], (), (), 0)[0])

    def receive(self) -> tuple[int, bytes] | None:
        """(status, body) once the answer is whole; call when there is something to read."""
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._got += chunk
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self._got[:end].lower()
        size = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        if len(self._got) < end + 4 + size:
            return None
        return int(self._got[9:12]), self._got[end + 4 :]

    def request(self, request: bytes) -> tuple[int, bytes]:
        """Sends and waits."""
        self.send(request, 0.0)
        while (answer := self.receive()) is None:
            pass
        return answer


def run(spec: Spec) -> Load:
    """Sends the load; answers of the warm-up are not counted."""
    requests = [request.encode() for request in spec.requests]
    with ExitStack() as stack:

        def connect() -> Connection:
            made = Connection(spec.host, spec.port)
            stack.enter_context(made.socket)
            return made

        connections = [connect() for _ in range(spec.connections if spec.mode == CLOSED else 0)]
        begin = time.perf_counter()
        measured_from, end = begin + spec.warm_up_s, begin + spec.warm_up_s + spec.seconds
        if spec.mode == CLOSED:
            samples, sent = _closed(requests, connections, measured_from, end)
        else:
            samples, sent = _open(spec, requests, connect, measured_from, end)
    answered = [sample for sample in samples if sample.status]
    return Load(
        requests_per_s=round(len(answered) / spec.seconds, 1),
        latency=Percentiles.of([sample.seconds * 1000 for sample in samples]),
        sent=sent,
        failed=sum(sample.status != 200 for sample in answered),
        unanswered=len(samples) - len(answered),
        samples=tuple(_by_the_wall(samples)) if spec.in_full else (),
    )


def _by_the_wall(samples: list[Sample]) -> list[Sample]:
    offset_s = time.time() - time.perf_counter()
    return [sample._replace(due=sample.due + offset_s) for sample in samples]


def _closed(
    requests: list[bytes], connections: list[Connection], measured_from: float, end: float
) -> tuple[list[Sample], int]:
    sent, n = 0, len(requests)
    samples: list[Sample] = []
    for connection in connections:
        connection.send(requests[sent % n], time.perf_counter())
        sent += 1
    while True:
        ready = select.select(connections, (), (), 30)[0]
        for connection in ready:
            answer = connection.receive()
            if answer is None:
                continue
            now = time.perf_counter()
            if now >= end:
                return samples, sent
            if now >= measured_from:
                samples.append(Sample(connection.due, now - connection.due, answer[0]))
            connection.send(requests[sent % n], time.perf_counter())
            sent += 1
        if not ready:
            raise TimeoutError("no answer for 30 s")


def _open(
    spec: Spec,
    requests: list[bytes],
    connect: Callable[[], Connection],
    measured_from: float,
    end: float,
) -> tuple[list[Sample], int]:
    chance = random.Random(spec.seed)
    # opened when they are wanted: a server closes a connection that nothing was asked on for some
    # seconds
    idle, busy = deque[Connection](), set[Connection]()
    waiting: deque[float] = deque()
    sent, n = 0, len(requests)
    samples: list[Sample] = []
    due = time.perf_counter()
    while busy or waiting or due < end:
        now = time.perf_counter()
        while due <= now and due < end:
            waiting.append(due)
            due += chance.expovariate(spec.rate)
        while waiting and (idle or len(busy) < spec.connections):
            connection = idle.popleft() if idle else connect()
            if connection.closed():
                connection.socket.close()
                continue
            connection.send(requests[sent % n], waiting.popleft())
            busy.add(connection)
            sent += 1
        pause = max(0.0, due - time.perf_counter()) if due < end else 1.0
        for connection in select.select(list(busy), (), (), pause)[0]:
            try:
                answer = connection.receive()
            except ConnectionError:
                if connection.sent > 1:
                    # it may have been closed before the request came: another one is asked, as
                    # clients do
                    waiting.appendleft(connection.due)
                    busy.discard(connection)
                    connection.socket.close()
                    continue
                answer = 0, b""
            if answer is None:
                continue
            if connection.due >= measured_from:
                samples.append(
                    Sample(connection.due, time.perf_counter() - connection.due, answer[0])
                )
            busy.discard(connection)
            idle.append(connection)
        if time.perf_counter() > end + PATIENCE_S:
            break
    now = time.perf_counter()
    left = [
        Sample(due, now - due, 0)
        for due in (*waiting, *(waiting_connection.due for waiting_connection in busy))
        if due >= measured_from
    ]
    return [*samples, *left], sent


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(asdict(run(Spec(**{**given, "requests": tuple(given["requests"])})))))
