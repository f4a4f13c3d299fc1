"""The two reads that are measured, over a real store filled with known events."""

from __future__ import annotations

import random
import time

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.stores.served import TOPIC, Event, Served

USERS = 50
HOURS = 26
SEED = 7

plays = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "seconds": "double", "n": "int64", "played_at": "timestamp_us"},
    timestamp="played_at",
    max_lateness="1d",
)
one = sw.FeatureView(
    "one",
    source=plays,
    entity=["user_id"],
    slice="5m",
    features=[sw.Feature("seconds", sw.sum("seconds"), windows=["30m", "1h", "2h"])],
)
five = tuple(
    sw.FeatureView(
        f"view{i}",
        source=plays,
        entity=["user_id"],
        where=f"n <> {i}",
        features=[
            sw.Feature("plays", sw.count(), windows=["1h", "1d"]),
            sw.Feature("seconds", sw.sum("seconds"), windows=["1h", "1d"]),
            sw.Feature("mean", sw.mean("seconds"), windows=["1h", "1d"]),
            sw.Feature("least", sw.min("seconds"), windows=["1h", "1d"]),
            sw.Feature("most", sw.max("n"), windows=["1h", "1d"]),
        ],
    )
    for i in range(5)
)


def deployment() -> Deployment:
    """One view × 3 windows, and 5 views × 10 features, over one source."""
    return plan(Project("benchmark", (one, *five)))


def refs(case: str) -> list[str]:
    """Features of a case: "one" or "five"."""
    chosen = [
        unit for unit in deployment().units if unit.view.startswith(("one", "view")[case == "five"])
    ]
    return [f"{unit.view}:{feature.column}" for unit in chosen for feature in unit.features]


def events(now_us: int) -> list[Event]:
    """Events of users: each plays about once in five minutes, in the last two hours once a
    minute."""
    chance = random.Random(SEED)
    moments = [(now_us - m * MINUTE_US, u) for u in range(USERS) for m in range(1, 120)]
    moments += [
        (now_us - m * 5 * MINUTE_US, u) for u in range(USERS) for m in range(24, HOURS * 12)
    ]
    moments.sort()
    offsets = [0, 0]
    made = []
    for moment, user in moments:
        partition = user % 2
        columns = {"user_id": f"user{user}", "seconds": chance.uniform(0, 300), "n": 9}
        made.append(Event(partition, offsets[partition], moment, columns))
        offsets[partition] += 1
    return made


def fill(url: str) -> None:
    """Deploys, applies, and compacts all hours that are over."""
    now_us = time.time_ns() // 1_000
    made = events(now_us)
    with Served.on(url, deployment()) as served:
        served.apply(made)
        offset_vector = OffsetVector(
            {(TOPIC, p): sum(e.partition == p for e in made) for p in (0, 1)}
        )
        last = now_us // HOUR_US
        for hour in range(last - HOURS, last):
            served.compact(hour, offset_vector)
        for day in range((last - HOURS) // 24, last // 24):
            served.total(day)
