"""Events that come again and that nothing leaves out are counted, by Spark SQL alone."""

from __future__ import annotations

from pyspark.sql import SparkSession

from slicewise.checks.model import Repeats
from slicewise.checks.recompute.queries import archived_since
from slicewise.features.plan.unit import Source
from slicewise.features.schema.dedupe import EventIds
from slicewise.windows.durations import DAY_US

COUNTED_US = DAY_US
"""Span back from now over which a run counts what came again."""


def repeats(spark: SparkSession, table: str, source: Source, ids: EventIds, now_us: int) -> Repeats:
    """Counts over what the archive holds of lately, by Kafka's time."""
    begin = now_us - COUNTED_US
    columns = ", ".join(f"`c_{name}`" for name, _ in source.columns)
    events = archived_since(table, source, begin - ids.within_us)
    named = f"`c_{ids.column}`"
    partition = f"OVER (PARTITION BY topic_id, p, {named} ORDER BY o)"
    anywhere = f"OVER (PARTITION BY {named} ORDER BY kafka_t, topic_id, p, o)"
    content = f"struct({columns})"
    repeated = (
        f"SELECT kafka_t, {named} AS id, kafka_t - lag(kafka_t) {partition} <= {ids.within_us} AS "
        "again, "
        f"lag({content}) {partition} <=> {content} AS alike, "
        f"kafka_t - lag(kafka_t) {anywhere} <= {ids.within_us} AND lag(p) {anywhere} <> p AS "
        "across "
        f"FROM ({events}) WHERE {named} IS NOT NULL"
    )
    text = (
        f"SELECT (SELECT count(*) FROM ({events}) WHERE kafka_t >= {begin}) AS events, "
        "count_if(again AND alike) AS repeated, count_if(again AND NOT alike) AS conflicts, "
        "count_if(across) AS across "
        f"FROM ({repeated}) WHERE kafka_t >= {begin}"
    )
    (row,) = spark.sql(text).toArrow().to_pylist()
    return Repeats(source.name, row["events"], row["repeated"], row["conflicts"], row["across"])
