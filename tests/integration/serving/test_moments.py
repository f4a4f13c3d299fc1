"""Moments from a real store, applied and compacted, are those of the events within the answer's
bounds, bit for bit."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.client import Client
from slicewise.windows.durations import HOUR_US
from tests.support.oracles import moments
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20_130_102
USERS = ("ann", "bob", "zoë")
AGGREGATES = {
    "spread": sw.variance("seconds"),
    "deviation": sw.stddev("n", population=True),
    "lean": sw.skewness("n"),
    "tails": sw.kurtosis("seconds"),
    "together": sw.covariance("seconds", "n"),
    "alike": sw.correlation("n", "price"),
    "rise": sw.linear_trend("seconds"),
    "base": sw.linear_trend("price", over="n", output="intercept"),
}
WINDOWS: list[sw.Window | str] = ["10m", "6h", sw.tumbling("1h")]
PLAYS = sw.KafkaSource(
    "plays",
    schema={
        "user_id": "string",
        "seconds": "double",
        "n": "int64",
        "price": "decimal(12,3)",
        "at_us": "timestamp_us",
    },
    timestamp="at_us",
    max_lateness="1d",
)
VIEW = sw.FeatureView(
    "shapes",
    source=PLAYS,
    entity=["user_id"],
    features=[
        sw.Feature(name, aggregate, windows=WINDOWS) for name, aggregate in AGGREGATES.items()
    ],
)


@dataclass(frozen=True)
class Seen:
    """An event as brute force reads it."""

    time: int
    columns: Mapping[str, Any]


def events_before(now_us: int, n: int) -> list[Event]:
    chance, offsets, made = random.Random(SEED), [0, 0], []
    print(f"seed {SEED}")
    for _ in range(n):
        partition = chance.randrange(2)
        columns = {
            "user_id": chance.choice(USERS),
            "seconds": chance.choice(
                [None, 0.0, 0.1, 1e16, 5e-324, chance.uniform(0, 300), chance.uniform(0, 300)]
            ),
            "n": chance.choice([None, chance.randrange(-5, 500), chance.randrange(9)]),
            "price": Decimal(chance.randrange(10**6)).scaleb(-3),
        }
        moment = now_us - chance.randrange(chance.choice([HOUR_US // 6, 2 * HOUR_US, 9 * HOUR_US]))
        made.append(Event(partition, offsets[partition], moment, columns))
        offsets[partition] += 1
    return made


def bits(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def test_moments_are_those_of_the_events_within_the_answers_bounds(own_redis: RedisServer) -> None:
    now_us = time.time_ns() // 1_000
    events = events_before(now_us, 900)
    with (
        Served.on(own_redis.url, plan(Project("tests", (VIEW,), ()))) as served,
        Client(own_redis.url) as client,
    ):
        served.apply(events[:600])
        ends = {
            (TOPIC, p): max(e.offset + 1 for e in events[:600] if e.partition == p) for p in (0, 1)
        }
        hours = sorted({e.time_us // HOUR_US for e in events if e.time_us < now_us - 2 * HOUR_US})
        for hour in hours[:-1]:
            served.compact(hour, OffsetVector(ends))
        served.apply(events[600:])  # late events too, into compacted hours
        refs = [
            f"shapes:{feature.column}"
            for unit in served.deployment.units
            for feature in unit.features
        ]
        compared = 0
        # One entity is answered by the form for scalars, many by whole columns.
        for entities in (
            [{"user_id": USERS[0]}],
            [{"user_id": user} for user in (*USERS, "nobody")] * 15,
        ):
            for at in (None, now_us - 3 * HOUR_US):
                answer = client.get(refs, entities, at)
                for entity, result in zip(entities[:4], answer.results, strict=False):
                    own = [e for e in events if e.columns["user_id"] == entity["user_id"]]
                    for ref, value in zip(refs, result.values, strict=True):
                        start, end = answer.bounds[ref]
                        inside = [
                            Seen(e.time_us, e.columns) for e in own if start <= e.time_us < end
                        ]
                        spec = AGGREGATES[ref.partition(":")[2].split("_")[0]].spec()
                        given = {name: value for name, value in spec.items() if name != "kind"}
                        wanted = moments.BY_KIND[spec["kind"]](inside, **given)
                        assert bits(value) == bits(wanted), (ref, entity, at)
                        compared += wanted is not None
    print(f"compared {compared} values that are not null")
    assert compared > 100
