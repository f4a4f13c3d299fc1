"""Data sets that Spark answers from Iceberg's tables are those of the local engine, to the byte."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise.clock import ManualClock
from slicewise.errors import DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.datasets.answering import answer_request
from slicewise.spark.runtime.session import job_session
from slicewise.stores.lake.catalog import Catalog, open_catalog
from slicewise.training.answering.spines import reach, spans
from slicewise.training.archiving.offline import IcebergArchive
from slicewise.training.arrival import Arrival, CommittedTimes
from slicewise.training.dataset import (
    build_snapshot,
    build_training_set,
    reach_of,
    rebuild,
)
from slicewise.training.manifest import SUFFIX, beside
from slicewise.training.requests.training_request import training_request
from slicewise.training.requests.unit_requests import resolve
from slicewise.training.scaled.building import (
    request_of,
    set_of,
    snapshot_of,
    snapshot_request_of,
)
from slicewise.training.snapshots import spans_of
from tests.support.oracles.answers import HOUR, MINUTE
from tests.support.oracles.repeats import USERS, history
from tests.support.stores.archived import archive
from tests.unit.training import test_repeats
from tests.unit.training.world import PLAYS, START, TOPIC, random_events, view

END = START + 8 * HOUR
VISITS = sw.KafkaSource(
    "visits",
    schema={
        "user": "string",
        "member": "boolean",
        "since": "date",
        "seen": "timestamp_us",
        "price": "decimal(6,2)",
        "counts": "array<int64>",
        "device": "int64",
        "t": "timestamp_us",
    },
    timestamp="t",
    max_lateness="30d",
)
REPEATED = replace(test_repeats.PLAYS, name="repeated")
WINDOWS = (sw.sliding("1h"), sw.session("10m", max_length="2h"))


def small(source: sw.KafkaSource, name: str, *entity: str, column: str) -> sw.FeatureView:
    features = [
        sw.Feature("n", sw.count(), WINDOWS),
        sw.Feature("total", sw.sum(column), WINDOWS),
    ]
    if source.dedupe is None:
        features.append(sw.Feature("last", sw.last_k(column, k=2), [sw.rows(3)]))
    return sw.FeatureView(name, source=source, entity=entity, features=features)


DEPLOYMENT = plan(
    Project.of(
        "test",
        [
            view(["user"], ("3h",), name="users"),
            small(PLAYS, "pairs", "user", "device", column="seconds"),
            small(PLAYS, "everyone", column="stars"),
            small(VISITS, "kinds", "user", "member", "since", "seen", column="price"),
            small(VISITS, "members", "user", column="price"),
            small(REPEATED, "repeats", "user_id", column="n"),
        ],
    )
)
REFS = [f"{unit.view}:{feature.column}" for unit in DEPLOYMENT.units for feature in unit.features]


@dataclass
class World:
    """An archive of three sources, a session, and the local engine beside it."""

    settings: Settings
    session: SparkSession
    catalog: Catalog
    spine: pa.Table
    ends: dict[tuple[str, int], int]

    def both(self, knowledge: str, refs: Sequence[str], folder: Path) -> tuple[Path, Path]:
        """The set by the local engine and by Spark, in files."""
        own = IcebergArchive(self.catalog, "", ManualClock(END))
        arrival = self.arrival() if knowledge == "arrival" else None
        question = training_request(DEPLOYMENT, self.spine, refs, knowledge)
        local = build_training_set(DEPLOYMENT, own, self.spine, refs, knowledge, arrival=arrival)
        local.to_parquet(folder / "local.parquet")
        reaches, rows = reach_of(question, own, knowledge), question.spine
        wanted_spans = spans(reaches, question.requested, rows, knowledge, arrival)
        (folder / "request").mkdir()
        request = request_of(
            question, knowledge, reaches, wanted_spans, arrival, 5, folder / "request"
        )
        report = answer_request(self.session, self.settings, self.catalog, request.folder)
        assert report["rows"] == len(rows)
        scaled = set_of(request, question, reaches, arrival)
        scaled.write(folder / "spark.parquet")
        return folder / "local.parquet", folder / "spark.parquet"

    def arrival(self) -> Arrival:
        """The stream of plays had come a quarter further each time."""
        at_us = START + np.arange(5, dtype=np.int64) * 2 * HOUR
        packed = [
            OffsetVector({p: end * part // 4 for p, end in self.ends.items()}).pack()
            for part in range(5)
        ]
        times = CommittedTimes("plays", at_us, pa.array(packed, pa.large_binary()))
        return Arrival({"plays": times})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SLICEWISE_STATE", str(tmp_path_factory.mktemp("state")))
        settings = Settings.load()
        catalog = open_catalog(settings)
        seed = 20_261_130
        rng = np.random.default_rng(seed)
        print(f"seed {seed}")
        plays = random_events(seed, 600)
        source = DEPLOYMENT.source("plays")
        archive(catalog, source, TOPIC, 1, plays[:400], [], START + 4 * HOUR)
        high_water = archive(catalog, source, TOPIC, 2, plays[400:], plays[:400], END)
        visits = [visit(rng, offset) for offset in range(200)]
        archive(catalog, DEPLOYMENT.source("visits"), TOPIC, 1, visits, [], END)
        repeated = test_repeats.given(history(random.Random(seed), START, 300))
        archive(catalog, DEPLOYMENT.source("repeated"), TOPIC, 1, repeated, [], END)
        session = job_session(settings, "test-datasets")
        try:
            yield World(settings, session, catalog, spine(rng), dict(high_water.offsets))
        finally:
            with suppress(Exception):
                session.stop()


def visit(rng: np.random.Generator, offset: int) -> dict[str, Any]:
    at = START + int(rng.integers(7 * 60)) * MINUTE
    price = None if rng.random() < 0.2 else Decimal(int(rng.integers(-999_999, 999_999))) / 100
    return {
        "user": ["ann", "bob", "", None][rng.integers(4)],
        "member": bool(rng.integers(2)),
        "since": date(1 + 1999 * int(rng.integers(2)), 1, 1),
        "seen": START + int(rng.integers(2)),
        "price": price,
        "counts": [1, None],
        "device": 1,
        "t": at,
        "partition": 0,
        "offset": offset,
    }


def spine(rng: np.random.Generator) -> pa.Table:
    """Rows of all views' entities, in no order, with a column that Spark knows no type of."""
    n = 150
    at_us = START + rng.integers(7 * 60, size=n) * MINUTE + rng.integers(3, size=n)
    return pa.table(
        {
            "user": [["ann", "bob", "Zoë", "", "nobody"][i] for i in rng.integers(5, size=n)],
            "device": rng.integers(4, size=n),
            "member": pa.array(rng.integers(2, size=n) > 0),
            "since": pa.array(rng.integers(2, size=n) * 730_485 - 719_162, pa.int32()).cast(
                pa.date32()
            ),
            "seen": pa.array(START + rng.integers(2, size=n), pa.timestamp("us", "UTC")),
            "user_id": [[*USERS, "nobody"][i] for i in rng.integers(len(USERS) + 1, size=n)],
            "weight": pa.array(rng.integers(9, size=n).astype(np.uint64)).dictionary_encode(),
            "at": pa.array(at_us, pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("knowledge", ["event_time", "arrival"])
def test_spark_gives_the_files_of_the_local_engine(
    world: World, tmp_path: Path, knowledge: str
) -> None:
    plays = [ref for ref in REFS if ref.startswith(("pairs:", "everyone:"))]
    local, spark = world.both(knowledge, plays if knowledge == "arrival" else REFS, tmp_path)
    assert spark.read_bytes() == local.read_bytes()
    assert beside(spark, SUFFIX).read_text() == beside(local, SUFFIX).read_text()
    table = pa.parquet.read_table(local)
    values = [column for column in table.columns if not pa.types.is_null(column.type)]
    assert any(column.null_count < len(column) for column in values)


@pytest.mark.parametrize("known_at", [None, START + 7 * HOUR], ids=["now", "known_at"])
def test_spark_gives_the_snapshot_of_the_local_engine(
    world: World, tmp_path: Path, known_at: int | None
) -> None:
    refs = [ref for ref in REFS if ref.startswith(("users:", "members:", "everyone:"))]
    arrival = None
    if known_at is not None:
        refs = [ref for ref in refs if not ref.startswith("members:")]
        arrival = replace(world.arrival(), known_at_us=known_at)
    ats = [START + hours * HOUR for hours in (2, 5, 7)]
    own = IcebergArchive(world.catalog, "", ManualClock(END))
    local = build_snapshot(DEPLOYMENT, own, refs, ats, arrival=arrival)
    refs_of, requested = resolve(DEPLOYMENT, refs)
    reaches = reach(DEPLOYMENT, own, requested, max(ats))
    own_spans = spans_of(requested, np.array(ats))
    request = snapshot_request_of(
        DEPLOYMENT, refs_of, reaches, own_spans, tuple(ats), 3, tmp_path, arrival
    )
    answer_request(world.session, world.settings, world.catalog, tmp_path)
    scaled = snapshot_of(request, reaches)
    assert scaled.write(tmp_path / "a.parquet") == local.write(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert local.table.num_rows > 6
    if arrival is not None:
        now = build_snapshot(DEPLOYMENT, own, refs, ats)
        assert not local.table.equals(now.table), "three quarters of the plays had been applied"
        again = rebuild(own, local.manifest, None, "a", scaled.arrival)
        assert again.table.equals(local.table)


def test_an_archive_that_is_gone_is_named(world: World, tmp_path: Path) -> None:
    question = training_request(DEPLOYMENT, world.spine, ["repeats:n_1h"], "event_time")
    reaches = reach_of(question, IcebergArchive(world.catalog, "", ManualClock(END)), "event_time")
    own = spans(reaches, question.requested, question.spine, "event_time")
    request_of(question, "event_time", reaches, own, None, 2, tmp_path)
    world.catalog.rename_table(("log", "repeated"), ("log", "aside"))
    try:
        with pytest.raises(DataLoss, match="the archive of 'repeated' is gone"):
            answer_request(world.session, world.settings, world.catalog, tmp_path)
    finally:
        world.catalog.rename_table(("log", "aside"), ("log", "repeated"))
