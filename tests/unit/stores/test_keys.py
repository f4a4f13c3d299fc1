"""Keys and fields of the online store are what docs/format.md says, to the byte."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.errors import CodecError
from slicewise.stores.online import keys
from tests.support.stores.stored import topic_partition

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "keys.json").read_text(encoding="utf-8")
)
UNIT = "00000000000000aa"


@pytest.mark.parametrize("case", GOLDEN["tags"], ids=lambda case: case["tag"])
def test_tags_are_the_golden_ones(case: dict[str, Any]) -> None:
    columns = [tuple(column) for column in case["columns"]]
    values = [[value] for value in case["values"]]
    values = [
        [date.fromisoformat(v["date"]) if isinstance(v, dict) else v for v in row] for row in values
    ]
    assert keys.entity_tags(columns, values, case["partition"]) == [case["tag"].encode()]


def test_keys_are_the_golden_ones() -> None:
    tag = b"user_id:string:42"
    assert {
        "hot": keys.hot_key(17, tag, keys.unit_name(UNIT, 0)).decode(),
        "day": keys.day_key(17, tag, UNIT, 15_706).decode(),
        "swapped": keys.published_key(17, UNIT).decode(),
        "covers": keys.offset_vectors_key(17, "plays").decode(),
        "list": keys.list_key(17, tag, UNIT).decode(),
        "events": keys.members_key(17, tag, UNIT).decode(),
        "ids": keys.ids_key(17, tag, UNIT).decode(),
        "hot of a term": keys.hot_key(17, tag, keys.unit_name(UNIT, 9)).decode(),
        "swapped of a term": keys.published_key(17, keys.unit_name(UNIT, 9)).decode(),
        "marks": keys.METADATA.decode(),
        "board": keys.leaderboard_key(17, "top_songs").decode(),
        "board of a past end": keys.leaderboard_key(
            17, "top_songs", 1_357_000_010_000_000
        ).decode(),
        "manifest": keys.manifest_key("abc").decode(),
        "entered": keys.entered_key(17, "plays", 376_872).decode(),
    } == GOLDEN["keys"]


def test_fields_are_the_golden_ones() -> None:
    assert keys.applied_field(topic_partition(2)).decode() == GOLDEN["fields"]["guard"]
    assert (
        keys.running_fields([2_261_232], topic_partition(2))[0].decode()
        == GOLDEN["fields"]["running"]
    )
    assert (
        keys.pending_field(keys.topic_partition_text(topic_partition(2)), 17).decode()
        == GOLDEN["fields"]["tail"]
    )
    assert (
        keys.pending_numbers(keys.topic_partition_text(topic_partition(2))).decode()
        == GOLDEN["fields"]["tail head"]
    )
    assert keys.ids_field(topic_partition(2)).decode() == GOLDEN["fields"]["ids"]
    assert keys.skip_field(topic_partition(2)).decode() == GOLDEN["fields"]["skip"]
    assert [field.decode() for field in keys.hour_fields(376_872)] == GOLDEN["fields"]["hour"]


def test_values_of_every_type_have_one_text() -> None:
    instant = datetime(2013, 1, 1, 5, tzinfo=timezone(timedelta(hours=5)))
    assert keys.value_text(instant) == "1356998400000000"
    assert keys.value_text(datetime(2013, 1, 1, tzinfo=UTC)) == "1356998400000000"
    assert keys.value_text(Decimal("1.50")) == "1.50"
    assert keys.value_text(2**63 - 1) == "9223372036854775807"
    assert [keys.value_text(v) for v in (True, False)] == ["true", "false"]


@pytest.mark.parametrize("value", [None, 1.5, "\ud800", datetime(2013, 1, 1)])  # noqa: DTZ001
def test_what_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        keys.value_text(value)


@given(st.lists(st.tuples(st.text(), st.text()), min_size=2, max_size=5, unique=True))
def test_different_entities_have_different_tags_without_braces(
    entities: list[tuple[str, str]],
) -> None:
    columns = [("a", "string"), ("b", "string")]
    tags = keys.entity_tags(columns, list(zip(*entities, strict=True)))
    assert len(set(tags)) == len(entities)
    assert not any(brace in tag for tag in tags for brace in (b"{", b"}"))
