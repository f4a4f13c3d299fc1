"""Compaction counts events once by their ids, however the rows come in batches."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.spark.lake import partials
from slicewise.spark.lake.partials import COUNTED, EVENT_ID, Accumulate, UnitRef, by_group
from slicewise.windows.durations import HOUR_US
from tests.support.oracles.repeats import history, once

SEED = 20_261_122
START = 1_767_225_600_000_000
MOST = 9
PLAYS = sw.KafkaSource(
    "plays",
    schema={"user_id": "string", "event_id": "string", "played": "timestamp_us"},
    timestamp="played",
    dedupe=sw.dedupe("event_id", most=MOST),
)
VIEW = sw.FeatureView(
    "v", source=PLAYS, entity=["user_id"], features=[sw.Feature("n", sw.count(), ["1h"])]
)
GROUP = ("topic_id", "partition", "user_id")


def cut(table: pa.Table, rng: random.Random) -> list[pa.RecordBatch]:
    """In batches of some rows, some of them empty."""
    batches, at = [], 0
    while at < table.num_rows:
        size = rng.choice((0, 1, 2, 7, 30))
        batches.append(
            table.slice(at, size).combine_chunks().to_batches(max_chunksize=size or 1)[:1]
        )
        at += size
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    return [batch[0] if batch else empty for batch in batches]


@pytest.mark.parametrize("least", [1, 10, 100_000])
def test_a_group_of_rows_is_never_cut(least: int) -> None:
    rng = random.Random(SEED)
    rows = [
        {"topic_id": "t", "partition": p, "user_id": u, "offset": o}
        for p in range(3)
        for u in (None, "a", "b")
        for o in range(rng.randrange(1, 40))
    ]
    table = pa.Table.from_pylist(rows)
    parts = list(by_group(iter(cut(table, rng)), GROUP, least))
    assert [row for part in parts for row in part.to_pylist()] == rows
    groups = [{(r["partition"], r["user_id"]) for r in part.to_pylist()} for part in parts]
    assert sum(map(len, groups)) == 9
    if least == 1:
        assert len(groups) > 3
    if least == 100_000:
        assert len(groups) == 1


@pytest.mark.parametrize("least", [1, 50, 100_000])
def test_what_is_asked_for_is_counted_once_by_what_stands_before_it(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partials, "LEAST_ROWS", least)
    rng = random.Random(SEED)
    records = history(rng, START, 400)
    after = {r.kafka_us >= START + 2 * HOUR_US for r in records}
    assert after == {True, False}
    rows = [
        {
            "topic_id": "0" * 32,
            "partition": r.partition,
            "offset": r.offset,
            "event_time": r.event["played"],
            "kafka_time": r.kafka_us,
            "user_id": r.event["user_id"],
            EVENT_ID: r.event["event_id"],
            COUNTED: r.kafka_us >= START + 2 * HOUR_US,
        }
        for r in sorted(records, key=lambda r: (r.partition, r.event["user_id"], r.offset))
    ]
    table = pa.Table.from_pylist(rows)
    table = table.set_column(1, "partition", table["partition"].cast(pa.int32()))
    deployment = plan(Project.of("p", [VIEW]))
    (unit,) = deployment.units
    task = Accumulate(UnitRef(deployment.to_json(), unit.storage_fingerprint), {}, EVENT_ID)
    actual: dict[tuple[str, int], int] = {}
    for batch in task(iter(cut(table, rng))):
        (columns,) = unit.layout.from_arrow(pa.Table.from_batches([batch]))
        counts = unit.layout.partials[0].finish_columns(columns).values.to_pylist()
        for user, number, count in zip(
            batch["user_id"].to_pylist(), batch["slice"].to_pylist(), counts, strict=True
        ):
            actual[user, number] = actual.get((user, number), 0) + count
    want: dict[tuple[str, int], int] = {}
    for r in once(records, ["user_id"], HOUR_US, MOST):
        if r.kafka_us >= START + 2 * HOUR_US:
            key = r.event["user_id"], r.event["played"] // unit.slice_us
            want[key] = want.get(key, 0) + 1
    assert actual == want
    assert np.sum(list(want.values())) < sum(row[COUNTED] for row in rows) * 0.9
