"""More requests than can be answered, of one client, while another asks now and then: what is
answered, how soon, and how the rest is refused."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.surge_watch import Phase, Seen, Watch, beside, seen
from benchmarks.whole.figures import Figure, Percentiles
from benchmarks.whole.http_load import CLOSED, OPEN, Sample, Spec, post
from benchmarks.whole.servers import measure, notify
from slicewise.settings import Settings
from tests.support.platform.stack import Stack

CLIENT = "x-client"
"""The header that names a client, as a gateway would set it."""
TIMES = 3.0
"""Requests of the greedy client, as a multiple of those that can be answered."""
ENTITIES = 20
CLOSED_CONNECTIONS, OPEN_CONNECTIONS = 8, 384
MODEST_PER_S = 10.0
LOOK_S = 0.2
PATIENCE_S = 60.0


@dataclass
class Looks:
    """At health, and at a refusal's header, all the time."""

    url: str
    body: Mapping[str, Any]
    health: list[float] = field(default_factory=list)
    """Milliseconds of /healthz."""
    after_s: Counter[str] = field(default_factory=Counter)
    """Retry-After of refusals ("": none was said)."""

    def watch(self, over: threading.Event) -> None:
        with httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=30) as client:
            while not over.wait(LOOK_S):
                begun = time.perf_counter()
                client.get("/healthz").raise_for_status()
                self.health.append((time.perf_counter() - begun) * 1000)
                reply = client.post("/v1/features", json=self.body, headers={CLIENT: "greedy"})
                if reply.status_code in (429, 503):
                    self.after_s[reply.headers.get("retry-after", "")] += 1


@dataclass(frozen=True)
class Overloading:
    """Result of an overload. capacity: requests/s that are answered where the next one follows the
    answer."""

    bound_ms: float
    """Longest wait for work and longest work, by the settings."""
    capacity: float
    requested: float
    """Requests/s of the greedy client."""
    seconds: float
    greedy: Seen
    undisturbed: Seen
    """The modest client before, meanwhile and after."""
    modest: Seen
    after: Seen
    health: Percentiles
    retry_after: Mapping[str, int]
    shed: Mapping[str, float]
    """By the API's own count, by why."""
    lag: int
    memory_mib: tuple[float, float]
    """MiB of the API, before and the largest meanwhile."""

    def details(self) -> dict[str, Any]:
        return asdict(self)

    def figures(self) -> list[Figure]:
        """The greedy client's, then the modest one's."""
        section = (
            f"{self.requested:,.0f} requests/s of {ENTITIES} users, where {self.capacity:,.0f} "
            "can be answered"
        )
        right = (self.greedy.requests - sum(self.greedy.refused.values())) / self.seconds
        named = f"{section} (baseline: as many as can be)"
        figures = [
            Figure(named, "answered", "requests/s", round(right, 1), self.capacity, "higher")
        ]
        for status in (503, 429):
            refused = self.greedy.refused.get(status, 0)
            figures.append(
                Figure(
                    named, f"refused with {status}", "requests/s", round(refused / self.seconds, 1)
                )
            )
        other = sum(
            count for status, count in self.greedy.refused.items() if status not in (429, 503)
        )
        figures.append(Figure(named, "neither answered nor refused", "requests", other, bound=0))
        figures.append(
            Figure(
                named,
                "refusals without Retry-After",
                "requests",
                self.retry_after.get("", 0),
                bound=0,
            )
        )
        for name in ("p50", "p99", "worst"):
            value = float(getattr(self.greedy.latency, name))
            bound = self.bound_ms if name == "worst" else None
            others = (
                {"refusals": float(getattr(self.greedy.refusal, name))}
                if self.greedy.refusal
                else {}
            )
            figures.append(
                Figure(named, f"{name} of those answered", "ms", value, bound=bound, others=others)
            )
        figures.append(Figure(named, "/healthz, p99", "ms", self.health.p99))
        figures.append(Figure(named, "API, memory", "MiB", self.memory_mib[1], self.memory_mib[0]))
        figures.append(Figure(named, "stream, largest lag meanwhile", "events", self.lag))
        modest = f"another client meanwhile, {MODEST_PER_S:.0f} requests/s (baseline: before)"
        for name in ("p50", "p99", "worst"):
            now, calm, later = (
                float(getattr(load.latency, name))
                for load in (self.modest, self.undisturbed, self.after)
            )
            figures.append(Figure(modest, name, "ms", now, calm, others={"after": later}))
        now, calm = (float(sum(load.refused.values())) for load in (self.modest, self.undisturbed))
        others = {"of": float(self.modest.requests)}
        figures.append(Figure(modest, "refused", "requests", now, calm, others=others))
        return figures


def overload(stack: Stack, seconds: float, users: int, watch: Watch) -> Overloading:
    """With whatever else runs."""
    settings = stack.settings
    greedy, modest = _requests(settings, users, "greedy"), _requests(settings, users, "modest")
    short = max(5.0, seconds / 3)
    notify("what can be answered, and what another client gets of it")
    capacity = float(_load(greedy, CLOSED, CLOSED_CONNECTIONS, short)["requests_per_s"])
    undisturbed = _seen(_load(modest, OPEN, 4, short, MODEST_PER_S))
    rate = round(TIMES * capacity)
    notify(f"{capacity:,.0f} requests/s can be answered: {rate:,} are asked for")
    entities = [{"user_id": f"u{user}"} for user in range(ENTITIES)]
    looks, over = (
        Looks(settings.serving_url, {"feature_set": "listening_v1", "entities": entities}),
        threading.Event(),
    )
    before = _shed(settings)
    with beside(watch), ThreadPoolExecutor(3) as pool:
        time.sleep(2.0)  # a look before
        begun = time.time()
        try:
            looking = pool.submit(looks.watch, over)
            other = pool.submit(_load, modest, OPEN, 4, seconds, MODEST_PER_S)
            greedy_load = _load(greedy, OPEN, OPEN_CONNECTIONS, seconds, rate)
            modest_load = other.result()
        finally:
            over.set()
        looking.result()
        ended = time.time()
    shed = {why: count - before.get(why, 0.0) for why, count in _shed(settings).items()}
    after = _seen(_load(modest, OPEN, 4, short, MODEST_PER_S))
    during = Phase(begun, ended)
    return Overloading(
        bound_ms=float(settings.serving_wait_ms + settings.serving_timeout_ms),
        capacity=capacity,
        requested=rate,
        seconds=seconds,
        greedy=_seen(greedy_load),
        undisturbed=undisturbed,
        modest=_seen(modest_load),
        after=after,
        health=Percentiles.of(looks.health),
        retry_after=dict(looks.after_s),
        shed=shed,
        lag=watch.most_lag(during),
        memory_mib=(watch.memory[0][1]["serving"], watch.most_memory("serving", during)),
    )


def _requests(settings: Settings, users: int, client: str) -> tuple[str, int, tuple[str, ...]]:
    """Host, port and requests of a client; the modest one asks for a single user each time."""
    address = urlsplit(settings.serving_url)
    many = ENTITIES if client == "greedy" else 1
    requests = []
    for first in range(0, users, many):
        entities = [{"user_id": f"u{user}"} for user in range(first, first + many)]
        request = post("/v1/features", {"feature_set": "listening_v1", "entities": entities})
        requests.append(request.replace("\r\n", f"\r\n{CLIENT}: {client}\r\n", 1))
    return "127.0.0.1", address.port or 0, tuple(requests)


def _load(
    requests: tuple[str, int, tuple[str, ...]],
    mode: str,
    connections: int,
    seconds: float,
    rate: float = 0.0,
) -> dict[str, Any]:
    spec = Spec(*requests, mode, connections, seconds, rate, 1.0, in_full=True)
    return measure("http_load", asdict(spec), seconds + PATIENCE_S)


def _seen(load: Mapping[str, Any]) -> Seen:
    return seen([Sample(*sample) for sample in load["samples"]])


def _shed(settings: Settings) -> dict[str, float]:
    """Refused so far, by why."""
    with httpx.Client(
        base_url=settings.serving_url, trust_env=False, verify=False, timeout=30
    ) as client:
        text = client.get("/metrics").text
    shed = {}
    for line in text.splitlines():
        if line.startswith("slicewise_shed_total{"):
            name, _, value = line.rpartition(" ")
            shed[name.partition('why="')[2].partition('"')[0]] = float(value)
    return shed
