"""Data sets come out of real Iceberg tables by the calls and commands that users give."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import BadRequest, DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import DATASETS
from slicewise.stores.log.topics import KafkaLog
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from tests.support.oracles.answers import HOUR, MINUTE, OracleEvent, inside
from tests.support.platform.killed import killed_after
from tests.support.platform.servers import KafkaBroker, RedisServer
from tests.support.stores.archived import archive
from tests.unit.training.world import (
    AGGREGATES,
    START,
    TOPIC,
    expected,
    oracle_events,
    random_events,
    same,
    view,
)

WINDOWS = ("10m", "3h")
DEPLOYMENT = plan(
    Project.of(
        "test",
        [view(["user"], WINDOWS, name="users"), view([], WINDOWS, name="everyone")],
    )
)
REFS = [f"{v}:{name}_{w}" for v in ("users", "everyone") for name in AGGREGATES for w in WINDOWS]
END = START + 7 * HOUR


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    return Settings.load()


def _archived(settings: Settings, seed: int, n: int = 300) -> list[dict[str, Any]]:
    events = random_events(seed, n)
    catalog, source = open_catalog(settings), DEPLOYMENT.source("plays")
    archive(catalog, source, TOPIC, 1, events[: n // 2], [], END - HOUR)
    archive(catalog, source, TOPIC, 2, events[n // 2 :], events[: n // 2], END)
    return events


def _check(row: Mapping[str, Any], at: int, raw: list[OracleEvent]) -> int:
    for ref in REFS:
        name, _, window = ref.partition(":")[2].rpartition("_")
        own = [e for e in raw if ref.startswith("everyone") or e.columns["user"] == row["user"]]
        start = (at - (10 * MINUTE if window == "10m" else 3 * HOUR)) // MINUTE * MINUTE
        wanted = expected(name, inside(own, start, at), at)
        assert same(row[ref], wanted), (ref, at, row[ref], wanted)
    return len(REFS)


def test_a_training_set_of_the_running_deployment(
    settings: Settings, own_redis: RedisServer
) -> None:
    with_redis = replace(settings, redis_url=own_redis.url)
    store = open_store(own_redis.url)
    store.run(Initialise())
    store.run(Deploy(DEPLOYMENT, store.run(ReadMetadata()).deployment_version))
    store.close()
    raw = oracle_events(_archived(settings, 21))
    spine: list[dict[str, Any]] = [
        {"user": u, "at": START + i * 41 * MINUTE}
        for i in range(8)
        for u in ("ann", "Zoë", "nobody")
    ]
    built = sw.training_set(spine, REFS, settings=with_redis)
    rows = built.to_arrow().to_pylist()
    assert sum(
        _check(row, given["at"], raw) for given, row in zip(spine, rows, strict=True)
    ) == 24 * len(REFS)
    taken = sw.snapshot(
        REFS[:2],
        start="2026-01-01T01:00:00Z",
        end="2026-01-01T04:00:00Z",
        every="1h",
        settings=with_redis,
    )
    assert len(set(taken.to_arrow()["at"].to_pylist())) == 3


def test_the_command_builds_records_and_builds_again_to_the_same_bytes(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = _archived(settings, 22)
    (tmp_path / "deployment.json").write_text(DEPLOYMENT.to_json())
    spine = pa.Table.from_pylist(
        [{"user": "ann", "at": START + i * HOUR, "label": i} for i in range(7)]
    )
    pq.write_table(spine, tmp_path / "spine.parquet")
    out = tmp_path / "churn.parquet"
    arguments = ["--deployment", str(tmp_path / "deployment.json"), "--out", str(out), "--json"]
    assert (
        main(
            [
                "dataset",
                "build",
                "--spine",
                str(tmp_path / "spine.parquet"),
                "--features",
                ",".join(REFS),
                *arguments,
            ]
        )
        == 0
    )
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert report["rows"] == 7
    assert "dataset: building" in shown.err
    rows = pq.read_table(out).to_pylist()
    assert [row["label"] for row in rows] == list(range(7))
    for i, row in enumerate(rows):
        _check(row, START + i * HOUR, oracle_events(events))
    (recorded,) = records(open_catalog(settings), DATASETS)
    assert (recorded["dataset_id"], recorded["rows"]) == (report["dataset"], 7)
    assert recorded["manifest"] == (tmp_path / "churn.manifest.json").read_text()
    # Archived afterwards, and inside the windows: no part of this data set.
    late = [{**events[0], "user": "ann", "offset": 10_000, "played_at": START + 30 * MINUTE}]
    archive(open_catalog(settings), DEPLOYMENT.source("plays"), TOPIC, 3, late, events, END + HOUR)
    again = tmp_path / "again.parquet"
    assert (
        main(["dataset", "rebuild", str(tmp_path / "churn.manifest.json"), "--out", str(again)])
        == 0
    )
    assert again.read_bytes() == out.read_bytes()
    assert len(records(open_catalog(settings), DATASETS)) == 1


def test_the_command_takes_snapshots(settings: Settings, tmp_path: Path) -> None:
    _archived(settings, 23)
    (tmp_path / "deployment.json").write_text(DEPLOYMENT.to_json())
    out = tmp_path / "s.parquet"
    arguments = [
        "--deployment",
        str(tmp_path / "deployment.json"),
        "--features",
        *REFS[:3],
        "--out",
        str(out),
    ]
    assert main(["dataset", "snapshot", "--at", "2026-01-01T02:00:00Z", *arguments]) == 0
    assert set(pq.read_table(out)["user"].to_pylist()) == {"ann", "bob", "Zoë", ""}
    assert main(["dataset", "snapshot", "--at", "2026-01-01T02:00:00", *arguments]) == 1


def test_without_an_archive_the_error_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(DataLoss, match="nothing of 'plays' is archived"):
        sw.training_set(
            [{"user": "ann", "at": START}], REFS[:1], deployment=DEPLOYMENT, settings=settings
        )


def test_a_quiet_source_is_complete_until_its_log_holds_more(
    settings: Settings, kafka_broker: KafkaBroker
) -> None:
    source = DEPLOYMENT.source("plays")
    log = KafkaLog(kafka_broker.bootstrap)
    log.create(source.topic, 1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    events = [
        {**event, "partition": 0, "offset": i} for i, event in enumerate(random_events(24, 3))
    ]

    def produce(n: int) -> None:
        for _ in range(n):
            producer.produce(source.topic, value=b"{}", partition=0)
        assert producer.flush(30) == 0

    produce(len(events))
    connected = replace(settings, kafka_bootstrap=kafka_broker.bootstrap)
    archive(open_catalog(settings), source, log.topic_id(source.topic), 1, events, [], END)
    later = [{"user": "ann", "at": END + HOUR}]
    built = sw.training_set(later, REFS[:1], deployment=DEPLOYMENT, settings=connected)
    assert built.table[REFS[0]].to_pylist() == [0]
    produce(1)
    with pytest.raises(BadRequest, match="later than the archive"):
        sw.training_set(later, REFS[:1], deployment=DEPLOYMENT, settings=connected, archive=False)


@pytest.mark.long
def test_a_build_that_is_killed_at_any_step_leaves_nothing_half_and_is_built_again_alike(
    settings: Settings, tmp_path: Path
) -> None:
    """Under a final name stands nothing, or all of it; the same command ends what was begun."""
    _archived(settings, 23, n=80)
    inputs, folder = tmp_path / "inputs", tmp_path / "sets"
    inputs.mkdir()
    (inputs / "deployment.json").write_text(DEPLOYMENT.to_json())
    spine = pa.Table.from_pylist([{"user": "ann", "at": START + i * HOUR} for i in range(7)])
    pq.write_table(spine, inputs / "spine.parquet")

    def build(into: Path) -> list[str]:
        given = [
            "--deployment",
            str(inputs / "deployment.json"),
            "--out",
            str(into / "set.parquet"),
        ]
        spine = ["--spine", str(inputs / "spine.parquet"), "--features", ",".join(REFS[:6])]
        return ["dataset", "build", *spine, *given]

    whole = tmp_path / "whole"
    whole.mkdir()
    assert main(build(whole)) == 0
    wanted = {path.name: path.read_bytes() for path in whole.iterdir()}
    assert {"set.parquet", "set.manifest.json"} <= wanted.keys()
    folder.mkdir()
    steps = 0
    while killed_after(steps, folder, build(folder), os.environ):
        stands = {path.name: path.read_bytes() for path in folder.glob("[!.]*")}
        assert stands.items() <= wanted.items(), f"half of it stands after {steps} steps"
        if "set.manifest.json" in stands:
            assert stands == wanted, f"a manifest of what is not there, after {steps} steps"
        steps += 1
    print(f"killed after each of {steps} steps")
    assert steps > 6
    assert {path.name: path.read_bytes() for path in folder.glob("[!.]*")} == wanted
