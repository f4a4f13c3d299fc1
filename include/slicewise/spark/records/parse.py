"""A Kafka record is good or bad by one function, of its bytes, its timestamp and its offset's
schema.

Stream, archive and check all parse here, in the JVM (`java/`, docs/adr/0021); downstream of the
archive everything reads typed columns. A value never becomes null or another value silently: what
is not what the schema says makes the record bad, with a reason, and the record is kept.

Reasons, the first that holds: `too_large`, `not_json` (also a null or empty value, invalid UTF-8,
NUL, an array, duplicate keys, anything after the object), `not_avro`, `not_protobuf` (another head
than Confluent's, or bytes that are not what their schema says), `bad_text` (a lone surrogate, or in
a binary format invalid UTF-8: distinct texts would become one), `missing_required:<column>`,
`wrong_type:<column>`, `out_of_range:<column>`, `bad_time:<column>`, `bad_date:<column>`,
`in_history` (its event time lies where a table has all events), `too_late`, `too_far_ahead`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from slicewise.errors import SettingsError
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import LONG, RANGES, TIMESTAMP, decimal_parts, element_type

MAX_VALUE_BYTES = 1 << 20
"""Longest Kafka value that is read: the broker's own default bound of a message."""

_SPARK_TYPES = {LONG: "bigint", TIMESTAMP: "bigint"}


def parsed(
    records: DataFrame,
    source: Source,
    only: Collection[str] | None = None,
    *,
    topic_id: str = "",
    removed: Sequence[tuple[str, str]] = (),
) -> DataFrame:
    """Kafka `records` (value, partition, offset, timestamp) of a topic as typed columns, one row
    per record.

    topic_id: says which offsets are the topic's, where the source had other schemas before
    (docs/adr/0057). removed: what these had that the source's own lacks, as
    `Source.removed_columns` has it, where that is wanted too.

    Columns: partition int, offset long, kafka_time and event_time long (microseconds UTC), reason
    (null: good), raw (the value's bytes, of bad records only), then the source's columns, or those
    of them that are in `only`, each prefixed `c_`, null where the record is bad, or where the
    schema that it is judged by lacks the column. Columns of type timestamp_us are longs. All
    columns are judged, whichever are given.
    """
    columns = [(name, kind) for name, kind in source.columns if only is None or name in only]
    columns += removed
    names = [name for name, _ in columns]
    read = _registered(records.sparkSession, source, columns, topic_id)
    rows = records.select(
        F.col("partition").cast("int"),
        "offset",
        F.unix_micros("timestamp").alias("kafka_time"),
        "value",
        F.call_udf(
            read, "value", F.unix_micros("timestamp"), F.col("partition").cast("int"), "offset"
        ).alias("record"),
    )
    return rows.select(
        "partition",
        "offset",
        "kafka_time",
        "record.event_time",
        "record.reason",
        F.when(F.col("record.reason").isNotNull(), F.col("value")).alias("raw"),
        *(f"record.`c_{name}`" for name in names),
    )


def _registered(
    session: SparkSession, source: Source, columns: Sequence[tuple[str, str]], topic_id: str
) -> str:
    """Name of the session's function (value, kafka time, partition, offset) -> struct of event
    time, reason and columns."""
    jvm: Any = session._jvm
    package = jvm.io.slicewise.records
    if isinstance(package.Versions, JavaPackage):  # so py4j names what it does not know
        raise SettingsError(
            "the JVM lacks the record reader",
            where=str(session.conf.get("spark.driver.extraClassPath", "")),
            expected=(
                "slicewise-spark.jar, which `make setup` builds from "
                "include/slicewise/jvm/src/main/java"
            ),
            next_step="make setup",
        )
    versions = json.dumps(versions_of(source, [name for name, _ in columns], topic_id))
    reader = package.Versions.of(versions)
    typed = [f"`c_{name}` {spark_type(kind)}" for name, kind in columns]
    returned = jvm.org.apache.spark.sql.types.StructType.fromDDL(
        ", ".join(["event_time bigint", "reason string", *typed])
    )
    name = f"slicewise_record_{hashlib.sha256(versions.encode()).hexdigest()[:16]}"
    session._jsparkSession.udf().register(name, reader, returned)
    return name


def versions_of(source: Source, names: Collection[str], topic_id: str) -> list[dict[str, Any]]:
    """Values of which the JVM's `Versions.of` makes the reader of a topic. names: of the columns
    that are given."""
    versions = source.judged_by(topic_id)
    return [
        {
            "reader": _reader_of(version, names),
            "until": {str(partition): offset for partition, offset in ends.items()},
        }
        for version, ends in versions
    ]


def _reader_of(source: Source, names: Collection[str]) -> dict[str, Any]:
    """Values of which the JVM's `RecordReader.of` makes the reader of one schema."""
    wire, paths = dict(source.wire), dict(source.paths)
    time = source.time_column
    return {
        "format": source.format,
        "registry": source.registry,
        "fields": [
            _field(n, wire.get(n, kind), source, kept=n in names) for n, kind in source.columns
        ],
        "paths": [list(paths.get(name, (name,))) for name, _ in source.columns],
        "required": list(dict.fromkeys((*source.required, *(() if time is None else (time,))))),
        "timestamp": time,
        "max_lateness_us": source.max_lateness_us,
        "max_ahead_us": source.max_ahead_us,
        "history_until_us": source.history_until_us or 0,
        "max_bytes": MAX_VALUE_BYTES,
    }


def _field(name: str, kind: str, source: Source, *, kept: bool) -> dict[str, Any]:
    element = element_type(kind)
    if element is not None:
        return {"name": name, "kept": kept, "element": _field(name, element, source, kept=kept)}
    if kind in RANGES:
        least, greatest = RANGES[kind]
        return {"name": name, "kept": kept, "least": least, "greatest": greatest}
    precision, scale = decimal_parts(kind) or (0, 0)
    return {
        "name": name,
        "kind": "time"
        if kind == TIMESTAMP
        else "decimal"
        if precision
        else _SPARK_TYPES.get(kind, kind),
        "kept": kept,
        "allow_nan": name in source.allow_nan,
        "time_form": source.time_form,
        "precision": precision,
        "scale": scale,
    }


def spark_type(kind: str) -> str:
    """The Spark SQL type that holds a schema type; timestamp_us is a long of microseconds."""
    element = element_type(kind)
    return f"array<{spark_type(element)}>" if element is not None else _SPARK_TYPES.get(kind, kind)
