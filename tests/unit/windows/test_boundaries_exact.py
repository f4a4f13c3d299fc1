"""Exact windows have the edges of SQL's frames: `[` and `]` are in the window, `(` and `)` are
not."""

from __future__ import annotations

import pytest

import slicewise as sw
from slicewise.windows.bounds import Mode
from slicewise.windows.exact_range import Closed
from tests.unit.windows.edges import MODES, TEN, H, M, around, counted, read_around

AT = TEN + 17 * M + 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("closed", "start", "end"),
    [
        #           t - 1h              t
        #          x[x x              x x]x
        ("both", [0, 1, 1], [1, 1, 0]),
        #          x[x x              x x)x
        ("left", [0, 1, 1], [1, 0, 0]),
        #          x(x x              x x]x
        ("right", [0, 0, 1], [1, 1, 0]),
        #          x(x x              x x)x
        ("neither", [0, 0, 1], [1, 0, 0]),
    ],
)
def test_an_exact_window_holds_the_ends_that_are_closed(
    closed: Closed, start: list[int], end: list[int], mode: Mode
) -> None:
    window = sw.exact_range("1h", closed=closed)
    assert around(window, AT, AT - H, mode) == start
    assert around(window, AT, AT, mode) == end


@pytest.mark.parametrize(
    ("closed", "entering", "leaving"),
    [
        ("both", [0, 1, 1], [1, 1, 0]),
        ("left", [0, 0, 1], [1, 1, 0]),
        ("right", [0, 1, 1], [1, 0, 0]),
        ("neither", [0, 0, 1], [1, 0, 0]),
    ],
)
def test_an_event_enters_and_leaves_at_the_microsecond(
    closed: Closed, entering: list[int], leaving: list[int]
) -> None:
    #   e                 e + 1h
    #   x-----------------:                             read around e, and an hour later
    #   [                 ]   both:    from e to e + 1h
    #    (                ]   left:    after e to e + 1h
    #   [                 )   right:   from e to before e + 1h
    #    (                )   neither: after e to before e + 1h
    window = sw.exact_range("1h", closed=closed)
    assert read_around(window, AT, [AT]) == entering
    assert read_around(window, AT + H, [AT]) == leaving


@pytest.mark.parametrize("mode", MODES)
def test_rows_are_the_last_ones_at_or_before_the_reading(mode: Mode) -> None:
    #               t
    #   a b c d   x x]x                                 rows(3)
    a, b, c, d = (AT - by for by in (40, 30, 20, 10))
    assert around(sw.rows(3), AT, AT, mode) == [1, 1, 0]
    assert counted(sw.rows(3), [AT], [[a, b], [a, b, c], [a, b, c, d]], mode) == [2, 3, 3]


def test_the_oldest_row_leaves_when_one_comes() -> None:
    #   a b c       d                                   rows(3), read around d: a, b, c and then b, c, d
    #   [   ]                                           the sum of their places tells which
    view = sw.FeatureView(
        "v", sw.KafkaSource("plays", schema={"user": "string", "place": "long", "t": "timestamp_us"}, timestamp="t"),
        ["user"], [sw.Feature("places", sw.sum("place"), [sw.rows(3)])],
    )  # fmt: skip
    events = [
        {"user": "ann", "place": 10**i, "t": t} for i, t in enumerate((AT - 3, AT - 2, AT - 1, AT))
    ]
    queries = [{"user": "ann", "at": at} for at in (AT - 1, AT, AT + 1)]
    assert sw.evaluate(view, events, queries)["places_rows_3"].to_pylist() == [111, 1110, 1110]


def test_of_events_of_one_instant_the_rows_are_the_last_of_the_log() -> None:
    #   offset  0 1 2 3
    #   at t    a b c d                                 rows(3) at t: b, c, d
    view = sw.FeatureView(
        "v", sw.KafkaSource("plays", schema={"user": "string", "place": "long", "t": "timestamp_us"}, timestamp="t"),
        ["user"], [sw.Feature("places", sw.sum("place"), [sw.rows(3)])],
    )  # fmt: skip
    events = [
        {"user": "ann", "place": 10**i, "t": AT, "partition": 0, "offset": i} for i in (2, 0, 3, 1)
    ]
    assert sw.evaluate(view, events, [{"user": "ann", "at": AT}])["places_rows_3"].to_pylist() == [
        1110
    ]


def test_rows_have_no_edge_in_the_past() -> None:
    #   1970                                  t
    #   x---------------- … ------------------|         rows(3): however long ago
    assert counted(sw.rows(3), [AT], [[0], [1], [AT - 1]]) == [1, 1, 1]
