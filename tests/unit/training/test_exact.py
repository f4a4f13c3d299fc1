"""Exact windows offline: every aggregate by brute force, and by token exactly what the token
holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.training.dataset import build_snapshot, build_training_set
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.exact_range import ExactRange
from slicewise.windows.window import Window
from tests.support.oracles import answers as oracle
from tests.support.oracles.answers import HOUR, MINUTE, OracleEvent
from tests.unit.training.world import (
    AGGREGATES,
    START,
    TOPIC,
    InMemoryArchive,
    expected,
    oracle_events,
    random_events,
    same,
    view,
)

WINDOWS: list[Window] = [
    sw.exact_range("40m"),
    sw.exact_range("30s", closed="left"),
    sw.exact_range("3h", closed="right"),
    sw.exact_range("1us", closed="neither"),
    sw.rows(1),
    sw.rows(7),
]
SEED = 20_261_121
END = START + 6 * HOUR


def chosen(
    events: Sequence[OracleEvent], window: Window, at: int, user: str | None
) -> list[OracleEvent]:
    """By the words of the definition."""
    own = sorted((e for e in events if user in (None, e.columns["user"])), key=lambda e: e.order)
    if window.most_rows:
        return [e for e in own if e.time <= at][-window.most_rows :]
    assert isinstance(window, ExactRange)
    first, last = at - window.length_us, at
    return [
        e
        for e in own
        if (first < e.time or (e.time == first and window.closed in ("both", "left")))
        and (e.time < last or (e.time == last and window.closed in ("both", "right")))
    ]


def instants(events: Sequence[dict[str, Any]], count: int) -> list[int]:
    """The times of events, and right beside them; and where windows begin at one."""
    rng = np.random.default_rng(SEED)
    times = [int(events[i]["played_at"]) for i in rng.integers(len(events), size=count)]
    moved = [0, 1, -1, 40 * MINUTE, 40 * MINUTE + 1, 30_000_000, 3 * HOUR]
    return [t + moved[i % len(moved)] for i, t in enumerate(times)]


@pytest.mark.parametrize("entity", [["user"], []])
def test_evaluate_is_brute_force_for_every_aggregate(entity: list[str]) -> None:
    print(f"seed {SEED}")
    events = random_events(SEED, 300)
    raw = oracle_events(events)
    users = ["ann", "Zoë", "nobody"] if entity else [None]
    queries: list[dict[str, Any]] = [
        {**({"user": user} if user else {}), "at": at, "mode": mode}
        for at, mode in zip(instants(events, 14), ["event_time", "at", "live"] * 5, strict=False)
        for user in users
    ]
    rows = sw.evaluate(view(entity, WINDOWS), events, queries).to_pylist()
    compared = 0
    for query, row in zip(queries, rows, strict=True):
        for window in WINDOWS:
            inside = chosen(raw, window, int(query["at"]), query.get("user"))
            for name in AGGREGATES:
                column = f"{name}_{window.column_suffix()}"
                assert same(row[column], expected(name, inside, int(query["at"]))), (
                    column,
                    query,
                    row[column],
                )
                compared += 1
    assert compared == len(queries) * len(WINDOWS) * len(AGGREGATES)


DEPLOYMENT = plan(Project.of("p", [view(["user"], WINDOWS, "exact")]))
(UNIT,) = DEPLOYMENT.units
REFS = [f"exact:{feature.column}" for feature in UNIT.features]


def test_a_training_set_by_token_holds_exactly_the_last_rows_that_the_token_holds() -> None:
    # An event that the answer did not know is no row of its: the one before it is.
    print(f"seed {SEED}")
    rng, events = np.random.default_rng(SEED), random_events(SEED, 400)
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [events[:250], events[250:]], END)
    raw = oracle_events(events)
    ends = archive.reaches("plays").offset_vector
    spine, contained = [], []
    for i, at in enumerate(instants(events, 40)):
        base = {(TOPIC, p): int(rng.integers(ends.get((TOPIC, p)) + 1)) for p in range(3)}
        own = {f.column: f.window.bounds("live", at, 1) for f in UNIT.features}
        text = tokens.encode(
            UNIT.storage_fingerprint,
            UNIT.definition_fingerprint,
            OffsetVector(base),
            {},
            "live",
            own,
        )
        user = ["ann", "bob", "nobody"][i % 3]
        spine.append({"user": user, "at": as_timestamps(np.array([at]))[0], "token": text})
        contained.append((user, at, base))
    built = build_training_set(DEPLOYMENT, archive, spine, REFS, "token").table.to_pylist()
    for (user, at, base), row in zip(contained, built, strict=True):
        in_token = oracle.contained(raw, base, {})
        for window in WINDOWS:
            inside = chosen(in_token, window, at, user)
            for name in AGGREGATES:
                right = expected(name, inside, at)
                assert same(row[f"exact:{name}_{window.column_suffix()}"], right), (
                    name,
                    window,
                    user,
                )


def test_a_training_set_by_event_time_knows_all_and_reads_rows_from_the_first_event_on() -> None:
    events = random_events(SEED + 1, 200)
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [events], END)
    at = START + 5 * HOUR
    refs = ["exact:n_rows_7", "exact:stars_exact_40m"]
    built = build_training_set(
        DEPLOYMENT, archive, [{"user": "ann", "at": at}], refs, "event_time"
    ).table.to_pylist()
    raw = oracle_events(events)
    assert same(
        built[0]["exact:n_rows_7"], expected("n", chosen(raw, sw.rows(7), at, "ann"), at + 1)
    )
    assert same(
        built[0]["exact:stars_exact_40m"],
        expected("stars", chosen(raw, sw.exact_range("40m"), at, "ann"), at + 1),
    )
    assert archive.reads == [(EARLIEST_US, at + 1)]


def test_a_snapshot_of_rows_has_every_entity_that_ever_had_an_event() -> None:
    events = random_events(SEED + 2, 60)
    archive = InMemoryArchive(DEPLOYMENT.source("plays"), [events], END)
    at = START + 3 * HOUR
    rows = build_snapshot(DEPLOYMENT, archive, ["exact:n_rows_1"], [at]).table.to_pylist()
    users = sorted({e.columns["user"] for e in oracle_events(events) if e.time <= at})
    assert [(row["user"], row["exact:n_rows_1"]) for row in rows] == [(user, 1) for user in users]
