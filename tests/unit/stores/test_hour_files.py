"""Hours are committed whole or not at all, from files that tasks wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import CommitConflict
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.lake import slices
from slicewise.stores.lake.catalog import IcebergTable, ensure, open_catalog
from slicewise.stores.lake.hour_files import (
    HourFiles,
    from_text,
    header_row,
    replace,
    to_text,
)
from slicewise.stores.lake.schemas import slices_table
from slicewise.stores.lake.slices import Header

LONG = OffsetVector({("ab" * 16, partition): 10**9 + partition for partition in range(40)})
"""Longer than a bound that is cut off."""


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[tuple[IcebergTable, IcebergTable]]:
    """One table, as two writers have loaded it."""
    source = sw.KafkaSource(
        "plays", schema={"user": "string", "at_us": "timestamp_us"}, timestamp="at_us"
    )
    features = [sw.Feature("n", sw.count(), windows=["1h"])]
    view = sw.FeatureView("users", source=source, entity=["user"], features=features)
    (unit,) = plan(Project.of("lake", [view])).units
    catalog = open_catalog(Settings.load({"SLICEWISE_STATE": str(tmp_path)}, tmp_path))
    wanted = slices_table(unit)
    yield ensure(catalog, wanted), ensure(catalog, wanted)
    catalog.close()


def rows(hour: int, *users: str) -> pa.Table:
    n = len(users)
    return pa.table(
        {
            "hour": pa.array([hour] * n, pa.int32()),
            "slice": pa.array([hour * 60 + i for i in range(n)], pa.int64()),
            "user": pa.array(users, pa.string()),
            "events": pa.array(range(1, n + 1), pa.int64()),
        }
    )


def write(table: IcebergTable, version: int, **users: tuple[str, ...]) -> None:
    """Commits hours (`h7=("ada",)`) of this archive version, as a compaction does."""
    hours = {int(name[1:]): rows(int(name[1:]), *given) for name, given in users.items()}
    header = Header(version, LONG)
    made = HourFiles.of(table).write(
        (hour, pa.concat_tables([own, header_row(hour, header)], promote_options="permissive"))
        for hour, own in hours.items()
    )
    replace(table, list(hours), [from_text(to_text(file)) for file in made])


def users_of(table: IcebergTable) -> dict[int, list[str]]:
    table.refresh()
    return {
        hour: sorted(slices.scan_slices(table, [hour])["user"].to_pylist())
        for hour in slices.headers(table)
    }


def data_files(table: IcebergTable) -> set[Path]:
    return set(Path(table.location().removeprefix("file://")).glob("data/**/*.parquet"))


def test_what_was_written_is_read_as_it_was(tables: tuple[IcebergTable, IcebergTable]) -> None:
    table, _ = tables
    write(table, 3, h7=("ada", "bob"), h8=("eve",))
    assert users_of(table) == {7: ["ada", "bob"], 8: ["eve"]}
    scanned = slices.scan_slices(table, [7]).sort_by("slice")
    assert scanned["slice"].to_pylist() == [420, 421]
    assert scanned["events"].to_pylist() == [1, 2]


def test_a_header_is_read_from_bounds_which_hold_it_whole(
    tables: tuple[IcebergTable, IcebergTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = tables
    write(table, 3, h7=("ada",))
    only = Header(4, LONG)
    replace(table, [9], HourFiles.of(table).write_headers({9: only}))
    table.refresh()

    def read(*_: object) -> dict[int, Header]:
        return {}

    monkeypatch.setattr(slices, "_read", read)  # as if no file could be read
    assert slices.headers(table) == {7: Header(3, LONG), 9: only}


def test_a_file_as_text_is_the_file(tables: tuple[IcebergTable, IcebergTable]) -> None:
    table, _ = tables
    (file,) = HourFiles.of(table).write([(7, rows(7, "ada", "bob"))])
    again = from_text(to_text(file))
    for name in (
        *("content", "file_path", "file_format", "partition", "record_count"),
        *("file_size_in_bytes", "column_sizes", "value_counts", "null_value_counts"),
        *("nan_value_counts", "lower_bounds", "upper_bounds", "split_offsets", "sort_order_id"),
    ):
        assert getattr(again, name) == getattr(file, name), name


def test_an_hour_is_replaced_whole_and_others_stay(
    tables: tuple[IcebergTable, IcebergTable],
) -> None:
    table, _ = tables
    write(table, 1, h7=("ada", "bob"), h8=("eve",))
    table.refresh()
    write(table, 2, h7=("ada",), h9=("bob",))
    assert users_of(table) == {7: ["ada"], 8: ["eve"], 9: ["bob"]}
    assert {h: header.archive_version for h, header in slices.headers(table).items()} == {
        7: 2,
        8: 1,
        9: 2,
    }


@pytest.mark.parametrize("stood", [True, False], ids=["stood", "new"])
def test_of_two_commits_of_an_hour_the_later_fails_and_changes_nothing(
    tables: tuple[IcebergTable, IcebergTable], *, stood: bool
) -> None:
    first, second = tables
    if stood:
        write(first, 1, h7=("ada",), h8=("eve",))
        first.refresh()
        second.refresh()
    write(first, 2, h7=("ada", "bob"))
    with pytest.raises(CommitConflict, match="another commit came first"):
        write(second, 3, h7=("eve",), h8=("eve", "ada"))
    wanted = {7: ["ada", "bob"], 8: ["eve"]} if stood else {7: ["ada", "bob"]}
    assert users_of(second) == wanted


@pytest.mark.parametrize("stood", [True, False], ids=["stood", "new"])
def test_commits_of_different_hours_do_not_meet(
    tables: tuple[IcebergTable, IcebergTable], *, stood: bool
) -> None:
    first, second = tables
    if stood:
        write(first, 1, h7=("ada",), h8=("eve",))
        first.refresh()
        second.refresh()
    write(first, 2, h7=("bob",))
    write(second, 3, h8=("bob",))
    assert users_of(second) == {7: ["bob"], 8: ["bob"]}


def test_where_an_hour_cannot_be_written_no_file_stays(
    tables: tuple[IcebergTable, IcebergTable],
) -> None:
    table, _ = tables

    def broken() -> Iterator[tuple[int, pa.Table]]:
        yield 7, rows(7, "ada")
        raise ValueError("rows of hour 8")

    with pytest.raises(ValueError, match="rows of hour 8"):
        HourFiles.of(table).write(broken())
    assert data_files(table) == set()
