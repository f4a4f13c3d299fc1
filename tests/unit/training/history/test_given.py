"""A history's table is read hour by hour, in an order and with digests that its rows alone
decide."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slicewise as sw
from slicewise.errors import BadRequest
from slicewise.features.plan.planner import plan_source
from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.training.history.given import GivenTable, opened
from slicewise.windows.durations import HOUR_US

SEED = 20_261_130
UNTIL = "2026-11-01T00:30:00Z"
SOURCE = plan_source(
    sw.KafkaSource(
        "payments",
        schema={"user": "string", "n": "int32", "x": "double", "t": "timestamp_us"},
        timestamp="t",
        history="parquet:*.parquet",
        history_until=UNTIL,
    )
)
assert SOURCE.history_until_us is not None
UNTIL_US: int = SOURCE.history_until_us
COLUMNS = pa.schema(
    [
        ("user", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


def rows(count: int) -> list[dict[str, Any]]:
    rng = random.Random(SEED)
    print(f"seed {SEED}")
    return [
        {
            "user": rng.choice(["ada", "bob", None]),
            "n": rng.randrange(9),
            "x": rng.choice([0.1, -0.0, 1e300, None]),
            # many at one instant, some without a time, some at the cut and after it
            "t": rng.choice([None, UNTIL_US - rng.randrange(-3, 5) * HOUR_US // 4]),
        }
        for _ in range(count)
    ]


@contextmanager
def table_of(folder: Path, given: pa.Table | list[list[dict[str, Any]]]) -> Iterator[GivenTable]:
    tables = (
        [given]
        if isinstance(given, pa.Table)
        else [pa.Table.from_pylist(some, COLUMNS) for some in given]
    )
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    with opened_at(folder, f"parquet:{folder}/*.parquet") as read:
        yield read


@contextmanager
def opened_at(folder: Path, location: str, source: Source = SOURCE) -> Iterator[GivenTable]:
    given = {"SLICEWISE_STATE": str(folder), "SLICEWISE_PROJECT": str(folder)}

    def nothing() -> Any:
        raise AssertionError("a file needs no deployment")

    with opened(Settings.load(given), location, source, UNTIL_US, nothing) as table:
        yield table


def test_order_and_digest_are_the_same_however_the_files_are_cut(tmp_path: Path) -> None:
    whole = rows(500)
    shuffled = random.Random(SEED + 1).sample(whole, len(whole))
    reads = []
    for name, given in (("one", [whole]), ("three", [shuffled[n::3] for n in range(3)])):
        with table_of(tmp_path / name, given) as table:
            census = table.census()
            parts = [table.rows_of(part) for part in census.parts(60)]
            reads.append((census, [repr(part.to_pylist()) for part, _ in parts]))
            for part, (read, digest) in zip(census.parts(60), parts, strict=True):
                assert read.num_rows == sum(hour.rows for hour in part)
                assert digest == sum(hour.digest for hour in part)
    assert reads[0] == reads[1]
    census = reads[0][0]
    before = [row for row in whole if row["t"] is None or row["t"] < UNTIL_US]
    assert census.rows == len(before)
    assert census.beyond == len(whole) - len(before)
    assert census.hours[-1].hour is None
    assert census.hours[-1].rows == sum(row["t"] is None for row in whole)


def test_a_row_that_is_another_is_another_digest_and_one_after_the_cut_is_none(
    tmp_path: Path,
) -> None:
    whole = rows(50)
    first = next(row for row in whole if row["t"] is not None and row["t"] < UNTIL_US)
    first["x"] = 0.0
    digests = []
    for name, change in (
        ("same", []),
        ("after", [{**first, "t": UNTIL_US}]),
        ("more", [first]),
    ):
        with table_of(tmp_path / name, [[*whole, *change]]) as table:
            digests.append(table.census().digest)
    with table_of(
        tmp_path / "sign", [[{**row, "x": -0.0} if row is first else row for row in whole]]
    ) as table:
        digests.append(table.census().digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop_columns(["x"]), "no column 'x'"),
        (lambda t: t.set_column(0, "user", pa.array([1], pa.int64())), "of type int64"),
        (lambda t: t.set_column(1, "n", pa.array([1.0])), "of type double"),
        (lambda t: t.set_column(3, "t", pa.array([1], pa.timestamp("us"))), "'t' is TIMESTAMP"),
        (lambda t: t.set_column(3, "t", pa.array(["2026-01-01"])), "'t' is VARCHAR"),
    ],
    ids=["missing", "text as a number", "a fraction", "no zone", "text"],
)
def test_a_column_that_is_not_the_sources_is_refused_by_its_name(
    tmp_path: Path, change: Any, words: str
) -> None:
    table = pa.Table.from_pylist([{"user": "ada", "n": 1, "x": 0.5, "t": 1}], COLUMNS)
    with (
        pytest.raises(BadRequest, match=words) as refused,
        table_of(tmp_path / "given", change(table)),
    ):
        pass
    assert "history of source 'payments'" in str(refused.value)
    assert "sql:SELECT" in str(refused.value)


def test_no_file_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(BadRequest, match="no file matches"),
        opened_at(tmp_path, "parquet:nowhere/*.parquet"),
    ):
        pass
    (tmp_path / "text.parquet").write_text("no table")
    with (
        pytest.raises(BadRequest, match="cannot be read"),
        opened_at(tmp_path, "parquet:*.parquet"),
    ):
        pass


def test_an_empty_table_has_no_hours(tmp_path: Path) -> None:
    with table_of(tmp_path / "empty", COLUMNS.empty_table()) as table:
        assert (table.census().rows, table.census().parts(10)) == (0, [])
