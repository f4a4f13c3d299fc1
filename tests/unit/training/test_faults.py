"""Values and files that cannot be read are told by row and value, in our words; no library's
message shows."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.errors import BadRequest
from slicewise.training.tables.given.files import read_events
from slicewise.training.tables.spine import given_spine

SOURCE = sw.KafkaSource(
    "plays",
    schema={
        "user": "string", "x": "double", "n": "long", "dec": "decimal(6,2)", "day": "date", "tags": "array<string>",
        "ts": "timestamp_us",
    },
    timestamp="ts",
)  # fmt: skip
VIEW = sw.FeatureView(
    "v", source=SOURCE, entity=["user"], features=[sw.Feature("n", sw.count(), windows=["1h"])]
)
FOREIGN = re.compile(
    r"arrow|convert|ArrowInvalid|conversion|parse error|magic|footer|tried|codec|Python|list<|date32|large_|object at"
    r"|Conversion|Expected|errno|\bbool\b|tz=|precision",
    re.IGNORECASE,
)


def own_words(error: BadRequest) -> bool:
    words = f"{error.what}\n{error.expected}\n{error.next_step}".replace(
        "an Arrow table", ""
    ).replace(".arrow", "")
    return bool(error.where and error.expected and error.next_step) and not FOREIGN.search(words)


EVENT = {"user": "ann", "ts": 1}
VALUES: dict[str, tuple[object, str, str]] = {
    "several types": ([{**EVENT, "x": 1.5}, EVENT, {**EVENT, "x": "a"}], "'a', and in row 0 1.5", "column 'x', row 2"),
    "truth and number": ([{**EVENT, "n": 1}, {**EVENT, "n": True}], "True, and in row 0 1", "column 'n', row 1"),
    "an object": ([{**EVENT, "x": object()}], "an instance of object is no value", "column 'x', row 0"),
    "a dict of numbers": ([{**EVENT, "x": {1: 2}}], "{1: 2} is no value", "column 'x', row 0"),
    "a list of several types": ([{**EVENT, "tags": ["a", 1]}], "['a', 1] is no value", "column 'tags', row 0"),
    "half a character": ([{**EVENT, "user": "\ud800"}], r"'\ud800' is no value", "column 'user', row 0"),
    "too many digits": ([EVENT, {**EVENT, "dec": Decimal("12345.67")}], "12345.67", "column 'dec', row 1"),
    "a large double": ([EVENT, {**EVENT, "dec": 1e300}], "1e+300", "column 'dec', row 1"),
    "an infinite decimal": ([{**EVENT, "dec": float("inf")}], "inf", "column 'dec', row 0"),
    "no day": ([EVENT, {**EVENT, "day": "2026-02-30"}], "'2026-02-30'", "column 'day', row 1"),
    "a list for a number": ([{**EVENT, "x": [1.0]}], "of type array<double>", "column 'x'"),
    "a struct": ([{**EVENT, "x": {"a": 1}}], "of type struct (a dict in each row)", "column 'x'"),
    "bytes": ([{**EVENT, "user": b"ann"}], "of type bytes", "column 'user'"),
    "a truth for a number": ([{**EVENT, "n": True}], "of type boolean", "column 'n'"),
    "no zone": ([{**EVENT, "ts": dt.datetime(2026, 1, 1)}], "of type timestamp: it has no time zone", "column 'ts'"),  # noqa: DTZ001
    "no row": ([EVENT, 7], "7 is no row", "events, row 1"),
    "a frame of several types": (
        pd.DataFrame({"user": ["ann", "bob"], "x": [1.5, "a"], "ts": [1, 2]}), "'a', and in row 0 1.5", "'x', row 1",
    ),
    "a frame with objects": (pd.DataFrame({"user": [object()], "ts": [1]}), "is no value", "column 'user', row 0"),
    "a frame with one name twice": (
        pd.DataFrame([["ann", "bob", 1]], columns=["user", "user", "ts"]), "two columns are named 'user'", "events",
    ),
    "a frame with a large number": (pd.DataFrame({"user": ["a"], "n": [2**70], "ts": [1]}), "beyond 64 bits", "'n'"),
    "events in CSV": ("events.csv", "CSV, which has no types", "events"),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_events_that_are_no_columns_are_told_by_row_and_value(name: str) -> None:
    given, what, where = VALUES[name]
    with pytest.raises(BadRequest) as caught:
        sw.evaluate(VIEW, given, [{"user": "ann", "at": 2}])
    assert what in caught.value.what
    assert where in str(caught.value.where)
    assert own_words(caught.value), caught.value


@pytest.mark.parametrize("bad", [object(), {"a": 1}, ["a", 1], "\ud800", Decimal("1.5"), b"a"])
def test_queries_are_called_queries(bad: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        sw.evaluate(VIEW, [EVENT], [{"user": bad, "at": 2}])
    assert str(caught.value.where).startswith("queries")
    assert own_words(caught.value), caught.value


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.csv", b"", "it is empty"),
        (
            "a.csv",
            b"user,at\nann,1,2\n",
            "the line of names has 2 columns, and a line has 3: ann,1,2",
        ),
        ("a.csv", b"user,at\n\xff,1\n", "column 1 holds a text that is not UTF-8"),
        ("a.parquet", b"", "it is empty"),
        ("a.parquet", b"no parquet, no parquet", "its content is not of that kind"),
        ("a.feather", b"no feather", "its content is not of that kind"),
    ],
)
def test_a_spine_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadRequest) as caught:
        given_spine(str(tmp_path / name))
    assert caught.value.what.endswith(what)
    assert own_words(caught.value), caught.value


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.csv", b"user,x,ts\nann,cheap,1\n", "column 2 holds 'cheap'"),
        (
            "a.jsonl",
            b'{"user": "ann", "x": 1}\n{"user": "ann", "x": "cheap"}\n',
            "in row 1 a string",
        ),
        ("a.jsonl", b'{"user": "ann"\n', "row 0 is no JSON object"),
        ("a.jsonl", b"", "it is empty"),
        ("a.parquet", b"no parquet, no parquet", "its content is not of that kind"),
    ],
)
def test_a_file_of_events_that_cannot_be_read_says_why(
    tmp_path: Path, name: str, content: bytes, what: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadRequest) as caught:
        read_events(tmp_path / name, SOURCE)
    assert what in caught.value.what
    assert own_words(caught.value), caught.value


def test_an_aggregate_names_types_as_a_schema_does() -> None:
    for column, kind in (("day", "date"), ("tags", "array<string>"), ("ts", "timestamp in UTC")):
        bad = sw.FeatureView(
            "v",
            source=SOURCE,
            entity=["user"],
            features=[sw.Feature("f", sw.sum(column), windows=["1h"])],
        )
        with pytest.raises(sw.SlicewiseError) as caught:
            sw.evaluate(bad, [EVENT], pa.table({"user": ["ann"], "at": [2]}))
        assert f"of type {kind}" in caught.value.what
