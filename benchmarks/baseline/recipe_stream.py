"""The usual recipe's stream: foreachBatch, foreachPartition, and a redis-py pipeline of bucket
increments.

Per event one HINCRBY (plays), one HINCRBYFLOAT (seconds) and one EXPIRE on the entity's bucket of
five minutes, as the common tutorials do. The settings that are fair to share are shared: two
partitions, the fast checkpoint manager, adaptive execution off, hiredis, one pipeline per partition
and 1,000 events. It is at-least-once: a repeated batch counts twice, which is the price of the
recipe and is not measured here.

Run in the Spark environment:
  python -m benchmarks.baseline.recipe_stream --bootstrap HOST:PORT --topic plays --redis-url URL --jars DIR
"""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

BUCKET_SECONDS = 300
KEEP_SECONDS = 7 * 24 * 3600
CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_clients: dict[str, redis.Redis] = {}


def write_rows(redis_url: str, rows: Iterable[Row]) -> None:
    """Increments the bucket of every row; the client is kept per worker process, as the tutorials
    advise."""
    client = _clients.get(redis_url)
    if client is None:
        client = _clients[redis_url] = redis.Redis.from_url(redis_url)
    pipeline = client.pipeline(transaction=False)
    for row in rows:
        key = f"plays:{row.user_id}:{row.bucket}"
        pipeline.hincrby(key, "plays", 1)
        pipeline.hincrbyfloat(key, "seconds", row.seconds)
        pipeline.expire(key, KEEP_SECONDS)
        if len(pipeline) >= 3000:
            pipeline.execute()
    pipeline.execute()


def session(jars: Path) -> SparkSession:
    """A local session on two cores with the settings that the recipe would get from any careful
    engineer."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("recipe")
        .config("spark.jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--redis-url", required=True)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--max-events", type=int, default=200_000)
    arguments = parser.parse_args()

    spark = session(arguments.jars)
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.max_events)
        .load()
        .select(
            f.from_json(
                f.col("value").cast("string"), "user_id string, seconds double, played_at long"
            ).alias("event")
        )
        .select(
            "event.user_id",
            "event.seconds",
            (f.col("event.played_at") / 1_000_000 / BUCKET_SECONDS).cast("long").alias("bucket"),
        )
        .where("user_id is not null and seconds is not null")
    )
    url = arguments.redis_url

    def batch(frame: DataFrame, _batch_id: int) -> None:
        frame.foreachPartition(lambda rows: write_rows(url, rows))

    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            events.writeStream.foreachBatch(batch)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )

        def stop(*_: Any) -> None:
            query.stop()

        signal.signal(signal.SIGTERM, stop)
        print("ready", flush=True)
        query.awaitTermination()


if __name__ == "__main__":
    main()
