"""A request for a training set is typed at the edge, and a client names nothing of the server's."""

from __future__ import annotations

import json
import math
from urllib.parse import quote

import msgpack
import pytest

from slicewise.errors import BadRequest, RangeRefused
from slicewise.serving.http.training_sets.requests import ROWS, parse, parse_query, upload_of
from slicewise.serving.http.training_sets.transfer import range_of

SPINE = [{"user_id": "ann", "at": 5, "share": math.inf}]


def refused(**more: object) -> BadRequest:
    body = {"features": ["v:f"], "spine": [{"at": 5}], **more}
    with pytest.raises(BadRequest) as error:
        parse(json.dumps(body).encode(), msgpack=False, namespaces=("marketing",))
    assert error.value.next_step
    return error.value


def test_rows_and_columns_keep_every_bit_of_a_double() -> None:
    columns = {name: [row[name] for row in SPINE] for name in SPINE[0]}
    kept = [
        parse(msgpack.packb({"features": "s", "spine": spine}), msgpack=True, namespaces=())
        for spine in (SPINE, columns)
    ]
    assert [wanted.spine for wanted in kept] == [ROWS, ROWS]
    assert [msgpack.unpackb(wanted.rows or b"") for wanted in kept] == [SPINE, columns]


def test_columns_take_no_more_room_than_their_body_whatever_their_names() -> None:
    body = json.dumps({"features": "s", "spine": {"x" * 10_000: [0] * 50_000}}).encode()
    rows = parse(body, msgpack=False, namespaces=()).rows
    assert rows is not None
    assert len(rows) <= len(body)


@pytest.mark.parametrize("digits", ["9" * 5_000, "\u0661"])
def test_a_number_beyond_all_is_no_instant(digits: str) -> None:
    with pytest.raises(BadRequest):
        parse_query(f"features=v:f&known_at={quote(digits)}".encode(), "spine.csv")


def test_a_query_has_the_options_of_a_body() -> None:
    query = (
        b"features=v:f,v:g&known_at=2026-01-01T00:00:00%2B01:00&archive=false&engine=local"
        b"&as_of_definition=1767225600000000"
    )
    options = parse_query(query, "spine.csv").options
    body = {
        "features": ["v:f", "v:g"],
        "known_at": "2026-01-01T00:00:00+01:00",
        "as_of_definition": 1_767_225_600_000_000,
        "archive": False,
        "engine": "local",
        "spine": "iceberg:marketing.churn",
    }
    given = parse(json.dumps(body).encode(), msgpack=False, namespaces=("marketing",))
    assert given.spine == "iceberg:marketing.churn"
    for name in ("features", "known_at", "as_of_definition", "archive", "engine", "knowledge"):
        assert getattr(options, name) == getattr(given.options, name), name
    assert parse_query(b"features=churn_v1", "spine.csv").options.features == "churn_v1"
    assert parse_query(b"features=v:f", "spine.csv").options.features == ["v:f"]


@pytest.mark.parametrize(
    "spine",
    [
        "sql:SELECT 1",
        "spine.parquet",
        "/etc/passwd",
        "",
        "iceberg:",
        "iceberg:log.plays",
        "iceberg:ops.datasets@5",
        "iceberg:marketing",
        "iceberg:marketing.inner.churn",
        "ICEBERG:marketing.churn",
    ],
)
def test_a_text_that_is_no_table_of_an_open_namespace_is_refused(spine: str) -> None:
    error = refused(spine=spine)
    assert error.where == "spine"
    assert "marketing" in (error.expected or "")


def test_a_row_that_is_none_is_named() -> None:
    assert "$.spine[1]" in refused(spine=[{"at": 5}, 7]).what
    assert "2^63" in (refused(spine=[{"at": 2**70}]).expected or "")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"features": []}, "body"),
        ({"features": ["v:f", "v:f"]}, "features"),
        ({"spine": []}, "body"),
        ({"spine": {}}, "spine"),
        ({"spine": {"at": [1, 2], "user_id": ["ann"]}}, "spine"),
        ({"known_at": "2026-01-01T00:00:00"}, "known_at"),
        ({"as_of_definition": -1}, "as_of_definition"),
        ({"known_at": 5, "knowledge": "token"}, "known_at"),
        ({"engine": "duckdb"}, "body"),
        ({"format": "xlsx"}, "body"),
        ({"statistics": True}, "body"),
    ],
)
def test_an_option_that_is_none_is_refused_by_its_name(
    given: dict[str, object], where: str
) -> None:
    assert refused(**given).where == where


@pytest.mark.parametrize(
    "query", [b"", b"features", b"features=s&features=t", b"features=s&spine=x", b"engine=local"]
)
def test_a_query_that_is_no_request_is_refused(query: bytes) -> None:
    with pytest.raises(BadRequest, match="no request for a training set"):
        parse_query(query, "spine.csv")


def test_media_types_are_read_without_their_parameters() -> None:
    assert upload_of(b"Text/CSV; charset=utf-8") == "spine.csv"
    assert upload_of(b"application/vnd.apache.parquet") == "spine.parquet"
    assert upload_of(b"application/json") is None


@pytest.mark.parametrize(
    ("given", "span"),
    [
        (b"bytes=0-0", (0, 1)),
        (b"bytes=2-", (2, 10)),
        (b"bytes=-3", (7, 10)),
        (b"bytes=-30", (0, 10)),
        (b"bytes=8-80", (8, 10)),
        (b"bytes=0-1,4-5", None),
        (b"bytes=5-4", None),
        (b"rows=0-1", None),
        (b"bytes=-", None),
    ],
)
def test_a_range_is_one_of_bytes(given: bytes, span: tuple[int, int] | None) -> None:
    assert range_of([(b"range", given)], 10) == span


@pytest.mark.parametrize("given", [b"bytes=10-", b"bytes=11-12", b"bytes=-0"])
def test_a_range_outside_of_the_file_is_refused(given: bytes) -> None:
    with pytest.raises(RangeRefused, match="outside of 10 bytes"):
        range_of([(b"range", given)], 10)
