"""A table is taken in as the past of a source, by the real command, archive, jobs and store: as if
its rows had been streamed."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

import slicewise as sw
from slicewise.local.servers import redis as redis_server
from slicewise.local.servers.state import StateFolder
from slicewise.stores.lake.archive import load
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.lake.hour_files import from_text
from slicewise.windows.durations import HOUR_US
from tests.support.platform.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(1800)
SEED = 20_261_130
NOW_US = time.time_ns() // 1000
UNTIL_US = (NOW_US // HOUR_US - 5) * HOUR_US + 17 * 60_000_000
"""Within an hour, so that both sides have events of one."""
USERS = ("ada", "bob", "eve", "zoë", "per cent%")
DEFINITIONS = """
import slicewise as sw

SCHEMA = {"user": "string", "shop": "string", "amount": "double", "n": "int64", "paid_at": "timestamp_us"}

def source(name, **more):
    return sw.KafkaSource(name, schema=SCHEMA, timestamp="paid_at", required=["user"], max_lateness="7d", **more)

def view(of):
    return sw.FeatureView(f"by_user_{of.name}", source=of, entity=["user"], features=[
        sw.Feature("n", sw.count(), windows=["1h", "2d", sw.lifetime()]),
        sw.Feature("amount", sw.sum("amount"), windows=["1h", "2d", sw.lifetime(), sw.exact_range("90m"), sw.rows(7)]),
        sw.Feature("mean", sw.mean("amount"), windows=["1h", "2d"]),
        sw.Feature("shops", sw.distinct_count("shop"), windows=["2d"]),
        sw.Feature("newest", sw.argmax("shop", by="n"), windows=["2d"]),
    ])

imported = view(source("imported", history="parquet:table/*.parquet", history_until="%s"))
streamed = view(source("streamed"))
"""
FEATURES = [
    "n_1h",
    "n_2d",
    "n_lifetime",
    "amount_1h",
    "amount_2d",
    "amount_lifetime",
    "amount_exact_90m",
    "amount_rows_7",
    "mean_1h",
    "mean_2d",
    "shops_2d",
    "newest_2d",
]


def text(micros: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000)) + (
        f".{micros % 1_000_000:06d}Z"
    )


@dataclass
class World:
    """The platform, the table, and the events of each side of the cut."""

    stack: Stack
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]
    bad: dict[str, int]
    imports: list[dict[str, Any]] = field(default_factory=list)
    staged: Path = Path()
    """Copy of the record of an import that was killed."""
    before_import: dict[bytes, bytes | None] = field(default_factory=dict)
    """Content of the store once all was deployed."""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [*self.before, *self.after]


def made(rng: random.Random, start_us: int, end_us: int, count: int) -> list[dict[str, Any]]:
    times = sorted(rng.sample(range(start_us, end_us), count))
    return [
        {
            "user": rng.choice(USERS),
            "shop": rng.choice(["a", "b", "c", None]),
            "amount": rng.choice([rng.random() * 10 ** rng.randint(-9, 9), None, -0.0]),
            "n": n,
            "paid_at": at,
        }
        for n, at in enumerate(times)
    ]


def written(folder: Path, rows: list[dict[str, Any]], files: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        table = pa.Table.from_pylist(
            [{**row, "of_the_warehouse": 1} for row in rows[number::files]],
            pa.schema(
                [
                    ("user", pa.string()),
                    ("shop", pa.string()),
                    ("amount", pa.float64()),
                    ("n", pa.int64()),
                    ("paid_at", pa.timestamp("us", "UTC")),
                    ("of_the_warehouse", pa.int64()),
                ]
            ),
        )
        pq.write_table(table, folder / f"{number}.parquet")


def records(events: list[dict[str, Any]]) -> list[tuple[int, bytes, int]]:
    return [(n % 2, json.dumps(e).encode(), e["paid_at"] // 1000) for n, e in enumerate(events)]


def operator_of(stack: Stack) -> redis.Redis:
    """The store, with every command."""
    state = StateFolder(stack.settings.state_dir)
    return redis.Redis.from_url(redis_server.operator_url(state, state.ports()["redis"]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A source with the table, and one that was streamed the same rows; imported once, with a kill
    in the middle."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    before = made(rng, UNTIL_US - 50 * HOUR_US, UNTIL_US, 3000)
    after = made(rng, UNTIL_US, NOW_US - 60_000_000, 400)
    row = {"user": "ada", "shop": "a", "amount": 1.5, "n": 1, "paid_at": UNTIL_US - 7 * HOUR_US}
    refused = [
        *({**row, "paid_at": None, "n": n} for n in range(7)),
        *({**row, "user": None, "n": n} for n in range(3)),
        *({**row, "amount": math.nan, "n": n} for n in range(2)),
        {**row, "paid_at": -5},
    ]
    bad = {"missing_required:paid_at": 7, "missing_required:user": 3, "out_of_range:amount": 2}
    given = [*before, *refused, *after[:50]]
    rng.shuffle(given)
    folder = tmp_path_factory.mktemp("history")
    with stack_of(DEFINITIONS % text(UNTIL_US), folder) as stack:
        written(stack.settings.project_dir / "table", given, 3)
        stack.cli("apply", "--no-wait")
        operator = operator_of(stack)
        deployed = {key: operator.dump(key) for key in operator.scan_iter(match="*")}
        operator.close()
        yield World(stack, before, after, bad, before_import=deployed, staged=folder / "staged")


def log_of(world: World, source: str) -> pa.Table:
    table = load(open_catalog(world.stack.settings), source)
    assert table is not None
    return table.scan().to_arrow()


def identity(world: World) -> list[tuple[Any, ...]]:
    """All rows of the history that are archived, with every column."""
    rows = log_of(world, "imported").sort_by([("kind", "ascending"), ("offset", "ascending")])
    return [tuple(map(str, row.values())) for row in rows.to_pylist()]


def test_a_plan_says_what_there_is_and_changes_nothing(world: World) -> None:
    done = world.stack.cli("import-history", "imported", "--plan", "--json")
    planned = json.loads(done.stdout)
    assert planned["rows"] == len(world.before) + 13
    assert (planned["beyond"], planned["no_time"]) == (50, 8)
    assert (planned["written"], planned["seconds"], planned["is_done"]) == (0, None, False)
    assert planned["left_out"] == ["of_the_warehouse"]
    assert load(open_catalog(world.stack.settings), "imported") is None
    shown = world.stack.cli("import-history", "imported", "--plan").stdout
    assert "not measured yet" in shown
    refused = world.stack.cli("import-history", "streamed", check=False)
    assert refused.returncode == 1
    assert "declares no history" in refused.stderr


def test_a_killed_import_goes_on_to_the_same_rows_and_shows_nothing_before(world: World) -> None:
    stack = world.stack
    argv = [str(stack.settings.platform_python.parent / "slicewise"), "import-history", "imported"]
    staged = stack.settings.state_dir / "history" / "imported"
    killed = subprocess.Popen(
        [*argv, "--at-once", "100", "--no-wait"],
        env=stack.environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while len(list(staged.glob("part-*.json"))) < 4:
        assert killed.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert log_of(world, "imported").num_rows == 0, "nothing is shown of a part"
    shutil.copytree(staged, world.staged)
    # maintenance removes what no snapshot has, once it is some days old
    first = json.loads((staged / "part-00000.json").read_text())["files"]
    Path(from_text(first[0]).file_path.removeprefix("file://")).unlink()
    planned = json.loads(stack.cli("import-history", "imported", "--plan", "--json").stdout)
    assert 0 < planned["written"] < planned["rows"]
    # a table that changes between the two
    table = stack.settings.project_dir / "table"
    (table / "more.parquet").write_bytes((table / "0.parquet").read_bytes())
    changed = stack.cli("import-history", "imported", check=False)
    assert "another than when its import was begun" in changed.stderr
    (table / "more.parquet").unlink()
    done = json.loads(stack.cli("import-history", "imported", "--no-wait", "--json").stdout)
    world.imports.append(done)
    assert done["new"]
    assert (done["events"], done["bad_rows"]) == (len(world.before), 13)
    assert sum(done["bad"].values()) == 13
    for reason, count in world.bad.items():
        assert done["bad"][reason] == count
    assert done["views"] == ["by_user_imported"]
    rows = [row for row in log_of(world, "imported").to_pylist() if row["kind"] == "good"]
    rows.sort(key=lambda row: row["offset"])
    names = ("user", "shop", "amount", "n")
    assert [repr([row[name] for name in names]) for row in rows] == [
        repr([event[name] for name in names]) for event in world.before
    ], "in the order of time, each once, with its bits"
    offsets = sorted(
        row["offset"] for row in log_of(world, "imported").to_pylist() if row["kind"] != "cover"
    )
    assert offsets == list(range(len(world.before) + 13))


def test_what_is_archived_is_not_taken_in_again_and_no_other_table_is(world: World) -> None:
    stack, stood = world.stack, identity(world)
    again = json.loads(stack.cli("import-history", "imported", "--no-wait", "--json").stdout)
    assert (again["new"], again["views"]) == (False, [])
    assert again["digest"] == world.imports[0]["digest"]
    table = stack.settings.project_dir / "table"
    (table / "more.parquet").write_bytes((table / "0.parquet").read_bytes())
    other = stack.cli("import-history", "imported", check=False)
    assert "the archive holds another history" in other.stderr
    (table / "more.parquet").unlink()
    assert identity(world) == stood


def test_what_is_archived_keeps_its_files_though_an_import_is_begun_anew(world: World) -> None:
    """A kill between the commit and the end leaves the record of files that are archived by now."""
    stack = world.stack
    stood = identity(world)
    shutil.copytree(world.staged, stack.settings.state_dir / "history" / "imported")
    again = json.loads(
        stack.cli("import-history", "imported", "--anew", "--no-wait", "--json").stdout
    )
    assert not again["new"]
    assert identity(world) == stood
    assert not (stack.settings.state_dir / "history" / "imported").exists()


def test_a_cut_that_has_not_come_or_is_another_than_the_archives_is_refused(world: World) -> None:
    stack = world.stack
    if not world.imports:  # where this test runs alone
        stack.cli("import-history", "imported", "--no-wait")
    file = stack.settings.definitions
    definitions = file.read_text()
    others = {
        f'history_until="{text(NOW_US + HOUR_US)}"': "has not come yet",
        f'history_until="{text(UNTIL_US - HOUR_US)}"': "the archive holds a history of the source",
    }
    cut = f'history_until="{text(UNTIL_US)}"'
    assert cut in definitions
    try:
        for other, reason in others.items():
            file.write_text(definitions.replace(cut, other))
            refused = stack.cli("apply", "--no-wait", check=False)
            assert refused.returncode == 1
            assert reason in refused.stderr
        file.write_text(definitions.replace(f', history="parquet:table/*.parquet", {cut}', ""))
        assert "declared without one" in stack.cli("apply", "--no-wait", check=False).stderr
    finally:
        file.write_text(definitions)


def test_an_import_that_was_ended_before_the_views_goes_on_whatever_became_of_its_table(
    world: World,
) -> None:
    stack = world.stack
    if not world.imports:  # where this test runs alone
        stack.cli("import-history", "imported", "--no-wait")
    # the archive has it, and the store is that of before it was told
    operator = operator_of(stack)
    operator.flushall()
    for key, dumped in world.before_import.items():
        operator.restore(key, 0, dumped)  # type: ignore[arg-type]
    operator.close()
    table = stack.settings.project_dir / "table"
    (table / "more.parquet").write_bytes((table / "0.parquet").read_bytes())
    try:
        done = json.loads(stack.cli("import-history", "imported", "--no-wait", "--json").stdout)
    finally:
        (table / "more.parquet").unlink()
    assert (done["new"], done["views"]) == (False, ["by_user_imported"])
    assert done["rows"] == len(world.before) + 13
    again = json.loads(stack.cli("import-history", "imported", "--no-wait", "--json").stdout)
    assert again["views"] == []


def test_features_of_an_imported_past_are_those_of_a_streamed_one(
    world: World, tmp_path: Path
) -> None:
    """Training sets over a past of the table and over one of the topic are equal as bits; the store
    answers before the cut what they hold."""
    stack = world.stack
    if not world.imports:  # where this test runs alone
        stack.cli("import-history", "imported", "--no-wait")
    stack.produce("streamed", records(world.events))
    # the table has these, and the topic sends them again
    stack.produce("imported", records(world.before[-20:]))
    stack.produce("imported", records(world.after))
    stack.job("archive", timeout_s=600)
    bad = [row for row in log_of(world, "imported").to_pylist() if row["kind"] == "bad"]
    assert sum(row["reason"] == "in_history" for row in bad) == 20
    hour = UNTIL_US // HOUR_US * HOUR_US
    instants = [hour - 9 * HOUR_US, hour, hour + 3 * HOUR_US]
    refs = {
        name: [f"by_user_{name}:{feature}" for feature in FEATURES]
        for name in ("imported", "streamed")
    }
    wanted = [(user, at) for user in USERS for at in instants]
    spine = pa.table(
        {
            "user": [user for user, _ in wanted],
            "at": pa.array([at for _, at in wanted], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(spine, tmp_path / "spine.parquet")
    sets: dict[str, list[list[Any]]] = {}
    for name in refs:
        out = tmp_path / f"{name}.parquet"
        stack.cli(
            *("dataset", "build", "--spine", str(tmp_path / "spine.parquet"), "--no-archive"),
            *("--features", ",".join(refs[name]), "--out", str(out)),
            timeout_s=600,
        )
        sets[name] = [list(row.values())[2:] for row in pq.read_table(out).to_pylist()]
    assert repr(sets["imported"]) == repr(sets["streamed"])
    with duckdb.connect() as engine:
        engine.register("events", pa.Table.from_pylist(world.events))
        for (user, at), row in zip(wanted, sets["imported"], strict=True):
            brute = engine.execute(
                "SELECT count(*) FILTER (WHERE paid_at >= $1 - 3600000000), "
                "count(*) FILTER (WHERE paid_at >= $1 - 172800000000), count(*) "
                'FROM events WHERE "user" = $2 AND paid_at < $1',
                [at, user],
            ).fetchone()
            assert tuple(row[:3]) == brute, (user, at)
    assert stack.job("backfill", timeout_s=600)["ready"]
    with sw.Client(stack.settings.redis_url) as client:
        for (user, at), row in zip(wanted, sets["streamed"], strict=True):
            if at <= hour:
                answer = client.get(refs["imported"], {"user": user}, at=text(at)).values()
                assert repr(list(answer.values())) == repr(row), (user, at)
