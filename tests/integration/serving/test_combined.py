"""Conditions, buckets and bins are answered from a real store, hot and compacted, as brute force
over the events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.token import decode_all
from slicewise.offsets.vector import OffsetVector
from slicewise.serving.client import Client
from slicewise.windows.durations import HOUR_US
from tests.integration.serving.support import plays, serving
from tests.support.inputs.classes import Power, Reach
from tests.support.oracles import answers as oracle
from tests.support.oracles.answers import OracleEvent
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.served import TOPIC, Event, Served

SEED, USERS = 32, ("ann", "bob", "Zoë")
LONG = "seconds > 30"
listening = sw.FeatureView(
    "combined",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("long_n", sw.sum("n", where=LONG), windows=["1h", "1d"]),
        sw.Feature("longs", sw.count(where="seconds>30"), windows=["1d"]),
        sw.Feature("countries", sw.count_by("country"), windows=["1h", "1d"]),
        sw.Feature("one_country", sw.count_by("country", max_categories=1), windows=["1d"]),
        sw.Feature(
            "by_n", sw.bucketed(sw.mean("seconds", where=LONG), by="n"), windows=["1h", "1d"]
        ),
        sw.Feature("spread", sw.histogram("seconds", edges=[0, 30, 60.5]), windows=["1h", "1d"]),
        sw.Feature("reach", Reach("seconds"), windows=["1h", "1d"]),
        sw.Feature("cubes", Power("n", degree=3, where=LONG), windows=["1h", "1d"]),
        sw.Feature("reaches", sw.bucketed(Reach("seconds"), by="country"), windows=["1d"]),
    ],
)
only_numbers = sw.FeatureView(  # no text is stored: few rows are combined as numbers
    "numbers",
    source=plays,
    entity=["user_id"],
    features=[
        sw.Feature("long_n", sw.sum("n", where=LONG), windows=["1h", "1d"]),
        sw.Feature("spread", sw.histogram("seconds", edges=[0, 30, 60.5]), windows=["1h", "1d"]),
    ],
)


def _long(row: Mapping[str, Any]) -> bool:
    return row["seconds"] is not None and row["seconds"] > 30


Answer = Callable[[Sequence[OracleEvent]], Any]
WANTED: dict[str, Answer] = {
    "long_n": lambda some: oracle.where(some, _long, lambda left: oracle.sum_(left, "n")),
    "longs": lambda some: oracle.where(some, _long, len),
    "countries": lambda some: oracle.bucketed(some, "country", len),
    "one_country": lambda some: oracle.bucketed(some, "country", len, 1),
    "by_n": lambda some: oracle.bucketed(
        some, "n", lambda part: oracle.where(part, _long, lambda left: oracle.mean(left, "seconds"))
    ),
    "spread": lambda some: oracle.histogram(some, "seconds", (0, 30, 60.5)),
    "reach": lambda some: oracle.reach(some, "seconds"),
    "cubes": lambda some: oracle.where(some, _long, lambda left: oracle.power(left, "n", 3)),
    "reaches": lambda some: oracle.bucketed(
        some, "country", lambda part: oracle.reach(part, "seconds")
    ),
}


@dataclass(frozen=True)
class World:
    """A store, a server on it, and all events that are in it."""

    redis: str
    url: str
    deployment: Deployment
    events: Sequence[Event]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    print(f"seed {SEED}")
    random, now_us = Random(SEED), time.time_ns() // 1_000
    deployment = plan(Project("tests", (listening, only_numbers), ()))
    (condition,) = {name for unit in deployment.units for name, _ in unit.columns}
    events = []
    for offset in range(400):
        seconds = random.choice([None, -1.5, 0.0, 30.0, 60.5, 1e16, 0.1, random.uniform(0, 90)])
        columns = {
            "user_id": random.choice(USERS),
            "country": random.choice(["no", "se", "é", "", None]),
            "seconds": seconds,
            "n": random.choice([None, 1, 2, -(2**40)]),
        }
        columns[condition] = None if seconds is None else seconds > 30
        events.append(
            Event(offset % 2, offset // 2, now_us - random.randrange(6 * HOUR_US), columns)
        )
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        served = stack.enter_context(Served.on(redis.url, deployment))
        for first in range(0, 300, 100):
            served.apply(events[first : first + 100])
        for hours_ago in (2, 3, 4):  # events of these hours come late, too
            served.compact(
                (now_us - hours_ago * HOUR_US) // HOUR_US,
                OffsetVector({(TOPIC, 0): 150, (TOPIC, 1): 150}),
            )
        served.apply(events[300:])
        yield World(redis.url, stack.enter_context(serving(redis.url)), deployment, events)


@pytest.mark.parametrize("view", ["combined", "numbers"])
@pytest.mark.parametrize("user", [*USERS, "nobody"])
def test_an_answer_is_that_of_brute_force(world: World, view: str, user: str) -> None:
    (unit,) = world.deployment.view(view)
    refs = [f"{view}:{feature.column}" for feature in unit.features]
    body = {"features": refs, "entities": [{"user_id": user}]}
    reply = httpx.post(world.url + "/v1/features", json=body, trust_env=False, timeout=30)
    assert reply.status_code == 200, reply.text
    (result,) = reply.json()["results"]
    (token,) = decode_all(result["token"])
    own = [
        OracleEvent(e.time_us, TOPIC, e.partition, e.offset, e.columns)
        for e in world.events
        if e.columns["user_id"] == user
    ]
    wanted = {}
    for feature in unit.features:
        start, end = token.bounds[feature.column]
        wanted[f"{view}:{feature.column}"] = WANTED[feature.feature](oracle.inside(own, start, end))
    assert result["values"] == wanted
    refused = (
        {"combined:one_country_1d": "too_many_buckets"}
        if view == "combined" and user != "nobody"
        else {}
    )
    assert result.get("errors", {}) == refused
    with Client(world.redis) as client:
        assert client.get(refs, {"user_id": user}).values() == result["values"]
