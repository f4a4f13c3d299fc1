"""Late events are counted by how long after the end of their hour they came in Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from slicewise.features.plan.planner import plan
from slicewise.features.project import load_project
from slicewise.lifecycle.history.entries import LATENESS
from slicewise.settings import Settings
from slicewise.stores.lake.archive import late_events
from slicewise.stores.lake.catalog import ensure, open_catalog
from slicewise.stores.lake.schemas import BAD, GOOD, log_table
from slicewise.windows.durations import HOUR_US
from tests.support.platform.airflow import PROJECT

HOUR = 500_000
MINUTE_US = 60_000_000


def test_events_are_late_from_the_end_of_their_hour_on(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text(PROJECT)
    (tmp_path / "slicewise.toml").write_text('name = "plays"\ndefinitions = "features.py"\n')
    source = plan(load_project(tmp_path / "features.py")).sources[0]
    catalog = open_catalog(Settings.load({"SLICEWISE_STATE": str(tmp_path / "state")}))
    table = ensure(catalog, log_table(source))
    assert late_events(table, 0, tuple(LATENESS.values())) == (0,) * len(LATENESS)
    # archive | kind | microseconds after the end of its hour
    rows = [
        (1, GOOD, 0),  # of an archive before
        (2, GOOD, -1),
        (2, GOOD, 0),
        (2, GOOD, 5 * MINUTE_US - 1),
        (2, GOOD, 5 * MINUTE_US),
        (3, GOOD, 48 * HOUR_US),
        (3, BAD, 0),
    ]
    schema = table.schema().as_arrow()
    values: dict[str, list[Any]] = {name: [None] * len(rows) for name in schema.names}
    instants = [(HOUR + 1) * HOUR_US + late for _, _, late in rows]
    given: dict[str, list[Any]] = {
        **values,
        "archive_seq": [version for version, _, _ in rows],
        "kind": [kind for _, kind, _ in rows],
        "topic_id": ["t"] * len(rows),
        "partition": [0] * len(rows),
        "offset": list(range(len(rows))),
        "kafka_time": instants,
        "archive_time": instants,
        "hour": [HOUR if kind == GOOD else None for _, kind, _ in rows],
    }
    columns = [pa.array(given[field.name], field.type) for field in schema]
    table.append(pa.Table.from_arrays(columns, schema=schema))
    assert late_events(table, 1, tuple(LATENESS.values())) == (2, 1, 0, 0, 1)
