"""Answers that nothing can be compared with are counted by reason, and end no replay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from slicewise.errors import UnknownName
from slicewise.training.logged.replaying import (
    NO_EVENT,
    READ,
    Replayed,
    _answerable,
    _compared,
    newest_answers,
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


HOUR_US = 3_600_000_000


class Hours:
    """An archive of one answer per hour, of two sets in turns, that says what was read of it."""

    def __init__(self, hours: int) -> None:
        self.hours, self.read = hours, list[tuple[int, int]]()

    def reaches(self, _source: str) -> Any:
        return SimpleNamespace(archive_version=1)

    def events(self, _source: Any, columns: Any, start_us: int, end_us: int, _at: int) -> pa.Table:
        self.read.append((start_us, end_us))
        some = [h for h in range(self.hours) if start_us <= h * HOUR_US < end_us]
        table = {name: pa.array([str(h) for h in some], pa.string()) for name in columns}
        table["feature_set"] = pa.array([f"set{h % 2}" for h in some], pa.string())
        numbers = {"event_time": [h * HOUR_US for h in some], "partition": [0] * len(some)}
        order = {name: pa.array(of, pa.int64()) for name, of in numbers.items()}
        return pa.table(table | order | {"offset": pa.array(some, pa.int64())})


@pytest.mark.parametrize("limit", [None, 1, 7, 100, 5_000])
@pytest.mark.parametrize("feature_set", [None, "set1"])
def test_the_newest_answers_are_those_of_the_whole_log(
    limit: int | None, feature_set: str | None
) -> None:
    archive, source = Hours(1_000), SimpleNamespace(name="requests")
    end_us = 1_000 * HOUR_US
    rows = newest_answers(archive, source, 10 * HOUR_US, end_us, feature_set, limit)  # type: ignore[arg-type]
    hours = [h for h in range(10, 1_000) if feature_set is None or h % 2]
    wanted = hours if limit is None else hours[-limit:]
    assert rows["request_id"].to_pylist() == [str(h) for h in wanted]
    assert set(READ) <= set(rows.column_names)
    read_us = sum(end - start for start, end in archive.read)
    most = 990 if limit is None else min(990, 8 * limit)
    assert read_us <= most * HOUR_US, "what is not needed is not read"
    assert [start for start, _ in archive.read[:-1]] == [end for _, end in archive.read[1:]]


def test_a_set_that_nothing_was_logged_of_is_refused_with_a_limit_too() -> None:
    archive, source = Hours(50), SimpleNamespace(name="requests")
    with pytest.raises(UnknownName, match="'other'"):
        newest_answers(archive, source, 0, 50 * HOUR_US, "other", 5)  # type: ignore[arg-type]
