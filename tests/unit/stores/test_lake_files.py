"""Files that are read together give the rows that PyIceberg reads, whatever their schema was."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.stores.lake import files
from slicewise.stores.lake.archive import scan_events
from slicewise.stores.lake.catalog import IcebergTable, ensure, open_catalog
from slicewise.stores.lake.schemas import BAD, GOOD, log_table
from slicewise.windows.durations import HOUR_US

TOPIC = "cd" * 16
HOURS = 3
SCHEMA = {"user": "string", "x": "double", "at_us": "timestamp_us"}


def source(**more: str) -> Source:
    """A source of these columns, and of those that came later."""
    declared = sw.KafkaSource("plays", schema={**SCHEMA, **more}, timestamp="at_us")
    features = [sw.Feature("n", sw.count(), windows=["1h"])]
    view = sw.FeatureView("users", source=declared, entity=["user"], features=features)
    return plan(Project.of("lake", [view])).source("plays")


def archived(table: IcebergTable, version: int, kind: str = GOOD, **more: Any) -> None:
    """A file per hour of this archive version, of five events each; bad rows in one without
    hour."""
    schema, rows = table.schema().as_arrow(), 5 * HOURS
    time = [i * HOUR_US // 5 for i in range(rows)]
    good = kind == GOOD
    instants = pa.array(time).cast(pa.timestamp("us", "UTC"))
    columns = {
        "archive_seq": pa.array([version] * rows),
        "kind": pa.array([kind] * rows),
        "topic_id": pa.array([TOPIC] * rows),
        "partition": pa.array([0] * rows),
        "offset": pa.array([version * 100 + i for i in range(rows)]),
        "kafka_time": instants,
        "archive_time": instants,
        "event_time": instants,
        "hour": pa.array([t // HOUR_US if good else None for t in time], pa.int32()),
        "user": pa.array([f"user {i % 4}" if i % 5 else None for i in range(rows)]),
        "x": pa.array([i / 4 for i in range(rows)]),
        **{name: pa.array([value] * rows) for name, value in more.items()},
    }
    table.append(
        pa.table(
            [
                columns[f.name].cast(f.type) if f.name in columns else pa.nulls(rows, f.type)
                for f in schema
            ],
            schema=schema,
        )
    )


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    settings = Settings.load({"SLICEWISE_STATE": str(tmp_path)}, tmp_path)
    made = ensure(open_catalog(settings), log_table(source()))
    archived(made, 1)
    archived(made, 1, BAD)
    return made


def evolved(table: IcebergTable) -> IcebergTable:
    """The table with a column more, that its later files have."""
    with table.update_schema() as update:
        update.add_column("song", log_table(source(song="string")).columns[-1].type)
    archived(table, 2, song="a")
    return table


FILTERS = (
    f"kind = '{GOOD}'",
    f"kind = '{GOOD}' and hour >= 1 and archive_seq <= 1",
    "event_time >= '1970-01-01T00:30:00+00:00' and event_time < '1970-01-01T02:10:00+00:00'",
)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("row_filter", FILTERS)
def test_they_give_what_pyiceberg_reads(
    table: IcebergTable, row_filter: str, *, later: bool
) -> None:
    whole = evolved(table) if later else table
    names = ("offset", "topic_id", "user", "x", "event_time", *(("song",) if later else ()))
    scan = whole.scan(row_filter=row_filter, selected_fields=names)
    order = [("offset", "ascending"), ("event_time", "ascending"), ("x", "ascending")]
    wanted = scan.to_arrow().sort_by(order)
    assert wanted.num_rows
    for dictionaries in ((), ("topic_id",)):
        rows = files.read(scan, dictionaries).cast(wanted.schema).sort_by(order)
        assert rows.equals(wanted)


def test_a_file_without_a_later_column_is_mapped_by_pyiceberg(table: IcebergTable) -> None:
    scan = evolved(table).scan(selected_fields=("offset", "song"))
    tasks = list(scan.plan_files())
    together = files._alike(scan, scan.projection(), tasks, ())
    assert 0 < len(together) < len(tasks)


@pytest.mark.parametrize(
    ("start_us", "end_us", "version"),
    [
        (0, HOURS * HOUR_US, 2),  # all that the files hold, which their metadata says
        (0, HOURS * HOUR_US, 1),
        (HOUR_US // 2, 2 * HOUR_US + 1, 2),  # cuts two hours
        (HOUR_US, HOUR_US, 2),
    ],
)
def test_an_archive_as_it_is_read_has_the_events_of_its_log(
    table: IcebergTable, start_us: int, end_us: int, version: int
) -> None:
    whole = evolved(table)
    scan = partial(scan_events, whole, source(song="string"), start_us=start_us, end_us=end_us)
    names = ("offset", "event_time", "user", "x", "song")
    in_order = scan(archive_version=version).select(names)
    as_read = scan(archive_version=version, as_read=True)
    assert as_read.select(names).sort_by("offset").cast(in_order.schema).equals(in_order)
    assert pa.types.is_dictionary(as_read["topic_id"].type)
    expected = sum(start_us <= i * HOUR_US // 5 < end_us for i in range(5 * HOURS)) * version
    assert as_read.num_rows == expected
