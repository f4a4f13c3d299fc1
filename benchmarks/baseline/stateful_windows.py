"""Spark's own sliding windows: a stateful aggregation per window, each changed window written to
Redis.

What a careful engineer writes who lets Spark keep the windows: a watermark, window(), update mode,
a pipelined foreachPartition. Prints per number of windows what an event costs: rows and bytes of
state, checkpoint bytes on disk, and what Redis had to do.

Run in the Spark environment:
  python -m benchmarks.baseline.stateful_windows --bootstrap HOST:PORT --redis-url URL --jars DIR \
    --batch EVENTS WINDOWS:TOPIC ...
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from benchmarks.baseline.recipe_stream import session

KEEP_SECONDS = 2 * 86_400


def write_rows(redis_url: str, windows: int, rows: Iterable[Row]) -> None:
    """Sets every changed window of every user."""
    client = redis.Redis.from_url(redis_url)
    pipeline = client.pipeline(transaction=False)
    for row in rows:
        key = f"s{windows}:{row.user_id}:{row.start}"
        pipeline.hset(key, mapping={"plays": row.plays, "seconds": row.seconds})
        pipeline.expire(key, KEEP_SECONDS)
        if len(pipeline) >= 3000:
            pipeline.execute()
    pipeline.execute()


def store_figures(client: redis.Redis) -> tuple[int, int, int]:
    """(commands, bytes received, bytes held)"""
    stats: Any = client.info("everything")
    return (
        stats["total_commands_processed"],
        stats["total_net_input_bytes"],
        stats["used_memory_dataset"],
    )


def run(
    spark: SparkSession, given: argparse.Namespace, windows: int, topic: str
) -> dict[str, float]:
    """One job over the whole topic, in batches of the given size."""
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.batch)
        .load()
        .select(
            f.from_json(
                f.col("value").cast("string"), "user_id string, seconds double, played_at long"
            ).alias("event")
        )
        .select("event.user_id", "event.seconds", f.timestamp_micros("event.played_at").alias("at"))
    )
    counted = (
        events.withWatermark("at", "1 day")
        .groupBy(f.window("at", f"{windows} minutes", "1 minute"), "user_id")
        .agg(f.count("*").alias("plays"), f.sum("seconds").alias("seconds"))
        .select("user_id", f.unix_seconds("window.start").alias("start"), "plays", "seconds")
    )
    url = given.redis_url

    def batch(frame: DataFrame, _batch_id: int) -> None:
        frame.foreachPartition(lambda rows: write_rows(url, windows, rows))

    client = redis.Redis.from_url(url)
    before = store_figures(client)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            counted.writeStream.outputMode("update")
            .foreachBatch(batch)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [json.loads(report.json) for report in query.recentProgress]
        on_disk = sum(path.stat().st_size for path in Path(checkpoint).rglob("*") if path.is_file())
    n = sum(report["numInputRows"] for report in progress)
    state = [report["stateOperators"][0] for report in progress if report["stateOperators"]]
    commands, received, grown = (b - a for a, b in zip(before, store_figures(client), strict=True))
    return {
        "events": n,
        "state_rows": round(state[-1]["numRowsTotal"] / n, 3),
        "state_bytes": round(state[-1]["memoryUsedBytes"] / n, 1),
        "checkpoint_bytes": round(on_disk / n, 1),
        "commands": round(commands / n, 3),
        "bytes_in": round(received / n, 1),
        "bytes_grown": round(grown / n, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("jobs", nargs="+", metavar="WINDOWS:TOPIC")
    given = parser.parse_args()
    spark = session(given.jars)
    by_windows = {}
    for job in given.jobs:
        windows, _, topic = job.partition(":")
        by_windows[windows] = run(spark, given, int(windows), topic)
    spark.stop()
    print(json.dumps(by_windows))


if __name__ == "__main__":
    main()
