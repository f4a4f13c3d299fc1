"""An interval combined from the tree is what its events accumulate to, however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewise.aggregates import Columns, Rows, count
from slicewise.codec import Layout
from slicewise.training.answering import tree as tree_module
from slicewise.training.answering.tree import SliceTree
from slicewise.training.events.unit_events import SortedRows
from slicewise.training.ranges import batches, expand

SLICE_US = 1_000


def _source(events: list[tuple[int, int]]) -> SortedRows:
    """Events (entity, time), sorted as the engine keeps them."""
    events = sorted(events)
    n = len(events)
    return SortedRows(
        np.array([entity for entity, _ in events], np.int64),
        Rows(
            np.array([time for _, time in events], np.int64),
            np.zeros(n, np.uint64),
            np.zeros(n, np.uint64),
            np.zeros(n, np.int32),
            np.arange(n, dtype=np.int64),
            {},
        ),
    )


def _counts(columns: Columns) -> list[int]:
    values: list[int] = count().bind({}).finish_columns(columns).values.to_pylist()
    return values


def _layout() -> Layout:
    return Layout((count().bind({}),))


events_of_entities = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-70_000, 300_000)), max_size=60
)
questions = st.lists(
    st.tuples(st.integers(-1, 5), st.integers(-80_000, 310_000), st.integers(-5, 400_000)),
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(events_of_entities, questions)
def test_any_interval_counts_exactly_its_events(
    events: list[tuple[int, int]], intervals: list[tuple[int, int, int]]
) -> None:
    built = SliceTree.build(_layout(), SLICE_US, _source(events))
    entity = np.array([e for e, _, _ in intervals], np.int64)
    start = np.array([s for _, s, _ in intervals], np.int64)
    end = np.array([s + length for _, s, length in intervals], np.int64)
    (columns,) = built.combine(entity, start, end, [0])
    expected = [
        sum(1 for owner, time in events if owner == e and s <= time < s + length)
        for e, s, length in intervals
    ]
    assert _counts(columns) == expected


@settings(max_examples=50, deadline=None)
@given(events_of_entities, st.integers(1, 7))
def test_the_number_of_partials_combined_at_once_changes_nothing(
    events: list[tuple[int, int]], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_module, "ITEMS_AT_ONCE", at_once)
        patch.setattr(tree_module, "ROWS_AT_ONCE", at_once)
        built = SliceTree.build(_layout(), SLICE_US, _source(events))
        entity = np.repeat(np.arange(4, dtype=np.int64), 3)
        start = np.tile(np.array([-70_000, 0, 12_345], np.int64), 4)
        (columns,) = built.combine(entity, start, np.full(12, 300_001, np.int64), [0])
    assert _counts(columns) == [
        sum(1 for owner, time in events if owner == e and s <= time)
        for e, s in zip(entity.tolist(), start.tolist(), strict=True)
    ]


def test_a_long_window_is_combined_from_few_partials() -> None:
    # 16 x 16 x 16 slices, one event in each; the window leaves one slice out at each end:
    # 15 partials at either end of the two lower levels, and 14 runs of 256 in between.
    n = 4_096
    built = SliceTree.build(_layout(), SLICE_US, _source([(0, i * SLICE_US) for i in range(n)]))
    one = np.zeros(1, np.int64)
    spans = built._spans(one, one + SLICE_US, one + (n - 1) * SLICE_US)
    taken = sum(int((span.beyond - span.first).sum()) for span in spans)
    assert taken == 2 * 15 + 2 * 15 + 14
    assert _counts(built.combine(one, one + SLICE_US, one + (n - 1) * SLICE_US, [0])[0]) == [n - 2]


def test_ranges_expand_to_their_positions_and_owners() -> None:
    first, beyond = np.array([5, 2, 9, 0]), np.array([7, 2, 3, 1])
    positions, owner = expand(first, beyond)
    assert positions.tolist() == [5, 6, 0]
    assert owner.tolist() == [0, 0, 3]


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 60))
def test_batches_cover_every_row_once_within_the_limit(counts: list[int], limit: int) -> None:
    parts = list(batches(np.array(counts, np.int64), limit))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(
        range(len(counts))
    )
    for part in parts:
        cost = sum(max(count_, 1) for count_ in counts[part])
        assert cost <= limit or part.stop - part.start == 1
