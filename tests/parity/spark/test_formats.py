"""Records of Avro and Protobuf are read as the values written, by the schema they name, or are
bad."""

from __future__ import annotations

import json
import random
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import slicewise as sw
from slicewise.features.plan.planner import plan_source
from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.spark.records import parse
from slicewise.spark.runtime.session import job_session
from tests.support.platform.registry import (
    Registry,
    counted,
    framed,
    number,
    serving,
    varint,
    zigzag,
)

FAILED = (PySparkException, Py4JJavaError)
"""A batch that fails, whichever way PySpark tells of it."""
NOW = 1_700_000_000_000_000
WAIT_MS = 1_500
FLOAT = struct.unpack("<f", struct.pack("<f", 0.1))[0]
SCHEMA = {
    "s": "string", "e": "string", "n": "long", "i": "int8", "x": "double", "f": "float", "b": "boolean",
    "p": "decimal(6,2)", "d": "date", "t": "timestamp_us", "u": "timestamp_us", "l": "array<string>",
    "m": "array<long>", "deep": "long",
}  # fmt: skip
PATHS = {"deep": "$.inner.more.n"}


def source(registry: Registry, kind: str) -> Source:
    return plan_source(
        sw.KafkaSource(
            "events",
            schema=SCHEMA,
            timestamp="t",
            paths=PATHS,
            format=kind,
            registry=registry.url,
            max_lateness="1h",
        )
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("state")
    made = job_session(Settings.load({"SLICEWISE_STATE": str(folder)}), "formats", cores=1)
    jvm: Any = made._jvm
    jvm.java.lang.System.setProperty("slicewise.registry.wait.ms", str(WAIT_MS))
    yield made
    made.stop()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as result:
        yield result


def read(session: SparkSession, values: Sequence[bytes], of: Source) -> list[Row]:
    frame = session.createDataFrame(
        [(value, 0, i) for i, value in enumerate(values)],
        "value binary, partition int, offset long",
    ).selectExpr("*", f"timestamp_micros({NOW}) AS timestamp")
    rows: list[Row] = parse.parsed(frame, of).orderBy("offset").collect()
    return rows


def values_of(row: Row) -> dict[str, Any]:
    return {name: row[f"c_{name}"] for name in SCHEMA}


# ---- Avro, written by Avro's own library

AVRO: dict[str, Any] = {
    "type": "record", "name": "Event", "fields": [
        {"name": "s", "type": "string"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["LOW", "HIGH"]}},
        {"name": "unread", "type": {"type": "map", "values": {"type": "array", "items": ["null", "double"]}}},
        {"name": "n", "type": ["null", "long"]},
        {"name": "i", "type": "int"},
        {"name": "x", "type": "double"},
        {"name": "f", "type": "float"},
        {"name": "b", "type": "boolean"},
        {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 3}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "u", "type": "long"},
        {"name": "l", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "array", "items": "int"}},
        {"name": "inner", "type": ["null", {"type": "record", "name": "I", "fields": [
            {"name": "pad", "type": "bytes"},
            {"name": "more", "type": {"type": "record", "name": "M", "fields": [{"name": "n", "type": "int"}]}},
        ]}]},
    ],
}  # fmt: skip
WRITTEN: dict[str, Any] = {
    "s": "grüße", "e": "HIGH", "unread": {"k": [{"double": 1.5}, None]}, "n": {"long": -(2**63)}, "i": -128, "x": 1e308,
    "f": 0.1, "b": True, "p": "\u0004\u00d2", "d": 19_782, "t": NOW // 1000, "u": NOW + 1,
    "l": [{"string": "a"}, None], "m": [1, -2], "inner": {"I": {"pad": "xx", "more": {"n": 7}}},
}  # fmt: skip
READ = {
    "s": "grüße", "e": "HIGH", "n": -(2**63), "i": -128, "x": 1e308, "f": FLOAT, "b": True, "p": Decimal("1.234"),
    "d": date(2024, 2, 29), "t": NOW, "u": NOW + 1, "l": ["a", None], "m": [1, -2], "deep": 7,
}  # fmt: skip


def avro(session: SparkSession, schema: Mapping[str, Any], value: Mapping[str, Any]) -> bytes:
    jvm: Any = session._jvm
    library = jvm.org.apache.avro
    parsed = jvm.org.apache.avro.Schema.Parser().parse(json.dumps(schema))
    decoder = library.io.DecoderFactory.get().jsonDecoder(parsed, json.dumps(value))
    record = library.generic.GenericDatumReader(parsed).read(None, decoder)
    out = jvm.java.io.ByteArrayOutputStream()
    encoder = library.io.EncoderFactory.get().binaryEncoder(out, None)
    library.generic.GenericDatumWriter(parsed).write(record, encoder)
    encoder.flush()
    return bytes(out.toByteArray())


def changed(**fields: Any) -> dict[str, Any]:
    """The schema with other types of some fields."""
    kinds = [
        {**field, "type": fields.get(field["name"], field["type"])} for field in AVRO["fields"]
    ]
    return {**AVRO, "fields": kinds}


def test_every_avro_type_is_read_as_the_value_that_was_written(
    session: SparkSession, registry: Registry
) -> None:
    schema = changed(p={"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2})
    number_ = registry.register(json.dumps(schema))
    (row,) = read(
        session, [framed(number_, avro(session, schema, WRITTEN))], source(registry, "avro")
    )
    assert (row.reason, row.event_time, row.raw) == (None, NOW, None)
    assert values_of(row) == {**READ, "p": Decimal("12.34")}
    assert registry.requests == {f"/schemas/ids/{number_}": 1}


@pytest.mark.parametrize(
    ("fields", "written", "column", "wanted"),
    [
        ({"i": "int"}, {"i": 128}, "i", "out_of_range:i"),
        ({"i": "string"}, {"i": "1"}, "i", "wrong_type:i"),
        ({"n": ["null", "long"]}, {"n": None}, "n", None),
        ({"x": "float"}, {"x": 0.1}, "x", FLOAT),
        ({"x": "long"}, {"x": 3}, "x", 3.0),
        ({"f": "double"}, {"f": 1e39}, "f", "out_of_range:f"),
        ({"b": "int"}, {"b": 1}, "b", "wrong_type:b"),
        ({"s": {"type": "fixed", "name": "F", "size": 1}}, {"s": "a"}, "s", "wrong_type:s"),
        ({"d": "string"}, {"d": "2024-02-29"}, "d", date(2024, 2, 29)),
        ({"d": "string"}, {"d": "2023-02-29"}, "d", "bad_date:d"),
        ({"d": "int"}, {"d": 1}, "d", "wrong_type:d"),
        ({"u": {"type": "long", "logicalType": "timestamp-micros"}}, {"u": -1}, "u", "bad_time:u"),
        ({"p": "int"}, {"p": 7}, "p", Decimal("7.00")),
        ({"p": {"type": "fixed", "name": "G", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}},
         {"p": "\u00ff\u00f6"}, "p", Decimal("-1.00")),
        ({}, {"p": "\u0004\u00d2"}, "p", "out_of_range:p"),
        ({"l": "string"}, {"l": "a"}, "l", "wrong_type:l"),
        ({"m": {"type": "array", "items": "string"}}, {"m": ["a"]}, "m", "wrong_type:m"),
        ({"inner": ["null", "string"]}, {"inner": {"string": "a"}}, "deep", "wrong_type:deep"),
        ({}, {"inner": None}, "deep", None),
        ({"t": "long"}, {"t": NOW - 3_600_000_001}, "t", "too_late"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_the_columns_makes_the_record_bad(
    session: SparkSession,
    registry: Registry,
    fields: dict[str, Any],
    written: dict[str, Any],
    column: str,
    wanted: Any,
) -> None:
    exact = (
        {"p": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}}
        if column != "p"
        else {}
    )
    schema = changed(**exact, **fields)
    value = framed(
        registry.register(json.dumps(schema)), avro(session, schema, {**WRITTEN, **written})
    )
    (row,) = read(session, [value], source(registry, "avro"))
    if (isinstance(wanted, str) and ":" in wanted) or wanted == "too_late":
        assert (row.reason, row.raw, values_of(row)) == (wanted, value, dict.fromkeys(SCHEMA))
    else:
        assert (row.reason, row[f"c_{column}"]) == (None, wanted)


def test_records_of_several_schemas_are_each_read_by_their_own(
    session: SparkSession, registry: Registry
) -> None:
    old = {**AVRO, "fields": [field for field in AVRO["fields"] if field["name"] in ("s", "t")]}
    shared = {"type": "record", "name": "M", "fields": [{"name": "n", "type": "long"}]}
    registry.register(json.dumps(shared), subject="shared value")
    named = {"name": "Event", "type": "record", "fields": [
        {"name": "t", "type": "long"}, {"name": "inner", "type": {"name": "I", "type": "record", "fields": [
            {"name": "more", "type": "M"}]}}]}  # fmt: skip
    whole = json.loads(json.dumps(named).replace('"M"', json.dumps(shared)))
    ids = (
        registry.register(json.dumps(old)),
        registry.register(
            json.dumps(named), references=[{"name": "M", "subject": "shared value", "version": 1}]
        ),
    )
    # as a URL writes it
    registry.subjects["shared+value", 1] = registry.subjects["shared value", 1]
    rows = read(
        session,
        [
            framed(ids[0], avro(session, old, {"s": "a", "t": NOW // 1000})),
            framed(ids[1], avro(session, whole, {"t": NOW, "inner": {"more": {"n": 9}}})),
        ],
        source(registry, "avro"),
    )
    assert [(row.reason, row.c_s, row.c_deep, row.c_t) for row in rows] == [
        (None, "a", None, NOW),
        (None, None, 9, NOW),
    ]


def test_a_schema_that_only_a_registry_would_take_is_read(
    session: SparkSession, registry: Registry
) -> None:
    odd = {
        "type": "record",
        "name": "an-event",
        "fields": [{"name": "s", "type": "string", "default": 7}],
    }
    of = replace(source(registry, "avro"), timestamp="kafka")
    (row,) = read(session, [framed(registry.register(json.dumps(odd)), zigzag(1) + b"a")], of)
    assert (row.reason, row.c_s) == (None, "a")


def test_bytes_that_are_not_what_the_schema_says_are_bad_and_never_stop_a_batch(
    session: SparkSession, registry: Registry
) -> None:
    schema = changed(p={"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2})
    whole = framed(registry.register(json.dumps(schema)), avro(session, schema, WRITTEN))
    of = source(registry, "avro")
    cut = [whole[:n] for n in range(len(whole))]
    assert {row.reason for row in read(session, cut, of)} == {"not_avro"}
    after = [whole + b"\0", b"{}" + whole, b'{"s": "a"}', b"", b"\1" + whole[1:]]
    assert {row.reason for row in read(session, after, of)} == {"not_avro"}
    lone = whole.replace("grüße".encode(), b"gr\xed\xa0\x80\xff\xffe"[:7])
    assert [row.reason for row in read(session, [lone], of)] == ["bad_text"]
    chance = random.Random(20260101)
    mutated = []
    for _ in range(3_000):
        bent = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            bent[chance.randrange(5, len(bent))] = chance.randrange(256)
        mutated.append(bytes(bent))
    for value, row in zip(mutated, read(session, mutated, of), strict=True):
        assert (row.reason is None) == (row.raw is None), value.hex()
        assert row.reason is not None or row.event_time is not None


def test_a_registry_that_does_not_answer_at_once_is_waited_for(
    session: SparkSession, registry: Registry
) -> None:
    old = {**AVRO, "fields": [field for field in AVRO["fields"] if field["name"] in ("s", "t")]}
    value = framed(1, avro(session, old, {"s": "a", "t": NOW // 1000}))
    registry.failing = 1
    later = threading.Timer(WAIT_MS / 3000, lambda: registry.register(json.dumps(old)))
    later.start()
    try:
        assert [row.c_s for row in read(session, [value], source(registry, "avro"))] == ["a"]
    finally:
        later.join()
    requests_before = registry.requests["/schemas/ids/1"]
    assert requests_before >= 2
    assert [row.c_s for row in read(session, [value] * 3, source(registry, "avro"))] == ["a"] * 3
    assert registry.requests["/schemas/ids/1"] == requests_before, "an id never changes its meaning"


def test_a_schema_that_cannot_be_had_or_read_fails_the_batch(
    session: SparkSession, registry: Registry
) -> None:
    proto = registry.register('syntax = "proto3"; message A { string s = 1; }', "PROTOBUF")
    of = source(registry, "avro")
    with pytest.raises(FAILED, match="does not give /schemas/ids/99: status 404"):
        read(session, [framed(99, b"\0")], of)
    with pytest.raises(FAILED, match="it is of type PROTOBUF"):
        read(session, [framed(proto, b"\0")], of)
    with pytest.raises(FAILED, match="does not give /schemas/ids/1"):
        read(session, [framed(1, b"\0")], replace(of, registry="http://127.0.0.1:9"))


# ---- Protobuf, written by hand

PROTO = """
// what a comment says: message X {
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "x.y";
/* enum { */
message Ignored { message Event { string s = 1; } }
message Event {
  enum E { LOW = 0; HIGH = 1; NEGATIVE = -1; }
  string s = 1 [json_name = "S"];
  E e = 2;
  optional int64 n = 3;
  sint32 i = 4;
  double x = 5;
  float f = 6;
  bool b = 7;
  int64 p = 8;
  string d = 9;
  google.protobuf.Timestamp t = 10;
  uint64 u = 11;
  repeated string l = 12;
  repeated sint64 m = 13;
  Inner inner = 14;
  map<string, Inner> unread = 15;
  oneof choice { string one = 16; fixed64 other = 17; }
  reserved 18, 20 to 30;
}
message Inner { More more = 1; message More { int32 n = 1; } }
"""
PROTO_READ = {**READ, "p": Decimal("7.00"), "n": -5}
INDEXES = zigzag(1) + zigzag(1)  # one index: the second message


def proto(**members: bytes) -> bytes:
    """An event's payload: each member's bytes by its name."""
    written = {
        "s": counted(1, "grüße".encode()), "e": number(2, 1), "n": number(3, -5), "i": varint(4 << 3) + zigzag(-128),
        "x": varint(5 << 3 | 1) + struct.pack("<d", 1e308), "f": varint(6 << 3 | 5) + struct.pack("<f", 0.1),
        "b": number(7, 1), "p": number(8, 7), "d": counted(9, b"2024-02-29"),
        "t": counted(10, number(1, NOW // 10**6) + number(2, 0)), "u": number(11, NOW + 1),
        "l": counted(12, b"a") + counted(12, b""), "m": counted(13, zigzag(1)) + varint(13 << 3) + zigzag(-2),
        "inner": counted(14, counted(1, number(1, 7))),
        "unread": counted(15, counted(1, b"k")), "unknown": varint(99 << 3 | 5) + b"four",
    }  # fmt: skip
    return b"".join({**written, **members}.values())


def test_every_protobuf_type_is_read_as_the_value_that_was_written(
    session: SparkSession, registry: Registry
) -> None:
    schema = registry.register(PROTO, "PROTOBUF")
    (row,) = read(session, [framed(schema, INDEXES + proto())], source(registry, "protobuf"))
    assert row.reason is None
    assert values_of(row) == {**PROTO_READ, "l": ["a", ""]}
    assert registry.requests == {f"/schemas/ids/{schema}": 1}


def test_what_is_not_there_is_its_zero_or_null_where_absence_is_told(
    session: SparkSession, registry: Registry
) -> None:
    schema = registry.register(PROTO, "PROTOBUF")
    nothing = dict.fromkeys(("s", "e", "n", "i", "x", "f", "b", "p", "u", "l", "m", "inner"), b"")
    (row,) = read(
        session, [framed(schema, INDEXES + proto(**nothing))], source(registry, "protobuf")
    )
    assert values_of(row) == {
        "s": "", "e": "LOW", "n": None, "i": 0, "x": 0.0, "f": 0.0, "b": False, "p": Decimal("0.00"),
        "d": date(2024, 2, 29), "t": NOW, "u": 0, "l": [], "m": [], "deep": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"i": varint(4 << 3) + zigzag(128)}, "out_of_range:i"),
        ({"e": number(2, 9)}, "out_of_range:e"),
        ({"u": number(11, -1)}, "out_of_range:u"),
        ({"s": counted(1, b"\xff")}, "bad_text"),
        ({"d": counted(9, b"today")}, "bad_date:d"),
        ({"t": counted(10, number(1, -1))}, "bad_time:t"),
        ({"t": b""}, "missing_required:t"),
        ({"unknown": b"\x07"}, "not_protobuf"),
        ({"unknown": varint(99 << 3 | 3)}, "not_protobuf"),
        ({"unknown": varint(0)}, "not_protobuf"),
        ({"unknown": counted(99, b"abc")[:-1]}, "not_protobuf"),
        ({"unknown": b"\x08" + b"\xff" * 10}, "not_protobuf"),
    ],
)
def test_a_protobuf_value_that_is_not_the_columns_makes_the_record_bad(
    session: SparkSession, registry: Registry, members: dict[str, bytes], reason: str
) -> None:
    schema = registry.register(PROTO, "PROTOBUF")
    (row,) = read(
        session, [framed(schema, INDEXES + proto(**members))], source(registry, "protobuf")
    )
    assert row.reason == reason


def test_the_head_says_which_message_it_is(session: SparkSession, registry: Registry) -> None:
    schema = registry.register(PROTO, "PROTOBUF")
    of = replace(source(registry, "protobuf"), timestamp="kafka")
    inner = zigzag(2) + zigzag(0) + zigzag(0)  # Ignored.Event
    heads = [zigzag(1) + zigzag(9), zigzag(-1), zigzag(2) + zigzag(0), b""]
    rows = read(
        session,
        [framed(schema, inner + counted(1, b"a")), *(framed(schema, head) for head in heads)],
        of,
    )
    assert [(row.reason, row.c_s) for row in rows] == [(None, "a"), *[("not_protobuf", None)] * 4]
    alone = registry.register('syntax = "proto3"; message A { string s = 1; }', "PROTOBUF")
    assert [row.c_s for row in read(session, [framed(alone, b"\0" + counted(1, b"x"))], of)] == [
        "x"
    ]
    unknown = (
        "message A { .no.Such t = 1; }",
        "message A { string s = 1 [default = 'x']; }",
        "message A {",
        "?",
    )
    for text in unknown:
        with pytest.raises(FAILED, match="is not read"):
            read(session, [framed(registry.register(text, "PROTOBUF"), b"\0\0")], of)


def test_mutated_protobuf_never_stops_a_batch(session: SparkSession, registry: Registry) -> None:
    whole = framed(registry.register(PROTO, "PROTOBUF"), INDEXES + proto())
    chance = random.Random(20260102)
    mutated = [whole[:n] for n in range(len(whole))]
    for _ in range(3_000):
        bent = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            bent[chance.randrange(7, len(bent))] = chance.randrange(256)
        mutated.append(bytes(bent))
    for value, row in zip(
        mutated, read(session, mutated, source(registry, "protobuf")), strict=True
    ):
        assert (row.reason is None) == (row.raw is None), value.hex()
