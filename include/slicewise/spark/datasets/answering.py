"""Spark brings the rows and the events of an entity to one task; the local engine answers there.

Nothing is collected: tasks read the archive, sort by share on disk, hold one share at a time and
write their values to files (docs/adr/0124).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from slicewise.errors import DataLoss
from slicewise.features.plan.unit import StorageUnit
from slicewise.settings import Settings
from slicewise.spark.runtime.log import event
from slicewise.stores.lake.archive import load
from slicewise.stores.lake.catalog import Catalog
from slicewise.stores.lake.schemas import GOOD, LOG
from slicewise.training.scaled.request import DONE, ROW, SHARE, SPINE, ScaledRequest
from slicewise.training.scaled.share import answer_share, present_share, present_spine
from slicewise.windows.durations import HOUR_US

_COUNT = "rows bigint"
Key = tuple[pa.Scalar, ...]


def answer_request(
    session: SparkSession, settings: Settings, catalog: Catalog, folder: Path
) -> dict[str, Any]:
    """Answers the request of a folder, one unit after another, and leaves its values there.

    Raises DataLoss where the archive of a source is gone.
    """
    request, begun = ScaledRequest.read(folder), time.monotonic()
    if request.ats_us:
        _write_present(session, settings, catalog, request)
    spine = session.read.parquet(str(folder / SPINE))
    for position, unit_request in enumerate(request.requested):
        unit = unit_request.unit
        rows = spine.select(ROW, *(_quoted(column) for column in request.columns(position)))
        events = _events(session, settings, catalog, request, position)
        share = _share(unit, request.shares)
        rows, events = rows.withColumn(SHARE, share), events.withColumn(SHARE, share)

        answer = _answer_of(str(folder), position)
        shares = rows.groupBy(SHARE).cogroup(events.groupBy(SHARE)).applyInArrow(answer, _COUNT)
        _run(shares)
        request.values(position).mkdir(parents=True, exist_ok=True)
        (request.values(position) / DONE).touch()
        event("answered", view=unit_request.view, shares=request.shares)
    return {
        "rows": request.rows,
        "units": len(request.requested),
        "shares": request.shares,
        "seconds": round(time.monotonic() - begun, 1),
    }


def _write_present(
    session: SparkSession, settings: Settings, catalog: Catalog, request: ScaledRequest
) -> None:
    """Writes the spine of a snapshot: the entities that are there at each of its instants."""
    for position in request.presenting:
        share = _share(request.requested[position].unit, request.shares)
        events = _events(session, settings, catalog, request, position).withColumn(SHARE, share)
        present = _present_of(str(request.folder), position)
        _run(events.groupBy(SHARE).applyInArrow(present, _COUNT))
    rows = present_spine(request)
    request.write_spine(rows)
    event("present", rows=rows.num_rows, instants=len(request.ats_us))


def _run(shares: DataFrame) -> None:
    """Has the tasks run; what they give is a number each."""
    shares.write.format("noop").mode("overwrite").save()


def _present_of(folder: str, position: int) -> Callable[[Key, pa.Table], pa.Table]:
    """The function of a task: events of a share."""

    def present(share: Key, events: pa.Table) -> pa.Table:
        return _count(present_share(folder, position, share[0].as_py(), events))

    return present


def _answer_of(folder: str, position: int) -> Callable[[Key, pa.Table, pa.Table], pa.Table]:
    """The function of a task: rows and events of a share, in two tables."""

    def answer(share: Key, rows: pa.Table, events: pa.Table) -> pa.Table:
        return _count(answer_share(folder, position, share[0].as_py(), rows, events))

    return answer


def _count(rows: int) -> pa.Table:
    return pa.table({"rows": pa.array([rows], pa.int64())})


def _events(
    session: SparkSession,
    settings: Settings,
    catalog: Catalog,
    request: ScaledRequest,
    position: int,
) -> DataFrame:
    """Events of a unit within its span; where they count once by their id, with those before by
    which they are known."""
    unit = request.requested[position].unit
    table = load(catalog, unit.source)
    if table is None:
        raise DataLoss(
            f"the archive of {unit.source!r} is gone",
            where=f"log.{unit.source}",
            expected="the table that the data set is built from",
            next_step="build the data set again from what is archived now",
        )
    archive_version = request.archived[unit.source].archive_version
    start_us, end_us = request.spans[position]
    whole = session.table(f"{settings.catalog_name}.{LOG}.`{unit.source}`").where(
        f"kind = '{GOOD}' AND archive_seq <= {archive_version}"
    )
    within = whole.where(
        f"hour >= {start_us // HOUR_US} AND hour <= {(end_us - 1) // HOUR_US} AND "
        f"event_time >= timestamp_micros({start_us}) AND "
        f"event_time < timestamp_micros({end_us})"
    )
    if unit.dedupe is not None:
        oldest = within.select(F.min(F.unix_micros("kafka_time"))).first()
        since_us = (oldest[0] or 0 if oldest else 0) - unit.dedupe.look_back_us
        within = whole.where(f"kafka_time >= timestamp_micros({since_us})")
    there = {field.name for field in table.schema().fields}
    # 32 hex digits of each event would be a third of all that is sorted
    topics = " ".join(f"WHEN '{t}' THEN {i}" for i, t in enumerate(request.topics(unit.source)))
    topic = f"CASE topic_id {topics} END" if topics else "NULL"
    came = ("unix_micros(kafka_time) AS kafka_time",) if unit.dedupe is not None else ()
    return within.selectExpr(
        "unix_micros(event_time) AS event_time",
        *came,
        f"CAST({topic} AS int) AS topic_id",
        "partition",
        "offset",
        *(_quoted(name) for name in unit.reads if name in there),
    )


def _share(unit: StorageUnit, shares: int) -> Column:
    """The share of an entity, by its columns; all events of a view without entity are one share."""
    if not unit.entity:
        return F.lit(0)
    columns = (F.col(_quoted(name)) for name, _ in unit.entity)
    return F.pmod(F.xxhash64(*columns), F.lit(shares))


def _quoted(name: str) -> str:
    return f"`{name}`"
