"""Answers that nothing can be compared with are counted by reason, and end no replay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slicewise.errors import UnknownName
from slicewise.training.logged.replaying import (
    NO_EVENT,
    Replayed,
    _answerable,
    _compared,
    of_set,
)
from tests.unit.serving.logged.test_request_log import deployment


def logged(*rows: dict[str, Any]) -> pa.Table:
    whole = {"flags": "", "token": "", "entity": "{}", "feature_set": "logged"}
    return pa.Table.from_pylist([{**whole, **row} for row in rows])


def test_what_the_store_did_not_give_or_nobody_wrote_is_counted() -> None:
    replayed = Replayed("requests", 0)
    kept = _compared(
        replayed,
        logged(
            {"flags": "overflow,stale"},
            {"flags": "default"},
            {},
            {"token": "no token"},
            {"token": "", "entity": "no JSON"},
        ),
    )
    assert kept.num_rows == 0
    assert replayed.left_out == {
        "flag stale": 1,
        "flag default": 1,
        "without a token": 2,
        NO_EVENT: 1,
    }


def test_entities_without_the_columns_of_their_set_are_no_events_of_the_api() -> None:
    replayed = Replayed("requests", 0)
    rows = logged({"entity": '{"user_id":"a"}'}, {"entity": '{"user":"a"}'}, {"entity": "{}"})
    assert _answerable(replayed, deployment(), "logged", rows).num_rows == 1
    assert replayed.left_out == {NO_EVENT: 2}
    assert _answerable(replayed, deployment(), "unknown", rows).num_rows == 0
    assert replayed.left_out == {NO_EVENT: 5}


def test_a_set_has_the_answers_of_all_its_versions_and_an_unknown_one_is_refused() -> None:
    rows = logged(
        {"feature_set": "a"}, {"feature_set": "a@2"}, {"feature_set": "ab"}, {"feature_set": "b"}
    )
    assert of_set(rows, "a", "--set")["feature_set"].to_pylist() == ["a", "a@2"]
    assert of_set(rows, "a@2", "--set").num_rows == 1
    with pytest.raises(UnknownName, match="'c'"):
        of_set(rows, "c", "--set")
