"""Logged entities become the values that the API took them for."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from slicewise.features.schema.types import TIMESTAMP, arrow_type
from slicewise.serving.answering.catalog import value_of
from slicewise.training.logged.columns import answer_texts, entity_columns, has_lists
from slicewise.training.logged.replaying import Replayed, _compare


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", ["ann", "", "7", "é"]),
        ("long", [0, -(2**63), 2**63 - 1]),
        ("boolean", [True, False]),
        (TIMESTAMP, ["2026-11-21T08:00:00Z", "2026-11-21T09:00:00.5+01:00", 1_700_000_000_000_000]),
        ("date", ["2026-11-21", "1969-12-31"]),
        ("decimal(10,2)", ["1.50", 7, "-0.01"]),
    ],
)  # fmt: skip
def test_an_entity_is_typed_as_the_api_types_it(kind: str, values: list[Any]) -> None:
    texts = [json.dumps({"key": value}) for value in values]
    column = entity_columns(texts, {"key": kind})["key"]
    wanted = pa.array([value_of(value, kind, "key", 0) for value in values], arrow_type(kind))
    assert column.equals(wanted)


def test_defaults_stand_in_the_place_of_nulls_and_nan_is_a_text() -> None:
    table = pa.table({"a:x": [1.5, None, float("nan")], "a:y": pa.array([None, 2, 3], pa.int64())})
    assert answer_texts(table, ["a:y", "a:x"], {"a:x": 0.0}) == [
        '{"a:y":null,"a:x":1.5}',
        '{"a:y":2,"a:x":0.0}',
        '{"a:y":3,"a:x":"NaN"}',
    ]


def test_a_filter_that_was_asked_for_several_is_seen() -> None:
    assert has_lists('{"user":"a","song":["x","y"]}')
    assert not has_lists('{"user":"[]","song":"x"}')


def test_one_digit_more_is_a_difference() -> None:
    count = 30
    logged = pa.table(
        {
            "request_id": [f"r{n}" for n in range(count)],
            "logged_at": pa.array(range(count), pa.timestamp("us", "UTC")),
            "feature_set": ["s"] * count,
            "deployment": ["d"] * count,
            "answered_at": pa.array(range(count), pa.timestamp("us", "UTC")),
            "entity": ["{}"] * count,
            "answer": ['{"a:x":0.1}'] * count,
            "token": ["t"] * count,
            "flags": [""] * count,
        }
    )
    replayed = Replayed("requests", 0, count)
    again = ['{"a:x":0.1}', '{"a:x":0.10000000000000002}'] * (count // 2)
    _compare(replayed, logged, again)
    assert (replayed.equal, replayed.different, len(replayed.differing)) == (15, 15, 15)
    assert replayed.differing[0].to_json() == {
        "request_id": "r1",
        "logged_at": "1970-01-01T00:00:00.000001+00:00",
        "feature_set": "s",
        "entity": "{}",
        "logged": '{"a:x":0.1}',
        "again": '{"a:x":0.10000000000000002}',
    }
