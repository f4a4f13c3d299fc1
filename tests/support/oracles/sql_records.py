"""The oracle of the record reader: the same rules, as Spark SQL expressions over a VARIANT.

It shares nothing with what it judges. JSON becomes a VARIANT, which keeps each value's own JSON
type (1, 1.9, 1e0 and "1" differ), refuses duplicate keys and reads decimals exactly. Spark's parser
stops at the end of the first value, so the record is parsed as the only element of an array; only a
record that holds `]` could close that array early, and it is parsed a second time as the value of
an object.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from slicewise.features.plan.unit import Source
from tests.support.oracles.sql_values import END_OF_TIME_US, reason_of, value_of

MAX_VALUE_BYTES = 1 << 20

_BLANK = " \t\r\n"
_BACKSLASHES = r"\\\\"
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = r"\\u[dD][89a-fA-F]"


def parsed(records: DataFrame, source: Source) -> DataFrame:
    """Kafka `records` (value, partition, offset, timestamp) as typed columns, one row per record.

    Columns: partition int, offset long, kafka_time and event_time long (microseconds UTC), reason
    (null: good), raw (the value's bytes, of bad records only), then the source's columns, each
    prefixed `c_`, null where the record is bad. Columns of type timestamp_us are longs.
    """
    names = [name for name, _ in source.columns]
    small = F.octet_length("value") <= MAX_VALUE_BYTES
    texts = records.select(
        F.col("partition").cast("int"),
        "offset",
        F.unix_micros("timestamp").alias("kafka_time"),
        "value",
        F.when(small, F.col("value").cast("string")).alias("text"),
    )
    documents = texts.select("*", _document(F.col("text")).alias("json"))
    members = documents.select(
        "partition",
        "offset",
        "kafka_time",
        "value",
        (F.octet_length("value") > MAX_VALUE_BYTES).alias("large"),
        (F.col("json").isNotNull() & _get("json", "$[1]").isNull()).alias("is_json"),
        _holds_lone_surrogate(F.col("text")).alias("lone"),
        *(_get("json", _path(source, name)).alias(f"j_{name}") for name in names),
        *(_blocked(source, name).alias(f"b_{name}") for name in names),
    )
    kinds = members.select("*", *(F.schema_of_variant(f"j_{n}").alias(f"k_{n}") for n in names))
    judged = kinds.select("*", *(value_of(name, kind, source) for name, kind in source.columns))
    reasoned = judged.select("*", _reason(source).alias("reason"))
    good = F.col("reason").isNull()
    return reasoned.select(
        "partition",
        "offset",
        "kafka_time",
        F.when(good, _event_time(source)).alias("event_time"),
        "reason",
        F.when(~good, F.col("value")).alias("raw"),
        *(F.when(good, F.col(f"c_{name}")).alias(f"c_{name}") for name in names),
    )


def _event_time(source: Source) -> Column:
    return F.col("kafka_time" if source.timestamp == "kafka" else f"c_{source.timestamp}")


def _path(source: Source, name: str, steps: int | None = None) -> str:
    path = dict(source.paths).get(name, (name,))[:steps]
    return "$[0]" + "".join(f'["{step}"]' for step in path)


def _blocked(source: Source, name: str) -> Column:
    """Is there, on the way to the column, something else than an object or null?"""
    blocked = F.lit(False)
    for steps in range(1, len(dict(source.paths).get(name, (name,)))):
        kind = F.schema_of_variant(_get("json", _path(source, name, steps)))
        blocked |= F.coalesce((kind != "VOID") & ~kind.startswith("OBJECT"), F.lit(False))
    return blocked


def _document(text: Column) -> Column:
    """The record as a variant array of one object; null where it is no JSON object."""
    first = F.ltrim(text, F.lit(_BLANK))
    alone = (
        ~text.contains("]")
        | F.try_parse_json(F.concat(F.lit('{"v":'), text, F.lit("}"))).isNotNull()
    )
    whole = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    return F.when(F.is_valid_utf8(text) & first.startswith("{") & alone, whole)


def _get(document: str, path: str) -> Column:
    return F.variant_get(F.col(document), path, "variant")


def _holds_lone_surrogate(text: Column) -> Column:
    """Escaped backslashes and whole pairs taken away, is an escaped surrogate left?"""
    left = F.regexp_replace(F.regexp_replace(text, _BACKSLASHES, " "), _SURROGATE_PAIR, "")
    return F.when(text.contains("\\ud") | text.contains("\\uD"), left.rlike(_SURROGATE)).otherwise(
        F.lit(False)
    )


def _reason(source: Source) -> Column:
    event_time, kafka_time = _event_time(source), F.col("kafka_time")
    reasons: list[tuple[Column, Column | str]] = [
        (F.col("large"), "too_large"),
        (~F.coalesce(F.col("is_json"), F.lit(False)), "not_json"),
        (F.col("lone"), "bad_text"),
        *_missing(source),
        *(reason for name, kind in source.columns for reason in _wrong(name, kind, source)),
        (~event_time.between(0, END_OF_TIME_US - 1), "bad_time:kafka"),
        (event_time < kafka_time - source.max_lateness_us, "too_late"),
        (event_time > kafka_time + source.max_ahead_us, "too_far_ahead"),
    ]
    chain = F.when(*_then(reasons[0]))
    for reason in reasons[1:]:
        chain = chain.when(*_then(reason))
    return chain


def _missing(source: Source) -> Iterable[tuple[Column, str]]:
    for name in dict.fromkeys((*source.required, source.timestamp)):
        if name != "kafka":
            kind = F.col(f"k_{name}")
            yield (
                ~F.col(f"b_{name}") & (kind.isNull() | (kind == "VOID")),
                f"missing_required:{name}",
            )


def _wrong(name: str, kind: str, source: Source) -> Iterable[tuple[Column, Column | str]]:
    yield F.col(f"b_{name}"), f"wrong_type:{name}"
    yield reason_of(name, kind, source)


def _then(reason: tuple[Column, Column | str]) -> tuple[Column, Column]:
    condition, name = reason
    return condition, F.lit(name) if isinstance(name, str) else name
