"""Cost of reading a record whose source had 0, 1, 5 or 20 other schemas before (docs/adr/0057).

  make bench-reader
  make bench-reader BENCH="--records 100000 --rounds 5 --json figures.json"

Processor time of the JVM over records of a file, the scan of that file taken off, on one thread;
cases take turns, and a figure is the median of the rounds. *Beyond* their places every record is
read by the newest schema, as nearly all of a stream are; *below* them every one is read by the
oldest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.whole import machine
from benchmarks.whole.document import publish
from benchmarks.whole.figures import Figure
from slicewise.features.plan.changes.schema_change import succeeded
from slicewise.features.plan.unit import Source
from slicewise.local.servers import redis as redis_server
from slicewise.offsets.vector import OffsetVector
from slicewise.settings import Settings
from slicewise.spark.records.parse import parsed
from slicewise.spark.runtime.session import job_session
from slicewise.windows.durations import DAY_US

TOPIC_ID = "5" * 32
NOW_US = 1_790_000_000_000_000
MOST = 20
CASES = (0, 1, 5, MOST)
_WARM = 5
_COLUMNS = (
    ("user_id", "string"),
    ("song_id", "string"),
    ("device", "string"),
    ("seconds", "double"),
    ("price", "decimal(12,2)"),
    ("played_at", "timestamp_us"),
)
SOURCE = Source(
    name="plays",
    topic="plays",
    columns=_COLUMNS,
    timestamp="played_at",
    time_form="us",
    max_lateness_us=DAY_US,
    max_ahead_us=DAY_US,
    required=("user_id",),
)


def source(earlier: int, until: int) -> Source:
    """A source of the columns above, with so many schemas before it, all of which end at `until`:
    each was another limit."""
    widened = replace(SOURCE, max_ahead_us=SOURCE.max_ahead_us + earlier)
    for left in reversed(range(earlier)):
        now = replace(SOURCE, max_ahead_us=SOURCE.max_ahead_us + left)
        widened = succeeded(now, widened).with_until(OffsetVector({(TOPIC_ID, 0): until}))
    return widened


def write(session: SparkSession, file: Path, n: int) -> DataFrame:
    """Writes so many plays as Kafka gives them."""
    rows = session.range(n).select(
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.expr(f"timestamp_micros({NOW_US} + id)").alias("timestamp"),
        F.expr(
            'encode(concat(\'{"user_id":"u\', id % 9973, \'","song_id":"s\', id % 499, \'","device":"phone",\', '
            f"'\"seconds\":', id % 300, '.25,\"price\":', id % 20, '.75,\"played_at\":', {NOW_US} + id, '}}'), 'utf-8')"
        ).alias("value"),
    )
    rows.coalesce(1).write.parquet(str(file))
    return session.read.parquet(str(file))


def measure(session: SparkSession, rows: DataFrame, n: int, count: int) -> list[Figure]:
    """Every case."""
    cases = {
        f"{earlier} earlier schemas, beyond their places": source(earlier, 1) for earlier in CASES
    }
    cases |= {
        f"{earlier} earlier schemas, below their places": source(earlier, n)
        for earlier in CASES[1:]
    }
    frames: dict[str, DataFrame] = {
        "scan": rows.select("partition", "offset", F.unix_micros("timestamp"), "value")
    }
    for name, of in cases.items():
        frames[name] = parsed(rows, of, topic_id=TOPIC_ID)
        assert frames[name].where("reason IS NOT NULL").count() == 0, f"{name}: bad records"
    cpu = _processor_clock(session)
    spent: dict[str, list[float]] = {name: [] for name in frames}
    for turn in range(_WARM + count):
        for name, frame in frames.items():
            before = cpu()
            frame.write.format("noop").mode("overwrite").save()
            if turn >= _WARM:
                spent[name].append((cpu() - before) / n)
    scan = statistics.median(spent.pop("scan"))
    costs = {name: statistics.median(times) - scan for name, times in spent.items()}
    one = next(iter(costs.values()))
    section = "a record of six columns, beside one of a source whose schema never changed"
    return [
        Figure(section, name, "ns", cost, one, others={"records/s": 1e9 / cost})
        for name, cost in costs.items()
    ]


def _processor_clock(session: SparkSession) -> Callable[[], int]:
    """Nanoseconds that the JVM's threads have run."""
    jvm: Any = session._jvm
    bean = jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()
    method = jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean").getMethod(
        "getProcessCpuTime", None
    )
    return lambda: int(method.invoke(bean, None))


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 whatever it costs: figures are no test."""
    parser = argparse.ArgumentParser(
        "bench-reader", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="also write the JSON there")
    parser.add_argument(
        "--doc", type=Path, help="also write the table between the marks of this document"
    )
    given = parser.parse_args(arguments)
    facts = machine.facts(redis_server.binary(Settings.load()))
    begun = time.monotonic()
    with TemporaryDirectory(prefix="slicewise-reader-") as folder:
        session = job_session(Settings.load({"SLICEWISE_STATE": folder}), "bench-reader", cores=1)
        try:
            rows = write(session, Path(folder) / "plays.parquet", given.records)
            figures = measure(session, rows, given.records, given.rounds)
        finally:
            session.stop()
    publish("make bench-reader", arguments, given, facts, round(time.monotonic() - begun), figures)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
