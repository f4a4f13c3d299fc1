"""Histories to play: the flights of the example, plays of songs, and views and events drawn at
random; equal seeds make equal histories."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import slicewise as sw
from slicewise.features.declare.definitions import FeatureView, KafkaSource
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.replay.flights import YEAR_US, year
from slicewise.replay.songs import Plays
from slicewise.windows.durations import DAY_US, HOUR_US, MINUTE_US

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 2
BEGIN_US = 1_767_355_200_000_000
"""Noon of 2026-01-02, when histories begin: none depends on the day on which it is played, and a
day ends in each."""
Columns = Mapping[str, Any]
Meaning = Callable[[Columns], Any]


@dataclass(frozen=True)
class History:
    """One of a source. events: the source's columns, partition, offset and kafka_time, in the order
    of the log.

    meanings: what each expression of row logic, by its text, is to say of an event's columns.
    """

    name: str
    seed: int
    deployment: Deployment
    events: Sequence[Columns]
    meanings: Mapping[str, Meaning]
    stages: int
    """After how many parts of the log all is asked."""
    instants: int
    """Number of instants that are asked for each time."""
    entities: int = 1_000_000
    """Most of a view that are asked for."""


def _placed(events: Sequence[Mapping[str, Any]], key: str) -> list[Columns]:
    """With the partition of a key, and the offsets that a log gives."""
    ends = [0] * PARTITIONS
    columns: list[Columns] = []
    for event in events:
        partition = zlib.crc32(str(event[key]).encode()) % PARTITIONS
        columns.append({**event, "partition": partition, "offset": ends[partition]})
        ends[partition] += 1
    return columns


def _over(views: Sequence[FeatureView], **changes: Any) -> list[FeatureView]:
    """The same views over their sources with other parameters, without the tests of their own."""
    sources: dict[str, KafkaSource] = {}
    for view in views:
        sources.setdefault(view.source.name, replace(view.source, **changes))
    return [replace(view, source=sources[view.source.name], tests=()) for view in views]


# ---------------------------------------------------------------------- flights
FLIGHTS: Mapping[str, Meaning] = {
    "dep_delay > 15": lambda e: None if e["dep_delay"] is None else e["dep_delay"] > 15,
    "CONCAT(origin, '-', dest)": lambda e: f"{e['origin']}-{e['dest']}",
    "dep_delay - arr_delay": lambda e: (
        None
        if e["dep_delay"] is None or e["arr_delay"] is None
        else e["dep_delay"] - e["arr_delay"]
    ),
    "dep_delay >= 120": lambda e: None if e["dep_delay"] is None else e["dep_delay"] >= 120,
    "distance * 60 / air_time": lambda e: (
        e["distance"] * 60 / e["air_time"] if e["air_time"] else None
    ),
    "distance >= 1500 AND NOT cancelled": lambda e: e["distance"] >= 1500 and not e["cancelled"],
    "arr_delay IS NOT NULL": lambda e: e["arr_delay"] is not None,
    "cancelled": lambda e: e["cancelled"],
    "CONCAT(carrier, CAST(flight AS STRING))": lambda e: f"{e['carrier']}{e['flight']}",
}
SPEED = 365
"""The year in a day, as the example replays it."""


@cache
def _flight_views() -> tuple[FeatureView, ...]:
    project = load_project(ROOT / "examples" / "flights" / "features.py")
    return tuple(_over(project.views, max_lateness="2d"))


def flights(seed: int, size: float) -> History:
    """A share of the year's flights, another one for each seed, in the order in which they were
    logged."""
    share = max(1, round(24 / size))
    flights_of_year = year()
    events = []
    for i in range(seed % share, len(flights_of_year), share):
        own = {name: column[i] for name, column in flights_of_year.columns.items()}
        at = BEGIN_US + int(flights_of_year.scheduled[i]) // SPEED
        logged = BEGIN_US + int(flights_of_year.arrival[i]) // SPEED
        events.append({**own, "number": i, "scheduled": at, "kafka_time": max(logged, at)})
    deployment = plan(Project.of("flights", _flight_views()))
    assert YEAR_US // SPEED == DAY_US
    return History(
        "flights",
        seed,
        deployment,
        _placed(events, "carrier"),
        FLIGHTS,
        3,
        max(4, round(100 * size)),
    )


# ---------------------------------------------------------------------- plays
PLAYS: Mapping[str, Meaning] = {
    f"seconds >= {least}": (lambda e, least=least: e["seconds"] >= least)  # type: ignore[misc]
    for least in range(5)
}


@cache
def _play_views() -> tuple[FeatureView, ...]:
    history = load_project(ROOT / "benchmarks" / "projects" / "history" / "features.py")
    songs = load_project(ROOT / "examples" / "songs" / "features.py")
    views = _over(history.views, max_lateness="2d", required=())
    (source,) = {id(view.source): view.source for view in views}.values()
    return (*views, *(replace(view, source=source, tests=()) for view in songs.views))


def plays(seed: int, size: float) -> History:
    """A day of plays, some of them late."""
    n, users = round(12_000 * size), max(20, round(300 * size))
    made = Plays(
        seed=seed,
        users=users,
        songs=max(10, users // 3),
        rate=n / 86_400,
        start_us=BEGIN_US,
        late_share=0.1,
        late_us=2 * HOUR_US,
    )
    rows = made.batch(0, n).to_pylist()
    turn = DAY_US // max(1, n)
    events = [
        {**row, "kafka_time": max(row["played_at"], BEGIN_US + i * turn)}
        for i, row in enumerate(rows)
    ]
    deployment = plan(Project.of("plays", _play_views()))
    return History(
        "plays", seed, deployment, _placed(events, "user_id"), PLAYS, 3, max(4, round(50 * size))
    )


# ---------------------------------------------------------------------- at random
CONDITIONS: Mapping[str, Meaning] = {
    "n >= 2": lambda e: None if e["n"] is None else e["n"] >= 2,
    "x < 0 OR b": lambda e: _or(None if e["x"] is None else e["x"] < 0, e["b"]),
    "g <> 'a'": lambda e: None if e["g"] is None else e["g"] != "a",
    "b": lambda e: e["b"],
    "n + n": lambda e: None if e["n"] is None else e["n"] + e["n"],
}


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


DOUBLES = (0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 0.1, -0.1, 1.5, 2.0**53 + 2, 1e-200, 3.25)
WHOLES = (0, 1, -1, 2, 3, 2**31, 2**53 + 1, -(2**40), 7)
TEXTS = ("a", "b", "", "é", "日本", "a\x00", "😀", "z" * 40)
HALF_LIVES = ("1h", "6h", "1d")


def _windows(rng: Random) -> list[Any]:
    made = [
        "5m",
        "1h",
        "1d",
        sw.tumbling("1h"),
        sw.tumbling("10m", open=True),
        sw.hopping("2h", every="30m"),
        sw.sliding("1h", offset="2h"),
        sw.session("10m", max_length="6h"),
        sw.tumbling("1d", offset="6h"),
    ]
    return rng.sample(made, rng.randint(2, 5))


def _exact(rng: Random) -> list[Any]:
    made = [sw.exact_range("40m"), sw.exact_range("3h", closed="left"), sw.rows(1), sw.rows(5)]
    return rng.sample(made, 2)


def _aggregates(rng: Random) -> list[Any]:
    where = rng.choice([None, None, *list(CONDITIONS)[:4]])
    k = rng.randint(1, 4)
    x, text, word = rng.choice(["x", "n"]), rng.choice(["g", "x", "n"]), rng.choice(["g", "n"])
    made = [
        sw.count(where=where),
        sw.count(text, where=where),
        sw.sum("x", where=where),
        sw.sum("twice"),
        sw.mean(x, where=where),
        sw.min(text),
        sw.max(text, where=where),
        sw.argmin("g", by=x, where=where),
        sw.argmax("n", by="x"),
        sw.first("g", where=where),
        sw.last(x),
        sw.first_k("x", k=k, where=where),
        sw.last_k(text, k=k),
        sw.last_k_distinct("g", k=k),
        sw.top_k("g", by=x, k=k, where=where),
        sw.bottom_k("n", by="x", k=k),
        sw.distinct_count(word, where=where),
        sw.distinct_count("n", threshold=3),
        sw.quantiles(x, q=[0.1, 0.5, 1.0], threshold=rng.choice([3, 64]), error=0.02),
        sw.top_k_frequent("g", k=k, capacity=rng.choice([4, 20]), error=0.1),
        sw.bool_and("b", where=where),
        sw.bool_or("b"),
        sw.histogram("x", edges=[-1, 0, 1.5, 100]),
        sw.count_by("g", max_categories=20, where=where),
        sw.bucketed(sw.sum("x"), by="g"),
        sw.variance("n"),
        sw.stddev("x", population=True),
        sw.covariance("x", "n"),
        sw.linear_trend("n"),
        sw.decay_count(half_life=rng.choice(HALF_LIVES)),
        sw.decay_sum("n", half_life=rng.choice(HALF_LIVES)),
        sw.span(),
        sw.bloom_fill("g", capacity=20, error=0.01),
    ]
    return rng.sample(made, 14)


def _view(rng: Random, number: int, source: KafkaSource) -> FeatureView:
    entity = rng.choice([["k"], ["k"], ["k", "m"], []])
    features = [
        sw.Feature(f"f{i}", aggregate, windows=_windows(rng))
        for i, aggregate in enumerate(_aggregates(rng))
    ]
    if number == 0:
        some = [sw.count(), sw.sum("x"), sw.last_k("g", k=3), sw.max("n")]
        features += [
            sw.Feature(f"e{i}", aggregate, windows=_exact(rng)) for i, aggregate in enumerate(some)
        ]
    return sw.FeatureView(
        f"v{number}",
        source=source,
        entity=entity,
        columns={"twice": "n + n"},
        where=rng.choice([None, None, "n >= 2", "g <> 'a'"]),
        slice=rng.choice([None, None, "10s", "30s"]),
        spread=rng.random() < 0.2,
        features=features,
    )


def at_random(seed: int, size: float) -> History:
    """Three views of any aggregates and windows, over events in no order, with ties, nulls, and a
    few busy entities."""
    rng = Random(f"history {seed}")
    source = sw.KafkaSource(
        "events",
        schema={
            "k": "string",
            "m": "long",
            "g": "string",
            "x": "double",
            "n": "long",
            "b": "boolean",
            "t": "timestamp_us",
        },
        timestamp="t",
        max_lateness="2d",
    )
    views = [_view(rng, number, source) for number in range(3)]
    deployment = plan(Project.of("drawn", views))
    n, span = (
        round(rng.randint(400, 1_200) * max(size, 0.2)),
        rng.choice([2 * HOUR_US, 9 * HOUR_US, DAY_US]),
    )
    grain = rng.choice([1, MINUTE_US, 10 * MINUTE_US])
    keys = [f"k{i}" for i in range(rng.randint(3, 8))] + [None]
    plain = rng.random() < 0.5
    events = []
    for i in range(n):
        at = BEGIN_US + rng.randrange(span) // grain * grain
        x = rng.choice(
            [
                None,
                round(rng.uniform(-5, 200), 3),
                rng.uniform(-1, 1),
                0.5 if plain else rng.choice(DOUBLES),
            ]
        )
        events.append(
            {
                "k": rng.choice(keys),
                "m": rng.choice([1, 1, 2, None]),
                "g": rng.choice([None, *TEXTS]),
                "x": x,
                "n": rng.choice([None, *WHOLES]),
                "b": rng.choice([None, True, False]),
                "t": at,
                "kafka_time": max(at, BEGIN_US + i * span // n),
            }
        )
    return History(
        "random", seed, deployment, _placed(events, "k"), CONDITIONS, 3, max(4, round(30 * size))
    )


SOURCES: Mapping[str, Callable[[int, float], History]] = {
    "flights": flights,
    "plays": plays,
    "random": at_random,
}
"""Name -> (seed, size) -> history; a size of 1 is a full run's."""
