"""How long after it is produced an event shows in an HTTP answer, seen from outside, at Poisson times.

    python -m benchmarks.whole.probes < spec.json

Each probe is the first event of an entity of its own. It is due at a time that does not depend on how the platform
does, and counts from then; its entity is asked for every millisecond until the answer counts it. Of one that is old
already the pause is a share of its age, so that asking costs little where nothing is measured in milliseconds.
"""

from __future__ import annotations

import json
import random
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import Producer

from benchmarks.whole.figures import Spread
from benchmarks.whole.http_load import Connection, get, post

POLL_S = 0.001
AGED = 0.05
"""Of its age: how long a probe that is old already is not asked for."""
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Spec:
    """Where probes are produced and where they show. body None: a GET of path; `{user}` stands for the entity."""

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
    each: bool = False
    """Whether every probe is told, not only their quantiles."""


@dataclass(frozen=True)
class Seen:
    """Freshness of the probes that showed; lost: probes that never did; refused: polls that a server error
    answered (a busy store makes an API's own timeout strike), which count as not seen yet.

    What measuring itself adds, in milliseconds: resolution, from the last question that was answered without a probe
    to the answer with it; answer, of one question; late, from when a probe was due until it was produced.
    """

    freshness: Spread
    lost: int
    polls: int
    refused: int
    resolution: Spread
    answer: Spread
    late: Spread
    cpu_s: float
    """Processor time of this process."""
    each: tuple[tuple[float, float], ...] = ()
    """(when it was due, seconds since the epoch; freshness in milliseconds), as they were due."""


@dataclass
class Waiting:
    """A probe that is not in an answer yet. Times of perf_counter."""

    since: float
    ask_at: float
    request: bytes
    asked: float


def next_ask(since: float, now: float) -> float:
    """When a probe of `since` that was not in an answer at `now` is asked for again."""
    return now + max(POLL_S, AGED * (now - since))


def request_for(spec: Spec, user: str) -> bytes:
    """The question whose answer counts the user's events."""
    if spec.body is None:
        return get(spec.path.replace("{user}", user)).encode()
    body = json.loads(json.dumps(spec.body).replace("{user}", user))
    return post(spec.path, body).encode()


def count_in(spec: Spec, body: bytes) -> int:
    """The count in an answer; 0 where it is null."""
    found: Any = json.loads(body)
    for step in spec.value:
        found = found[step]
    return int(found or 0)


def event(user: str) -> bytes:
    """A play of now."""
    now_us = time.time_ns() // 1000
    text = {"user_id": user, "song_id": "s0", "seconds": 100.0, "skipped": False, "played_at": now_us}
    return json.dumps(text).encode()


def run(spec: Spec) -> Seen:
    """Produces and asks; raises ConnectionError where the API refuses the question."""
    producer = Producer({"bootstrap.servers": spec.bootstrap, "linger.ms": 0, "enable.idempotence": True})
    connection = Connection(spec.host, spec.port)
    chance = random.Random(spec.seed)
    wall, begin, cpu = time.time(), time.perf_counter(), time.process_time()
    measured_from, end = begin + spec.warm_up_s, begin + spec.warm_up_s + spec.seconds
    due, number, polls, refused = begin, 0, 0, 0
    waiting: dict[str, Waiting] = {}
    found: list[tuple[float, float]] = []
    steps: list[float] = []
    answers: list[float] = []
    lates: list[float] = []
    while waiting or due < end:
        now = time.perf_counter()
        while due <= now and due < end:
            user = f"{spec.prefix}{number}"
            partition = zlib.crc32(user.encode()) % spec.partitions
            producer.produce(spec.topic, key=user.encode(), value=event(user), partition=partition)
            waiting[user] = Waiting(due, due + POLL_S, request_for(spec, user), due)
            lates.append(time.perf_counter() - due)
            number += 1
            due += chance.expovariate(spec.rate)
        producer.poll(0)
        for user, probe in list(waiting.items()):
            asked = time.perf_counter()
            if due <= asked and due < end:
                break  # what is due is produced first, however many are asked for
            if probe.ask_at > asked:
                continue
            status, body = connection.ask(probe.request)
            polls += 1
            refused += status >= 500
            if status != 200 and status < 500:
                raise ConnectionError(f"{status}: {body[:300]!r}")
            now = time.perf_counter()
            if status == 200 and count_in(spec, body):
                del waiting[user]
                if probe.since >= measured_from:
                    found.append((probe.since, now - probe.since))
                    steps.append(now - probe.asked)
                    answers.append(now - asked)
            else:
                probe.ask_at, probe.asked = next_ask(probe.since, now), asked
        now = time.perf_counter()
        if now > end + PATIENCE_S:
            break
        until = min([due if due < end else now + POLL_S, *(each.ask_at for each in waiting.values())])
        if until > now:
            time.sleep(until - now)
    producer.flush(10)
    return Seen(
        _spread([late for _, late in found]),
        len(waiting),
        polls,
        refused,
        _spread(steps),
        _spread(answers),
        _spread(lates),
        round(time.process_time() - cpu, 3),
        tuple((round(wall + since - begin, 3), round(late * 1000, 3)) for since, late in sorted(found) if spec.each),
    )


def _spread(seconds: list[float]) -> Spread:
    return Spread.of([each * 1000 for each in seconds])


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(asdict(run(Spec(**{**given, "value": tuple(given["value"])})))))
