"""How long after it is produced an event shows in an HTTP answer, seen from outside, at Poisson times.

    python -m benchmarks.whole.probes < spec.json

Each probe is the first event of an entity of its own. It is due at a time that does not depend on how the platform
does, and counts from then; its entity is asked for every few milliseconds until the answer counts it.
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

POLL_S = 0.003
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


@dataclass(frozen=True)
class Seen:
    """Freshness of the probes that showed; lost: probes that never did; refused: polls that a server error
    answered (a busy store makes an API's own timeout strike), which count as not seen yet."""

    freshness: Spread
    lost: int
    polls: int
    refused: int


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
    begin = time.perf_counter()
    measured_from, end = begin + spec.warm_up_s, begin + spec.warm_up_s + spec.seconds
    due, number, polls, refused = begin, 0, 0, 0
    waiting: dict[str, tuple[float, float, bytes]] = {}
    found: list[float] = []
    while waiting or due < end:
        now = time.perf_counter()
        while due <= now and due < end:
            user = f"{spec.prefix}{number}"
            partition = zlib.crc32(user.encode()) % spec.partitions
            producer.produce(spec.topic, key=user.encode(), value=event(user), partition=partition)
            waiting[user] = (due, due, request_for(spec, user))
            number += 1
            due += chance.expovariate(spec.rate)
        producer.poll(0)
        for user, (since, ask_at, request) in list(waiting.items()):
            if ask_at > time.perf_counter():
                continue
            status, body = connection.ask(request)
            polls += 1
            refused += status >= 500
            if status != 200 and status < 500:
                raise ConnectionError(f"{status}: {body[:300]!r}")
            now = time.perf_counter()
            if status == 200 and count_in(spec, body):
                del waiting[user]
                if since >= measured_from:
                    found.append(now - since)
            else:
                waiting[user] = (since, now + POLL_S, request)
        if time.perf_counter() > end + PATIENCE_S:
            break
        time.sleep(0.0005)
    producer.flush(10)
    return Seen(Spread.of([s * 1000 for s in found]), len(waiting), polls, refused)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(asdict(run(Spec(**{**given, "value": tuple(given["value"])})))))
