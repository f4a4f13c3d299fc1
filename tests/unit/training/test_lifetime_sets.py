"""`sw.evaluate`, data sets by event time and by token, and snapshots hold all events of an entity,
as oracles do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.training.dataset import build_snapshot, build_training_set
from slicewise.training.evaluate import evaluate
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.bounds import EARLIEST_US
from slicewise.windows.durations import DAY_US, FOR_EVER_US
from tests.support.oracles.answers import HOUR, MINUTE, contained, inside
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

WINDOWS: tuple[Any, ...] = ("lifetime", sw.lifetime(offset="5d"), "10m")
EVER = [name for name, (made, _, _) in AGGREGATES.items() if not made.answers(FOR_EVER_US)]
AGO = 20 * DAY_US
"""Time before START at which the first events are."""
DEPLOYMENT = plan(
    Project.of("test", [view(["user"], WINDOWS, name="users"), view([], WINDOWS, name="everyone")])
)
REFS = [
    f"{v}:{name}_{w}"
    for v in ("users", "everyone")
    for name in EVER
    for w in ("lifetime", "lifetime_offset_5d")
]


def _events(seed: int, n: int = 300) -> list[dict[str, Any]]:
    made = random_events(seed, n, span_us=AGO)
    return [{**event, "played_at": event["played_at"] - AGO} for event in made]


def _wanted(raw: list[Any], column: str, key: dict[str, Any], end: int) -> Any:
    """The value of a lifetime that ends there, before its offset."""
    if column.endswith("_offset_5d"):
        column, end = column.removesuffix("_offset_5d"), end - 5 * DAY_US
    own = [e for e in raw if all(e.columns[name] == value for name, value in key.items())]
    return expected(column.removesuffix("_lifetime"), [e for e in own if e.time < end], end)


@pytest.mark.parametrize("entity", [("user",), ()], ids=["one", "global"])
def test_evaluate_answers_all_events_up_to_now_or_to_the_offset(entity: tuple[str, ...]) -> None:
    events = _events(11)
    modes = ("event_time", "at", "live")
    queries: list[dict[str, Any]] = [
        {
            "at": START - i * DAY_US + (0, 1, 59_999_999)[i % 3],
            "mode": mode,
            **({"user": user} if entity else {}),
        }
        for i, (mode, user) in enumerate(
            zip(modes * 3, ["ann", "Zoë", "", "nobody"] * 3, strict=False)
        )
    ]
    answered = evaluate(view(entity, WINDOWS), events, queries).to_pylist()
    raw, compared = oracle_events(events), 0
    for query, row in zip(queries, answered, strict=True):
        at = query["at"]
        end = {"event_time": at, "at": at // MINUTE * MINUTE, "live": -(-at // MINUTE) * MINUTE}[
            query["mode"]
        ]
        for column in row.keys() - {*entity, "at"}:
            if "_lifetime" in column:
                wanted = _wanted(raw, column, {name: query[name] for name in entity}, end)
                assert same(row[column], wanted), (column, query, row[column], wanted)
                compared += 1
    assert compared == len(queries) * 2 * len(EVER)
    # whatever order they come in
    assert evaluate(view(entity, WINDOWS), events[::-1], queries).to_pylist() == answered


def _archive(events: list[dict[str, Any]]) -> InMemoryArchive:
    return InMemoryArchive(DEPLOYMENT.source("plays"), [events[:150], events[150:]], START)


def test_a_training_set_by_event_time_holds_all_events_before_each_row() -> None:
    events = _events(12)
    rng = np.random.default_rng(12)
    spine = [
        {"user": ["ann", "bob", "nobody"][i % 3], "at": START - int(rng.integers(AGO))}
        for i in range(15)
    ]
    built = build_training_set(
        DEPLOYMENT, _archive(events), spine, REFS, "event_time"
    ).table.to_pylist()
    raw = oracle_events(events)
    for given, row in zip(spine, built, strict=True):
        for ref in REFS:
            key = {"user": given["user"]} if ref.startswith("users:") else {}
            wanted = _wanted(raw, ref.partition(":")[2], key, int(given["at"]))  # type: ignore[call-overload]
            assert same(row[ref], wanted), (ref, given, row[ref], wanted)


def test_a_training_set_by_token_holds_of_all_events_those_that_the_token_knows() -> None:
    events = _events(13)
    archive, raw = _archive(events), oracle_events(events)
    whole = archive.reaches("plays").offset_vector
    (unit,) = DEPLOYMENT.view("users")
    rng = np.random.default_rng(13)
    spine, parts, left_out = [], [], 0
    for i in range(15):
        at = START - int(rng.integers(AGO // 2))
        base = {(TOPIC, p): int(rng.integers(whole.get((TOPIC, p)) + 1)) for p in range(3)}
        # an hour that was compacted further than the committed offsets
        compacted_beyond = {(at - DAY_US) // HOUR: dict(whole.offsets)}
        own = {f.column: f.window.bounds("live", at, unit.slice_us) for f in unit.features}
        text = tokens.encode(
            unit.storage_fingerprint,
            unit.definition_fingerprint,
            OffsetVector(base),
            {hour: OffsetVector(offsets) for hour, offsets in compacted_beyond.items()},
            "live",
            own,
        )
        assert own["n_lifetime"][0] == EARLIEST_US
        spine.append(
            {
                "user": ["ann", "bob", "nobody"][i % 3],
                "at": as_timestamps(np.array([at]))[0],
                "token": text,
            }
        )
        parts.append((contained(raw, base, compacted_beyond), own))
        left_out += len(raw) - len(parts[-1][0])
    refs = [ref for ref in REFS if ref.startswith("users:")]
    built = build_training_set(DEPLOYMENT, archive, spine, refs, "token").table.to_pylist()
    for given, (in_token, own), row in zip(spine, parts, built, strict=True):
        for ref in refs:
            column = ref.partition(":")[2]
            name = column.rpartition("_lifetime")[0]
            own_events = inside(
                [e for e in in_token if e.columns["user"] == given["user"]], *own[column]
            )
            assert same(row[ref], expected(name, own_events, own[column][1])), (ref, given)
    assert left_out > 0


def test_a_snapshot_has_whoever_ever_came() -> None:
    events = _events(14)
    firsts: dict[str, int] = {}
    for event in oracle_events(events):
        firsts[event.columns["user"]] = min(
            event.time, firsts.get(event.columns["user"], event.time)
        )
    ats = [min(firsts.values()) + 1, START]
    rows = build_snapshot(
        DEPLOYMENT, _archive(events), ["users:n_lifetime", "users:n_10m"], ats
    ).table
    result = list(
        zip(rows["user"].to_pylist(), rows["at"].cast(pa.int64()).to_pylist(), strict=True)
    )
    assert result == [(user, at) for at in ats for user in sorted(firsts) if firsts[user] < at]
    assert min(rows["users:n_lifetime"].to_pylist()) > 0
