"""Events that come again, by Spark SQL alone: which of them count, and how many there are that
nothing leaves out.

The rule is that of docs/adr/0064, said once more; it shares nothing with the code that applies.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from slicewise.checks.model import Repeats
from slicewise.checks.recompute.queries import EVENT_ID, archived_since
from slicewise.features.plan.unit import Source, StorageUnit
from slicewise.features.schema.dedupe import EventIds
from slicewise.windows.durations import DAY_US, HOUR_US

STEP_BACK_US = HOUR_US
COUNTED_US = DAY_US
"""Span back from now over which a run counts what came again."""


def since_us(source: Source, ids: EventIds, start_us: int) -> int:
    """Kafka time of the earliest event that bears on events of this time or later."""
    return start_us - source.most_ahead_us - ids.within_us - STEP_BACK_US


def counted_once(unit: StorageUnit, ids: EventIds, viewed: str, start_us: int, end_us: int) -> str:
    """Selects the rows that count, with times in [start, end), of those that the view takes
    (`queries.viewed`)."""
    entity = ", ".join(["topic_id", "p", *(f"`e_{name}`" for name, _ in unit.entity)])
    so_far = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    clocked = (
        f"SELECT *, max(kafka_t) OVER (PARTITION BY {entity} ORDER BY o {so_far}) AS clock "
        f"FROM ({viewed}) WHERE {EVENT_ID} IS NOT NULL"
    )
    placed = f"SELECT *, kafka_t >= clock - {STEP_BACK_US} AS placed FROM ({clocked})"
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY {entity}, placed ORDER BY o) AS nth FROM "
        f"({placed})"
    )
    same = f"OVER (PARTITION BY {entity}, placed, {EVENT_ID} ORDER BY o)"
    seen = (
        f"SELECT *, nth - lag(nth) {same} AS apart, clock - lag(clock) {same} AS later FROM "
        f"({numbered})"
    )
    again = f"placed AND apart IS NOT NULL AND apart <= {ids.most} AND later <= {ids.within_us}"
    once = f"SELECT * EXCEPT (clock, placed, nth, apart, later) FROM ({seen}) WHERE NOT ({again})"
    without = f"SELECT * FROM ({viewed}) WHERE {EVENT_ID} IS NULL"
    return f"SELECT * FROM (({once}) UNION ALL ({without})) WHERE t >= {start_us} AND t < {end_us}"


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
