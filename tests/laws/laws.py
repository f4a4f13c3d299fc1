"""The laws of the algebra, each a function of a bound aggregate, some events and a source of
choices.

States are compared as text: there +0.0 is not -0.0, and a NaN is a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pyarrow as pa

from slicewise.aggregates import (
    Aggregate,
    Columns,
    Event,
    Failed,
    Finished,
    Invertible,
    Ragged,
    RaggedBytes,
    Rows,
    count,
    last_k,
)
from slicewise.aggregates.kernel.columns import Values
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.codec import Layout
from tests.laws.oracles import aggregates as oracle
from tests.laws.oracles.values import Error

Law = Callable[[Aggregate, Sequence[Event], Random], None]


END = 1_357_038_000_000_000
"""End of the windows of all finished partials: an hour after most of the events that are drawn."""


def ends(n: int) -> Callable[[], Int64]:
    return lambda: np.full(n, END)


def rows_of(aggregate: Aggregate, events: Sequence[Event]) -> Rows:
    """Column form of the events, with the columns that the aggregate reads."""
    return Rows.from_events(
        events, {column: aggregate.type_of(column) for column in aggregate.inputs}
    )


def one(aggregate: Aggregate, events: Sequence[Event]) -> Columns:
    """The partial of all the events, by the column form."""
    return aggregate.accumulate_columns(
        rows_of(aggregate, events), np.zeros(len(events), np.int64), 1
    )


def raw(aggregate: Aggregate, partials: Columns) -> bytes:
    """All bytes that would be stored."""
    return Layout((aggregate,)).encode_block([partials])


def join(aggregate: Aggregate, *partials: Columns) -> Columns:
    """The partials combined into one, by the column form."""
    whole = Columns.concat(partials)
    return aggregate.combine_columns(whole, np.zeros(whole.n, np.int64), 1)


def split(events: Sequence[Event], random: Random, parts: int) -> list[list[Event]]:
    """The events dealt out at random."""
    dealt: list[list[Event]] = [[] for _ in range(parts)]
    for event in events:
        dealt[random.randrange(parts)].append(event)
    return dealt


def empty_is_the_identity(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:  # noqa: ARG001
    state = _state(aggregate, events)
    assert repr(aggregate.combine(state, aggregate.empty())) == repr(state)
    assert repr(aggregate.combine(aggregate.empty(), state)) == repr(state)
    partial, empty = one(aggregate, events), one(aggregate, [])
    assert raw(aggregate, empty) == raw(aggregate, Columns.empty(aggregate.fields, 1))
    assert raw(aggregate, join(aggregate, partial, empty)) == raw(aggregate, partial)
    assert raw(aggregate, join(aggregate, empty, partial)) == raw(aggregate, partial)


def combine_is_commutative(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    a, b = split(events, random, 2)
    left, right = _state(aggregate, a), _state(aggregate, b)
    assert repr(aggregate.combine(left, right)) == repr(aggregate.combine(right, left))
    x, y = one(aggregate, a), one(aggregate, b)
    assert raw(aggregate, join(aggregate, x, y)) == raw(aggregate, join(aggregate, y, x))


def combine_is_associative(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    parts = split(events, random, 3)
    a, b, c = (_state(aggregate, part) for part in parts)
    combine = aggregate.combine
    assert repr(combine(combine(a, b), c)) == repr(combine(a, combine(b, c)))
    x, y, z = (one(aggregate, part) for part in parts)
    left = join(aggregate, join(aggregate, x, y), z)
    assert raw(aggregate, left) == raw(aggregate, join(aggregate, x, join(aggregate, y, z)))
    assert raw(aggregate, left) == raw(aggregate, join(aggregate, x, y, z))


def any_split_gives_the_same_bytes(
    aggregate: Aggregate, events: Sequence[Event], random: Random
) -> None:
    partials = [one(aggregate, part) for part in split(events, random, random.randint(1, 6))]
    while len(partials) > 1:  # any tree: join two at random until one is left
        random.shuffle(partials)
        partials.append(join(aggregate, partials.pop(), partials.pop()))
    assert raw(aggregate, partials[0]) == raw(aggregate, one(aggregate, events))


def any_order_gives_the_same_bytes(
    aggregate: Aggregate, events: Sequence[Event], random: Random
) -> None:
    shuffled = random.sample(events, len(events))
    assert raw(aggregate, one(aggregate, shuffled)) == raw(aggregate, one(aggregate, events))
    assert repr(_state(aggregate, shuffled)) == repr(_state(aggregate, events))


def groups_are_independent(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    n_groups = random.randint(1, 5)
    groups = np.array([random.randrange(n_groups) for _ in events], np.int64)
    together = aggregate.accumulate_columns(rows_of(aggregate, events), groups, n_groups)
    apart = [
        one(aggregate, [e for e, g in zip(events, groups, strict=True) if g == i])
        for i in range(n_groups)
    ]
    assert raw(aggregate, together) == raw(aggregate, Columns.concat(apart))
    doubled = aggregate.combine_columns(together, np.arange(n_groups)[::-1].copy(), n_groups + 1)
    mirrored = [*reversed(apart), one(aggregate, [])]
    assert raw(aggregate, doubled) == raw(aggregate, Columns.concat(mirrored))


def rows_and_columns_agree(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    parts = split(events, random, 3)
    states = [_state(aggregate, part) for part in parts]
    partials = Columns.concat([one(aggregate, part) for part in parts])
    assert repr(aggregate.from_columns(partials)) == repr(states)
    assert raw(aggregate, aggregate.to_columns(states)) == raw(aggregate, partials)
    whole = aggregate.combine(aggregate.combine(states[0], states[1]), states[2])
    joined = aggregate.combine_columns(partials, np.zeros(3, np.int64), 1)
    assert repr(aggregate.from_columns(joined)) == repr([whole])
    every = Columns.concat([partials, joined])
    finished = aggregate.finish_columns(every)
    assert finished.values.type == aggregate.output_type
    assert same(
        finished, [aggregate.finish(state) for state in [*states, whole]], aggregate.output_type
    )
    finished = aggregate.finish_columns_at(every, ends(every.n))
    assert finished.values.type == aggregate.output_type
    assert same(
        finished,
        [aggregate.finish_at(state, END) for state in [*states, whole]],
        aggregate.output_type,
    )


def the_oracle_agrees(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    parts = split(events, random, 2)
    joined = join(aggregate, *(one(aggregate, part) for part in parts))
    value = oracle.expected(aggregate, events, END)
    wanted = [Failed(str(value)) if isinstance(value, Error) else value]
    assert same(aggregate.finish_columns_at(joined, ends(1)), wanted, aggregate.output_type)


def bytes_come_back(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    layout = Layout.of([aggregate, *_neighbours(aggregate)])
    parts = split(events, random, random.randint(1, 4))
    columns = [
        Columns.concat([one(partial, part) for part in parts]) for partial in layout.partials
    ]
    block, rows = layout.encode_block(columns), layout.encode_rows(columns)
    n = len(parts)
    for decoded in (
        layout.decode_blocks([block], [n]),
        layout.decode_blocks(rows, [1] * n),
        layout.from_arrow(
            pa.table(layout.to_arrow(columns), schema=pa.schema(layout.arrow_fields()))
        ),
    ):
        assert layout.encode_block(decoded) == block
        for partial, before, after in zip(layout.partials, columns, decoded, strict=True):
            assert repr(partial.from_columns(after)) == repr(partial.from_columns(before))
    twice = layout.decode_blocks([block, rows[-1], block], [n, 1, n])
    again = [Columns.concat([c, c.take(np.array([n - 1])), c]) for c in columns]
    assert layout.encode_rows(twice) == layout.encode_rows(again) == [*rows, rows[-1], *rows]


def lists_are_no_longer_than_longest(
    aggregate: Aggregate, events: Sequence[Event], random: Random
) -> None:
    # what `slicewise plan` says of sizes stands on this
    for part in (events, *split(events, random, 3)):
        longest = aggregate.longest(len(part))
        result = one(aggregate, part).values
        assert longest.keys() == {
            name for name, values in result.items() if not isinstance(values, np.ndarray)
        }
        for name, most in longest.items():
            values = result[name]
            assert not isinstance(values, np.ndarray)
            assert int(values.lengths.max(initial=0)) <= most, name


def inputs_stay_as_they_are(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    rows = rows_of(aggregate, events)
    groups = np.array([random.randrange(3) for _ in events], np.int64)
    partials = aggregate.accumulate_columns(rows, groups, 3)
    state, other = _state(aggregate, events), aggregate.empty()
    before = (
        _snapshot(rows),
        groups.tobytes(),
        _snapshot_columns(partials),
        repr(state),
        repr(other),
    )
    aggregate.accumulate_columns(rows, groups, 3)
    aggregate.combine_columns(partials, np.zeros(3, np.int64), 1)
    aggregate.finish_columns(partials)
    for event in events:
        aggregate.accumulate(state, event)
    aggregate.combine(state, other)
    aggregate.finish(state)
    assert before == (
        _snapshot(rows),
        groups.tobytes(),
        _snapshot_columns(partials),
        repr(state),
        repr(other),
    )


def deduct_undoes_combine(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    if not isinstance(aggregate, Invertible):
        return
    a, b = split(events, random, 2)
    whole, part, rest = one(aggregate, events), one(aggregate, a), one(aggregate, b)
    assert raw(aggregate, aggregate.deduct_columns(whole, part)) == raw(aggregate, rest)
    assert repr(aggregate.deduct(_state(aggregate, events), _state(aggregate, a))) == repr(
        _state(aggregate, b)
    )


def ranges_are_looked_up(aggregate: Aggregate, events: Sequence[Event], random: Random) -> None:
    rows = rows_of(aggregate, sorted(events, key=Event.identity))
    begin = random.randint(0, len(rows))  # columns that do not begin where their buffers do
    rows = rows.slice(begin, len(rows))
    form = aggregate.over_ranges(rows)
    if form is None:
        return
    ranges = [_ranges(len(rows), random) for _ in range(2)]
    for (first, beyond), looked_up in zip(ranges, form.between(ranges), strict=True):
        taken = [np.arange(a, b) for a, b in zip(first.tolist(), beyond.tolist(), strict=True)]
        groups = np.repeat(np.arange(len(first)), beyond - first)
        chosen = rows.take(np.concatenate([np.zeros(0, np.int64), *taken]))
        added = aggregate.accumulate_columns(chosen, groups, len(first))
        assert raw(aggregate, looked_up) == raw(aggregate, added)


def _ranges(n: int, random: Random) -> tuple[Int64, Int64]:
    pairs = [
        sorted((random.randint(0, n), random.randint(0, n))) for _ in range(random.randint(0, 6))
    ]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


LAWS: tuple[Law, ...] = (
    empty_is_the_identity,
    combine_is_commutative,
    combine_is_associative,
    any_split_gives_the_same_bytes,
    any_order_gives_the_same_bytes,
    groups_are_independent,
    rows_and_columns_agree,
    the_oracle_agrees,
    bytes_come_back,
    lists_are_no_longer_than_longest,
    inputs_stay_as_they_are,
    deduct_undoes_combine,
    ranges_are_looked_up,
)


def _state(aggregate: Aggregate, events: Sequence[Event]) -> tuple[object, ...]:
    state = aggregate.empty()
    for event in events:
        state = aggregate.accumulate(state, event)
    return state


def _neighbours(aggregate: Aggregate) -> list[Aggregate]:
    """Partials with fields of every kind over the same columns, to stand beside the one under
    test."""
    types = {column: aggregate.type_of(column) for column in aggregate.inputs}
    plain = [column for column, kind in types.items() if not pa.types.is_list(kind)]
    return [count().bind({}), *(last_k(column, k=2).bind(types) for column in plain)]


def same(finished: Finished, wanted: Sequence[object], kind: pa.DataType) -> bool:
    errors = {i: value.code for i, value in enumerate(wanted) if isinstance(value, Failed)}
    values = pa.array([None if isinstance(value, Failed) else value for value in wanted], kind)
    return dict(finished.errors) == errors and _bits(finished.values) == _bits(values)


def _bits(values: pa.Array) -> object:
    """Plain values that are equal only where the bits are: +0.0 is not -0.0, NaN is NaN."""
    if pa.types.is_list(values.type):
        return [
            None if value is None else _bits(value)
            for value in (scalar.values for scalar in values)
        ]
    if pa.types.is_struct(values.type):
        # what stands under a null is nothing
        return [values.is_valid().to_pylist(), *map(_bits, values.flatten())]
    if pa.types.is_float64(values.type):
        return [None if value is None else value.hex() for value in values.to_pylist()]
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).to_pylist()
    return values.to_pylist()


def _snapshot(rows: Rows) -> list[object]:
    arrays = (rows.time, rows.topic_hi, rows.topic_lo, rows.partition, rows.offset)
    return [
        *(array.tobytes() for array in arrays),
        *(repr(_bits(array)) for array in rows.columns.values()),
    ]


def _snapshot_columns(partials: Columns) -> list[bytes]:
    return [part for values in partials.values.values() for part in _bytes_of(values)]


def _bytes_of(values: Values) -> list[bytes]:
    if isinstance(values, Ragged):
        return [values.offsets.tobytes(), values.values.tobytes()]
    if isinstance(values, RaggedBytes):
        return [values.offsets.tobytes(), values.ends.tobytes(), values.data.tobytes()]
    return [values.tobytes()]
