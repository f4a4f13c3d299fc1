"""Spines come from frames, tables and queries, and sets go to tables, as from and to files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.cli import main
from slicewise.errors import BadRequest, CommitConflict
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.settings import Settings
from slicewise.stores.lake import named
from slicewise.stores.lake.archive import load, scan_events
from slicewise.stores.lake.catalog import Catalog, IcebergTable, open_catalog
from slicewise.stores.lake.records import records
from slicewise.stores.lake.schemas import DATASETS
from slicewise.training.dataset import DataSet
from slicewise.training.tables.locations import queried
from slicewise.training.writing import PROPERTY
from tests.support.stores.archived import archive
from tests.unit.training.world import PLAYS, START, TOPIC, random_events

HOUR = 3_600_000_000
END = START + 8 * HOUR
REFS = ["users:seconds_1h", "users:songs_3h", "users:best_3h"]
DEPLOYMENT = plan(
    Project.of(
        "test",
        [
            sw.FeatureView(
                "users",
                source=PLAYS,
                entity=["user"],
                features=[
                    sw.Feature("seconds", sw.sum("seconds"), ["1h"]),
                    sw.Feature("songs", sw.last_k("song", k=2), ["3h"]),
                    sw.Feature("best", sw.top_k("song", by="stars", k=2), ["3h"]),
                ],
            )
        ],
    )
)
PAIRS = pa.list_(pa.struct([("by", pa.int64())]))
SPINE = pa.table(
    {
        "user": ["ann", "bob", "nobody", "ann"],
        "at": pa.array([START + n * HOUR for n in (3, 5, 5, 7)], pa.timestamp("us", "UTC")),
        "label": [1, 0, None, 1],
    }
)


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SLICEWISE_STATE", str(tmp_path / "state"))
    settings = Settings.load()
    source = DEPLOYMENT.source("plays")
    archive(open_catalog(settings), source, TOPIC, 1, random_events(7, 300), [], END)
    return settings


@pytest.fixture(autouse=True)
def catalog(settings: Settings) -> Iterator[Catalog]:
    catalog = open_catalog(settings)
    catalog.create_namespace("marketing")
    catalog.create_table("marketing.churn", SPINE.schema).append(SPINE)
    catalog.create_namespace("training")
    catalog.create_table("training.nested", pa.schema([("pairs", PAIRS), ("at", pa.int64())]))
    yield catalog
    catalog.close()


def built(settings: Settings, spine: object, **more: Any) -> DataSet:
    return sw.training_set(
        spine, REFS, settings=settings, deployment=DEPLOYMENT, archive=False, **more
    )


def test_a_spine_is_the_same_whatever_holds_it(settings: Settings, catalog: Catalog) -> None:
    wanted = built(settings, SPINE).table
    frame = pl.from_arrow(SPINE)
    assert isinstance(frame, pl.DataFrame)
    snapshot = catalog.load_table("marketing.churn").current_snapshot()
    assert snapshot is not None
    forms: list[object] = [
        frame,
        frame.lazy(),
        duckdb.sql("SELECT * FROM SPINE"),
        pa.RecordBatchReader.from_batches(SPINE.schema, SPINE.to_batches()),
        "iceberg:marketing.churn",
        f"iceberg:marketing.churn@{snapshot.snapshot_id}",
        "sql:SELECT * FROM marketing.churn",
    ]
    for form in forms:
        made = built(settings, form).table
        assert made.column_names == wanted.column_names
        assert made.select(REFS).equals(wanted.select(REFS)), form
        assert made["label"].to_pylist() == wanted["label"].to_pylist()


def test_a_query_reads_sources_tables_and_files(settings: Settings, tmp_path: Path) -> None:
    weights = tmp_path / "weights.parquet"
    pq.write_table(pa.table({"user": ["ann", "bob"], "weight": [2.0, 3.0]}), weights)
    query = f"""
        WITH liked AS (SELECT user, played_at AS at FROM plays WHERE stars >= 4)
        SELECT liked.user, "at" + INTERVAL 1 MINUTE AS at, weight, label
        FROM liked JOIN '{weights}' AS w USING (user)
        LEFT JOIN (SELECT DISTINCT user, label FROM marketing.churn) USING (user)
        ORDER BY "at", "user"
    """
    made = built(settings, f"sql:{query}").table
    liked = [
        (event["user"], event["played_at"] + 60_000_000)
        for event in random_events(7, 300)
        if (event["stars"] or 0) >= 4 and event["user"] in ("ann", "bob")
    ]
    at_us = made["at"].cast(pa.int64()).to_pylist()
    assert sorted(zip(made["user"].to_pylist(), at_us, strict=True)) == sorted(liked)
    assert set(made["weight"].to_pylist()) == {2.0, 3.0}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT count(*) FROM plays", None),
        ("SELECT count(DISTINCT p) FROM plays p", "SELECT count(DISTINCT p) FROM every p"),
        ("SELECT DISTINCT DEVICE FROM PLAYS WHERE USER = 'ann'", ""),
        ("SELECT count(*) FROM plays NATURAL JOIN plays q", ""),
        ("SELECT COLUMNS('s.*') FROM plays LIMIT 1", ""),
        ("SELECT #1 FROM plays LIMIT 1", ""),
        ("SELECT a FROM plays AS p(a, b) LIMIT 1", ""),
        ("SELECT user FROM plays PIVOT (count(*) FOR stars IN (1, 2))", ""),
        (
            "WITH plays AS (SELECT device FROM plays WHERE stars > 2) SELECT sum(device) FROM plays",
            "",
        ),
        ("WITH Liked AS (SELECT stars FROM plays) SELECT sum(stars) FROM liked", ""),
        (
            "SELECT sum(a.stars) FROM plays a JOIN (SELECT DISTINCT device FROM plays) USING (device)",
            "",
        ),
    ],
)
def test_a_query_means_what_it_means_over_whole_tables(
    settings: Settings, catalog: Catalog, query: str, wanted: str | None
) -> None:
    """Columns that are not named are not read, which changes nothing."""
    log = load(catalog, "plays")
    assert log is not None
    source = DEPLOYMENT.source("plays")
    names = [name for name, _ in source.columns]
    rows = scan_events(log, source, columns=names, as_read=True).select(names)
    made = queried(settings, query, DEPLOYMENT)
    with duckdb.connect() as engine:
        engine.register("plays", rows)
        engine.register("every", rows)
        whole = engine.sql(wanted or query).to_arrow_table()
    assert sorted(map(repr, made.to_pylist())) == sorted(map(repr, whole.to_pylist()))


@pytest.mark.parametrize(
    ("spine", "why"),
    [
        ("iceberg:training.nested", "'pairs' holds a list of structs, of which nulls"),
        ("iceberg:marketing.none", "there is no table 'marketing.none'"),
        ("iceberg:churn", "'churn' is no name of a table"),
        ("iceberg:marketing.churn@first", "'first' is no snapshot"),
        ("iceberg:marketing.churn@7", "the table cannot be read: .*7"),
        ("sql:SELECT user FROM nowhere", "no source has that name"),
        ("sql:SELECT FROM FROM", "the query is refused"),
        ("sql:DELETE FROM plays", "it is no SELECT"),
        ("sql:SELECT * FROM read_text('/etc/hostname')", "the query is refused: .*[Pp]ermission"),
        ("sql:SELECT * FROM system.t", "there is no table 'system.t'"),
        ("sql:SELECT * FROM '/etc/hostname'", "no source has that name"),
        ("sql:SELECT nothing FROM plays", "the query is refused: .*nothing"),
        ("sql:SELECT user FROM marketing.none", "there is no table 'marketing.none'"),
        ("sql:SELECT user FROM plays", "the spine lacks at"),
        ("sql:SELECT user, played_at AS at FROM plays WHERE stars > 99", "the spine has no rows"),
    ],
)
def test_a_spine_that_cannot_be_read_says_why(settings: Settings, spine: str, why: str) -> None:
    with pytest.raises(BadRequest, match=f"(?s){why}"):
        built(settings, spine)


def rows_of(table: IcebergTable) -> list[dict[str, Any]]:
    """Rows of its files: PyIceberg reads null lists of structs as empty ones."""
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_a_set_is_a_table_in_one_commit(
    settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    made = built(settings, SPINE)
    manifest = made.to_iceberg("training.churn", settings)
    assert manifest == made.to_parquet(tmp_path / "churn.parquet")
    table = catalog.load_table("training.churn")
    assert table.properties[PROPERTY] == manifest.to_json()
    assert rows_of(table) == made.table.to_pylist()
    # again, in place of it: a reader of the snapshot before sees what that had
    other = built(settings, SPINE.slice(0, 2))
    other.to_iceberg("training.churn", settings)
    now = catalog.load_table("training.churn")
    assert rows_of(now) == other.table.to_pylist()
    assert rows_of(table) == made.table.to_pylist()
    frame = made.to_polars()
    assert frame[REFS[0]].to_list() == made.table[REFS[0]].to_pylist()


def test_instants_have_the_unit_that_readers_take_for_granted(settings: Settings) -> None:
    moments = [datetime(2026, 1, 1, 12, tzinfo=UTC)] * 4
    odd = SPINE.append_column("ms", pa.array(moments, pa.timestamp("ms", "UTC")))
    odd = odd.append_column("s", pa.array(moments, pa.timestamp("s")))
    odd = odd.append_column("small", pa.array([[1]] * 4, pa.list_(pa.uint32())))
    odd = odd.append_column("text", pa.array(["a"] * 4).dictionary_encode())
    built(settings, odd).to_iceberg("training.odd", settings)
    table = open_catalog(settings).load_table("training.odd")
    (task,) = table.scan().plan_files()
    kinds = pq.read_schema(task.file.file_path.removeprefix("file://"))
    assert [kinds.field(name).type for name in ("ms", "s", "small", "text")] == [
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.large_list(pa.int64()),
        pa.large_string(),
    ]
    assert rows_of(table)[0]["ms"] == moments[0]


def test_what_a_table_cannot_hold_is_refused_and_leaves_none(
    settings: Settings, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = built(settings, SPINE)
    with pytest.raises(BadRequest, match="'log' holds tables of the platform"):
        made.to_iceberg("log.plays", settings)
    with pytest.raises(BadRequest, match="other columns than the data set: label"):
        built(settings, SPINE.select(["user", "at"])).to_iceberg("marketing.churn", settings)
    strange = built(settings, SPINE.append_column("strange", pa.array([1] * 4, pa.uint64())))
    with pytest.raises(BadRequest, match=r"Iceberg has no type for a column: .*uint64"):
        strange.to_iceberg("training.strange", settings)
    # another writer commits while the runs are written
    made.to_iceberg("training.churn", settings)

    def meanwhile(*runs: Any) -> Iterator[Any]:
        catalog.load_table("training.churn").append(made.table)
        return chain(*runs)

    monkeypatch.setattr(named, "chain", meanwhile)
    with pytest.raises(CommitConflict, match="another writer came first"):
        made.to_iceberg("training.churn", settings)
    assert catalog.load_table("training.churn").scan().to_arrow().num_rows == 8
    assert not catalog.table_exists("training.strange")


def test_the_command_takes_queries_and_writes_tables(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = tmp_path / "deployment.json"
    deployment.write_text(DEPLOYMENT.to_json())
    query = 'sql:SELECT "user", "at" FROM marketing.churn ORDER BY "at", "user"'
    arguments = ["dataset", "build", "--spine", query, "--features", ",".join(REFS)]
    arguments += ["--deployment", str(deployment), "--no-archive", "--json"]
    assert main([*arguments, "--out", "iceberg:training.a"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["out"] == "iceberg:training.a"
    assert main([*arguments, "--out", str(tmp_path / "a.parquet")]) == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == report["sha256"]
    assert {row["name"] for row in records(catalog, DATASETS)} == {"training.a", "a.parquet"}
