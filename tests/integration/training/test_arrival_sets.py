"""Sets of what was known then come from a real store and Iceberg's tables, as users ask for
them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
import redis

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import BadRequest, ServerError, SettingsError, StoreUnavailable
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.local.registry import register
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.committed import committed_at, high_water, record_committed
from slicewise.stores.lake.records import append, records
from slicewise.stores.lake.registry import enter
from slicewise.stores.lake.schemas import COMMITTED
from slicewise.stores.online import keys
from slicewise.stores.online.operations.committed import (
    AdvanceCommitted,
    EnterCommitted,
    committed_of,
)
from slicewise.stores.online.operations.connecting import Initialise, ReadMetadata, ReadTime
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis import open_store
from slicewise.stores.online.steps import ABSENT, Change, KeyChange
from slicewise.stores.online.store import Store
from slicewise.training.api import open_snapshot
from slicewise.training.arrival import Arrival, CommittedTimes
from slicewise.training.scaled import building
from slicewise.training.scaled.scratch import Scratch
from slicewise.training.scheduled import taking
from slicewise.training.scheduled.planned import ScheduledSnapshot
from slicewise.training.tables.instants import text_of
from slicewise.windows.durations import HOUR_US
from tests.support.platform.servers import RedisServer
from tests.support.stores.archived import archive
from tests.unit.training.world import PLAYS, TOPIC

MINUTE = 60_000_000
REF = "users:stars_1h"


def deployment(aggregate: str) -> Deployment:
    made = {"sum": sw.sum("stars"), "max": sw.max("stars")}[aggregate]
    return plan(
        Project.of(
            "test",
            [
                sw.FeatureView(
                    "users",
                    source=PLAYS,
                    entity=["user"],
                    features=[sw.Feature("stars", made, ["1h"])],
                )
            ],
        )
    )


@dataclass
class World:
    """A store whose stream had applied five events by five instants, one after another.

    All of them are archived. The event n has n stars."""

    settings: Settings
    store: Store
    instants: list[int]

    def deploys(self, aggregate: str, by: str) -> int:
        """Deploys a view; when it stood."""
        before = self.store.run(ReadMetadata())
        planned = deployment(aggregate)
        metadata = self.store.run(
            Deploy(planned, before.deployment_version, {"plays": TOPIC}, OffsetVector())
        )
        register(self.settings, metadata, planned.digest, before, by=by, how="apply")
        return time.time_ns() // 1_000

    def spine(self, *positions: int, after_us: int = 0) -> list[dict[str, Any]]:
        return [{"user": "ann", "at": self.instants[n] + after_us} for n in positions]

    def records(self) -> bool:
        return record_committed(open_catalog(self.settings), self.store, "plays", "plays")


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_redis: RedisServer
) -> Iterator[World]:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SLICEWISE_REDIS_URL", own_redis.url)
    settings = replace(Settings.load(), redis_url=own_redis.url)
    with closing(open_store(own_redis.url)) as store:
        store.run(Initialise())
        made = World(settings, store, [])
        made.deploys("sum", "ann")
        now_us = store.run(ReadTime())
        events = [
            {
                "user": "ann",
                "device": 1,
                "song": "a",
                "seconds": 1.0,
                "stars": n,
                "skipped": None,
                "tags": None,
                "played_at": now_us - n * MINUTE,
                "partition": 0,
                "offset": n - 1,
            }
            for n in range(1, 6)
        ]
        source = deployment("sum").source("plays")
        archive(open_catalog(settings), source, TOPIC, 1, events, [], now_us)
        for n in range(6):
            applies(store, n)
            committed = committed_of(store.run(ReadMetadata()), "plays")
            made.instants.append(store.run(EnterCommitted("plays", committed, 0)))
            time.sleep(0.002)
        yield made


def applies(store: Store, end: int) -> None:
    """Moves the committed offsets as a batch's end does."""
    metadata = store.run(ReadMetadata())
    offsets = OffsetVector({(TOPIC, 0): end})
    stands = metadata.deployment_version, metadata.units
    store.run(AdvanceCommitted(metadata.committed, offsets, *stands))


def values(world: World, spine: list[dict[str, Any]], **more: Any) -> list[Any]:
    built = sw.training_set(spine, [REF], settings=world.settings, archive=False, **more)
    return list(built.table[REF].to_pylist())


def test_rows_know_by_arrival_what_was_applied_by_their_instants(world: World) -> None:
    spine = world.spine(0, 1, 2, 5, 4)
    wanted = [None, 1, 3, 15, 10]
    assert values(world, spine, knowledge="arrival") == wanted, "from the store alone"
    assert world.records()
    assert not world.records(), "nothing is new"
    assert values(world, spine, knowledge="arrival") == wanted, "from both"
    world.store.run(Initialise())
    with closing(open_store(world.settings.redis_url)) as store:
        catalog = open_catalog(world.settings)
        both = committed_at(catalog, store, "plays", np.array(world.instants))
    assert both["at_us"].to_pylist() == world.instants, "each once"
    (row,) = records(catalog, COMMITTED)
    assert row["entered_us"] == world.instants
    water = high_water(catalog)
    assert water is not None
    assert water.committed == OffsetVector({(TOPIC, 0): 5})
    assert values(world, world.spine(0, 5, after_us=-1)[1:], knowledge="arrival") == [10], (
        "an instant before the entry it is not known yet"
    )


def test_what_the_table_has_is_known_once_the_store_has_lost_it(
    world: World, own_redis: RedisServer
) -> None:
    world.records()
    with redis.Redis.from_url(own_redis.operator_url) as client:
        client.flushall()
    with closing(open_store(own_redis.url)) as store:
        store.run(Initialise())
        world.store = store
        world.deploys("sum", "ann")
        assert values(world, world.spine(0, 2, 5), knowledge="arrival") == [None, 3, 15]


def test_with_known_at_all_rows_know_what_was_applied_by_one_instant(world: World) -> None:
    spine = world.spine(0, 3, 1)
    assert values(world, spine, known_at=world.instants[3]) == [6, 6, 6]
    assert values(world, spine, known_at=world.instants[4], knowledge="arrival") == [10, 10, 10]
    with pytest.raises(BadRequest, match="row 1"):
        values(world, spine, known_at=world.instants[2])
    with pytest.raises(BadRequest, match="say themselves what was known"):
        values(world, spine, known_at=world.instants[3], knowledge="token")
    with pytest.raises(BadRequest, match="lies in the future"):
        values(world, spine, known_at="2999-01-01T00:00:00Z")
    with pytest.raises(BadRequest, match="lies in the future"):
        values(world, [{"user": "ann", "at": 2**52}], knowledge="arrival")
    with pytest.raises(BadRequest, match="nothing is known of what was applied of 'plays' by"):
        values(world, world.spine(0, after_us=-1), knowledge="arrival")


def test_the_logic_of_a_day_is_what_stood_then(world: World) -> None:
    between = world.store.run(ReadTime())
    world.deploys("max", "bea")
    spine = world.spine(5)
    assert values(world, spine, knowledge="arrival") == [5]
    assert values(world, spine, as_of_definition=between, knowledge="arrival") == [15]
    assert values(world, spine, as_of_definition=between, known_at=world.instants[5]) == [15]
    # once the archive has the deployments, the same
    assert enter(open_catalog(world.settings), world.store, world.settings.redis_url, between)
    assert values(world, spine, as_of_definition=between, known_at=world.instants[5]) == [15]
    with pytest.raises(BadRequest, match="nothing is known to have been deployed"):
        values(world, spine, as_of_definition="2001-01-01T00:00:00Z")
    with pytest.raises(BadRequest, match="either of them"):
        values(world, spine, as_of_definition=between, deployment=deployment("max"))


def test_the_command_builds_it_and_builds_it_again_to_the_same_bytes(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spine = tmp_path / "spine.csv"
    lines = [f"ann,{row['at']}" for row in world.spine(1, 5, 3)]
    spine.write_text("\n".join(["user,at", *lines]) + "\n")
    out, again = tmp_path / "then.parquet", tmp_path / "again.parquet"
    arguments = ["--spine", str(spine), "--features", REF, "--no-archive", "--json"]
    build = ["dataset", "build", *arguments, "--out", str(out)]
    assert main([*build, "--knowledge", "arrival"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["knowledge"] == "arrival"
    assert "by arrival: what was applied of plays is known 0.0 s before" in shown.err
    assert pq.read_table(out)[REF].to_pylist() == [1, 15, 6]
    # more is entered and archived, and the store forgets: the set is the same
    applies(world.store, 5)
    world.store.run(EnterCommitted("plays", OffsetVector({(TOPIC, 0): 5}), 0))
    world.records()
    manifest = str(tmp_path / "then.manifest.json")
    assert main(["dataset", "rebuild", manifest, "--out", str(again)]) == 0
    assert again.read_bytes() == out.read_bytes()
    known_at = datetime.fromtimestamp(world.instants[5] // 1_000_000, UTC).replace(
        microsecond=world.instants[5] % 1_000_000
    )
    assert main([*build, "--known-at", known_at.isoformat()]) == 0
    assert pq.read_table(out)[REF].to_pylist() == [15, 15, 15]
    assert json.loads((tmp_path / "then.manifest.json").read_text())["known_at_us"] > 0
    assert main(["dataset", "rebuild", manifest, "--out", str(again)]) == 0
    assert again.read_bytes() == out.read_bytes()


def test_where_the_store_does_not_answer_nothing_is_guessed(world: World) -> None:
    away = replace(world.settings, redis_url="redis://127.0.0.1:1")
    with pytest.raises(StoreUnavailable):
        sw.training_set(
            world.spine(1),
            [REF],
            "arrival",
            settings=away,
            deployment=deployment("sum"),
            archive=False,
        )


def entered(store: Store, at_us: int, end: int) -> None:
    """Enters offsets as if it had been done then."""
    vector = OffsetVector({(TOPIC, 0): end})
    change = KeyChange(
        keys.entered_key(store.store_id, "plays", at_us // HOUR_US),
        [(b"%d" % at_us, ABSENT)],
        [(b"%d" % at_us, vector.pack(), at_us // 1_000_000 + 200_000)],
    )
    assert store.node.run([Change([change])]) == [0]


def test_what_was_entered_long_before_a_row_is_what_it_knows(world: World) -> None:
    """A source that is quiet for longer than entries overlap; the table has less than the store."""
    catalog, store = open_catalog(world.settings), world.store
    now_us, quiet = store.run(ReadTime()), 20 * MINUTE
    entered(store, now_us - 3 * quiet, 7)
    at = np.array([now_us - 3 * quiet + 1, now_us - quiet])

    def offsets() -> list[int]:
        every = committed_at(catalog, store, "plays", at)
        times = CommittedTimes.of("plays", every)
        arrived = Arrival({"plays": times}).of("plays", at)
        return list(arrived.base[arrived.row][:, 0].tolist())

    assert offsets() == [7, 7], "of the store alone"
    row = {
        "source": "plays",
        "time": now_us - 2 * quiet,
        "cover": OffsetVector({(TOPIC, 0): 8}).pack(),
        "epoch": 1,
        "generation": 1,
    }
    append(catalog, COMMITTED, [row])
    assert offsets() == [7, 8], "a row that was made before there were entries"
    entered(store, now_us - quiet - 1, 9)
    assert offsets() == [7, 9], "what the store has beyond it"


def test_a_set_is_built_again_whatever_becomes_visible_afterwards(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry has its instant before it is written, and the store keeps it for two days."""
    now_us = world.store.run(ReadTime())
    spine = tmp_path / "spine.csv"
    spine.write_text(f"user,at\nann,{now_us - 10}\nann,{world.instants[2]}\n")
    out, again = tmp_path / "then.parquet", tmp_path / "again.parquet"
    arguments = ["--spine", str(spine), "--features", REF, "--no-archive", "--out", str(out)]
    assert main(["dataset", "build", "--knowledge", "arrival", *arguments, "--statistics"]) == 0
    assert "2 of 2" in capsys.readouterr().out
    entered(world.store, now_us - 20, 1)
    entered(world.store, world.instants[2] - 1, 1)
    rebuild = ["dataset", "rebuild", str(tmp_path / "then.manifest.json"), "--out", str(again)]
    assert main(rebuild) == 0
    assert again.read_bytes() == out.read_bytes()
    (tmp_path / "then.arrival.parquet").unlink()
    assert main(rebuild) == 1
    assert "cannot read what the set's rows knew" in capsys.readouterr().err


def test_an_entry_that_was_on_its_way_is_recorded_by_the_next_run(world: World) -> None:
    assert world.records()
    assert not world.records()
    entered(world.store, world.instants[-1] + 1, 5)
    assert world.records(), "though its instant is before the last row's, and nothing moved since"
    assert not world.records()


def test_the_table_is_read_where_rows_lie_and_not_between_them(world: World) -> None:
    catalog, store = open_catalog(world.settings), world.store
    first_us = world.instants[0] - 3000 * HOUR_US
    rows = [
        {
            "source": "plays",
            "time": first_us + hour * HOUR_US,
            "cover": OffsetVector({(TOPIC, 0): hour}).pack(),
            "epoch": 1,
            "generation": 1,
            "entered_us": [first_us + hour * HOUR_US - n for n in (3, 2, 1)],
            "entered": [OffsetVector({(TOPIC, 0): hour}).pack()] * 3,
        }
        for hour in range(1, 2000)
    ]
    append(catalog, COMMITTED, rows)
    at = np.array([first_us + hour * HOUR_US + 5 for hour in (7, 900, 901, 1999, 2500)])
    kept = committed_at(catalog, store, "plays", at)
    arrived = Arrival({"plays": CommittedTimes.of("plays", kept)}).of("plays", at)
    assert arrived.base[arrived.row][:, 0].tolist() == [7, 900, 901, 1999, 1999]
    assert len(kept) <= len(at) + 1
    every = np.array([first_us + hour * HOUR_US for hour in range(1, 2000)])
    kept = committed_at(catalog, store, "plays", every)
    arrived = Arrival({"plays": CommittedTimes.of("plays", kept)}).of("plays", every)
    assert arrived.base[arrived.row][:, 0].tolist() == list(range(1, 2000))


def test_a_data_set_is_a_use_that_is_shown(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spine = tmp_path / "spine.csv"
    spine.write_text(f"user,at\nann,{world.instants[2]}\nbea,{world.instants[2]}\n")
    arguments = ["--spine", str(spine), "--features", REF, "--knowledge", "arrival"]
    for name in ("a", "b"):
        out = str(tmp_path / f"{name}.parquet")
        assert main(["dataset", "build", *arguments, "--no-archive", "--out", out]) == 0
    capsys.readouterr()
    assert main(["show", "users", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["definitions"]
    assert [made["name"] for made in shown["data_sets"]] == ["b.parquet", "a.parquet"]
    assert shown["data_sets"][0]["rows"] == 2
    assert shown["statistics"] == {"stars_1h": {"nulls": 1, "min": 3, "max": 3, "mean": 3.0}}
    assert main(["show", "users"]) == 0
    text = capsys.readouterr().out
    assert "data sets" in text
    assert "max 3, mean 3, min 3, nulls 1" in text
    assert main(["show", "plays", "--json"]) == 0
    (source,) = json.loads(capsys.readouterr().out)["definitions"]
    assert (source["data_sets"], source["statistics"]) == ([], {})


def test_spark_builds_it_to_the_same_bytes(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.records()
    spine = tmp_path / "spine.csv"
    lines = [f"{user},{row['at']}" for row in world.spine(1, 5, 3) for user in ("ann", "bea")]
    spine.write_text("\n".join(["user,at", *lines]) + "\n")
    build = ["dataset", "build", "--spine", str(spine), "--features", REF, "--no-archive", "--json"]
    files = []
    for engine in ("auto", "spark"):
        out = tmp_path / f"{engine}.parquet"
        more = ["--knowledge", "arrival", "--engine", engine, "--out", str(out)]
        assert main([*build, *more]) == 0
        files.append([path.read_bytes() for path in sorted(tmp_path.glob(f"{engine}.*"))])
    assert files[0] == files[1], "set, manifest, spine and entries"
    shown = capsys.readouterr().err
    assert "building 1 features by the local engine; 5 events, 6 rows" in shown
    assert "Spark answers 1 units in 2 shares of entities each" in shown
    folders = world.settings.state_dir / "datasets"
    assert [path.name for path in folders.iterdir()] == [".lock"], "its folder is gone"


def test_scheduled_snapshots_are_taken_once_each(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "snapshots.toml"
    entry = '[snapshots.{0}]\nfeatures = ["{1}"]\ntable = "snapshots.{0}"\nevery = "1h"\n'
    file.write_text(entry.format("stars", REF) + entry.format("wrong", "users:none_1h"))
    monkeypatch.setenv("SLICEWISE_SNAPSHOTS", str(file))
    monkeypatch.setattr(taking, "open_snapshot", partial(unarchived, open_snapshot))
    now_us = world.instants[0] // HOUR_US * HOUR_US
    event = {"user": "bea", "stars": 7, "played_at": now_us - HOUR_US // 2}
    catalog, before = open_catalog(world.settings), {"partition": 0, "offset": 4}
    source, taken_us = deployment("sum").source("plays"), world.instants[-1]
    archive(catalog, source, TOPIC, 2, [event | before | {"offset": 5}], [before], taken_us)
    clock = [now_us + 1]
    monkeypatch.setattr("slicewise.cli.data.dataset.time.time_ns", lambda: clock[0] * 1000)
    assert main(["dataset", "take", "--json"]) == 1
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert [one["name"] for one in report["taken"]] == ["stars"]
    assert "wrong: " in shown.err
    assert "none_1h" in shown.err
    assert main(["dataset", "take", "stars"]) == 0
    assert capsys.readouterr().out == "nothing is due\n"
    assert main(["dataset", "scheduled", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)["snapshots"]}
    assert (listed["stars"]["due"], listed["wrong"]["due"]) == ("0", "1")
    table = open_catalog(world.settings).load_table("snapshots.stars")
    rows = table.scan().to_arrow().sort_by("at").to_pylist()
    at = datetime.fromtimestamp(now_us // 1_000_000, UTC)
    wanted = sw.snapshot([REF], at=at, settings=world.settings, archive=False).table
    assert rows == wanted.to_pylist()
    assert {"user": "bea", "at": at, REF: 7} in rows
    # the same instants again, by a run that began beside: in place of the rows, not beside them
    planned = ScheduledSnapshot("stars", (REF,), "snapshots.stars", "1h", HOUR_US)
    again = taking.take(world.settings, planned, [now_us - HOUR_US, now_us], print)
    assert again["ats"] == [text_of(now_us - HOUR_US), text_of(now_us)]
    table.refresh()
    assert table.scan().to_arrow().sort_by("at").to_pylist() == rows


def unarchived(
    opened: Any, settings: Settings, features: object, ats: Any, *, archive: bool, **more: Any
) -> Any:
    """Takes it from what is archived: here no broker could be asked for more."""
    assert archive
    return opened(settings, features, ats, archive=False, **more)


def test_spark_takes_the_same_snapshot(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = datetime.fromtimestamp(world.instants[0] // 1_000_000 - 100, UTC).isoformat()
    take = ["dataset", "snapshot", "--features", REF, "--at", at, "--no-archive", "--json"]
    sums = []
    for engine in ("local", "spark"):
        out = str(tmp_path / f"{engine}.parquet")
        assert main([*take, "--engine", engine, "--out", out]) == 0
        sums.append(json.loads(capsys.readouterr().out))
    assert sums[0]["sha256"] == sums[1]["sha256"]
    assert sums[0]["rows"] == sums[1]["rows"] == 1


def test_a_snapshot_with_known_at_is_of_what_was_applied_by_then(world: World) -> None:
    def taken(known_at: int, at: int) -> list[dict[str, Any]]:
        table = sw.snapshot(
            [REF], at=at, known_at=known_at, settings=world.settings, archive=False
        ).table
        return list(table.select(["user", REF]).to_pylist())

    at = world.instants[0]
    assert taken(world.instants[0], at) == [], "no event of hers had been applied"
    assert taken(world.instants[2], at) == [{"user": "ann", REF: 3}]
    assert world.records()
    assert taken(world.instants[5], at) == [{"user": "ann", REF: 15}], "of the table as well"
    with pytest.raises(BadRequest, match="later than known_at") as refused:
        taken(world.instants[0], world.instants[0] + 1)
    assert refused.value.where == "at"
    with pytest.raises(BadRequest, match="lies in the future"):
        taken(2**52, at)
    with pytest.raises(BadRequest, match="nothing is known of what was applied") as unknown:
        taken(at - 1, at - 1)
    assert unknown.value.where == "known_at"


def test_the_command_takes_a_snapshot_as_it_was_known_by_either_engine_and_again(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at, known_at = text_of(world.instants[0]), text_of(world.instants[3] + 9)
    take = ["dataset", "snapshot", "--features", REF, "--at", at, "--known-at", known_at]
    files = [tmp_path / f"{engine}.parquet" for engine in ("local", "spark")]
    for out in files:
        more = ["--no-archive", "--json", "--engine", out.stem, "--out", str(out)]
        assert main([*take, *more]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["knowledge"] == "arrival"
        assert "by arrival: what was applied of plays" in shown.err
    assert files[0].read_bytes() == files[1].read_bytes()
    assert pq.read_table(files[0])[REF].to_pylist() == [6]
    # what is entered for that instant afterwards changes nothing
    entered(world.store, world.instants[3] + 5, 1)
    again = tmp_path / "again.parquet"
    for out in files:
        manifest = str(out.with_name(f"{out.stem}.manifest.json"))
        assert main(["dataset", "rebuild", manifest, "--out", str(again)]) == 0
        assert again.read_bytes() == out.read_bytes()
        names = (f"{one.stem}.arrival.parquet" for one in (again, out))
        left, right = ((tmp_path / name).read_bytes() for name in names)
        assert left == right


def test_a_build_that_fails_says_why_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = building.JOB
    monkeypatch.setattr(building, "JOB", replace(job, script="none.py"))
    with pytest.raises(SettingsError, match="there is no Spark for building the data set"):
        values(world, world.spine(1), knowledge="arrival", engine="spark")
    monkeypatch.setattr(building, "JOB", job)
    table = open_catalog(world.settings).load_table("log.plays")
    for task in table.scan(row_filter="kind = 'good'").plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(ServerError, match=r"building the data set failed: .*NotFound"):
        values(world, world.spine(1), knowledge="arrival", engine="spark")
    folders = world.settings.state_dir / "datasets"
    assert [path.name for path in folders.iterdir()] == [".lock"]


def test_a_build_that_is_killed_takes_its_spark_with_it(world: World, tmp_path: Path) -> None:
    world.records()
    spine = tmp_path / "spine.csv"
    spine.write_text(f"user,at\nann,{world.instants[1]}\n")
    folders = world.settings.state_dir / "datasets"
    arguments = ["--spine", str(spine), "--features", REF, "--knowledge", "arrival"]
    arguments += ["--no-archive", "--engine", "spark", "--out", str(tmp_path / "out.parquet")]
    program = [str(Path(sys.executable).with_name("slicewise")), "dataset", "build", *arguments]
    with subprocess.Popen(program, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        begun: list[psutil.Process] = []
        while len(begun) < 2:  # Spark's driver, and its JVM
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
            begun = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    gone, alive = psutil.wait_procs(begun, timeout=30)
    assert not alive, gone
    assert len([path for path in folders.iterdir() if path.is_dir()]) == 1
    Scratch(folders).remove()
    assert [path.name for path in folders.iterdir()] == [".lock"], (
        "the next one removes what is left"
    )


def test_folders_whose_builds_run_are_left_alone(tmp_path: Path) -> None:
    first = Scratch(tmp_path)
    second = Scratch(tmp_path)
    assert first.path.is_dir()
    assert second.path.is_dir()
    first.remove()
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [second.path]
    second.remove()
