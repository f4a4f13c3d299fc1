"""Offline an event that comes again counts once: evaluated, in training sets by any knowledge, and
in queries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets import token as tokens
from slicewise.offsets.vector import OffsetVector
from slicewise.training.dataset import build_training_set
from slicewise.training.events.rows import row_logic
from slicewise.training.queries import GivenArchive, query_rows
from slicewise.training.tables.given.events import typed_events
from slicewise.training.tables.instants import as_timestamps
from slicewise.windows.durations import HOUR_US
from tests.support.oracles.repeats import USERS, Record, history, once
from tests.unit.training.world import START, TOPIC, InMemoryArchive

SEED = 20_261_122
MOST = 12
PLAYS = sw.KafkaSource(
    "plays",
    schema={
        "user_id": "string",
        "song_id": "string",
        "n": "int64",
        "event_id": "string",
        "played": "timestamp_us",
    },
    timestamp="played",
    max_lateness="7d",
    dedupe=sw.dedupe("event_id", within="1h", most=MOST),
)
VIEW = sw.FeatureView(
    "v",
    source=PLAYS,
    entity=["user_id"],
    where="song_id != 's2'",
    features=[
        sw.Feature("plays", sw.count(), windows=["30m", "2h", sw.tumbling("1h")]),
        sw.Feature("total", sw.sum("n"), windows=["2h"]),
    ],
)
ENDS = [START + 2 * HOUR_US + i * HOUR_US // 3 for i in range(10)]


def plays(seed: int = SEED) -> list[Record]:
    return history(random.Random(seed), START, 400)


def given(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [
        {**r.event, "partition": r.partition, "offset": r.offset, "kafka_time": r.kafka_us}
        for r in records
    ]


def counted(records: Sequence[Record]) -> list[Record]:
    """The records that the view counts, by the words of the definition: of what its condition
    takes."""
    return once([r for r in records if r.event["song_id"] != "s2"], ["user_id"], HOUR_US, MOST)


def values(
    records: Sequence[Record], user: str, start_us: int, end_us: int
) -> tuple[int, int | None]:
    own = [
        r.event["n"]
        for r in records
        if r.event["user_id"] == user and start_us <= r.event["played"] < end_us
    ]
    return len(own), sum(own) if own else None


def test_evaluate_counts_what_the_definition_says() -> None:
    records = plays()
    left = counted(records)
    queries = [{"user_id": user, "at": at} for user in (*USERS, "nobody") for at in ENDS]
    table = sw.evaluate(VIEW, given(records), queries)
    for query, row in zip(queries, table.to_pylist(), strict=True):
        user, at = str(query["user_id"]), int(str(query["at"]))
        assert row["plays_30m"] == values(left, user, at - HOUR_US // 2, at)[0]
        assert (row["plays_2h"], row["total_2h"]) == values(left, user, at - 2 * HOUR_US, at)
    again = sum(r.event["song_id"] != "s2" for r in records) - len(left)
    assert again > 50
    assert table.schema.metadata[b"slicewise.refused"] == f"duplicate={again}".encode()


DEPLOYMENT = plan(Project.of("p", [VIEW]))
(UNIT,) = DEPLOYMENT.units
REFS = ["v:plays_30m", "v:plays_2h", "v:total_2h"]


def check(row: dict[str, Any], left: Sequence[Record], user: str, at: int) -> None:
    assert row["v:plays_30m"] == values(left, user, at - HOUR_US // 2, at)[0]
    assert (row["v:plays_2h"], row["v:total_2h"]) == values(left, user, at - 2 * HOUR_US, at)


@pytest.mark.parametrize("at", ENDS)
def test_a_training_set_reads_the_events_before_by_which_those_that_come_again_are_known(
    at: int,
) -> None:
    # of each instant alone: the window's events, and some before them
    records = plays()
    archive = InMemoryArchive(
        DEPLOYMENT.source("plays"), [given(records[:200]), given(records[200:])], START * 2
    )
    spine = [{"user_id": user, "at": at} for user in USERS]
    built = build_training_set(DEPLOYMENT, archive, spine, REFS, "event_time").table.to_pylist()
    for user, row in zip(USERS, built, strict=True):
        check(row, counted(records), user, at)


def test_a_token_holds_of_what_comes_again_what_its_offset_vector_holds() -> None:
    rng, records = np.random.default_rng(SEED), plays()
    archive = InMemoryArchive(
        DEPLOYMENT.source("plays"), [given(records[:200]), given(records[200:])], START * 2
    )
    ends = archive.reaches("plays").offset_vector
    spine, contained = [], []
    for i, at in enumerate(ENDS * 2):
        base = {(TOPIC, p): int(rng.integers(ends.get((TOPIC, p)) + 1)) for p in (0, 1)}
        hour = START // HOUR_US + int(rng.integers(5))
        compacted_beyond = {(TOPIC, p): int(rng.integers(ends.get((TOPIC, p)) + 1)) for p in (0, 1)}
        own = {f.column: f.window.bounds("at", at, UNIT.slice_us) for f in UNIT.features}
        text = tokens.encode(
            UNIT.storage_fingerprint,
            UNIT.definition_fingerprint,
            OffsetVector(base),
            {hour: OffsetVector(compacted_beyond)},
            "at",
            own,
        )
        user = USERS[i % 3]
        spine.append({"user_id": user, "at": as_timestamps(np.array([at]))[0], "token": text})
        contained.append((user, at, base, hour, compacted_beyond))
    built = build_training_set(DEPLOYMENT, archive, spine, REFS, "token").table.to_pylist()
    for (user, at, base, hour, compacted_beyond), row in zip(contained, built, strict=True):
        in_token = []
        for record in counted(records):
            topic_partition = TOPIC, record.partition
            end = (
                max(base[topic_partition], compacted_beyond[topic_partition])
                if record.event["played"] // HOUR_US == hour
                else base[topic_partition]
            )
            if record.offset < end:
                in_token.append(record)
        check(row, in_token, user, at // UNIT.slice_us * UNIT.slice_us)


def test_refusals_of_events_that_are_read_to_know_others_by_are_not_told() -> None:
    source = DEPLOYMENT.source("plays")
    first = given(plays())[0]
    times = [START + i * HOUR_US for i in range(4)]
    of_nobody = [
        {**first, "user_id": None, "played": time, "kafka_time": time, "offset": i}
        for i, time in enumerate(times)
    ]
    typed, refused = typed_events(source, of_nobody)
    assert not refused
    assert row_logic(UNIT, typed, (START + HOUR_US, START + 2 * HOUR_US))[1] == {"null_entity": 1}
    assert row_logic(UNIT, typed)[1] == {"null_entity": 4}


def test_a_query_has_a_row_for_each_event_that_counts() -> None:
    records = plays()
    typed, refused = typed_events(DEPLOYMENT.source("plays"), given(records))
    assert not refused
    rows = query_rows(VIEW, GivenArchive(typed), start_us=START, end_us=START + 3 * HOUR_US)
    want = [
        r.event["played"]
        for r in counted(records)
        if START <= r.event["played"] < START + 3 * HOUR_US
    ]
    assert rows.table.num_rows == len(want) < len(records)


def test_without_a_rule_each_record_counts() -> None:
    records = plays()
    plain = replace(VIEW, source=replace(PLAYS, dedupe=None))
    took = [r for r in records if r.event["song_id"] != "s2"]
    for user in USERS:
        (row,) = sw.evaluate(plain, given(records), [{"user_id": user, "at": ENDS[5]}]).to_pylist()
        assert (row["plays_2h"], row["total_2h"]) == values(
            took, user, ENDS[5] - 2 * HOUR_US, ENDS[5]
        )
