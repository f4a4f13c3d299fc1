"""Windows of seconds, sessions and a month in one view: a real store, `evaluate` and training give
the same bytes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.reading.plan import plan_read
from slicewise.serving.client import Client
from slicewise.training.dataset import build_training_set
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.durations import DAY_US, HOUR_US, SECOND_US
from tests.e2e.compare import as_bytes
from tests.support.platform.servers import RedisServer, running
from tests.support.stores.logged import given, served_archive
from tests.support.stores.served import TOPIC, Event, Served

SEED = 20_261_121
USERS = ("ann", "bob", "zoë")
LENGTHS = {"10s": 10 * SECOND_US, "1m": 60 * SECOND_US, "1d": DAY_US, "30d": 30 * DAY_US}
SESSIONS = {"session_20s": (20 * SECOND_US, HOUR_US), "session_2h": (2 * HOUR_US, 10 * DAY_US)}
"""Gap, and longest length."""
SLICES = {
    "10s": SECOND_US,
    "1m": SECOND_US,
    "session_20s": SECOND_US,
    "session_2h": 300 * SECOND_US,
}
"""Slices of the unit of seconds, and of the other one."""
STARTS = {**SLICES, "1d": 300 * SECOND_US, "30d": HOUR_US}
"""Steps of a start: a month in steps of 5 minutes would be too many."""

clicks = sw.KafkaSource(
    "clicks",
    schema={"user_id": "string", "price": "double", "clicked_at": "timestamp_us"},
    timestamp="clicked_at",
    max_lateness="1d",
)
WINDOWS: list[sw.Window | str] = [
    *LENGTHS,
    sw.session("20s", max_length="1h"),
    sw.session("2h", max_length="10d"),
]
clicking = sw.FeatureView(
    "clicking",
    source=clicks,
    entity=["user_id"],
    features=[
        sw.Feature("clicks", sw.count(), windows=WINDOWS),
        sw.Feature("spent", sw.sum("price"), windows=WINDOWS),
    ],
)
DEPLOYMENT = plan(Project("windows", (clicking,)))
REFS = [f"clicking:{feature.column}" for unit in DEPLOYMENT.units for feature in unit.features]
PROJECT = f"""import slicewise as sw

clicks = sw.KafkaSource("clicks", schema={dict(clicks.schema)!r}, timestamp="clicked_at", max_lateness="1d")
clicking = sw.FeatureView("clicking", source=clicks, entity=["user_id"], features=[
    sw.Feature("clicks", sw.count(), windows={list(LENGTHS)!r}),
    sw.Feature("spent", sw.sum("price"), windows={list(LENGTHS)!r}),
])
"""


def made(now_us: int, count: int) -> list[Event]:
    """Clicks of the last forty days, many of them of the last seconds, in no order of time."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    spans = (
        5 * SECOND_US,
        30 * SECOND_US,
        5 * 60 * SECOND_US,
        3 * HOUR_US,
        2 * DAY_US,
        31 * DAY_US - HOUR_US,
    )
    offsets = [0, 0]
    events = []
    for _ in range(count):
        partition = chance.randrange(2)
        columns = {
            "user_id": chance.choice(USERS),
            "price": chance.choice([None, 0.1, 1e16, -1e16, 7.25]),
        }
        moment = now_us - chance.randrange(chance.choice(spans))
        events.append(Event(partition, offsets[partition], moment, columns))
        offsets[partition] += 1
    return events


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Client, list[Event], int]]:
    """A store with compacted days and hours, late events in them, and a client of it."""
    with ExitStack() as stack:
        redis = stack.enter_context(running(RedisServer))
        now_us = time.time_ns() // 1_000
        events = made(now_us, 1_200)
        served = stack.enter_context(Served.on(redis.url, DEPLOYMENT))
        served.apply(events[:900])
        hours = sorted({e.time_us // HOUR_US for e in events[:900] if e.time_us < now_us - HOUR_US})
        offset_vector = OffsetVector(
            {
                (TOPIC, p): 1 + max(e.offset for e in events[:900] if e.partition == p)
                for p in (0, 1)
            }
        )
        for hour in hours[:-1]:
            served.compact(hour, offset_vector)
        for day in sorted({hour // 24 for hour in hours})[:-1]:
            served.total(day)
        served.apply(events[900:])
        yield stack.enter_context(Client(redis.url)), events, now_us


def brute_force(column: str, events: Sequence[Event], start_us: int, end_us: int) -> Any:
    inside = [e for e in events if start_us <= e.time_us < end_us]
    if column.startswith("clicks"):
        return len(inside)
    values = [Fraction(e.columns["price"]) for e in inside if e.columns["price"] is not None]
    exact = sum(values, Fraction(0))
    return exact.numerator / exact.denominator if values else None


def bounds_by_hand(column: str, mode: str, t_us: int, events: Sequence[Event]) -> tuple[int, int]:
    """Seconds in one unit, five minutes in the other; sessions by the events, back from the
    latest."""
    window = column.partition("_")[2]
    step = SLICES.get(window, 300 * SECOND_US)
    end = -(-t_us // step) * step if mode == "live" else t_us // step * step
    if window not in SESSIONS:
        return (t_us - LENGTHS[window]) // STARTS[window] * STARTS[window], end
    gap, longest = SESSIONS[window]
    after = first = end
    for time_us in sorted(
        (e.time_us for e in events if end - longest <= e.time_us < end), reverse=True
    ):
        if after - time_us >= gap:
            break
        after = time_us
        first = time_us // step * step
    return first, end


@pytest.mark.parametrize("back_us", [None, 1, 20 * SECOND_US, 90 * SECOND_US, 3 * HOUR_US])
def test_seconds_and_a_month_are_answered_alike_online_in_evaluate_and_in_training(
    served: tuple[Client, list[Event], int], back_us: int | None
) -> None:
    client, events, now_us = served
    entities = [{"user_id": user} for user in (*USERS, "nobody")]
    answer = client.get(REFS, entities, None if back_us is None else now_us - back_us)
    t_us, mode = answer.t_us, answer.mode
    queries = [{**entity, "at": t_us, "mode": mode} for entity in entities]
    evaluated = sw.evaluate(clicking, given(events, "clicked_at"), queries).to_pylist()
    archive = served_archive(DEPLOYMENT.source("clicks"), events, now_us + DAY_US)
    at = as_timestamps(np.array([t_us], np.int64))[0]
    spine = [{**r.entity, "at": at, "token": r.token} for r in answer.results]
    trained = build_training_set(DEPLOYMENT, archive, spine, REFS, "token").table.to_pylist()
    compared = opened = 0
    for number, (entity, result, offline, row) in enumerate(
        zip(entities, answer.results, evaluated, trained, strict=True)
    ):
        bounds = answer.bounds_of(number)
        own = [e for e in events if e.columns["user_id"] == entity["user_id"]]
        recorded: Mapping[str, Any] = {}
        for token in tokens.decode_all(result.token):
            recorded = {**recorded, **token.bounds}
        for ref, value in zip(REFS, result.values, strict=True):
            column = ref.partition(":")[2]
            start, end = bounds_by_hand(column, mode, t_us, own)
            assert recorded[column] == (start, end) == bounds[ref], (column, mode)
            opened += "session" in column and start < end
            wanted = as_bytes(brute_force(column, own, start, end))
            assert wanted == as_bytes(value) == as_bytes(offline[column]) == as_bytes(row[ref]), (
                column,
                mode,
                entity,
            )
            compared += 1
    assert compared == len(entities) * len(REFS)
    assert opened


def test_a_month_beside_seconds_costs_a_bounded_number_of_fields() -> None:
    seconds, month = DEPLOYMENT.units
    assert (seconds.slice_us, month.slice_us) == (SECOND_US, 300 * SECOND_US)
    assert seconds.storage_fingerprint != month.storage_fingerprint
    assert seconds.retention_us < 2 * DAY_US < 30 * DAY_US < month.retention_us


def test_a_session_reads_the_slices_of_the_hours_that_it_may_last_and_no_more() -> None:
    (session,) = [f for f in DEPLOYMENT.units[0].features if f.column == "clicks_session_20s"]
    read = plan_read(DEPLOYMENT.units[0], [session], "live", 20_000 * DAY_US + HOUR_US // 2)
    names = [name for day in read.days for name in day.names]
    assert names == [b"h:479999", b"s:479999", b"h:480000", b"s:480000"]


def test_plan_shows_both_units_their_levels_and_what_a_read_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    (tmp_path / "slicewise.toml").write_text(
        'name = "windows"\ndefinitions = "features.py"\n', encoding="utf-8"
    )
    (tmp_path / "features.py").write_text(PROJECT, encoding="utf-8")
    assert main(["plan", str(tmp_path), "--offline", "--json"]) == 0
    units = json.loads(capsys.readouterr().out)["units"]
    assert [unit["slice"] for unit in units] == ["1s", "1h"]
    # at worst: of the minute two edge hours and an index; of the month five-day totals and days,
    # what is compacted of these, and the hours at both ends
    assert [unit["features"] for unit in units] == [4, 4]
    assert units[0]["reads_per_request"] <= 4
    assert 5 + 4 + 29 <= units[1]["reads_per_request"] <= 6 + 5 + 31 + 46
    (month,) = [read for read in units[1]["reads"] if read["window"] == "30d"]
    assert (month["pentads"], month["days"], month["lists"]) == (5, 4, 29)
    assert 23 <= month["hours"] + month["slices"] <= 46
    assert main(["plan", str(tmp_path), "--offline"]) == 0
    rows = [
        line.split()
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("clicking ")
    ]
    # a view is one row, with the slices of both units
    assert rows[0][2:5] == ["1s", "+", "1h"]
    assert ["clicking", "30d", "5", "4"] in [row[:4] for row in rows[1:]]
