"""Values and keys alone decide a leaderboard's rows, and corrections lead to the rows of a new
count."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.emission.ranking import RankedRow, RankedRows, corrected, ranked_rows, top
from slicewise.stores.online.keys import entity_tags

SONG = (("song_id", "string"),)
TWO = (("country", "string"), ("n", "long"))


def by_force(values: dict[str, int], k: int) -> list[tuple[str, int]]:
    """Sorted whole; zeros have no place."""
    some = [(song, value) for song, value in values.items() if value]
    return sorted(some, key=lambda entry: (-entry[1], entity_tags(SONG, [[entry[0]]])[0]))[:k]


def table(values: dict[str, int]) -> tuple[pa.Table, pa.Array]:
    return pa.table({"song_id": pa.array(list(values), pa.string())}), pa.array(
        list(values.values()), pa.int64()
    )


def rows(ranked: RankedRows) -> list[tuple[Any, Any]]:
    return [(ranked_row.row.key[0], ranked_row.row.value) for ranked_row in ranked.rows]


counts = st.dictionaries(st.text(max_size=3), st.integers(-3, 3), max_size=30)


@given(counts, st.integers(1, 8), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_best_are_those_of_a_whole_sort_in_any_order_of_the_entities(
    values: dict[str, int], k: int, draw: random.Random
) -> None:
    shuffled = list(values.items())
    draw.shuffle(shuffled)
    result = top(SONG, *table(dict(shuffled)), 0, k)
    assert rows(result) == by_force(values, k)
    assert result.more == (sum(map(bool, values.values())) > k)


def test_equal_values_stand_in_the_order_of_their_keys_bytes() -> None:
    entities = pa.table({"country": ["b", "a", "a"], "n": pa.array([1, 10, 9], pa.int64())})
    result = top(TWO, entities, pa.array([7, 7, 7]), 0, 2)
    assert [ranked_row.row.key for ranked_row in result.rows] == [
        ("a", 10),
        ("a", 9),
    ]  # "10" before "9"
    assert result.more


@pytest.mark.parametrize(
    ("values", "nothing", "want"),
    [
        (pa.array([0, 3, None]), 0, [3]),
        (pa.array([0.0, -2.5, float("nan")]), None, [0.0, -2.5]),
        (pa.array([Decimal("1.50"), None, Decimal("-2.00")]), None, ["1.50", "-2.00"]),
        (pa.array([2**63 - 1, -(2**63), 0]), 0, [2**63 - 1, -(2**63)]),
        (
            pa.array([float("inf"), 5e-324, float("-inf")]),
            None,
            [float("inf"), 5e-324, float("-inf")],
        ),
    ],
)
def test_what_has_no_events_or_no_number_has_no_place(
    values: pa.Array, nothing: object, want: list[object]
) -> None:
    entities = pa.table({"song_id": ["a", "b", "c"]})
    assert [
        ranked_row.row.value for ranked_row in top(SONG, entities, values, nothing, 5).rows
    ] == want
    (first,) = top(SONG, entities, values, nothing, 1).rows
    assert first.row.value == want[0]


@given(counts, st.lists(counts, max_size=4), st.integers(1, 4), st.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_corrected_rows_are_those_of_a_new_count_as_far_as_they_are_known(
    values: dict[str, int], changes: list[dict[str, int]], k: int, spare: int
) -> None:
    now, most = dict(values), k + spare
    ranked = top(SONG, *table(now), 0, most)
    for change in changes:
        now |= change
        changed: list[RankedRow] = ranked_rows(
            SONG, *table({song: value for song, value in change.items() if value})
        )
        gone = [entity_tags(SONG, [[song]])[0] for song, value in change.items() if not value]
        ranked = corrected(ranked, changed, gone, most)
        before = rows(ranked)
        # never a wrong row: what is known are the best, and without others they are all
        assert before == by_force(now, len(before))
        if not ranked.more:
            assert before == by_force(now, most)


def test_a_row_that_fell_off_is_replaced_by_one_that_was_remembered() -> None:
    ranked = top(SONG, *table({"a": 9, "b": 8, "c": 7, "d": 6}), 0, 3)
    after = corrected(ranked, ranked_rows(SONG, *table({"a": 1})), [], 3)
    assert (rows(after), after.more) == ([("b", 8), ("c", 7)], True)
    empty = corrected(RankedRows((), True), ranked_rows(SONG, *table({"a": 1})), [], 3)
    assert (rows(empty), empty.more) == ([], True)
