"""An archive of payments and a spine that asks about them, as a training set finds both.

The archive is the table `log.payments`, partitioned by hour, an archive version a day. Offsets
follow arrival, which is seconds after the event, for one in a hundred up to an hour. The spine is a
Parquet file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import slicewise as sw
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.offsets.token import encode
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.stores.lake.catalog import ensure, open_catalog
from slicewise.stores.lake.schemas import GOOD, OFFSET_VECTOR, log_table
from slicewise.windows.durations import DAY_US, HOUR_US

Ints = npt.NDArray[np.int64]

SEED = 16
TOPIC = "ab" * 16
PARTITIONS = 4
BEGIN_US = 1_780_272_000_000_000  # 2026-06-01T00:00:00Z
DAYS, SPINE_DAYS = 14, 7
EVENTS_PER_USER, EVENTS_PER_ROW = 100, 10
LATE_US = 2_000_000
"""Mean delay of an event between its time and the log."""
WINDOWS = ("1h", "1d", "7d")
AMOUNT = "amount"

payments = sw.KafkaSource(
    "payments",
    schema={"user_id": "string", AMOUNT: "double", "paid_at": "timestamp_us"},
    timestamp="paid_at",
    max_lateness="7d",
)
spending = sw.FeatureView(
    "spending",
    source=payments,
    entity=["user_id"],
    features=[
        sw.Feature("total", sw.sum(AMOUNT), windows=[*WINDOWS]),
        sw.Feature("n", sw.count(), windows=[*WINDOWS]),
        sw.Feature("most", sw.max(AMOUNT), windows=[*WINDOWS]),
    ],
)
REFS = [f"spending:{column}" for feature in spending.features for column in feature.columns()]


def definitions() -> Deployment:
    """The deployment of which both sides answer the features."""
    return plan(Project.of("training", [spending]))


def settings(folder: Path) -> Settings:
    """Settings of a platform without servers: the lake under this folder."""
    return Settings.load({"SLICEWISE_STATE": str(folder)}, folder)


def spine_file(folder: Path, *, tokens: bool = False) -> Path:
    """The rows that are asked about: user_id and at, and token where answers are asked by token."""
    return folder / ("spine_tokens.parquet" if tokens else "spine.parquet")


def make(
    folder: Path, events: int, *, tokens: bool, events_per_user: int = EVENTS_PER_USER
) -> None:
    """Writes an archive of so many events under the folder, and a spine of a tenth as many rows."""
    random = np.random.default_rng(SEED)
    users = max(1, events // events_per_user)
    names = pa.array([f"user {number:08d}" for number in range(users)])
    time = BEGIN_US + random.integers(0, DAYS * DAY_US, events)
    late = random.random(events) < 0.01
    delay = random.exponential(LATE_US, events) + late * random.uniform(0, HOUR_US, events)
    arrival = time + delay.astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    time, arrival = time[order], arrival[order]
    partition = random.integers(0, PARTITIONS, events)
    offset = np.zeros(events, np.int64)
    arrivals = []
    for number in range(PARTITIONS):
        own = partition == number
        offset[own] = np.arange(own.sum())
        arrivals.append(arrival[own])
    table = pa.table(
        {
            "archive_seq": (arrival - BEGIN_US) // DAY_US + 1,
            "partition": partition.astype(np.int32),
            "offset": offset,
            "kafka_time": _instants(arrival),
            "event_time": _instants(time),
            "hour": (time // HOUR_US).astype(np.int32),
            "user_id": names.take(pa.array(random.integers(0, users, events))),
            AMOUNT: np.round(random.lognormal(2.0, 1.0, events), 2),
            "paid_at": _instants(time),
        }
    )
    _archive(folder, table, arrivals)
    rows = max(1, events // EVENTS_PER_ROW)
    begin = BEGIN_US + (DAYS - SPINE_DAYS) * DAY_US
    at = random.integers(begin, BEGIN_US + DAYS * DAY_US, rows)
    spine = pa.table(
        {"user_id": names.take(pa.array(random.integers(0, users, rows))), "at": _instants(at)}
    )
    pq.write_table(spine, spine_file(folder))
    if tokens:
        spine = spine.append_column("token", pa.array(_tokens(at, arrivals)))
        pq.write_table(spine, spine_file(folder, tokens=True))


def _archive(folder: Path, events: pa.Table, arrivals: list[Ints]) -> None:
    """An archive version per day: its good rows, and the offset vector after it."""
    catalog = open_catalog(settings(folder))
    table = ensure(catalog, log_table(definitions().source("payments")))
    schema = table.schema().as_arrow()
    versions = np.asarray(events["archive_seq"].to_numpy())
    for version in np.unique(versions).tolist():
        first, beyond = np.searchsorted(versions, [version, version + 1]).tolist()
        until = BEGIN_US + version * DAY_US
        good = _as(schema, events.slice(first, beyond - first), GOOD, until)
        ends = [int(np.searchsorted(own, until)) for own in arrivals]
        offsets = pa.table(
            {
                "archive_seq": pa.array([version] * PARTITIONS, pa.int64()),
                "partition": pa.array(range(PARTITIONS), pa.int32()),
                "offset": pa.array(ends, pa.int64()),
            }
        )
        table.append(pa.concat_tables([good, _as(schema, offsets, OFFSET_VECTOR, until)]))


def _as(schema: pa.Schema, rows: pa.Table, kind: str, until_us: int) -> pa.Table:
    """Rows of a log table, with what all of them have in common; null where nothing is given."""
    n = rows.num_rows
    common = {
        "kind": pa.array([kind]).take(pa.array(np.zeros(n, np.int64))),
        "topic_id": pa.array([TOPIC]).take(pa.array(np.zeros(n, np.int64))),
        "archive_time": _instants(np.full(n, until_us, np.int64)),
    }
    columns = []
    for field in schema:
        own = common.get(field.name)
        if own is None:
            own = rows[field.name] if field.name in rows.column_names else pa.nulls(n, field.type)
        columns.append(own.cast(field.type))
    return pa.table(columns, schema=schema)


def _tokens(at: Ints, arrivals: list[Ints]) -> list[str]:
    """The token of an answer at each instant: it contains what had arrived by then."""
    (unit,) = definitions().view("spending")
    bounds = {
        feature.column: feature.window.bounds_columns("live", at, unit.slice_us)
        for feature in unit.features
    }
    offsets = [np.searchsorted(own, at).tolist() for own in arrivals]
    intervals = {
        column: list(zip(start.tolist(), end.tolist(), strict=True))
        for column, (start, end) in bounds.items()
    }
    tokens = []
    for row in range(len(at)):
        base = OffsetVector({(TOPIC, p): offsets[p][row] for p in range(PARTITIONS)})
        own = {column: interval[row] for column, interval in intervals.items()}
        tokens.append(
            encode(unit.storage_fingerprint, unit.definition_fingerprint, base, {}, "live", own)
        )
    return tokens


def _instants(micros: Ints) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
