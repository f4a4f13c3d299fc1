"""Parts of an aggregate: parameters, types that it can read, what it stores, what it gives."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import REGISTRY, Aggregate, Columns, Event, Rows, from_spec
from slicewise.errors import DefinitionError


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_a_spec_gives_back_the_aggregate(kind: str) -> None:
    for example in REGISTRY[kind].bound_examples():
        types = {column: example.type_of(column) for column in example.inputs}
        again = from_spec(example.spec()).bind(types)
        assert again == example
        assert again.partial_id() == example.partial_id()


def test_an_unknown_kind_is_refused_with_those_that_exist() -> None:
    with pytest.raises(DefinitionError, match="distinct_count"):
        from_spec({"kind": "median", "column": "x"})


@pytest.mark.parametrize(
    ("unbound", "kind"),
    [
        (agg.sum("x"), pa.string()),
        (agg.sum("x"), pa.bool_()),
        (agg.mean("x"), pa.timestamp("us")),
        (agg.min("x"), pa.list_(pa.int64())),
        (agg.min("x"), pa.timestamp("ns")),
        (agg.distinct_count("x"), pa.float64()),
        (agg.bool_and("x"), pa.int64()),
        (agg.last_k("x", k=2), pa.uint64()),
        (agg.first("x"), pa.list_(pa.int64())),
        (agg.last_k_distinct("x", k=2), pa.float64()),
    ],
)
def test_a_type_that_it_cannot_read_is_refused_with_what_it_can(
    unbound: Aggregate, kind: pa.DataType
) -> None:
    with pytest.raises(
        DefinitionError, match=r"column 'x' of type(.|\n)*expected: (.|\n)*next step:"
    ):
        unbound.bind({"x": kind})


def test_a_column_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(DefinitionError, match="one of a, b"):
        agg.argmax("a", by="c").bind({"a": pa.int64(), "b": pa.int64()})


@pytest.mark.parametrize("k", [0, -1, 1001, 2.0, True])
def test_k_out_of_range_is_refused(k: int) -> None:
    lists: tuple[Callable[..., Aggregate], ...] = (agg.first_k, agg.last_k, agg.last_k_distinct)
    for made in lists:
        with pytest.raises(DefinitionError, match="from 1 to 1000"):
            made("x", k=k)
    with pytest.raises(DefinitionError, match="from 1 to 1000"):
        agg.top_k("x", by="x", k=k)


def test_an_unbound_aggregate_says_that_it_is() -> None:
    with pytest.raises(DefinitionError, match=r"call bind"):
        agg.sum("x").partial_id()


def test_what_stores_the_same_shares_one_partial() -> None:
    types = {"x": pa.float64(), "b": pa.bool_(), "s": pa.string()}
    bound = {name: made.bind(types) for name, made in {
        "sum": agg.sum("x"), "mean": agg.mean("x"), "and": agg.bool_and("b"), "or": agg.bool_or("b"),
        "argmax": agg.argmax("s", by="x"), "top_1": agg.top_k("s", by="x", k=1), "top_2": agg.top_k("s", by="x", k=2),
        "argmin": agg.argmin("s", by="x"), "bottom_1": agg.bottom_k("s", by="x", k=1),
        "first": agg.first("s"), "first_1": agg.first_k("s", k=1), "distinct_1": agg.last_k_distinct("s", k=1),
        "last": agg.last("s"), "last_1": agg.last_k("s", k=1),
    }.items()}  # fmt: skip
    ids = {name: made.partial_id() for name, made in bound.items()}
    assert ids["sum"] == ids["mean"]
    assert ids["and"] == ids["or"]
    assert ids["argmax"] == ids["top_1"] != ids["top_2"]
    assert ids["argmin"] == ids["bottom_1"] != ids["argmax"]
    assert ids["first"] == ids["first_1"] != ids["last"] == ids["last_1"] != ids["distinct_1"]
    assert agg.sum("x").bind({"x": pa.int64()}).partial_id() != ids["sum"]


def _value(aggregate: Aggregate, columns: dict[str, pa.Array]) -> Any:
    n = len(next(iter(columns.values())))
    zero = np.zeros(n, np.uint64)
    rows = Rows(np.arange(n)[::-1].copy(), zero, zero, np.zeros(n, np.int32), np.arange(n), columns)
    bound = aggregate.bind({name: array.type for name, array in columns.items()})
    return bound.finish_columns(
        bound.accumulate_columns(rows, np.zeros(n, np.int64), 1)
    ).values.to_pylist()[0]


def test_lists_come_newest_first_and_best_first() -> None:
    # Times descend: the last row is the earliest event.
    columns = {"x": pa.array([1, 2, None, 4]), "s": pa.array(["a", None, "c", "d"])}
    assert _value(agg.last_k("x", k=2), columns) == [1, 2]
    assert _value(agg.first_k("x", k=2), columns) == [4, 2]
    assert (_value(agg.first("s"), columns), _value(agg.last("s"), columns)) == ("d", "a")
    again = {"x": pa.array([1, 2, 1, 3, 2])}
    assert _value(agg.last_k_distinct("x", k=2), again) == [1, 2]
    assert _value(agg.last_k_distinct("x", k=9), again) == [1, 2, 3]
    assert _value(agg.top_k("s", by="x", k=2), columns) == [
        {"by": 4, "payload": "d"},
        {"by": 2, "payload": None},
    ]
    assert _value(agg.bottom_k("s", by="x", k=2), columns) == [
        {"by": 1, "payload": "a"},
        {"by": 2, "payload": None},
    ]
    assert _value(agg.argmax("s", by="s"), columns) == "d"


def test_of_equal_values_the_earliest_event_wins() -> None:
    columns = {"x": pa.array([7, 7, 7]), "s": pa.array(["latest", "middle", "earliest"])}
    assert _value(agg.argmax("s", by="x"), columns) == "earliest"
    assert _value(agg.argmin("s", by="x"), columns) == "earliest"
    assert [entry["payload"] for entry in _value(agg.top_k("s", by="x", k=3), columns)] == [
        "earliest",
        "middle",
        "latest",
    ]


def test_a_payload_that_is_null_is_a_value_and_a_null_rank_is_no_entry() -> None:
    columns = {"p": pa.array([None, "b"]), "x": pa.array([9, 1])}
    assert _value(agg.argmax("p", by="x"), columns) is None
    assert (
        _value(agg.argmax("p", by="x"), {"p": pa.array(["a", "b"]), "x": pa.array([None, 1])})
        == "b"
    )


def test_text_is_compared_by_its_bytes() -> None:
    columns = {"x": pa.array(["b", "Z", "é", "a\x00", "a"])}
    assert _value(agg.min("x"), columns) == "Z"
    assert _value(agg.max("x"), columns) == "é"
    assert _value(agg.min("x"), {"x": pa.array(["a\x00", "a"])}) == "a"


def test_nan_where_a_column_allows_it_is_above_every_number() -> None:
    columns = {"x": pa.array([math.inf, math.nan, -math.inf])}
    assert math.isnan(_value(agg.max("x"), columns))
    assert _value(agg.min("x"), columns) == -math.inf


def test_canonical_values_are_one_nan_and_one_zero() -> None:
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
    canonical = agg.canonicalise(pa.array([other_nan, -0.0, None, 1.5, -5e-324, math.inf]))
    assert canonical.null_count == 1
    bits = np.frombuffer(canonical.buffers()[1], np.uint64)[[0, 1]]
    assert bits.tolist() == [0x7FF8_0000_0000_0000, 0]
    assert canonical.to_pylist()[3:] == [1.5, -5e-324, math.inf]
    text = pa.array(["a"])
    assert agg.canonicalise(text) is text


def test_an_empty_partial_is_null_and_a_count_is_zero() -> None:
    for registration in REGISTRY.values():
        for aggregate in registration.bound_examples():
            finished = aggregate.finish_columns(Columns.empty(aggregate.fields, 2))
            wanted: Any = (
                0 if aggregate.core.kind in ("count", "distinct_count", "decay_count") else None
            )
            if aggregate.core.kind == "histogram":
                wanted = {"under": 0, "bins": [0] * 7, "over": 0}
            assert finished.values.to_pylist() == [wanted, wanted]
            assert not finished.errors


def test_identities_order_as_their_bytes() -> None:
    identities = [
        (-1, 0, 0, 0, 9),
        (0, 0, 0, 0, 1),
        (0, 0, 0, 1, 0),
        (0, 0, 1, 0, 0),
        (0, 2**64 - 1, 0, 0, 0),
        (2**62, 0, 0, 0, 0),
    ]
    events = [Event(*identity, {}) for identity in identities]
    raw = [identity.tobytes() for identity in Rows.from_events(events, {}).identities()]
    assert all(len(identity) == 36 for identity in raw)
    assert raw == sorted(raw)
    assert [event.identity() for event in events] == sorted(event.identity() for event in events)
