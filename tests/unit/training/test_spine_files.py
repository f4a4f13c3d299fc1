"""A spine's file is typed by what is declared, never by what its texts look like; results are files
as well."""

from __future__ import annotations

import csv
import json
import math
import struct
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from slicewise.errors import BadRequest
from slicewise.training.csv_form import csv_bytes
from slicewise.training.tables.spine import Spine, read_spine

US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
AT = "2026-01-01T00:00:00Z"


def spine_of(
    folder: Path, text: str, entity: dict[str, str], questions: dict[str, str] | None = None
) -> Spine:
    file = folder / "spine.csv"
    file.write_text(text, encoding="utf-8")
    return read_spine(file, entity, questions or {})


def test_an_entity_has_its_declared_type_whatever_its_text_looks_like(tmp_path: Path) -> None:
    rows = f'user,shop,at,label\n007,12,{AT},1\n1e5,-3,{AT},0\ntrue,0,{AT},1\nNA,4,{AT},\n"",5,{AT},1\n'.replace(
        "+0", "0"
    )
    made = spine_of(tmp_path, rows, {"user": "string", "shop": "long"}).table
    assert made["user"].to_pylist() == ["007", "1e5", "true", "NA", ""]
    assert made["shop"].to_pylist() == [12, -3, 0, 4, 5]
    assert made["label"].to_pylist() == [1, 0, 1, None, 1]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("double", "0.1", 0.1),
        ("boolean", "true", True),
        ("date", "2026-02-28", date(2026, 2, 28)),
        ("decimal(6,2)", "1234.5", "1234.50"),
        ("timestamp_us", AT, US),
        ("timestamp_us", str(US), US),
        ("long", str(2**63 - 1), 2**63 - 1),
        ("string", " x ", " x "),
    ],
)
def test_each_type_is_read_from_its_text(
    tmp_path: Path, kind: str, text: str, value: object
) -> None:
    column = spine_of(tmp_path, f"key,at\n{text},{US}\n", {"key": kind}).table["key"]
    result = column.cast(pa.int64())[0] if kind == "timestamp_us" else column[0]
    assert (str(result.as_py()) if kind.startswith("decimal") else result.as_py()) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("long", "7a", "'7a' is no long"),
        ("long", "1.0", "'1.0' is no long"),
        ("long", str(2**63), "is no long"),
        ("double", "fast", "'fast' is no double"),
        ("double", "1e400", "'1e400' is no double"),
        ("boolean", "yes", "'yes' is no boolean"),
        ("decimal(4,1)", "1.25", "'1.25' is no decimal"),
        ("date", "28.2.2026", "no date"),
        ("timestamp_us", "2026-01-01T00:00:00", "no time zone"),
        ("string", "", "null"),
    ],
)
def test_a_text_that_is_no_value_of_the_type_is_refused_with_its_row(
    tmp_path: Path, kind: str, text: str, message: str
) -> None:
    good = {"timestamp_us": AT, "date": "2026-01-01", "boolean": "true"}.get(kind, "1")
    with pytest.raises(BadRequest, match=message) as refused:
        spine_of(tmp_path, f"key,at\n{good},{US}\n{text},{US}\n", {"key": kind})
    assert "column 'key'" in str(refused.value)
    assert kind == "date" or "row 1" in str(refused.value)


@pytest.mark.parametrize(
    ("ats", "message"),
    [
        (["2026-01-01T00:00:00"], "no time zone"),
        (["2026-01-01T00:00:00Z", ""], "null"),
        (["2026-01-01T00:00:00Z", "yesterday"], "'yesterday' is no instant"),
        (["2026-01-01T00:00:00Z", str(US)], "is no instant"),
        (["9" * 25], "no instant"),
    ],
)
def test_an_instant_of_a_csv_file_has_a_zone_or_is_in_microseconds(
    tmp_path: Path, ats: list[str], message: str
) -> None:
    lines = "".join(f"a,{at}\n" for at in ats)
    with pytest.raises(BadRequest, match=message) as refused:
        spine_of(tmp_path, f"user,at\n{lines}", {"user": "string"})
    assert "column 'at'" in str(refused.value)


def test_instants_of_a_csv_file_keep_their_microseconds_and_zones(tmp_path: Path) -> None:
    text = "user,at\na,2026-01-01T01:00:00.000001+01:00\nb,2026-01-01T00:00:00.000001Z\n"
    assert spine_of(tmp_path, text, {"user": "string"}).at_us.tolist() == [US + 1, US + 1]
    assert spine_of(tmp_path, f"user,at\na,{US}\nb,0\n", {"user": "string"}).at_us.tolist() == [
        US,
        0,
    ]


def test_labels_are_numbers_only_where_no_digit_is_lost(tmp_path: Path) -> None:
    text = f"user,at,whole,half,code,long,flag,mixed\na,{US},1,0.5,007,{'9' * 19},true,1\nb,{US},-2,2,010,1,false,x\n"
    table = spine_of(tmp_path, text, {"user": "string"}).table
    rows = {name: table[name].to_pylist() for name in table.column_names[2:]}
    assert rows == {
        "whole": [1, -2],
        "half": [0.5, 2.0],
        "code": ["007", "010"],
        "long": ["9" * 19, "1"],
        "flag": [True, False],
        "mixed": ["1", "x"],
    }


def test_a_column_that_features_are_asked_by_may_lack_values(tmp_path: Path) -> None:
    table = spine_of(
        tmp_path, f"user,song,at\na,01,{US}\nb,,{US}\n", {"user": "string"}, {"song": "string"}
    ).table
    assert table["song"].to_pylist() == ["01", None]


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrow", "a.arrows", "no_suffix"])
def test_files_with_types_are_read_as_they_are(tmp_path: Path, name: str) -> None:
    table = pa.table({"user": ["007"], "at": pa.array([US], pa.timestamp("us", "UTC"))})
    if name.endswith("arrows"):
        with pa.ipc.new_stream(tmp_path / name, table.schema) as stream:
            stream.write_table(table)
    else:
        is_feather = name.endswith(("feather", "arrow"))
        write = pyarrow.feather.write_feather if is_feather else pq.write_table
        write(table, tmp_path / name)
    assert read_spine(tmp_path / name, {"user": "string"}).table.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "cannot be read as CSV"),
        ("a.csv", "user,at\na,b,c\n", "cannot be read as CSV"),
        ("a.feather", "no feather", "cannot be read as Feather"),
        ("a.arrows", "no stream", "cannot be read as Arrow stream"),
        ("a.parquet", "no parquet", "cannot be read as Parquet"),
        ("a.csv", "user,at,user\na,1,b\n", "two columns are named 'user'"),
        ("a.csv", "user,when\na,1\n", "the spine lacks at"),
    ],
)
def test_a_file_that_is_no_spine_is_refused(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadRequest, match=message) as refused:
        read_spine(tmp_path / name, {"user": "string"})
    assert refused.value.next_step


def test_a_result_in_csv_gives_every_double_again(tmp_path: Path) -> None:
    rng = Random(5)
    doubles = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(5_000)]
    doubles += [
        0.1,
        -0.0,
        0.0,
        5e-324,
        1.7976931348623157e308,
        math.inf,
        -math.inf,
        math.nan,
        1 / 3,
    ]
    doubles = [double if double == double else math.nan for double in doubles]
    (tmp_path / "x.csv").write_bytes(csv_bytes(pa.table({"x": doubles})))
    with (tmp_path / "x.csv").open(newline="") as file:
        results = [float(row["x"]) for row in csv.DictReader(file)]
    assert [struct.pack("<d", number) for number in results] == [
        struct.pack("<d", double) for double in doubles
    ]


def test_what_csv_has_no_text_for_is_json_and_null_is_no_empty_text(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "text": pa.array(["", None, 'a "b", c']),
        "list": pa.array([[0.1, math.inf], [], None], pa.list_(pa.float64())),
        "best": pa.array([[{"by": 1 / 3, "payload": "ü"}], None, []]),
        "at": pa.array([US + 1, US, None], pa.timestamp("us", "UTC")),
        "none": pa.nulls(3),
    }  # fmt: skip
    (tmp_path / "x.csv").write_bytes(csv_bytes(pa.table(values)))
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines[1].startswith('"",')
    assert lines[2].startswith(",")
    with (tmp_path / "x.csv").open(newline="") as file:
        first, second, third = csv.DictReader(file)
    assert third["text"] == 'a "b", c'
    assert json.loads(first["list"]) == [0.1, "Infinity"]
    assert json.loads(first["best"]) == [{"by": 1 / 3, "payload": "ü"}]
    assert (json.loads(second["list"]), second["best"], third["best"]) == ([], "", "[]")
    assert first["at"] == "2026-01-01T00:00:00.000001Z"
    assert {first["none"], second["none"]} == {""}
