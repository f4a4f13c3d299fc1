"""Features by order and age are served from a real store, applied, compacted and late, as brute
force has them."""

from __future__ import annotations

import random
import time
from typing import Any

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.token import decode
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.client import Client
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.inputs import folds
from tests.support.oracles import answers as oracle
from tests.support.oracles.answers import OracleEvent
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20261122
SCHEMA = {
    "user": "string",
    "song": "string",
    "seconds": "double",
    "stars": "long",
    "played_at": "timestamp_us",
}
PLAYS = sw.KafkaSource("plays", schema=SCHEMA, timestamp="played_at", max_lateness="1d")
FEATURES: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "first_song": (sw.first("song"), "first", ("song",)),
    "last_seconds": (sw.last("seconds"), "last", ("seconds",)),
    "earliest": (sw.first_k("seconds", k=2), "first_k", ("seconds", 2)),
    "latest": (sw.last_k("song", k=3), "last_k", ("song", 3)),
    "songs": (sw.last_k_distinct("song", k=3), "last_k_distinct", ("song", 3)),
    "lately": (sw.decay_count(half_life="20m"), "decay_count", (None, "20m")),
    "seconds_lately": (sw.decay_sum("seconds", half_life="7m"), "decay_sum", ("seconds", "7m")),
    "stars_lately": (sw.decay_sum("stars", half_life="1h"), "decay_sum", ("stars", "1h")),
    "rises": (
        sw.ordered(
            folds.nothing, folds.rise, folds.rises, columns=["stars"], output="long", cap=10_000
        ),
        "rises",
        ("stars",),
    ),
}
VIEW = sw.FeatureView(
    "plays_by_user",
    source=PLAYS,
    entity=["user"],
    features=[
        sw.Feature(
            name, made, windows=["10m", "4h", sw.tumbling("1h"), sw.sliding("1h", offset="1h")]
        )
        for name, (made, _, _) in FEATURES.items()
    ],
)
USERS = ("ann", "bob")


def events_before(now_us: int, n: int) -> list[Event]:
    """Events of the last five hours in any order, with ties of time and nulls."""
    draw, offsets, events = random.Random(SEED), [0, 0], []
    for _ in range(n):
        partition = draw.randrange(2)
        columns = {
            "user": draw.choice(USERS),
            "song": draw.choice([None, *(f"song-{i}" for i in range(9))]),
            "seconds": draw.choice([None, 0.1, 0.0, 1e300, -7.25, draw.gauss(60, 40)]),
            "stars": draw.choice([None, *range(-2, 6)]),
        }
        at = now_us - draw.randrange(1, 5 * 60) * MINUTE_US + draw.randrange(2)
        events.append(Event(partition, offsets[partition], at, {**columns, "played_at": at}))
        offsets[partition] += 1
    return events


def wanted(column: str, user: str, events: list[Event], start: int, end: int) -> Any:
    name = max((feature for feature in FEATURES if column.startswith(f"{feature}_")), key=len)
    _, kind, arguments = FEATURES[name]
    own = [
        OracleEvent(e.time_us, TOPIC, e.partition, e.offset, e.columns)
        for e in events
        if e.columns["user"] == user
    ]
    more = {"end": end} if kind.startswith("decay") else {}
    return oracle.BY_KIND[kind](oracle.inside(own, start, end), *arguments, **more)


def test_live_and_past_answers_are_brute_force_over_their_bounds(own_redis: RedisServer) -> None:
    print(f"seed {SEED}")
    deployment, now_us = plan(Project("tests", (VIEW,))), time.time_ns() // 1_000
    events = events_before(now_us, 600)
    (unit,) = deployment.units
    refs = [f"{VIEW.name}:{feature.column}" for feature in unit.features]
    compared = 0
    with Served.on(own_redis.url, deployment) as served:
        served.apply(events[:400])
        ends = {
            (TOPIC, p): max(e.offset + 1 for e in events[:400] if e.partition == p) for p in (0, 1)
        }
        for hour in sorted({e.time_us // HOUR_US for e in events if e.time_us < now_us - HOUR_US})[
            :-1
        ]:
            served.compact(hour, OffsetVector(ends))
        served.apply(events[400:])  # late ones too, into hours that are compacted
        with Client(own_redis.url) as client:
            for at in (None, now_us - 47 * MINUTE_US - 1, now_us - HOUR_US):
                answer = client.get(refs, [{"user": user} for user in USERS], at)
                for user, result in zip(USERS, answer.results, strict=True):
                    bounds = decode(result.token).bounds
                    for ref, value in zip(refs, result.values, strict=True):
                        column = ref.partition(":")[2]
                        expected = wanted(column, user, events, *bounds[column])
                        assert repr(value) == repr(expected), (ref, user, at)
                        compared += 1
    assert compared == 3 * len(USERS) * len(refs)
