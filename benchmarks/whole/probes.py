"""The delay after which an event that was produced shows in an HTTP answer, seen from outside, at
Poisson times.

    python -m benchmarks.whole.probes < spec.json

A probe is the first event of an entity of its own. It is due at a time that does not depend on how
the platform does, and counts from then; its entity is asked for again as soon as it was answered, a
millisecond after the last question at the earliest, until an answer counts it. One question about
it is under way at a time: several would wait for each other in the API, and be measured. An old
probe's pause is a share of its age, so that asking costs little where nothing is measured in
milliseconds.
"""

from __future__ import annotations

import json
import math
import random
import select
import sys
import time
import zlib
from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import Producer

from benchmarks.whole.figures import Percentiles
from benchmarks.whole.http_load import Connection, get, post

POLL_S = 0.001
AGED = 0.05
"""Share of its age for which a probe that is old already is not asked for."""
PATIENCE_S = 60.0
IDLE_S = 0.05
"""Seconds for which answers are waited for at most before it is looked what is due."""
CONNECTIONS = 8
"""Questions under way at once, at most."""


@dataclass(frozen=True)
class Spec:
    """Partitions where probes are produced and where they show. body None: a GET of path; `{user}`
    stands for the entity."""

    bootstrap: str
    topic: str
    partitions: int
    host: str
    port: int
    path: str
    body: dict[str, Any] | None
    value: tuple[str | int, ...]
    """Way to the count in the answer."""
    seconds: float
    rate: float = 10.0
    warm_up_s: float = 5.0
    prefix: str = "probe"
    seed: int = 7
    in_full: bool = False
    """Tells whether every probe is told, not only their quantiles."""


@dataclass(frozen=True)
class Seen:
    """Freshness of the probes that showed; lost: probes that never did; refused: polls that a
    server error or 429 answered (a busy store makes an API's own timeout strike), which count as
    not seen yet.

    What measuring itself adds, in milliseconds: resolution, from the last question that was
    answered without a probe to the first one that was answered with it; answer, how long that one
    took; late, from when a probe was due until it was produced.
    """

    freshness: Percentiles
    lost: int
    polls: int
    refused: int
    resolution: Percentiles
    answer: Percentiles
    late: Percentiles
    cpu_s: float
    """Processor time of this process."""
    samples: tuple[tuple[float, float], ...] = ()
    """Probes as they were due: (when, in seconds since the epoch; freshness in milliseconds)."""


@dataclass
class Waiting:
    """A probe that is not in an answer yet. Times of perf_counter."""

    user: str
    since: float
    request_at: float
    request: bytes
    without: float
    """Time at which it was last asked for in vain; before the first time, when it was due."""


@dataclass(frozen=True)
class Shown:
    """A probe that is in an answer. Times of perf_counter; seconds."""

    since: float
    late: float
    step: float
    answer: float


class Requester:
    """Several connections, with a question each at a time: asked in turn, so that no server finds
    one idle for long."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._idle = deque(Connection(spec.host, spec.port) for _ in range(CONNECTIONS))
        self._under_way: dict[Connection, Waiting] = {}
        self.polls = self.refused = 0

    @property
    def free(self) -> bool:
        """Tells whether a question can be asked now."""
        return bool(self._idle)

    def close(self) -> None:
        """Closes its connections."""
        for connection in (*self._idle, *self._under_way):
            connection.socket.close()

    def request(self, probe: Waiting, now: float) -> None:
        """Asks for it, while `free`."""
        connection = self._idle.popleft()
        if connection.closed():
            connection.socket.close()
            connection = Connection(self._spec.host, self._spec.port)
        connection.send(probe.request, now)
        self._under_way[connection] = probe
        self.polls += 1

    def answers(self, seconds: float) -> list[tuple[Waiting, float, bool]]:
        """(probe, when it was asked for, whether the answer counts it) of what comes within so many
        seconds: the first that come. Raises ConnectionError where the API refuses the question."""
        answers = []
        for connection in select.select(list(self._under_way), (), (), seconds)[0]:
            answer = connection.receive()
            if answer is None:
                continue
            self._idle.append(connection)
            probe, (status, body) = self._under_way.pop(connection), answer
            busy = status == 429 or status >= 500
            self.refused += busy
            if status != 200 and not busy:
                raise ConnectionError(f"{status}: {body[:300]!r}")
            answers.append(
                (probe, connection.due, status == 200 and count_in(self._spec, body) > 0)
            )
        return answers


def next_request(since: float, requested: float) -> float:
    """The time of the next question about a probe of `since` that the answer to the question of
    `requested` lacks."""
    return requested + max(POLL_S, AGED * (requested - since))


def request_for(spec: Spec, user: str) -> bytes:
    """The question whose answer counts the user's events."""
    if spec.body is None:
        return get(spec.path.replace("{user}", user)).encode()
    body = json.loads(json.dumps(spec.body).replace("{user}", user))
    return post(spec.path, body).encode()


def count_in(spec: Spec, body: bytes) -> int:
    """The count in an answer; 0 where it is null."""
    value: Any = json.loads(body)
    for step in spec.value:
        value = value[step]
    return int(value or 0)


def event(user: str) -> bytes:
    """A play of now."""
    now_us = time.time_ns() // 1000
    text = {
        "user_id": user,
        "song_id": "s0",
        "seconds": 100.0,
        "skipped": False,
        "played_at": now_us,
    }
    return json.dumps(text).encode()


@dataclass
class Prober:
    """Produces what is due, asks for what waits, and keeps what it found."""

    spec: Spec
    producer: Producer
    requester: Requester
    waiting: dict[str, Waiting] = field(default_factory=dict)
    shown: list[Shown] = field(default_factory=list)
    lates: list[float] = field(default_factory=list)

    def produce(self, due: float) -> None:
        """The probe that is due since then."""
        user = f"{self.spec.prefix}{len(self.lates)}"
        partition = zlib.crc32(user.encode()) % self.spec.partitions
        self.producer.produce(
            self.spec.topic, key=user.encode(), value=event(user), partition=partition
        )
        self.producer.poll(0)
        self.waiting[user] = Waiting(user, due, due + POLL_S, request_for(self.spec, user), due)
        self.lates.append(time.perf_counter() - due)

    def request(self) -> float:
        """Asks for what is due to be asked for, the longest due first; when the next is."""
        soon = sorted(self.waiting.values(), key=lambda waiting: waiting.request_at)
        for probe in soon:
            now = time.perf_counter()
            if not self.requester.free:
                return now + POLL_S
            if probe.request_at > now:
                return probe.request_at
            self.requester.request(probe, now)
            probe.request_at = math.inf  # until it is answered
        return min((waiting.request_at for waiting in soon), default=math.inf)

    def receive(self, seconds: float) -> None:
        """Takes the answers that come within so many seconds."""
        for probe, requested, shown in self.requester.answers(seconds):
            now = time.perf_counter()
            if not shown:
                probe.without, probe.request_at = requested, next_request(probe.since, requested)
            elif self.waiting.pop(probe.user, None) is not None:
                step = max(0.0, requested - probe.without)
                self.shown.append(Shown(probe.since, now - probe.since, step, now - requested))


def run(spec: Spec) -> Seen:
    """Produces and asks; raises ConnectionError where the API refuses the question."""
    config = {"bootstrap.servers": spec.bootstrap, "linger.ms": 0, "enable.idempotence": True}
    with closing(Requester(spec)) as requester:
        return _probed(spec, Prober(spec, Producer(config), requester))


def _probed(spec: Spec, prober: Prober) -> Seen:
    chance = random.Random(spec.seed)
    wall, begin, cpu = time.time(), time.perf_counter(), time.process_time()
    measured_from, end = begin + spec.warm_up_s, begin + spec.warm_up_s + spec.seconds
    due = begin
    while (prober.waiting or due < end) and (now := time.perf_counter()) <= end + PATIENCE_S:
        while due <= now and due < end:
            prober.produce(due)
            due += chance.expovariate(spec.rate)
        next_at = min(prober.request(), time.perf_counter() + IDLE_S)
        if due < end:
            next_at = min(due, next_at)
        prober.receive(max(0.0, next_at - time.perf_counter()))
    prober.producer.flush(10)
    seen = sorted(
        (probe for probe in prober.shown if probe.since >= measured_from),
        key=lambda probe: probe.since,
    )
    return Seen(
        _percentiles([probe.late for probe in seen]),
        len(prober.waiting),
        prober.requester.polls,
        prober.requester.refused,
        _percentiles([probe.step for probe in seen]),
        _percentiles([probe.answer for probe in seen]),
        _percentiles(prober.lates),
        round(time.process_time() - cpu, 3),
        tuple(
            (round(wall + e.since - begin, 3), round(e.late * 1000, 3))
            for e in seen
            if spec.in_full
        ),
    )


def _percentiles(seconds: list[float]) -> Percentiles:
    return Percentiles.of([duration * 1000 for duration in seconds])


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(asdict(run(Spec(**{**given, "value": tuple(given["value"])})))))
