"""Real-time mode runs every operator of row logic, on hostile rows, to the brute-force value."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from slicewise.features.rowlogic.expression import OPERATORS, Call, RowExpression, walk
from slicewise.features.rowlogic.functions.dialects import to_spark
from slicewise.features.rowlogic.reader import parse_expression
from slicewise.features.schema.types import arrow_type
from slicewise.settings import Settings
from slicewise.spark.runtime.session import realtime_session
from slicewise.stores.log.topics import KafkaLog
from tests.support.inputs.rowlogic_vectors import EXPRESSIONS, ROWS, SCHEMA, expected
from tests.support.platform.servers import KafkaBroker

# toArrow leaves its sockets to the garbage collector


def arrow(kind: str) -> pa.DataType:
    return pa.int64() if kind == "timestamp_us" else arrow_type(kind)


def chosen() -> dict[str, RowExpression]:
    """The first expressions that have each operator, with each type of its arguments."""
    seen: set[tuple[str, ...]] = set()
    results = {}
    for text in EXPRESSIONS:
        parsed = parse_expression(text, SCHEMA, where="here")
        calls = {
            (n.op, *(argument.kind for argument in n.args))
            for n in walk(parsed.tree)
            if isinstance(n, Call)
        }
        if not calls <= seen:
            seen |= calls
            results[text] = parsed
    assert {op for op, *_ in seen} == OPERATORS
    return results


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SparkSession]:
    made = realtime_session(Settings.load({"SLICEWISE_STATE": str(tmp_path)}), slots=1)
    yield made
    made.stop()


def test_real_time_mode_gives_the_brute_force_values(
    session: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    with KafkaLog(kafka_broker.bootstrap) as log:
        for topic in ("hostile-rows", "judged-rows"):
            log.create(topic, 1)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    for i in range(len(ROWS)):
        producer.produce("hostile-rows", str(i).encode(), partition=0)
    assert producer.flush(30) == 0
    expressions = chosen()
    columns = {
        name: pa.array([row[name] for row in ROWS], arrow(kind)) for name, kind in SCHEMA.items()
    }
    for i, (text, parsed) in enumerate(expressions.items()):
        columns[f"e{i}"] = pa.array(expected(text), arrow(parsed.kind))
    rows = session.createDataFrame(pa.table({**columns, "row": pa.array(range(len(ROWS)))}))
    differ = (
        f"CASE WHEN NOT (({to_spark(expression.tree)}) <=> e{i}) THEN '{i}' END"
        for i, expression in enumerate(expressions.values())
    )
    judged = (
        session.readStream.format("kafka")
        .options(subscribe="hostile-rows", startingOffsets="earliest")
        .option("kafka.bootstrap.servers", kafka_broker.bootstrap)
        .load()
        .selectExpr("cast(cast(value AS string) AS long) AS row")
        .join(F.broadcast(rows), "row")
        .selectExpr("cast(row AS string) AS key", f"concat_ws(',', {', '.join(differ)}) AS value")
    )
    jvm = session._jvm
    assert jvm is not None
    query = (
        judged._jdf.writeStream()
        .format("kafka")
        .option("kafka.bootstrap.servers", kafka_broker.bootstrap)
        .option("topic", "judged-rows")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(jvm.org.apache.spark.sql.streaming.Trigger.RealTime("5 seconds"))
        .start()
    )
    try:
        received = read(
            kafka_broker,
            len(ROWS),
            lambda: str(query.exception().get()) if not query.isActive() else None,
        )
    finally:
        query.stop()
    texts = list(expressions)
    wrong = [
        (texts[int(i)], ROWS[int(row)])
        for row, ids in received.items()
        for i in ids.split(",")
        if i
    ]
    assert not wrong, wrong[:5]


def read(broker: KafkaBroker, rows: int, ended: Callable[[], str | None]) -> dict[str, str]:
    """The records of the judged topic, as soon as there are so many."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
        },
    )
    consumer.subscribe(["judged-rows"])
    received: dict[str, str] = {}
    deadline = time.monotonic() + 90
    try:
        while len(received) < rows:
            assert time.monotonic() < deadline, f"{len(received)} of {rows}: {ended()}"
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                received[(message.key() or b"").decode()] = (message.value() or b"").decode()
            elif (failure := ended()) is not None:
                raise AssertionError(failure)
    finally:
        consumer.close()
    return received
