"""One side of a compaction in a process of its own, whose time, processor and memory are its own.

ours: all that a run of `compact_slices` does for a unit's hours but the store: exact partials of
every slice, headers, Iceberg commits. spark: Spark's own groupBy over the same snapshot of the
same archive, with its inexact sum, its count and its maximum, into an Iceberg table of the same
partitions, in one commit; its JVM has both compilers, as Spark's has by default, and 6 GB of heap.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from benchmarks.training_data import AMOUNT, definitions, settings
from slicewise.offsets.vector import OffsetVector
from slicewise.spark.lake.compact_run import write_hours
from slicewise.spark.lake.compaction import HourJob, UnitTable
from slicewise.spark.lake.publish_hours import StoreRef
from slicewise.spark.runtime.conf import job_conf
from slicewise.stores.lake.archive import archive_state, load, records_by_hour
from slicewise.stores.lake.catalog import open_catalog
from slicewise.stores.online.control_record import ServerRun

SOURCE = "payments"
TABLE = "slices.plain"
"""The table that Spark's own groupBy writes."""
_LOOK_S = 1.0


@dataclass
class Used:
    """Memory and processor time of this process and the processes below it."""

    mib: float = 0.0
    processor_s: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Looks again and again, until it is over."""
        while not self._over.wait(_LOOK_S):
            used = 0
            for process in _tree():
                try:
                    used += process.memory_full_info().pss
                except psutil.Error:
                    continue  # it ended between two looks
            self.mib = max(self.mib, used / 2**20)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks meanwhile, from a thread of its own."""
        thread, before = threading.Thread(target=self.look, daemon=True), _processor_s()
        thread.start()
        try:
            yield
        finally:
            self.processor_s = _processor_s() - before
            self._over.set()
            thread.join()


def _tree() -> list[psutil.Process]:
    own = psutil.Process()
    return [own, *own.children(recursive=True)]


def _processor_s() -> float:
    """Processor time of all of them; of workers that ended too, by who waited for them."""
    whole = 0.0
    for process in _tree():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        whole += times.user + times.system + times.children_user + times.children_system
    return whole


def session_of(folder: Path, *, both_compilers: bool) -> SparkSession:
    """A bounded job's session, on two cores."""
    builder = SparkSession.builder.appName("bench-compaction").master("local[2]")
    # the baseline holds what it groups, and a writer for each hour: a heap of 1 GB is too small
    memory = "6g" if both_compilers else "1g"
    for key, value in job_conf(settings(folder), memory=memory).items():
        if both_compilers and key.endswith("extraJavaOptions"):
            value = re.sub(r"-XX:TieredStopAtLevel=\d+ ?", "", value)
        builder = builder.config(key, value)
    (settings(folder).state_dir / "spark" / "tmp").mkdir(parents=True, exist_ok=True)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def ours(session: SparkSession, folder: Path) -> int:
    """Compacts every hour of the archive; how many hours."""
    chosen, catalog, deployment = settings(folder), open_catalog(settings(folder)), definitions()
    log = load(catalog, SOURCE)
    assert log is not None
    archive = archive_state(log)
    (unit,) = deployment.view("spending")
    nowhere = StoreRef("redis://127.0.0.1:1/0", ServerRun("", ""), 0, {})
    table = UnitTable(
        session, chosen, catalog, deployment, unit, archive, nowhere, deployment.to_json()
    )
    records = records_by_hour(log, archive.snapshot_id)
    ends = OffsetVector(dict(archive.offset_vector.offsets))
    jobs = [HourJob(hour, archive.archive_version, ends) for hour in sorted(records)]
    write_hours(table, jobs, records)
    return len(jobs)


def spark(session: SparkSession, folder: Path) -> int:
    """The same hours by groupBy."""
    chosen = settings(folder)
    (unit,) = definitions().view("spending")
    catalog = chosen.catalog_name
    log = load(open_catalog(chosen), SOURCE)
    assert log is not None
    archive = archive_state(log)
    session.sql(
        f"CREATE TABLE {catalog}.{TABLE} (hour int, slice bigint, user_id string, total double, "
        "n bigint, most double, events bigint, late bigint) USING iceberg PARTITIONED BY (hour)"
    )
    session.sql(
        f"""
        SELECT hour, unix_micros(event_time) DIV {unit.slice_us} AS slice, user_id,
          sum({AMOUNT}) AS total, count(*) AS n, max({AMOUNT}) AS most, count(*) AS events,
          sum(CASE WHEN unix_micros(kafka_time) >= (hour + 1) * 3600000000L THEN 1 ELSE 0 END)
            AS late
        FROM {catalog}.log.{SOURCE} VERSION AS OF {archive.snapshot_id}
        WHERE kind = 'good' AND user_id IS NOT NULL
        GROUP BY hour, slice, user_id
        """
    ).writeTo(f"{catalog}.{TABLE}").append()
    return len(records_by_hour(log, archive.snapshot_id))


SIDES: dict[str, Callable[[SparkSession, Path], int]] = {"ours": ours, "spark": spark}


def main(side: str, folder: Path) -> None:
    """Writes what it took as JSON to standard output."""
    session = session_of(folder, both_compilers=side == "spark")
    session.range(1).collect()  # the session stands
    used, begun = Used(), time.perf_counter()
    with used.watched():
        hours = SIDES[side](session, folder)
    figures = {
        "hours": hours,
        "seconds": time.perf_counter() - begun,
        "processor_s": used.processor_s,
        "peak_mib": used.mib,
    }
    session.stop()
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
