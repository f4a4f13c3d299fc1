"""Serving over 26 hours of plays that came through the log, before and after their hours are
compacted.

The recipe is asked for the same values of the same users, and must give them: a difference fails
the run. The comparison is made as the platform runs, with the hours that are over compacted; one
figure shows it without.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import redis

from benchmarks.whole.figures import Figure, shares
from benchmarks.whole.http_load import CLOSED, OPEN, Connection, Spec, get, post
from benchmarks.whole.options import Options
from benchmarks.whole.servers import (
    RECIPE_BATCH,
    TOPIC,
    Recipe,
    cpu_by_program,
    measure,
    notify,
    pair,
    per_unit,
    pid_of,
    produce_plays,
    until,
)
from benchmarks.whole.streaming import our_stream
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.platform.stack import Stack

HOURS = 26
CONDITION_RATE = 500.0
SEED = 7
STEPS = [*range(HOURS * 60, 120, -5), *range(120, 0, -1)]
"""Minutes before now at which each user has an event."""
FEATURES = [f"{name}_{window}" for name in ("plays", "seconds") for window in ("30m", "1h", "2h")]


def plays(users: int, now_us: int) -> Iterator[dict[str, Any]]:
    """Plays of each user, one in five minutes, in the last two hours one a minute."""
    chance = random.Random(SEED)
    for minutes in STEPS:
        for user in range(users):
            at = now_us - minutes * MINUTE_US + chance.randrange(MINUTE_US // 2)
            yield {
                "user_id": f"h{user}",
                "song_id": "s1",
                "seconds": round(chance.uniform(0, 420), 3),
                "skipped": False,
                "played_at": at,
            }


def produce(stack: Stack, users: int) -> int:
    """The history as records that arrived when they happened; how many."""
    return produce_plays(stack, plays(users, time.time_ns() // 1000))


class BothSides:
    """Questions to both sides, per user."""

    def __init__(
        self, users: int, ours: str, theirs: int, pids: Mapping[str, Sequence[int]]
    ) -> None:
        """pids: what -> the processes that answer it."""
        self._pids = pids
        self._host, self._ours = urlsplit(ours).hostname or "", urlsplit(ours).port or 0
        self._theirs = theirs
        names = [f"h{user}" for user in range(users)]
        self._requests = {
            "listening": [self._features("listening_v1", name) for name in names],
            "five": [self._features("five_v1", name) for name in names],
            "recipe": [get(f"/features/{name}") for name in names],
        }

    @staticmethod
    def _features(name: str, user: str) -> str:
        return post("/v1/features", {"feature_set": name, "entities": [{"user_id": user}]})

    def load(
        self, what: str, mode: str, connections: int, seconds: float, rate: float = 0.0
    ) -> dict[str, Any]:
        """Sends it from a process of its own."""
        port = self._theirs if what == "recipe" else self._ours
        spec = Spec(self._host, port, tuple(self._requests[what]), mode, connections, seconds, rate)
        before = cpu_by_program(self._pids[what])
        load = measure("http_load", asdict(spec), seconds + 120)
        by_program = per_unit(before, cpu_by_program(self._pids[what]), load["sent"])
        load["cpu_us_per_request"] = round(sum(by_program.values()), 1)
        load["cpu_us_by_program"] = by_program
        if load["failed"]:
            raise RuntimeError(f"{load['failed']} requests of {what} were refused")
        return load

    def compare(self) -> int:
        """Both sides give the same values; how many were compared."""
        ours, theirs = Connection(self._host, self._ours), Connection(self._host, self._theirs)
        compared = 0
        for own, other in zip(self._requests["listening"], self._requests["recipe"], strict=True):
            replies = theirs.request(other.encode()), ours.request(own.encode())
            given, answer = (json.loads(body) for _, body in replies)
            values = answer["results"][0]["values"]
            for feature in FEATURES:
                a, b = values[f"listening:{feature}"] or 0, given[feature]
                if abs(a - b) > 1e-6 * max(1.0, abs(b)):
                    raise AssertionError(f"{feature} of {own[-80:]}: {a} here, {b} of the recipe")
                compared += 1
        return compared


def run(options: Options) -> tuple[list[Figure], dict[str, Any]]:
    """Figures, and the details behind them."""
    with pair("history") as (stack, recipe, _):
        notify("a day and two hours of plays, through the log into both stores")
        total = produce(stack, options.users)
        with our_stream(stack):
            stack.wait_applied(TOPIC)
        with recipe.stream(RECIPE_BATCH):
            until(lambda: recipe.events() >= total, "the recipe's history")
        with recipe.api() as (port, api):
            ours = pid_of(stack, "serving"), pid_of(stack, "redis")
            pids = {"listening": ours, "five": ours, "recipe": (api, recipe.redis_pid)}
            sides = BothSides(options.users, stack.settings.serving_url, port, pids)
            return _measured(stack, recipe, sides, options, total)


def _measured(
    stack: Stack, recipe: Recipe, sides: BothSides, options: Options, total: int
) -> tuple[list[Figure], dict[str, Any]]:
    compared = sides.compare()
    notify(f"{compared} values compared with the recipe's: equal")
    seconds = options.seconds / 2

    before = _reads(sides, seconds, "before compaction")
    stored = Stored(stack)
    bytes_before = stored.bytes()
    now_hour = time.time_ns() // 1000 // HOUR_US
    notify("compacting every hour that is over")
    report = stack.job(
        "compact", "--hour", hour_text(now_hour - 1), "--max-hours", str(HOURS + 2), timeout_s=900
    )
    after = _reads(sides, seconds, "after compaction")
    bytes_after = stored.bytes()
    sides.compare()
    notify("one view × 6 features, and the recipe")
    one, one_recipe = _both(sides, 1, seconds)
    eight, eight_recipe = _both(sides, 8, seconds)

    served = "serving one view × 6 features, 24 slices"
    figures = [
        Figure(served, f"{q} at one connection", "ms", one["latency"][q], one_recipe["latency"][q])
        for q in ("p50", "p99")
    ]
    figures.append(
        Figure(
            served,
            "one connection",
            "requests/s",
            one["requests_per_s"],
            one_recipe["requests_per_s"],
            "higher",
        )
    )
    rates = eight["requests_per_s"], eight_recipe["requests_per_s"]
    figures.append(Figure(served, "eight connections", "requests/s", *rates, "higher", aim=5))
    figures += [
        Figure(
            served,
            f"{q} at eight connections",
            "ms",
            eight["latency"][q],
            eight_recipe["latency"][q],
        )
        for q in ("p50", "p99")
    ]
    spent = eight["cpu_us_per_request"], eight_recipe["cpu_us_per_request"]
    figures.append(Figure(served, "CPU of API and store", "µs/request", *spent))
    parts = eight["cpu_us_by_program"], eight_recipe["cpu_us_by_program"]
    figures += shares(served, "µs/request", *parts)
    figures.append(
        Figure(
            served,
            "eight connections, no hour compacted",
            "requests/s",
            before["listening"]["requests_per_s"],
            eight_recipe["requests_per_s"],
            "higher",
        )
    )
    five = f"serving 5 views × 10 features at {CONDITION_RATE:.0f} requests/s"
    for when, load in (("before compaction", before), ("after compaction", after)):
        for q, bound in (("p50", None), ("p99", 10.0)):
            figures.append(
                Figure(five, f"{q} {when}", "ms", load["open"]["latency"][q], bound=bound)
            )
        figures.append(
            Figure(five, f"CPU {when}", "µs/request", load["closed"]["cpu_us_per_request"])
        )
        figures += shares(five, "µs/request", load["closed"]["cpu_us_by_program"])
    about = f"compaction of {HOURS} hours, {options.users} users (baseline: before)"
    figures.append(Figure(about, "Redis bytes", "bytes", bytes_after, bytes_before))
    for q in ("p50", "p99"):
        values = after["closed"]["latency"][q], before["closed"]["latency"][q]
        figures.append(Figure(about, f"read of 5 views × 10 features, {q}", "ms", *values))
    figures.append(
        Figure(
            about,
            "reads at one connection",
            "requests/s",
            after["closed"]["requests_per_s"],
            before["closed"]["requests_per_s"],
            "higher",
        )
    )
    details = {
        "events": total,
        "compared_with_recipe": compared,
        "one_connection": {"slicewise": one, "recipe": one_recipe},
        "eight_connections": {"slicewise": eight, "recipe": eight_recipe},
        "five_views": {"before": before, "after": after},
        "redis_bytes": {"before": bytes_before, "after": bytes_after, "recipe": used(recipe.redis)},
        "compaction": {
            name: value for name, value in report.items() if not isinstance(value, list)
        },
    }
    return figures, details


def _both(
    sides: BothSides, connections: int, seconds: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        sides.load("listening", CLOSED, connections, seconds),
        sides.load("recipe", CLOSED, connections, seconds),
    )


def _reads(sides: BothSides, seconds: float, when: str) -> dict[str, Any]:
    notify(f"5 views × 10 features {when}")
    return {
        "open": sides.load("five", OPEN, 16, seconds, CONDITION_RATE),
        "closed": sides.load("five", CLOSED, 1, seconds),
        "listening": sides.load("listening", CLOSED, 8, seconds),
    }


class Stored:
    """Room of the online store's data, without its metadata and manifest."""

    def __init__(self, stack: Stack) -> None:
        self._client = redis.Redis.from_url(stack.settings.redis_url)
        with stack.store() as store:
            self._pattern = f"sw:{store.run(ReadMetadata()).store_id}:{{user_id*"

    def bytes(self) -> int:
        """MEMORY USAGE of every key of an entity."""
        whole = 0
        cursor = 0
        while True:
            cursor, keys = self._client.scan(cursor, match=self._pattern, count=2000)
            pipeline = self._client.pipeline(transaction=False)
            for key in keys:
                pipeline.memory_usage(key, samples=0)
            whole += sum(size or 0 for size in pipeline.execute())
            if not cursor:
                return whole


def used(client: redis.Redis) -> int:
    """Bytes of a store's data set."""
    return int(client.info("memory")["used_memory_dataset"])


def hour_text(hour: int) -> str:
    """2026-11-21T08"""
    return time.strftime("%Y-%m-%dT%H", time.gmtime(hour * 3600))
