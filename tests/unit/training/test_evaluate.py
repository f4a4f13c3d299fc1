"""`sw.evaluate` answers what brute force over the events answers, for every aggregate, window and
mode."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import slicewise as sw
from slicewise.clock import END_OF_TIME_US
from slicewise.errors import BadRequest, DefinitionError
from slicewise.training.evaluate import REFUSED, evaluate
from tests.support.inputs.seeds import seeds
from tests.support.oracles.answers import HOUR, MINUTE, inside, session
from tests.unit.training.world import (
    AGGREGATES,
    START,
    expected,
    oracle_events,
    random_events,
    same,
    view,
)

TEN = 10 * MINUTE


def _bounds(column: str, mode: str, at: int) -> tuple[int, int]:
    """The bounds of docs/reference/aggregates.md, "Windows", for this view, whose slice is a
    minute, by hand."""
    end = {"event_time": at, "at": at // MINUTE * MINUTE, "live": -(-at // MINUTE) * MINUTE}[mode]
    if column.endswith("_session_10m"):  # where it is looked for
        return (end - 2 * HOUR) // MINUTE * MINUTE, end
    if column.endswith("_1h_offset_90m"):
        return (at - 150 * MINUTE) // MINUTE * MINUTE, end - 90 * MINUTE
    if column.endswith("_hopping_1h_10m"):
        return at // TEN * TEN - HOUR, at // TEN * TEN
    if column.endswith("_tumbling_1h"):
        return at // HOUR * HOUR - HOUR, at // HOUR * HOUR
    length = TEN if column.endswith("_10m") else 3 * HOUR
    return (at - length) // MINUTE * MINUTE, end


@pytest.mark.parametrize("seed", seeds(range(4)))
@pytest.mark.parametrize(
    "entity", [("user",), ("device", "user"), ()], ids=["one", "two", "global"]
)
def test_every_value_is_that_of_brute_force(seed: int, entity: tuple[str, ...]) -> None:
    events = random_events(seed, 400)
    queries: list[dict[str, Any]] = []
    for i, mode in enumerate(("event_time", "at", "live") * 4):
        at = START + (seed * 37 + i * 31) * MINUTE + (0, 1, 59_999_999)[i % 3]
        key = {"user": ["ann", "Zoë", "", "nobody"][i % 4], "device": i % 3}
        queries.append({"at": at, "mode": mode, **{name: key[name] for name in entity}})
    answered = evaluate(view(entity), events, queries).to_pylist()
    raw, compared, sessions = oracle_events(events), 0, Counter[tuple[bool, bool]]()
    for query, row in zip(queries, answered, strict=True):
        own = [e for e in raw if all(e.columns[name] == query[name] for name in entity)]
        for column in row.keys() - {*entity, "at"}:
            start, end = _bounds(column, query["mode"], query["at"])
            name = next(
                n for n in sorted(AGGREGATES, key=len, reverse=True) if column.startswith(n + "_")
            )
            is_session = column.endswith("_session_10m")
            chosen = session(own, start, end, TEN) if is_session else inside(own, start, end)
            sessions[len(chosen) > 0, 0 < len(chosen) < len(inside(own, start, end))] += is_session
            wanted = expected(name, chosen, end)
            assert same(row[column], wanted), (seed, column, query, row[column], wanted)
            compared += 1
    assert compared == 12 * 6 * len(AGGREGATES)
    assert sum(sessions.values()) > 0
    if len(entity) == 1:  # some sessions are over, and some begin after another one
        assert sessions[False, False]
        assert sessions[True, True]


def test_an_event_at_the_end_of_a_window_is_not_in_it() -> None:
    #        10:00          10:10
    # window [o-------------x)        o counts, x does not
    plays = _events({"played_at": START}, {"played_at": START + TEN})
    (row,) = _evaluated(plays, START + TEN)
    assert row["n_10m"] == 1


def test_a_late_event_counts_in_its_own_time() -> None:
    plays = _events({"played_at": START + TEN}, {"played_at": START + MINUTE})
    early, late = _evaluated(plays, START + 2 * MINUTE), _evaluated(plays, START + 11 * MINUTE)
    assert (early[0]["n_10m"], late[0]["n_10m"]) == (1, 2)


def test_an_unknown_entity_has_empty_aggregates() -> None:
    (row,) = evaluate(view(["user"]), [], [{"user": "nobody", "at": START}]).to_pylist()
    assert {row["n_10m"], row["songs_10m"]} == {0}
    assert row["seconds_10m"] is None


def test_a_sum_beyond_the_largest_double_is_null_and_named() -> None:
    table = evaluate(
        view(["user"]),
        _events(*({"seconds": 1.7e308, "played_at": START},) * 2),
        [{"user": "ann", "at": START + 1}],
    )
    assert table["seconds_10m"].to_pylist() == [None]
    assert table["n_10m"].to_pylist() == [2]
    assert b"seconds_10m: overflow" in table.schema.metadata[b"slicewise.errors"]


def test_what_the_platform_refuses_is_left_out_and_counted() -> None:
    strict = sw.KafkaSource(
        "plays", schema={"user": "string", "x": "double", "t": "timestamp_us"}, timestamp="t",
        max_lateness="1h", max_ahead="1m", required=["x"],
    )  # fmt: skip
    one = sw.FeatureView(
        "v", source=strict, entity=["user"], columns={"inverse": "1e308 * x"},
        features=[sw.Feature("n", sw.count(), ["1h"]), sw.Feature("i", sw.sum("inverse"), ["1h"])],
    )  # fmt: skip
    good = {"user": "ann", "x": 1.0, "t": START, "kafka_time": START}
    events = [
        good,
        {**good, "x": None},
        {**good, "x": float("nan")},
        {**good, "x": 1e308},  # the computed value is infinite: refused by this view
        {**good, "t": START - HOUR - 1},
        {**good, "t": START + MINUTE + 1},
        {**good, "user": None},
        {**good, "t": None},
    ]
    table = evaluate(one, events, [{"user": "ann", "at": START + 1}])
    assert table["n_1h"].to_pylist() == [1]
    assert table.schema.metadata[REFUSED] == (
        b"missing_required:t=1, missing_required:x=1, not_finite:inverse=1, null_entity=1, "
        b"out_of_range:x=1, too_far_ahead=1, too_late=1"
    )


@pytest.mark.parametrize(("form", "second"), [("us", 10**6), ("ms", 10**3), ("s", 1)])
def test_times_beyond_the_years_1970_to_9999_are_refused_as_records_with_them_are(
    form: str, second: int
) -> None:
    clicks = sw.KafkaSource(
        "clicks", schema={"user": "string", "t": f"timestamp_{form}"}, timestamp="t"
    )
    windows = [
        sw.sliding("1h"),
        sw.exact_range("1h"),
        sw.rows(9),
        sw.session("1m", max_length="1h"),
    ]
    one = sw.FeatureView("v", clicks, ["user"], [sw.Feature("n", sw.count(), windows)])
    end = END_OF_TIME_US * second // 10**6
    good = [0, end - 1]
    bad = [-1, end, -(2**63), 2**63 - 1]
    events = [{"user": "ann", "t": t} for t in (*good, *bad)]
    table = evaluate(
        one, events, [{"user": "ann", "at": END_OF_TIME_US - 1}, {"user": "ann", "at": 1}]
    )
    # of the last event; at that very instant it is in exact windows alone
    last = END_OF_TIME_US - 10**6 // second
    assert table["n_rows_9"].to_pylist() == [2, 1]
    assert table["n_1h"].to_pylist() == [int(last < END_OF_TIME_US - 1), 1]
    assert table.schema.metadata[REFUSED] == b"bad_time:t=4"
    assert table["at"].to_pylist()[0] == datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)


def test_the_time_of_a_record_is_one_too() -> None:
    clicks = sw.KafkaSource("clicks", schema={"user": "string"}, timestamp="kafka")
    one = sw.FeatureView("v", clicks, ["user"], [sw.Feature("n", sw.count(), ["1h"])])
    events = [{"user": "ann", "kafka_time": t} for t in (START, END_OF_TIME_US, -1)]
    table = evaluate(one, events, [{"user": "ann", "at": START + 1}])
    assert (table["n_1h"].to_pylist(), table.schema.metadata[REFUSED]) == ([1], b"bad_time:kafka=2")


def test_what_is_no_view_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'plays' is no view"):
        evaluate("plays", [], [])  # type: ignore[arg-type]  # the mistake


def test_events_may_come_as_an_arrow_table() -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("ns", "Europe/Berlin"))
    table = pa.table(
        {"user": ["ann", "bob"], "seconds": pa.array([10, 20], pa.int32()), "played_at": at}
    )
    rows = evaluate(
        view(["user"]), table, [{"user": "bob", "at": "2026-01-01T00:00:01Z"}]
    ).to_pylist()
    assert rows[0]["seconds_10m"] == 20.0


@pytest.mark.parametrize(
    ("events", "queries", "message"),
    [
        ([{"user": "a", "played_at": START, "sonk": "x"}], [], "sonk"),
        ([{"user": 7, "played_at": START}], [], "column 'user'"),
        ([{"user": "a", "stars": 1.0, "played_at": START}], [], "column 'stars'"),
        ([{"user": "a", "played_at": datetime(2026, 1, 1)}], [], "no time zone"),  # noqa: DTZ001
        ([{"user": "a", "played_at": "2026-01-01T00:00:00"}], [], "no time zone"),
        ([{"user": "a", "played_at": START, "offset": 1}] * 2, [], "one offset"),
        ([], [{"user": "a"}], "lacks at"),
        ([], [{"at": START}], "lacks user"),
        ([], [{"user": "a", "at": None}], "null"),
        ([], [{"user": None, "at": START}], "null"),
        ([], [{"user": 3, "at": START}], "type int64"),
        ([], [{"user": "a", "at": datetime(2026, 1, 1)}], "no time zone"),  # noqa: DTZ001
        ([], [{"user": "a", "at": START, "mode": "never"}], "never"),
        (7, [], "int is no table"),
        ([{}], [], "1 rows without a column"),
        ([{7: "a"}], [], "a column named 7"),
        ([{"user": "a", "stars": 2**63, "played_at": START}], [], "beyond 64 bits"),
        ([], [{"user": "a", "at": 2**63}], "beyond 64 bits"),
        ([], [{"user": "a", "at": -1}], "no instant"),
        ([], [{"user": "a", "at": END_OF_TIME_US}], "no instant"),
        ([], [{"user": "a", "at": datetime(1, 1, 1, tzinfo=UTC)}], "no instant"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_place(
    events: Any, queries: Any, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        evaluate(view(["user"]), events, queries)


@pytest.mark.parametrize(
    ("given", "total"),
    [
        (0.1, Decimal("0.35")),
        (-0.0, Decimal("0.25")),
        (None, Decimal("0.25")),
        (12.5, Decimal("12.75")),
    ],
)
def test_a_float_is_the_decimal_that_json_writes_for_it(
    given: float | None, total: Decimal
) -> None:
    events = [{"user": "a", "price": price, "paid_at": START} for price in (given, 0.25)]
    table = evaluate(_paid(), events, [{"user": "a", "at": START + 1}])
    assert table["spent_1h"].to_pylist() == [total]


@pytest.mark.parametrize("given", [1.005, 1e9, 1e300, math.nan, math.inf])
def test_a_float_that_is_no_such_decimal_is_refused_as_its_record_would_be(given: float) -> None:
    with pytest.raises(BadRequest, match="a value does not fit"):
        evaluate(
            _paid(),
            [{"user": "a", "price": given, "paid_at": START}],
            [{"user": "a", "at": START + 1}],
        )


def _paid() -> sw.FeatureView:
    schema = {"user": "string", "price": "decimal(10,2)", "paid_at": "timestamp_us"}
    source = sw.KafkaSource("payments", schema=schema, timestamp="paid_at")
    return sw.FeatureView(
        "paid",
        source=source,
        entity=["user"],
        features=[sw.Feature("spent", sw.sum("price"), ["1h"])],
    )


def _events(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"user": "ann", "seconds": 30.0, **event} for event in events]


def _evaluated(events: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = evaluate(
        view(["user"]), events, [{"user": "ann", "at": at}]
    ).to_pylist()
    return rows
