"""Training sets and snapshots hold the session of each row's own knowledge, as brute force finds
it."""

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
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.session import Session
from slicewise.windows.sliding import Sliding
from tests.support.oracles.answers import HOUR, MINUTE, OracleEvent, contained, session
from tests.unit.training.world import (
    PLAYS,
    START,
    TOPIC,
    InMemoryArchive,
    expected,
    oracle_events,
    random_events,
    same,
)

END = START + 7 * HOUR
GAP, LONGEST = 5 * MINUTE, HOUR
NAMES = ("n", "seconds", "latest", "lasted")
visits = sw.FeatureView(
    "visits",
    source=PLAYS,
    entity=["user"],
    where="seconds >= 10 OR seconds IS NULL",
    slice="1m",
    features=[
        sw.Feature("n", sw.count(), ["30m", sw.session("5m", max_length="1h")]),
        sw.Feature("seconds", sw.sum("seconds"), [sw.session("5m", max_length="1h")]),
        sw.Feature("latest", sw.last_k("song", k=3), [sw.session("5m", max_length="1h")]),
        sw.Feature("lasted", sw.span(), [sw.session("5m", max_length="1h", offset="10m")]),
    ],
)
DEPLOYMENT = plan(Project.of("test", [visits]))
(UNIT,) = DEPLOYMENT.units
REFS = {f"visits:{f.column}": f for f in UNIT.features}


def archive_of(seed: int) -> tuple[list[OracleEvent], InMemoryArchive]:
    print(f"seed {seed}")
    events = random_events(seed, 300)
    return oracle_events(events), InMemoryArchive(
        DEPLOYMENT.source("plays"), [events[:150], events[150:]], END
    )


def expected_events(events: list[OracleEvent], ref: str, end: int) -> list[OracleEvent]:
    """The events of the window of a feature that is asked for at `end`."""
    window = REFS[ref].window
    end -= window.offset_us
    if isinstance(window, Sliding):
        return [e for e in events if (end - 30 * MINUTE) // MINUTE * MINUTE <= e.time < end]
    return session(events, (end - LONGEST) // MINUTE * MINUTE, end, GAP)


@pytest.mark.parametrize("seed", [41, 42])
def test_a_row_by_event_time_has_the_session_that_was_open_then(seed: int) -> None:
    raw, archive = archive_of(seed)
    rng = np.random.default_rng(seed)
    spine: list[dict[str, Any]] = [
        {
            "user": ["ann", "bob", "nobody"][i % 3],
            "at": START + int(rng.integers(6 * HOUR)) // 30_000_000 * 30_000_000,
        }
        for i in range(60)
    ]
    # just after events, which lie on half minutes
    spine += [{**row, "at": row["at"] + 8} for row in spine]
    rows = build_training_set(
        DEPLOYMENT, archive, spine, list(REFS), "event_time"
    ).table.to_pylist()
    opened = 0
    for given, row in zip(spine, rows, strict=True):
        own = [e for e in raw if e.columns["user"] == given["user"]]
        for ref, feature in REFS.items():
            chosen = expected_events(own, ref, int(given["at"]))
            opened += len(chosen) > 1
            wanted = expected(feature.feature, chosen, 0)
            assert same(row[ref], wanted), (ref, given, row[ref], wanted)
    assert opened > 20


def test_a_row_by_token_has_what_the_token_recorded() -> None:
    raw, archive = archive_of(43)
    rng = np.random.default_rng(43)
    whole = archive.reaches("plays").offset_vector
    spine: list[dict[str, Any]] = []
    wanted: list[dict[str, list[OracleEvent]]] = []
    for i in range(40):
        user, at = (
            ["ann", "bob", "Zoë"][i % 3],
            (START + int(rng.integers(6 * HOUR))) // MINUTE * MINUTE,
        )
        base = {(TOPIC, p): int(rng.integers(whole.get((TOPIC, p)) + 1)) for p in range(3)}
        of_user = [e for e in contained(raw, base, {}) if e.columns["user"] == user]
        chosen = {ref: expected_events(of_user, ref, at) for ref in REFS}
        bounds = {}
        for ref, feature in REFS.items():
            end = at - feature.window.offset_us
            first = min((e.time for e in chosen[ref]), default=end) // MINUTE * MINUTE
            is_session = isinstance(feature.window, Session)
            bounds[feature.column] = (first if is_session else end - 30 * MINUTE, end)
        text = tokens.encode(
            UNIT.storage_fingerprint,
            UNIT.definition_fingerprint,
            OffsetVector(base),
            {},
            "at",
            bounds,
        )
        spine.append({"user": user, "at": as_timestamps(np.array([at]))[0], "token": text})
        wanted.append(chosen)
    rows = build_training_set(DEPLOYMENT, archive, spine, list(REFS), "token").table.to_pylist()
    for row, chosen in zip(rows, wanted, strict=True):
        for ref, feature in REFS.items():
            assert same(row[ref], expected(feature.feature, chosen[ref], 0)), (ref, row)
    assert (
        sum(len(chosen) > 0 for of in wanted for ref, chosen in of.items() if "session" in ref) > 20
    )


def test_a_snapshot_has_the_entities_whose_session_is_open() -> None:
    raw, archive = archive_of(44)
    ref = "visits:n_session_5m"
    ats = [START + HOUR + k * 7 * MINUTE for k in range(20)]
    table = build_snapshot(DEPLOYMENT, archive, [ref], ats).table
    at_us = table["at"].cast(pa.int64()).to_pylist()
    actual = list(zip(table["user"].to_pylist(), at_us, table[ref].to_pylist(), strict=True))
    wanted = [
        (user, at, len(chosen))
        for at in ats
        for user in sorted({e.columns["user"] for e in raw})
        if (chosen := expected_events([e for e in raw if e.columns["user"] == user], ref, at))
    ]
    assert actual == wanted
    assert 10 < len(actual) < 4 * len(ats)


def test_a_session_is_answered_from_the_first_event_within_its_longest_length() -> None:
    #  a play each 4 minutes for two hours: one session, of which the last hour counts
    #  0 ---- 4 ---- … ---- 60 (o ---- … ---- o) 120       at = 2 h, longest 1 h: [60, 120)
    plays = [
        {"user": "ann", "seconds": 30.0, "played_at": START + k * 4 * MINUTE} for k in range(31)
    ]
    (row,) = sw.evaluate(visits, plays, [{"user": "ann", "at": START + 2 * HOUR}]).to_pylist()
    assert row["n_session_5m"] == 15  # 60, 64, … 116
