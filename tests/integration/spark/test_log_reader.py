"""The emission's reader gives what the stream's parser and row logic give, and says how far it
read."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import slicewise as sw
from slicewise.errors import DataLoss
from slicewise.features.declare.project import Project
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.settings import Settings
from slicewise.spark.emission.rows import records_of
from slicewise.spark.microbatch.apply import rows_of
from slicewise.spark.records.log_reader import Frame, LogReader
from slicewise.spark.records.parse import parsed
from slicewise.spark.records.rows import KEPT, with_units
from slicewise.spark.runtime.session import job_session
from slicewise.stores.log.topics import KafkaLog
from tests.support.platform.servers import KafkaBroker

# py4j leaves sockets to the collector
pytestmark = pytest.mark.timeout(600)
SEED = 20261122
NOW = 1_700_000_000_000_000
SCHEMA = {
    "user": "string",
    "n": "long",
    "x": "double",
    "small": "int8",
    "single": "float",
    "ok": "boolean",
    "price": "decimal(20,3)",
    "born": "date",
    "tags": "array<string>",
    "prices": "array<decimal(6,2)>",
    "deep": "string",
    "t": "timestamp_us",
}
PLAYS = sw.KafkaSource(
    "read_plays",
    topic="read_plays",
    schema=SCHEMA,
    paths={"deep": "$.a.b"},
    timestamp="t",
    allow_nan=["single"],
    max_lateness="1h",
)
VIEW = sw.FeatureView(
    "v",
    source=PLAYS,
    entity=["user", "born"],
    where="ok OR x > 0",
    columns={"ratio": "x / n", "twice": "n * 2", "loud": "ascii_upper(user)"},
    features=[
        sw.Feature("r", sw.sum("ratio"), windows=["10s"]),
        sw.Feature("t", sw.sum("twice"), windows=["10s"]),
        sw.Feature("l", sw.last("loud"), windows=["10s"]),
        sw.Feature("p", sw.sum("price"), windows=["10s"]),
    ],
    emit="read_plays.windows",
)
PLAIN = sw.FeatureView(
    "w",
    source=PLAYS,
    entity=["user"],
    features=[sw.Feature("x", sw.sum("x"), windows=["10s"])],
    emit="read_plain",
)
UNITS = {unit.storage_fingerprint: unit for unit in plan(Project.of("p", [VIEW, PLAIN])).units}
VALUES: dict[str, Sequence[Any]] = {
    "user": ("a", "größe", "", "x\u0000y", "\U0001f600", None, 7),
    "n": (0, 1, -(2**63), 2**63 - 1, 2**63, 1.5, None),
    "x": (0.0, -0.0, 5e-324, 1e308, 0.1, None, "NaN"),
    "small": (127, -128, 128, None),
    "single": (0.1, 1e-46, "Infinity", "NaN", None),
    "ok": (True, False, None, 1),
    "price": (1, 12345678901234567.891, -0.001, None, 1e3),
    "born": ("1970-01-01", "0001-01-01", "9999-12-31", "2023-02-29", None),
    "tags": ([], ["a", None, "é"], None, "a"),
    "prices": ([1.25, -1.5, None], [], None),
    "a": ({"b": "c"}, {}, {"b": None}, None, 3),
    "t": (NOW, NOW + 1, NOW - 3_600_000_001, NOW - 1),
}
RAW = (b"", b"not json", b"[1]", b"\xff", b'{"user":"\\ud800","t":%d}' % NOW, b'{"t":1,"t":1}')


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    state = tmp_path_factory.mktemp("state")
    made = job_session(Settings.load({"SLICEWISE_STATE": str(state)}), "reader", cores=1)
    yield made
    made.stop()


def settings_of(broker: KafkaBroker, folder: Path) -> Settings:
    return Settings.load(
        {"SLICEWISE_STATE": str(folder), "SLICEWISE_KAFKA_BOOTSTRAP": broker.bootstrap}
    )


def source_of(declared: sw.KafkaSource, view: sw.FeatureView) -> Source:
    [source] = plan(Project.of("p", [view])).sources
    assert source.name == declared.name
    return source


def values() -> list[bytes]:
    """Most of them good: each has at most one value that may be bad."""
    rng = random.Random(SEED)
    first = {
        name: [value for value in given[:2] if value is not None] for name, given in VALUES.items()
    }
    made = []
    for _ in range(3_000):
        record = {name: rng.choice(given) for name, given in first.items()}
        name = rng.choice(list(VALUES))
        record[name] = rng.choice(VALUES[name])
        made.append(json.dumps(record, ensure_ascii=rng.random() < 0.5).encode())
    made += RAW * 3
    rng.shuffle(made)
    return made


def frames_to(reader: LogReader, ends: dict[int, int]) -> list[Frame]:
    """All frames up to these ends."""
    frames: list[Frame] = []
    deadline = time.monotonic() + 60
    while {p: max((f.end for f in frames if f.partition == p), default=0) for p in ends} != ends:
        assert time.monotonic() < deadline, [(f.partition, f.end) for f in frames]
        frames += reader.take(1_000, 0.5)
    return frames


def test_columns_and_rows_are_those_of_the_stream(
    kafka_broker: KafkaBroker, session: SparkSession, tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    given, source = values(), source_of(PLAYS, VIEW)
    log = KafkaLog(kafka_broker.bootstrap)
    log.create(source.topic, 1, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    for value in given:
        producer.produce(source.topic, value, partition=0, timestamp=NOW // 1000)
    assert producer.flush(30) == 0

    names = [name for name, _ in source.columns]
    reader = LogReader(settings_of(kafka_broker, tmp_path), source, "", names, {0: 0})
    try:
        frames = frames_to(reader, {0: len(given)})
    finally:
        reader.close()

    stream = session.createDataFrame(
        [(value, 0, i) for i, value in enumerate(given)], "value binary, partition int, offset long"
    ).selectExpr("*", f"timestamp_micros({NOW}) AS timestamp")
    rows = parsed(stream, source)
    results = [
        (int(offset), int(at), bool(good), event, *(column[i] for column in columns))
        for frame in frames
        for columns in [[frame.columns[name].to_pylist() for name in names]]
        for i, (offset, at, good, event) in enumerate(
            zip(
                frame.offset,
                frame.kafka_time,
                frame.good,
                frame.event_time.to_pylist(),
                strict=True,
            )
        )
    ]
    expected = [
        (
            row.offset,
            row.kafka_time,
            row.reason is None,
            row.event_time,
            *(row[f"c_{name}"] for name in names),
        )
        for row in sorted(rows.collect(), key=lambda row: int(row.offset))
    ]
    assert list(map(repr, results)) == list(map(repr, expected))
    assert 500 < sum(row[2] for row in results) < len(given) - 100

    units = list(UNITS.values())
    topic_id = log.topic_id(source.topic)
    [records] = records_of(frames, UNITS, topic_id, NOW)
    assert (records.end, len(records.offset)) == (len(given), len(given))
    frame, placed = with_units(rows, units)
    table = frame.toArrow().sort_by("offset")
    for unit, columns in zip(units, placed, strict=True):
        kept = table.filter(pa.compute.equal(table[columns.keep], KEPT))
        of_stream, taken = (
            rows_of(unit, kept, columns.inputs, topic_id),
            records.units[unit.storage_fingerprint],
        )
        assert len(of_stream) == len(taken.rows) > 300
        assert taken.rows.offset.tolist() == of_stream.offset.tolist()
        assert taken.rows.time.tolist() == of_stream.time.tolist()
        for name, _ in unit.input_types:
            assert repr(taken.rows.columns[name].to_pylist()) == repr(
                of_stream.columns[name].to_pylist()
            ), name
        for (name, _), column in zip(unit.entity, columns.entity, strict=True):
            assert taken.entities[name].to_pylist() == kept[column].to_pylist()


def test_what_no_reader_is_given_is_read_past_and_what_is_gone_is_told(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    source = source_of(PLAYS, VIEW)
    log, topic = KafkaLog(kafka_broker.bootstrap), "read_markers"
    log.create(topic, 2, {"retention.ms": "-1"})
    producer = Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": topic, "log_level": 2}
    )
    producer.init_transactions(30)
    value = json.dumps({"user": "a", "t": NOW}).encode()
    for committed in (False, True):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0, timestamp=NOW // 1000)
        producer.flush(30)
        (producer.commit_transaction if committed else producer.abort_transaction)(30)
    settings = settings_of(kafka_broker, tmp_path)
    topical = Source(**{**source.__dict__, "topic": topic})
    reader = LogReader(settings, topical, "", ["user"], {0: 0, 1: 0})
    child = psutil.Process(reader._child.pid)
    try:
        frames = frames_to(reader, {0: 4, 1: 0})  # record, marker, record, marker
        assert [int(offset) for frame in frames for offset in frame.offset] == [2]
        assert reader.take(1_000, 0.3) == []
    finally:
        reader.close()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    log.delete_records(topic, {0: 3})
    reader = LogReader(settings, topical, "", ["user"], {0: 0, 1: 0})
    try:
        with pytest.raises(DataLoss, match="lost records"):
            frames_to(reader, {0: 4, 1: 0})
    finally:
        reader.close()
