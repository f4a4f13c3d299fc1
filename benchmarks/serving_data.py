"""The reads that are measured, over real stores filled with known events."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.offsets.vector import OffsetVector
from slicewise.windows.durations import HOUR_US, MINUTE_US
from tests.support.stores.served import TOPIC, Event, Served

USERS = 100
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


WIDTHS = (1, 10, 40)
KINDS = (sw.sum, sw.min, sw.max, sw.distinct_count, sw.last)
"""Kinds of a wide view's partials, in turn."""
wide = tuple(
    sw.FeatureView(
        f"wide{width}",
        source=plays,
        entity=["user_id"],
        columns={f"c{i}": "n" for i in range(width)},
        features=[
            sw.Feature(f"f{i}", KINDS[i % len(KINDS)](f"c{i}"), windows=["1h"])
            for i in range(width)
        ],
    )
    for width in WIDTHS
)
FLIGHTS = Path(__file__).parents[1] / "examples" / "flights" / "features.py"
CARRIERS = ("AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN")
FLOWN = 30_000
"""Flights of `HOURS`: a year has eleven times as many, compressed into a day."""


def deployment() -> Deployment:
    """One view × 3 windows, 5 views × 10 features, and views of unlike width, over one source."""
    return plan(Project("benchmark", (one, *five, *wide)))


def flights() -> Deployment:
    """The shipped example."""
    return plan(load_project(FLIGHTS))


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
        seconds = chance.uniform(0, 300)
        columns = {"user_id": f"user{user}", "seconds": seconds, "n": 9}
        columns |= {f"c{i}": int(seconds) for i in range(max(WIDTHS))}
        made.append(Event(partition, offsets[partition], moment, columns))
        offsets[partition] += 1
    return made


def flown(of: Deployment, now_us: int) -> list[Event]:
    """Flights at random instants of the last hours, each column of its type."""
    chance = random.Random(SEED)
    kinds = {name: kind for unit in of.units for name, kind in (*unit.input_types, *unit.entity)}
    offsets, made = [0, 0], []
    for moment in sorted(now_us - chance.randrange(HOURS * HOUR_US) for _ in range(FLOWN)):
        partition = chance.randrange(2)
        columns = {name: _value(chance, name, str(kind)) for name, kind in kinds.items()}
        made.append(Event(partition, offsets[partition], moment, columns))
        offsets[partition] += 1
    return made


def _value(chance: random.Random, name: str, kind: str) -> Any:
    by_name: dict[str, Any] = {
        "carrier": lambda: chance.choice(CARRIERS),
        "origin": lambda: chance.choice(("EWR", "JFK", "LGA")),
        "dest": lambda: f"D{int(chance.random() ** 2 * 80):02d}",
        "route": lambda: f"EWR-D{chance.randrange(80):02d}",
    }
    by_kind: dict[str, Any] = {
        "string": lambda: f"N{chance.randrange(3_000)}",
        "double": lambda: chance.uniform(0, 500),
        "boolean": lambda: chance.random() < 0.1,
    }
    return by_name.get(name, by_kind.get(kind, lambda: chance.randrange(-20, 200)))()


def fill(url: str, of: Deployment, made: list[Event], now_us: int, compacted: bool = True) -> None:
    """Deploys, applies, and compacts all hours that are over, or none."""
    with Served.on(url, of) as served:
        served.apply(made)
        if not compacted:
            return
        offset_vector = OffsetVector(
            {(TOPIC, p): sum(e.partition == p for e in made) for p in (0, 1)}
        )
        last = now_us // HOUR_US
        for hour in range(last - HOURS, last):
            served.compact(hour, offset_vector)
        for day in range((last - HOURS) // 24, last // 24):
            served.total(day)
