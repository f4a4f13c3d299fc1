"""Every column type goes the whole way in one process: declared, judged, sliced, finished."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import BadRequest, DefinitionError
from slicewise.features.declare.project import Project
from slicewise.features.plan.deployment import Deployment
from slicewise.features.plan.planner import plan
from slicewise.features.plan.unit import Source
from slicewise.features.schema.types import arrow_type, column_type, wire_type
from slicewise.features.sql.python_form import source_form
from slicewise.serving.answering.catalog import value_of
from slicewise.settings import Settings
from slicewise.stores.lake.archive import load, scan_events
from slicewise.stores.lake.catalog import open_catalog
from slicewise.training.answering.tree import SliceTree
from slicewise.training.events.rows import unit_events
from slicewise.training.tables.given.files import read_events
from tests.support.oracles.answers import HOUR
from tests.support.stores.archived import archive

AT = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SCHEMA = {
    "user": "int32",
    "born": "date",
    "small": "int8",
    "level": "uint16",
    "ratio": "float",
    "price": "decimal(6,2)",
    "tags": "array<string>",
    "counts": "array<int8>",
    "t": "timestamp_us",
}


def source(**changes: Any) -> sw.KafkaSource:
    return sw.KafkaSource("events", **{"schema": SCHEMA, "timestamp": "t", **changes})


def view(declared: sw.KafkaSource, *entity: str) -> sw.FeatureView:
    return sw.FeatureView(
        "v",
        source=declared,
        entity=entity or ("user",),
        features=[
            sw.Feature("n", sw.count(), ["1h"]),
            sw.Feature("small", sw.sum("small"), ["1h"]),
            sw.Feature("level", sw.max("level"), ["1h"]),
            sw.Feature("ratio", sw.sum("ratio"), ["1h"]),
            sw.Feature("eldest", sw.min("born"), ["1h"]),
            sw.Feature("births", sw.last_k("born", k=2), ["1h"]),
            sw.Feature("days", sw.distinct_count("born"), ["1h"]),
            sw.Feature("price", sw.sum("price"), ["1h"]),
            sw.Feature("tagged", sw.count("tags"), ["1h"]),
        ],
    )


EVENTS: list[dict[str, Any]] = [
    {"user": 7, "born": "1999-12-31", "small": 127, "level": 65535, "ratio": 0.1, "price": Decimal("1.25"),
     "tags": ["a", None], "counts": [1, 2], "t": AT},
    {"user": 7, "born": "0001-01-01", "small": -128, "level": 0, "ratio": 1.5, "price": Decimal("0.75"),
     "tags": None, "counts": [], "t": AT + 1},
]  # fmt: skip
QUERIES = [{"user": 7, "at": AT + 2}]


def answer(table: pa.Table) -> dict[str, Any]:
    (row,) = table.to_pylist()
    return {name: value for name, value in row.items() if name.endswith("_1h")}


EXPECTED = {
    "n_1h": 2,
    "small_1h": -1,
    "level_1h": 65535,
    "ratio_1h": struct.unpack("<f", struct.pack("<f", 0.1))[0] + 1.5,
    "eldest_1h": date(1, 1, 1),
    "births_1h": [date(1, 1, 1), date(1999, 12, 31)],
    "days_1h": 2,
    "price_1h": Decimal("2.00"),
    "tagged_1h": 1,
}


def test_every_type_is_aggregated_from_dicts_and_from_arrow_alike() -> None:
    declared = view(source())
    assert answer(sw.evaluate(declared, EVENTS, QUERIES)) == EXPECTED
    table = pa.table(
        {
            "user": pa.array([7, 7], pa.int16()),
            "born": pa.array([date(1999, 12, 31), date(1, 1, 1)], pa.date32()),
            "small": pa.array([127, -128], pa.int8()),
            "level": pa.array([65535, 0], pa.uint16()),
            "ratio": pa.array([0.1, 1.5], pa.float32()),
            "price": pa.array([Decimal("1.25"), Decimal("0.75")]),
            "tags": pa.array([["a", None], None], pa.large_list(pa.string())),
            "counts": pa.array([[1, 2], []], pa.list_(pa.int8())),
            "t": pa.array([AT, AT + 1]),
        }
    )
    assert sw.evaluate(declared, table, QUERIES).equals(sw.evaluate(declared, EVENTS, QUERIES))
    assert sw.evaluate(declared, table.slice(1).slice(0), QUERIES)["n_1h"].to_pylist() == [1], (
        "also of a slice"
    )


def test_what_a_record_could_not_hold_is_refused_as_the_platform_refuses_it() -> None:
    bad: list[dict[str, Any]] = [
        {"small": 128},
        {"small": -129},
        {"level": -1},
        {"level": 65536},
        {"user": 2**31},
        {"ratio": 3.5e38},
        {"ratio": float("nan")},
        {"counts": [0, 128]},
    ]
    table = sw.evaluate(
        view(source()), [*EVENTS, *({**EVENTS[0], **change} for change in bad)], QUERIES
    )
    assert answer(table) == EXPECTED
    refused = dict(
        part.split("=") for part in table.schema.metadata[b"slicewise.refused"].decode().split(", ")
    )
    assert refused == {
        "out_of_range:small": "2",
        "out_of_range:level": "2",
        "out_of_range:user": "1",
        "out_of_range:ratio": "2",
        "out_of_range:counts": "1",
    }


@pytest.mark.parametrize("born", ["2024-02-30", "2024-2-3", "0000-01-01", "today", 20240230])
def test_what_is_no_date_is_the_callers_mistake(born: object) -> None:
    with pytest.raises(BadRequest):
        sw.evaluate(view(source()), [{**EVENTS[0], "born": born}], QUERIES)


def test_a_date_is_an_entity() -> None:
    for born in (date(1999, 12, 31), "1999-12-31"):
        table = sw.evaluate(view(source(), "born"), EVENTS, [{"born": born, "at": AT + 2}])
        assert answer(table)["n_1h"] == 1


@pytest.mark.parametrize("text", ["2024-02-30", "2024-2-3", "20240203", "2024-W05-6", "", 3, None])
def test_a_request_names_a_date_as_text_and_nothing_else(text: Any) -> None:
    assert value_of("2024-02-29", "date", "born", 0) == date(2024, 2, 29)
    with pytest.raises(BadRequest, match="no value of entity column 'born'"):
        value_of(text, "date", "born", 0)


@pytest.mark.parametrize(
    ("column", "kind"), [("tags", "array<string>"), ("ratio", "double"), ("price", "decimal")]
)
def test_lists_and_numbers_with_fractions_are_no_entities(column: str, kind: str) -> None:
    with pytest.raises(DefinitionError, match=f"entity column '{column}' is {kind}"):
        plan(Project.of("p", [view(source(), column)]))


def test_an_aggregate_that_takes_no_lists_says_so() -> None:
    one = sw.FeatureView(
        "v", source=source(), entity=["user"], features=[sw.Feature("x", sw.max("tags"), ["1h"])]
    )
    with pytest.raises(
        DefinitionError, match="cannot read column 'tags' of type array<string>"
    ) as caught:
        plan(Project.of("p", [one]))
    assert caught.value.expected
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("declared", "kind", "wire"),
    [
        ("INT", "long", "int32"),
        ("tinyint", "long", "int8"),
        ("int64", "long", "long"),
        ("uint32", "long", "uint32"),
        ("Float", "double", "float"),
        ("array< Float >", "array<double>", "array<float>"),
        ("array<decimal(3, 1)>", "array<decimal(3,1)>", "array<decimal(3,1)>"),
        ("date", "date", "date"),
    ],
)
def test_a_type_has_one_name_of_its_values_and_one_on_the_wire(
    declared: str, kind: str, wire: str
) -> None:
    assert (column_type(declared), wire_type(declared)) == (kind, wire)


@pytest.mark.parametrize(
    "declared", ["uint64", "array<timestamp_us>", "array<array<long>>", "array<>", "time", 3]
)
def test_a_type_that_is_none_is_refused_with_what_there_is(declared: Any) -> None:
    with pytest.raises(DefinitionError, match="is no column type") as caught:
        column_type(declared)
    assert "array<…>" in str(caught.value.expected)


# ---- where a column stands, and where the time comes from


def planned(declared: sw.KafkaSource) -> tuple[Source, str]:
    deployment = plan(Project.of("p", [view(declared)]))
    assert Deployment.from_json(deployment.to_json()) == deployment
    return deployment.sources[0], deployment.units[0].storage_fingerprint


def test_a_path_a_width_and_the_records_time_are_in_the_schema_and_where_values_change_in_the_storage() -> (
    None
):
    plain_source, stored = planned(source())
    assert (plain_source.paths, plain_source.time_column) == ((), "t")
    nested, elsewhere = planned(source(paths={"user": "$.who['@id']"}))
    assert nested.paths == (("user", ("who", "@id")),)
    wide, same = planned(source(schema={**SCHEMA, "small": "int16"}))
    exact, other = planned(source(schema={**SCHEMA, "ratio": "double"}))
    clocked, timed = planned(source(timestamp="kafka"))
    assert clocked.time_column is None
    assert same == stored, "a range judges records only"
    assert len({stored, elsewhere, other, timed}) == 4
    assert (
        len(
            {
                declared.schema_fingerprint
                for declared in (plain_source, nested, wide, exact, clocked)
            }
        )
        == 5
    )


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({"user": "who.id"}, "is no path"),
        ({"user": "$"}, "is no path"),
        ({"user": "$.who[0]"}, "is no path"),
        ({"user": "$..id"}, "is no path"),
        ({"nobody": "$.a"}, "names 'nobody'"),
        ({"user": "$.born"}, "stand at one place"),
        ({"user": "$.born.x"}, "stand at one place"),
        ({"user": "$.a", "small": "$.a.b"}, "stand at one place"),
    ],
)
def test_a_path_that_is_none_or_is_another_columns_is_refused(
    paths: dict[str, str], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        source(paths=paths)


def test_the_time_of_the_kafka_record_is_the_events_time() -> None:
    clocked = view(source(timestamp="kafka"))
    stamped = [
        {**event, "kafka_time": datetime.fromtimestamp(AT // 10**6, UTC)} for event in EVENTS
    ]
    assert answer(sw.evaluate(clocked, stamped, QUERIES)) == {
        **EXPECTED,
        "births_1h": EXPECTED["births_1h"],
    }
    with pytest.raises(BadRequest, match="no kafka_time"):
        sw.evaluate(clocked, EVENTS, QUERIES)
    with pytest.raises(DefinitionError, match="a column has that name too"):
        source(schema={**SCHEMA, "kafka": "long"}, timestamp="kafka")


def test_any_order_of_rows_gives_the_same_bytes_where_partition_and_offset_are_given() -> None:
    random = np.random.default_rng(20260101)
    events = [
        {
            "user": int(random.integers(3)),
            "born": date.fromordinal(int(random.integers(1, 3_000_000))),
            "small": int(random.integers(-128, 128)),
            "level": 1,
            "ratio": float(random.normal() * 10.0 ** int(random.integers(-30, 30))),
            "price": Decimal("0.01"),
            "t": AT + int(random.integers(4)),  # many ties
            "partition": offset % 3,
            "offset": offset,
        }
        for offset in range(300)
    ]
    queries = [{"user": user, "at": AT + at} for user in range(3) for at in range(5)]
    first = sw.evaluate(view(source()), events, queries)
    for _ in range(5):
        random.shuffle(events)
        assert sw.evaluate(view(source()), events, queries).equals(first)


@pytest.mark.parametrize(
    "given",
    [
        {"format": "xml"},
        {"format": "avro"},
        {"registry": "http://registry:8081"},
        {"format": "avro", "registry": "registry:8081"},
        {"format": "avro", "registry": "http://ann:secret@registry:8081"},
        {"format": "protobuf", "registry": "http://registry:8081/?key=secret"},
    ],
)
def test_a_format_needs_its_registry_and_no_secret_stands_in_a_definition(
    given: dict[str, Any],
) -> None:
    with pytest.raises(DefinitionError) as caught:
        source(**given)
    assert "secret" not in str(caught.value)


def test_where_a_registry_stands_changes_no_fingerprint() -> None:
    first, stored = planned(source(format="avro", registry="http://one:8081"))
    second, same = planned(source(format="avro", registry="https://two/registry"))
    assert (first.schema_fingerprint, stored) == (second.schema_fingerprint, same)
    assert planned(source())[0].schema_fingerprint != first.schema_fingerprint


def test_the_python_form_of_a_source_is_the_same_source() -> None:
    declared = source(
        paths={"user": "$.who['@id']"}, format="avro", registry="http://one:8081", timestamp="kafka"
    )
    names: dict[str, Any] = {"sw": sw}
    exec(source_form(declared), names)
    assert names["events"] == declared


# ---- the archive


def test_every_type_comes_back_from_the_archive_as_it_was_given(tmp_path: Path) -> None:
    # small is declared narrow, and stands in the table as what its values are
    catalog = open_catalog(Settings.load({"SLICEWISE_STATE": str(tmp_path)}))
    deployment = plan(Project.of("p", [view(source(timestamp="kafka"), "born")]))
    declared, (unit,) = deployment.sources[0], deployment.units
    events = [
        {
            **event,
            "born": date.fromisoformat(event["born"]),
            "partition": 0,
            "offset": i,
            "kafka": AT + i,
        }
        for i, event in enumerate(EVENTS)
    ]
    events[0]["ratio"] = EXPECTED["ratio_1h"] - 1.5  # as the reader made it
    archive(catalog, declared, "0" * 32, 1, events, [], AT + 10)
    table = load(catalog, declared.name)
    assert table is not None
    result = scan_events(table, declared)
    kinds = {name: arrow_type(kind) for name, kind in declared.columns}
    assert {name: result[name].cast(kinds[name]).to_pylist() for name in kinds} == {
        name: [
            event[name] if name != "t" else datetime.fromtimestamp(event[name] / 1e6, UTC)
            for event in events
        ]
        for name in kinds
    }
    own = unit_events(unit, result)
    assert own.entities.values["born"].to_pylist() == [date(1999, 12, 31), date(1, 1, 1)]
    tree = SliceTree.build(unit.layout, unit.slice_us, own.source, None)
    (feature,) = (column for column in unit.features if column.column == "ratio_1h")
    combined = tree.combine(np.array([0]), np.array([AT]), np.array([AT + HOUR]), [feature.partial])
    assert feature.aggregate.finish_columns(combined[0]).values.to_pylist() == [
        EXPECTED["ratio_1h"] - 1.5
    ]


def test_a_file_of_records_is_read_where_the_columns_stand(tmp_path: Path) -> None:
    declared = sw.KafkaSource(
        "events",
        schema={"user": "int32", "n": "int8", "born": "date", "tags": "array<string>"},
        timestamp="kafka",
        paths={"user": "$.who.id", "n": "$.who.more.n"},
    )
    records = (
        {
            "user": 1,
            "who": {"id": 7, "more": {"n": 3}},
            "born": "2024-02-29",
            "tags": ["a"],
            "kafka_time": AT,
        },
        {"user": 1, "who": {"id": 7}, "born": "1999-12-31", "tags": None, "kafka_time": AT + 1},
    )
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    features = [
        sw.Feature("n", sw.sum("n"), ["1h"]),
        sw.Feature("of", sw.last_k("born", k=2), ["1h"]),
        sw.Feature("tagged", sw.count("tags"), ["1h"]),
    ]
    one = sw.FeatureView("v", source=declared, entity=["user"], features=features)
    table = sw.evaluate(one, read_events(file, declared).table, QUERIES)
    assert answer(table) == {
        "n_1h": 3,
        "of_1h": [date(1999, 12, 31), date(2024, 2, 29)],
        "tagged_1h": 1,
    }
    flat = tmp_path / "flat.csv"
    flat.write_text(f"user,n,born,kafka_time\n7,3,2024-02-29,{AT}\n", encoding="utf-8")
    with_offsets = read_events(flat, declared).table
    assert answer(sw.evaluate(one, with_offsets, QUERIES))["of_1h"] == [date(2024, 2, 29)]
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("user,n\n7,3\n", encoding="utf-8")
    with pytest.raises(BadRequest, match="the file lacks kafka_time"):
        read_events(lacking, declared)
