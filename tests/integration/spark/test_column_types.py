"""Columns of every type go the whole way (Kafka, stream, archive, compaction) from JSON, Avro and
Protobuf."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import slicewise as sw
from slicewise.spark.lake.compact_run import Request, compact
from slicewise.stores.lake.archive import load, scan_events
from slicewise.stores.lake.slices import scan_slices
from slicewise.windows.durations import HOUR_US
from tests.support.platform.lake import Lake, lake
from tests.support.platform.registry import (
    Registry,
    counted,
    framed,
    number,
    serving,
    varint,
    zigzag,
)

pytestmark = pytest.mark.timeout(900)

SCHEMA = {
    "born": "date",
    "n": "int8",
    "f": "float",
    "tags": "array<string>",
    "s": "string",
    "t": "timestamp_us",
}
EPOCH = date(1970, 1, 1)
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "in",
            "type": {"type": "record", "name": "In", "fields": [{"name": "n", "type": "int"}]},
        },
        {"name": "f", "type": "float"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "s", "type": "string"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
PROTO = """
syntax = "proto3";
message Event { string born = 1; In in = 2; float f = 3; repeated string tags = 4; string s = 5; int64 t = 6; }
message In { sint32 n = 1; }
"""


def as_json(event: Mapping[str, Any]) -> bytes:
    flat = {**event, "born": event["born"].isoformat(), "in": {"n": event["n"]}}
    return json.dumps(flat).encode()


def as_avro(event: Mapping[str, Any]) -> bytes:
    def text(value: str) -> bytes:
        return zigzag(len(value.encode())) + value.encode()

    tags = b"".join(map(text, event["tags"]))
    block = zigzag(len(event["tags"])) + tags + zigzag(0) if event["tags"] else zigzag(0)
    head = zigzag((event["born"] - EPOCH).days) + zigzag(event["n"]) + struct.pack("<f", event["f"])
    return framed(1, head + block + text(event["s"]) + zigzag(event["t"]))


def as_protobuf(event: Mapping[str, Any]) -> bytes:
    inner = varint(1 << 3) + zigzag(event["n"])
    tags = b"".join(counted(4, tag.encode()) for tag in event["tags"])
    head = counted(1, event["born"].isoformat().encode()) + counted(2, inner)
    real = varint(3 << 3 | 5) + struct.pack("<f", event["f"])
    return framed(
        2, b"\0" + head + real + tags + counted(5, event["s"].encode()) + number(6, event["t"])
    )


WRITERS: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "json": as_json,
    "avro": as_avro,
    "protobuf": as_protobuf,
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake(tmp_path_factory.mktemp("lake")) as running:
        yield running


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with serving() as result:
        assert (result.register(json.dumps(AVRO)), result.register(PROTO, "PROTOBUF")) == (1, 2)
        yield result


@sw.row_function(output="string")
def tagged(s, tags, t):  # type: ignore[no-untyped-def]
    """Reads text, an array and an instant."""
    return [
        None
        if name is None
        else "|".join([name, str(at % 7), *[tag for tag in of or [] if tag is not None]])
        for name, of, at in zip(s.to_pylist(), tags.to_pylist(), t.to_pylist(), strict=True)
    ]


@sw.row_function(output="double")
def per_hour(n, clock):  # type: ignore[no-untyped-def]
    """Infinite for the first hour of a day: such a row is left out."""
    return pc.divide(n, pc.coalesce(pc.multiply(clock, 1.0), 1.0))


def view(kind: str, registry: Registry) -> sw.FeatureView:
    source = sw.KafkaSource(
        f"types_{kind}",
        schema=SCHEMA,
        timestamp="t",
        max_lateness="7d",
        paths={"n": "$.in.n"},
        format=kind,
        registry=None if kind == "json" else registry.url,
    )
    return sw.FeatureView(
        f"types_{kind}",
        source=source,
        entity=["born"],
        where="ARRAY_SIZE(tags) <> 1 AND s LIKE 'k%' AND born >= DATE '0001-01-01'",
        columns={
            "domain": "SPLIT_PART(s, '@', 2)",
            "clock": "HOUR(t)",
            "next": "GREATEST(born, DATE '1970-01-01')",
            "label": tagged,
            "per_hour": per_hour,
        },
        features=[
            sw.Feature("n", sw.sum("n"), ["1d"]),
            sw.Feature("f", sw.sum("f"), ["1d"]),
            sw.Feature("tagged", sw.count("tags"), ["1d"]),
            sw.Feature("tags", sw.count_by("tags"), ["1d"]),
            sw.Feature("n_by_tag", sw.bucketed(sw.sum("n"), by="tags"), ["1d"]),
            sw.Feature("domains", sw.last_k("domain", k=3), ["1d"]),
            sw.Feature("hours", sw.distinct_count("clock"), ["1d"]),
            sw.Feature("labels", sw.last_k("label", k=3), ["1d"]),
            sw.Feature("per_hour", sw.sum("per_hour"), ["1d"]),
            sw.Feature("least", sw.min("born"), ["1d"]),
            sw.Feature("next", sw.max("next"), ["1d"]),
        ],
    )


def test_every_type_goes_the_whole_way_from_every_format(shared: Lake, registry: Registry) -> None:
    start = (time.time_ns() // 1000 // HOUR_US - 3) * HOUR_US
    born = [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]
    nearest = [struct.unpack("<f", struct.pack("<f", x))[0] for x in (0.1, 1e-45, 3e38, -7.25)]
    events = [
        {
            "born": born[i % 3],
            "n": (i * 37) % 256 - 128,
            "f": nearest[i % 4],
            "tags": [[], ["a"], ["é", ""], ["x", "y", "z"]][i % 4],
            "s": f"{'k' if i % 5 else 'q'}{i}@{'größe' if i % 2 else 'b'}",
            "t": start + i * 17_000_000,
        }
        for i in range(300)
    ]
    views = {kind: view(kind, registry) for kind in WRITERS}
    for kind in WRITERS:
        shared.topic(f"types_{kind}")
    deployment = shared.deploy(*views.values())
    bad = {"json": "out_of_range:n", "avro": "out_of_range:n", "protobuf": "out_of_range:n"}
    for kind, written in WRITERS.items():
        values = [written(event) for event in [*events, {**events[0], "n": 128}]]
        shared.produce(f"types_{kind}", [*values, b"\2neither"], 0)
        status = shared.apply(deployment, f"types_{kind}")
        assert (status.records, status.bad) == (302, {bad[kind]: 1, f"not_{kind}": 1})
    with shared.context() as context:
        report = compact(context, Request(start // HOUR_US))
        assert report.left_over == 0
        given = [{**event, "partition": 0, "offset": i} for i, event in enumerate(events)]
        queries = [{"born": day, "at": start + 2 * HOUR_US} for day in born]
        for kind, declared in views.items():
            (unit,) = deployment.view(declared.name)
            source = deployment.source(declared.source.name)
            log = load(context.catalog, source.name)
            assert log is not None
            archived = scan_events(log, source)
            assert {
                name: archived[name].to_pylist() for name in ("born", "n", "f", "tags", "s")
            } == {
                name: [event[name] for event in events] for name in ("born", "n", "f", "tags", "s")
            }
            wanted = sw.evaluate(declared, given, queries)
            columns = [name for name, _ in source.columns]
            assert sw.evaluate(
                declared, archived.select([*columns, "partition", "offset"]), queries
            ).equals(wanted)
            table = context.unit_table(unit).table
            table.refresh()
            rows = scan_slices(table, [start // HOUR_US, start // HOUR_US + 1])
            entity = np.array([born.index(day) for day in rows["born"].to_pylist()], np.int64)
            partials = unit.layout.from_arrow(rows)
            for feature in unit.features:
                combined = feature.aggregate.combine_columns(
                    partials[feature.partial], entity, len(born)
                )
                result = feature.aggregate.finish_columns(combined).values
                assert result.to_pylist() == wanted[feature.column].to_pylist(), (
                    kind,
                    feature.column,
                )
