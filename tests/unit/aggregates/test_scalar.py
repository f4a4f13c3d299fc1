"""Few partials, as Python's own numbers, come to the bits of the whole-column form."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import slicewise as sw
from slicewise.aggregates import Aggregate, Event, Rows
from slicewise.aggregates.registry import REGISTRY
from slicewise.codec import Layout, Members
from slicewise.reading.batched import form_of
from slicewise.reading.columnar import Columnar, combiner_of
from tests.laws.events import edges_of
from tests.laws.events import events as drawn_events

EXAMPLES = [
    example
    for registration in REGISTRY.values()
    for example in registration.bound_examples()
    if example.scalar is not None
]

OF_EVENTS = [example for example in EXAMPLES if example.scalar_of is not None]


def bits(value: Any) -> Any:
    """A value told apart to its last bit, and from another type of it."""
    if isinstance(value, list):
        return [bits(item) for item in value]
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return struct.pack("<d", value) if type(value) is float else (type(value), value)


def by_columns(
    aggregate: Aggregate, rows: list[tuple[Any, ...]], groups: list[list[int]]
) -> tuple[list[Any], Any]:
    taken = np.array([row for group in groups for row in group], np.int64)
    owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    partials = aggregate.to_columns(rows).take(taken)
    finished = aggregate.finish_columns(aggregate.combine_columns(partials, owners, len(groups)))
    return finished.values.to_pylist(), dict(finished.errors)


def is_scalar(
    aggregate: Aggregate, rows: list[tuple[Any, ...]], ends: list[int], groups: Any
) -> tuple[list[Any], Any]:
    scalar = aggregate.scalar
    assert scalar is not None
    layout = Layout((aggregate,))
    values = [value + b"seal" for value in layout.encode_rows([aggregate.to_columns(rows)])]
    columns = layout.scalar.columns(layout.scalar.singles(values, 0))
    runs = list(zip([0, *ends[:-1]], ends, strict=True)) if ends else []
    result = scalar.finish(scalar.combine(columns[0], runs, groups))
    # runs that were combined before count as those that are combined now
    by_run = scalar.combine(columns[0], runs, [[run] for run in range(len(runs))])
    half = len(runs) // 2
    later = scalar.finish(scalar.combine(columns[0], runs[:half], groups, by_run[half:]))
    assert list(map(bits, later.values)) == list(map(bits, result.values))
    assert later.errors == result.errors
    return result.values, dict(result.errors)


@pytest.mark.parametrize("aggregate", EXAMPLES, ids=lambda a: f"{a.describe()} {a.partial_id()}")
@settings(max_examples=min(12, settings().max_examples // 5), deadline=None)
@given(data=st.data())
def test_few_partials_finish_to_the_bits_of_whole_columns(
    aggregate: Aggregate, data: st.DataObject
) -> None:
    types = dict(zip(aggregate.inputs, aggregate.types or (), strict=True))
    events = data.draw(drawn_events(types))
    rows: list[tuple[Any, ...]] = []
    at = 0
    while at < len(events):  # partials of none, one or several events each
        size = data.draw(st.integers(0, 4))
        state = aggregate.empty()
        for event in events[at : at + size]:
            state = aggregate.accumulate(state, event)
        rows.append(state)
        at += max(size, 1)
    ends = (
        sorted({*data.draw(st.lists(st.integers(1, len(rows)), max_size=4)), len(rows)})
        if rows
        else []
    )
    runs = [range(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
    some = st.lists(st.integers(0, len(runs) - 1), unique=True) if runs else st.just([])
    groups = data.draw(st.lists(some, min_size=1, max_size=5))
    want, want_errors = by_columns(
        aggregate, rows, [[row for run in group for row in runs[run]] for group in groups]
    )
    result, errors = is_scalar(aggregate, rows, ends, groups)
    assert list(map(bits, result)) == list(map(bits, want))
    assert errors == want_errors


@pytest.mark.parametrize(
    "aggregate",
    [example for example in EXAMPLES if example.scalar_of is not None],
    ids=lambda a: f"{a.describe()} {a.partial_id()}",
)
@settings(max_examples=min(20, settings().max_examples // 5), deadline=None)
@given(data=st.data())
def test_few_events_and_many_make_states_that_finish_to_the_bits_of_whole_columns(
    aggregate: Aggregate, data: st.DataObject
) -> None:
    types = dict(zip(aggregate.inputs, aggregate.types or (), strict=True))
    events = data.draw(drawn_events(types))
    assume(events)
    rows = Rows.from_events(events, types)
    some = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_
    )
    members = Members(tuple(sorted(types.items())))
    opened = members.open(members.encode(rows))
    scalar, scalar_of = aggregate.scalar, aggregate.scalar_of
    assert scalar is not None
    assert scalar_of is not None
    states = [scalar_of(opened.events()), scalar_of(opened.many())]
    states += [
        scalar_of(opened.events().where(some.tolist())),
        scalar_of(opened.many().where(some)),
    ]
    result = scalar.finish(
        scalar.combine([[]] * len(aggregate.fields), [], [[0], [1], [2], [3]], states)
    )
    groups = np.concatenate([np.zeros(len(rows), np.int64), some[some]])
    taken = rows.take(np.concatenate([np.arange(len(rows)), np.flatnonzero(some)]))
    want = aggregate.finish_columns(aggregate.accumulate_columns(taken, groups, 2))
    listed = want.values.to_pylist()
    assert list(map(bits, result.values)) == list(
        map(bits, [listed[0], listed[0], listed[1], listed[1]])
    )
    assert result.errors == {2 * row + i: code for row, code in want.errors.items() for i in (0, 1)}


def test_what_serving_reads_most_has_a_form_for_few_rows() -> None:
    kinds = {example.kind for example in EXAMPLES}
    assert kinds >= {"count", "sum", "mean", "min", "max", "bool_and", "bool_or", "first", "last"}


@pytest.mark.parametrize("made", [sw.variance, sw.stddev, sw.skewness, sw.kurtosis])
def test_a_sum_of_zero_beside_rows_of_nan_is_zero(made: Callable[[str], Aggregate]) -> None:
    aggregate = made("x").bind({"x": pa.float64()})
    rows = []
    for values in ([float("nan"), float("nan")], [0.0, 0.0]):
        state = aggregate.empty()
        for offset, value in enumerate(values):
            state = aggregate.accumulate(state, Event(0, 0, 0, 0, offset, {"x": value}))
        rows.append(state)
    result, errors = is_scalar(aggregate, rows, [1, 2], [[1], [0, 1]])
    want, _ = by_columns(aggregate, rows, [[1], [0, 1]])
    assert (list(map(bits, result)), errors) == (list(map(bits, want)), {})


def of_one_stored_form() -> list[list[Aggregate]]:
    """Aggregates that combine alike, those of the registry and the first and last of one."""
    examples = [e for registration in REGISTRY.values() for e in registration.bound_examples()]
    for kind in (pa.int64(), pa.float64(), pa.bool_(), pa.string()):
        pairs = (sw.first("x"), sw.first_k("x", k=1), sw.last("x"), sw.last_k("x", k=1))
        examples += [aggregate.bind({"x": kind}) for aggregate in pairs]
    by_form: dict[str, list[Aggregate]] = {}
    for example in examples:
        by_form.setdefault(form_of(example), []).append(example)
    return [alike for alike in by_form.values() if len(alike) > 1]


@pytest.mark.parametrize(
    "alike",
    [pytest.param(alike, id=alike[0].describe()) for alike in of_one_stored_form()],
)
def test_what_one_aggregate_of_a_stored_form_combines_another_finishes(
    alike: list[Aggregate],
) -> None:
    chance = Random(7)
    for combining in alike:
        for finishing in alike:
            rows = []
            for n in (0, 1, 3):
                state = combining.empty()
                for offset in range(n):
                    columns = {
                        name: chance.choice(edges_of(combining.type_of(name))[:3])
                        for name in combining.inputs
                    }
                    event = Event(chance.randrange(10**12), 0, 1, 0, offset, columns)
                    state = combining.accumulate(state, event)
                rows.append(state)
            layout = Layout((combining,))
            stored = layout.scalar_rows([combining.to_columns(rows)])
            combiner, finisher = combiner_of(combining), combiner_of(finishing)
            groups = [[0], [1], [2], [0, 1, 2]]
            runs = [(0, 1), (1, 2), (2, 3)]
            states = combiner.combine(layout.scalar.columns(stored)[0], runs, groups)
            if isinstance(finisher, Columnar):
                result = finisher.finish(states, lambda: np.full(4, 10**13)).values.to_pylist()
            else:
                result = finisher.finish(states).values
            want, _ = by_columns(finishing, rows, groups)
            assert list(map(bits, result)) == list(map(bits, want))
