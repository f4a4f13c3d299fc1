"""Conditions, buckets and bins: what takes part, what a key is, and what happens beyond the
capacity."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Aggregate, Columns, Event, Finished, Invertible, Rows, from_spec
from slicewise.aggregates.combinators.buckets import TOO_MANY
from slicewise.aggregates.combinators.conditional import only
from slicewise.codec import Layout
from slicewise.errors import CodecError, DefinitionError

TYPES = {"x": pa.float64(), "i": pa.int64(), "s": pa.string(), "b": pa.bool_(), "w": pa.bool_()}


def events(**columns: list[Any]) -> list[Event]:
    n = len(next(iter(columns.values())))
    return [
        Event(i, 0, 1, 0, i, {name: values[i] for name, values in columns.items()})
        for i in range(n)
    ]


def partial(aggregate: Aggregate, chosen: list[Event]) -> Columns:
    rows = Rows.from_events(chosen, {name: aggregate.type_of(name) for name in aggregate.inputs})
    return aggregate.accumulate_columns(rows, np.zeros(len(chosen), np.int64), 1)


def finished(aggregate: Aggregate, **columns: list[Any]) -> Finished:
    bound = aggregate.bind(TYPES)
    return bound.finish_columns(partial(bound, events(**columns)))


def value(aggregate: Aggregate, **columns: list[Any]) -> Any:
    return finished(aggregate, **columns).values.to_pylist()[0]


# ---- conditions


def test_only_rows_whose_condition_is_true_take_part() -> None:
    given: dict[str, list[Any]] = {"i": [1, 2, 4, 8], "w": [True, False, None, True]}
    assert value(only(agg.sum("i"), "w", "w"), **given) == 9
    assert value(only(agg.count(), "w", "w"), **given) == 2


def test_a_condition_alone_is_no_other_partial_but_a_sum_and_a_mean_share_theirs() -> None:
    by_w, by_b = (only(agg.sum("x"), "any", column).bind(TYPES) for column in ("w", "b"))
    mean = only(agg.mean("x"), "any other text", "w").bind(TYPES)
    assert by_w.partial_id() == mean.partial_id() != by_b.partial_id()
    assert agg.sum("x").bind(TYPES).partial_id() != by_w.partial_id()


@pytest.mark.parametrize("where", ["", "  ", 3, None])
def test_a_condition_is_text(where: Any) -> None:
    with pytest.raises(DefinitionError, match="expected: a condition on a row as text"):
        only(agg.count(), where)


def test_what_was_not_planned_says_so() -> None:
    with pytest.raises(DefinitionError, match="no column yet"):
        agg.sum("x", where="x > 1").bind(TYPES)


def test_it_can_be_deducted_where_what_it_is_given_to_can() -> None:
    assert isinstance(only(agg.sum("x"), "w"), Invertible)
    assert not isinstance(only(agg.max("x"), "w"), Invertible)


# ---- buckets


def test_keys_ascend_by_their_bytes_and_null_is_no_key() -> None:
    result = value(agg.count_by("s"), s=["z", "é", None, "a", "Z", "z"])
    assert result == [{"key": k, "value": n} for k, n in (("Z", 1), ("a", 1), ("z", 2), ("é", 1))]


def test_a_bucket_of_nothing_but_nulls_is_a_bucket() -> None:
    result = value(agg.bucketed(agg.sum("x"), by="s"), s=["a", "b", "a"], x=[None, 1.0, None])
    assert result == [{"key": "a", "value": None}, {"key": "b", "value": 1.0}]


def test_no_buckets_are_null() -> None:
    assert value(agg.count_by("s"), s=[None, None]) is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("keys", "more"), [(4, False), (5, True)])
def test_one_key_beyond_the_capacity_refuses_whatever_the_order_and_split(
    seed: int, keys: int, more: bool
) -> None:
    random = Random(seed)
    aggregate = agg.bucketed(agg.sum("i"), by="s", max_buckets=4).bind(TYPES)
    chosen = events(s=[f"key {i % keys}" for i in range(20)], i=list(range(20)))
    random.shuffle(chosen)
    parts = [partial(aggregate, chosen[at : at + 3]) for at in range(0, 20, 3)]
    random.shuffle(parts)
    while len(parts) > 1:
        parts = [
            aggregate.combine_columns(Columns.concat(parts[:2]), np.zeros(2, np.int64), 1),
            *parts[2:],
        ]
    answer = aggregate.finish_columns(parts[0])
    assert dict(answer.errors) == ({0: TOO_MANY} if more else {})
    assert answer.values.to_pylist() == [
        None
        if more
        else [{"key": f"key {k}", "value": sum(range(k, 20, keys))} for k in range(keys)]
    ]


def test_beyond_the_capacity_a_partial_is_a_flag() -> None:
    aggregate = agg.bucketed(agg.last_k("s", k=3), by="i", max_buckets=2).bind(TYPES)
    result = partial(aggregate, events(s=["x" * 1000] * 3, i=[1, 2, 3]))
    assert Layout((aggregate,)).encode_rows([result])[0] == b"\x01" + bytes(
        Layout((aggregate,)).record.itemsize - 1
    )


def test_an_error_in_a_bucket_is_the_answers_and_touches_no_other_row() -> None:
    aggregate = agg.bucketed(agg.sum("i"), by="s").bind(TYPES)
    chosen = events(s=["a", "a", "b", "a", "c"], i=[2**62, 2**62, 1, 1, 2])
    rows = Rows.from_events(chosen, {name: TYPES[name] for name in aggregate.inputs})
    answer = aggregate.finish_columns(
        aggregate.accumulate_columns(rows, np.array([1, 1, 1, 0, 2]), 4)
    )
    assert dict(answer.errors) == {1: "overflow"}
    assert answer.values.to_pylist() == [
        [{"key": "a", "value": 1}],
        None,
        [{"key": "c", "value": 2}],
        None,
    ]


def test_buckets_in_buckets_and_conditions_in_them() -> None:
    inner = agg.bucketed(only(agg.sum("i"), "w", "w"), by="b")
    result = value(
        agg.bucketed(inner, by="s"),
        s=["n", "n", "n", "m"], b=[True, False, True, True], i=[1, 2, 4, 8], w=[True, True, False, None],
    )  # fmt: skip
    assert result == [
        {"key": "m", "value": [{"key": True, "value": None}]},
        {"key": "n", "value": [{"key": False, "value": 2}, {"key": True, "value": 1}]},
    ]


def test_only_keys_that_cannot_be_too_many_can_be_deducted() -> None:
    assert isinstance(agg.bucketed(agg.sum("x"), by="b").bind(TYPES), Invertible)
    assert not isinstance(agg.bucketed(agg.sum("x"), by="b", max_buckets=1).bind(TYPES), Invertible)
    assert not isinstance(agg.bucketed(agg.max("x"), by="b").bind(TYPES), Invertible)
    assert not isinstance(agg.bucketed(agg.sum("x"), by="s").bind(TYPES), Invertible)


def test_a_bucket_that_loses_its_last_event_is_gone() -> None:
    aggregate = agg.bucketed(agg.sum("i"), by="b").bind(TYPES)
    assert isinstance(aggregate, Invertible)
    chosen = events(b=[True, False, True], i=[5, -5, None])
    whole, gone, rest = (
        partial(aggregate, chosen),
        partial(aggregate, chosen[1:2]),
        [chosen[0], chosen[2]],
    )
    layout = Layout((aggregate,))
    assert layout.encode_rows([aggregate.deduct_columns(whole, gone)]) == layout.encode_rows(
        [partial(aggregate, rest)]
    )


@pytest.mark.parametrize("most", [0, -1, 10_001, 2.0, True])
def test_a_capacity_out_of_range_is_refused(most: Any) -> None:
    with pytest.raises(DefinitionError, match="from 1 to 10000"):
        agg.count_by("s", max_categories=most)


def test_doubles_are_no_keys_and_what_is_no_aggregate_is_refused() -> None:
    with pytest.raises(DefinitionError, match="equal keys must be equal bytes"):
        agg.count_by("x").bind(TYPES)
    with pytest.raises(DefinitionError, match="is no aggregate"):
        agg.bucketed("count", by="s")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="column 's' of type string"):
        agg.bucketed(agg.sum("s"), by="i").bind(TYPES)


def test_a_filter_that_a_reader_asks_is_not_bucketed() -> None:
    with pytest.raises(DefinitionError, match="answers by itself"):
        agg.bucketed(agg.bloom("s", capacity=10, where="w"), by="i")


def test_changed_bytes_are_refused_or_a_partial_never_another_error() -> None:
    aggregate = agg.bucketed(agg.last_k("i", k=2), by="i", max_buckets=9).bind(TYPES)
    layout = Layout((aggregate,))
    raw = layout.encode_rows([partial(aggregate, events(i=[1, 2, 3, 1]))])[0]
    random, refused = Random(11), 0
    for _ in range(2_000):
        changed = bytearray(raw)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(changed))] = random.randrange(256)
        try:
            (decoded,) = layout.decode_blocks([bytes(changed)], [1])
            aggregate.finish_columns(aggregate.combine_columns(decoded, np.zeros(1, np.int64), 1))
        except CodecError:
            refused += 1
    assert refused > 200


# ---- histograms


def test_a_bin_begins_with_its_edge() -> None:
    #  under | [0, 10) | [10, 100) | over
    result = value(
        agg.histogram("x", edges=[0, 10, 100]),
        x=[-1.0, 0.0, -0.0, 9.999, 10.0, 99.0, 100.0, 1e308, None],
    )
    assert result == {"under": 1, "bins": [3, 2], "over": 2}


def test_infinities_and_nan_have_their_places() -> None:
    result = value(agg.histogram("x", edges=[0, 1]), x=[-math.inf, math.inf, math.nan])
    assert result == {"under": 1, "bins": [0], "over": 2}


def test_integers_are_compared_exactly_with_edges_between_and_beyond_them() -> None:
    edges = [-1e300, 2.5, 2**53 + 1, 2**63]
    result = value(agg.histogram("i", edges=edges), i=[-(2**63), 2, 3, 2**53, 2**53 + 1, 2**63 - 1])
    assert result == {"under": 0, "bins": [2, 2, 2], "over": 0}


def test_decimals_are_compared_exactly() -> None:
    aggregate = agg.histogram("c", edges=[Decimal("0.1"), Decimal("0.30")]).bind(
        {"c": pa.decimal128(38, 2)}
    )
    result = partial(
        aggregate, events(c=[Decimal("0.09"), Decimal("0.10"), Decimal("0.29"), Decimal("0.30")])
    )
    assert aggregate.finish_columns(result).values.to_pylist() == [
        {"under": 1, "bins": [2], "over": 1}
    ]


def test_equal_edges_are_one_form() -> None:
    assert agg.histogram("x", edges=[0, 1, 2]) == agg.histogram("x", edges=[0.0, Decimal("1.0"), 2])
    # the double is a little more than 0.1
    many = agg.histogram("x", edges=[Decimal("0.1"), 0.1, 1e300, 10**301])
    assert from_spec(many.spec()) == many


@pytest.mark.parametrize(
    "edges",
    [
        [],
        [1],
        [1, 1],
        [2, 1],
        [0, math.nan],
        [0, math.inf],
        [True, 2],
        ["a", "b"],
        list(range(1_001)),
        None,
    ],
)
def test_edges_that_are_none_are_refused(edges: Any) -> None:
    with pytest.raises(DefinitionError, match="expected: 2 to 1000 finite numbers"):
        from_spec({"kind": "histogram", "column": "x", "edges": edges})
