"""A wrong kind of parameter is refused with what is given and expected, where the definition is
written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import slicewise as sw
from slicewise.errors import DefinitionError
from slicewise.windows.durations import HOUR_US

SCHEMA = {"user_id": "string", "seconds": "double", "at_us": "timestamp_us"}
SOURCE = sw.KafkaSource("plays", SCHEMA, "at_us")


def source(**changes: object) -> object:
    make: Callable[..., object] = sw.KafkaSource
    return make(**{"name": "plays", "schema": SCHEMA, "timestamp": "at_us", **changes})


def view(**changes: object) -> object:
    make: Callable[..., object] = sw.FeatureView
    features = [sw.Feature("plays", sw.count(), windows=["10m"])]
    return make(
        **{
            "name": "listening",
            "source": SOURCE,
            "entity": ["user_id"],
            "features": features,
            **changes,
        }
    )


def case(**changes: object) -> object:
    make: Callable[..., object] = sw.case
    return make(**{"events": [], "at": 0, "expect": {"x": 1}, **changes})


def refused(make: Callable[[], object], what: str, hint: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        make()
    assert what in raised.value.what
    assert "test_parameters" in str(raised.value.where)
    assert hint in f"{raised.value.expected} {raised.value.next_step}"


# parameter, what is given, what is said of it, what is expected
CASES: list[tuple[str, object, str, str]] = [
    ("events", 5, "events is 5", "a list of dicts"),
    ("events", {"user_id": "ann"}, "events is {", "a list of dicts"),
    ("events", "ann", "events is 'ann'", "a list of dicts"),
    ("events", [1], "events[0] is 1", "a dict"),
    ("events", [{1: 2}], "events[0] is {1: 2}", "a dict of names"),
    ("at", None, "at is None", "RFC 3339 with zone"),
    ("at", True, "at is True", "RFC 3339 with zone"),
    ("at", 1.5, "at is 1.5", "RFC 3339 with zone"),
    ("at", "yesterday", "at is 'yesterday'", "RFC 3339 with zone"),
    ("at", "2026-01-01T00:00:00", "at is '2026-01-01T00:00:00'", "time without zone"),
    ("at", 10**30, "at is 1000", "RFC 3339 with zone"),
    ("at", "1969-12-31T23:59:59.999999Z", "at is '1969", "from 1970 on"),
    ("at", -1, "at is -1", "RFC 3339 with zone"),
    ("expect", [1], "expect is [1]", "a dict of names"),
    ("expect", {3: 1}, "expect is {3: 1}", "a dict of names"),
    ("entity", "ann", "entity is 'ann'", "a dict of names"),
    ("entity", {1: 2}, "entity is {1: 2}", "a dict of names"),
    ("mode", ["at"], "['at'] is no mode", "one of event_time"),
    ("name", 5, "name is 5", "a text"),
]
OPTIONS: list[tuple[str, Callable[..., object], str, object, str, str]] = [
    ("a view", view, "spread", "no", "spread is 'no'", "spread=True or spread=False"),
    ("a view", view, "spread", None, "spread is None", "spread=True or spread=False"),
    ("a view", view, "owner", 5, "owner is 5", "a text"),
    ("a view", view, "owner", " ", "owner is ' '", "a text"),
    ("a view", view, "where", True, "where is True", "row logic as text"),
    ("a view", view, "entity", {"user_id"}, "entity is {'user_id'}", "a list of texts"),
    (
        "a view",
        view,
        "entity",
        iter(["user_id"]),
        "entity is an instance of list_iterator",
        "a list of texts",
    ),
    ("a view", view, "columns", {5: "seconds"}, "columns is {5:", "a dict of names"),
    ("a source", source, "owner", ["me"], "owner is ['me']", "a text"),
    ("a source", source, "timestamp", ["at_us"], "timestamp is ['at_us']", "the name of a column"),
    ("a source", source, "paths", 5, "paths is 5", "a dict of names"),
    ("a source", source, "required", {"user_id": 1}, "required is {", "a list of texts"),
    (
        "an Avro source",
        partial(sw.KafkaSource, "plays", SCHEMA, "at_us", format="avro"),
        "registry",
        5,
        "URL is none",
        "http://host:port",
    ),
    ("a feature set", partial(sw.FeatureSet, "s", ["v:f_1h"]), "owner", 5, "owner is 5", "a text"),
    (
        "a feature set",
        partial(sw.FeatureSet, "s", ["v:f_1h"]),
        "defaults",
        {5: 1},
        "defaults is {5: 1}",
        "a dict",
    ),
    (
        "a leaderboard",
        partial(sw.Leaderboard, "b", "v", "f_1h"),
        "owner",
        5,
        "owner is 5",
        "a text",
    ),
    (
        "a leaderboard",
        partial(sw.Leaderboard, "b", "v", "f_1h", late="correct"),
        "topic",
        5,
        "5 is no topic name",
        "letters",
    ),
    (
        "SQL",
        partial(sw.sql, ""),
        "sources",
        "plays",
        "sources is 'plays'",
        "sources=[sw.KafkaSource",
    ),
    ("SQL", partial(sw.sql, ""), "sources", 5, "sources is 5", "sources=[sw.KafkaSource"),
    ("SQL", partial(sw.sql, ""), "tests", 5, "tests is 5", "tests=[sw.case"),
    ("SQL", sw.sql, "text", 5, "the SQL is 5", "a text"),
    ("SQL", partial(sw.sql_views, ""), "tests", [1], "tests is [1]", "a dict"),
]
WINDOWS: list[tuple[str, Callable[[], object], str, str]] = [
    ("tumbling(60)", lambda: sw.tumbling(60), "60 is no duration", "10m"),  # type: ignore[arg-type]  # the mistake
    (
        "open='yes'",
        lambda: sw.tumbling("1h", open="yes"),  # type: ignore[arg-type]
        "is no window",
        "open=True or open=False",
    ),
    ("offset=True", lambda: sw.sliding("1h", offset=True), "True is no duration", "10m"),  # type: ignore[arg-type]
    ("offset=5 of a lifetime", lambda: sw.lifetime(offset=5), "5 is no duration", "10m"),  # type: ignore[arg-type]
    (
        "session without length",
        lambda: sw.session("30m", max_length="1m"),
        "ends before its gap",
        "lengthen",
    ),
    (
        "closed='BOTH'",
        lambda: sw.exact_range("1h", closed="BOTH"),  # type: ignore[arg-type]
        "closed is 'BOTH'",
        "leave it out",
    ),
    ("no length", lambda: sw.Window("sliding", 0), "is no window", "a length"),
    (
        "a lifetime of an hour",
        lambda: sw.Window("lifetime", HOUR_US),
        "is no window",
        "a length, unless",
    ),
    ("a million years", lambda: sw.Window("sliding", 10**20), "is no window", "at most 10000d"),
    ("a hop of a lifetime", lambda: sw.Window("lifetime", 0, HOUR_US), "is no window", "a hop, of"),
    (
        "tumbling by another hop",
        lambda: sw.Window("tumbling", HOUR_US, 1),
        "is no window",
        "a hop that is the length",
    ),
    (
        "a hop beyond",
        lambda: sw.Window("hopping", HOUR_US, HOUR_US + 1),
        "is no window",
        "a hop of at most",
    ),
    ("a session without gap", lambda: sw.Window("session", HOUR_US), "is no window", "a gap"),
    ("no rows", lambda: sw.Window("rows", 0), "is no window", "rows, of a rows window"),
    (
        "an open lifetime",
        lambda: sw.Window("lifetime", 0, open=True),
        "is no window",
        "open=True of tumbling",
    ),
    (
        "closed='left'",
        lambda: sw.Window("sliding", HOUR_US, closed="left"),
        "is no window",
        "closed, of exact",
    ),
    (
        "label='an hour'",
        lambda: sw.Window("sliding", HOUR_US, label="an hour"),
        "is no window",
        "a label",
    ),
    ("rows('5')", lambda: sw.rows("5"), "a window of '5' rows", "a whole number"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("option", "wrong", "what", "hint"), CASES)
def test_a_case_is_what_can_be_asked(option: str, wrong: object, what: str, hint: str) -> None:
    refused(lambda: case(**{option: wrong}), what, hint)


@pytest.mark.parametrize(("kind", "make", "option", "wrong", "what", "hint"), OPTIONS)
def test_a_parameter_of_a_wrong_kind_is_refused(
    kind: str, make: Callable[..., object], option: str, wrong: object, what: str, hint: str
) -> None:
    print(kind)
    refused(lambda: make(**{option: wrong}), what, hint)


@pytest.mark.parametrize(("text", "make", "what", "hint"), WINDOWS)
def test_a_window_of_a_wrong_kind_is_refused(
    text: str, make: Callable[[], object], what: str, hint: str
) -> None:
    print(text)
    refused(make, what, hint)
