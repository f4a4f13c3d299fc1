"""Frequent values are exact up to the capacity; beyond it no count is too low, and the answer
bounds its error."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise import aggregates as agg
from slicewise.aggregates import Columns, Rows
from slicewise.aggregates.kernel.grouping import least_of
from slicewise.aggregates.kernel.hashing import mixed, mixed_one
from slicewise.aggregates.sketches import countmin
from slicewise.aggregates.sketches.frequent import TopKFrequent
from slicewise.errors import CodecError, DefinitionError


def bound(
    k: int = 3, capacity: int = 8, error: float = 0.01, kind: pa.DataType | None = None
) -> TopKFrequent:
    made = agg.top_k_frequent("x", k=k, capacity=capacity, error=error).bind(
        {"x": kind or pa.int64()}
    )
    assert isinstance(made, TopKFrequent)
    return made


def partial_of(aggregate: TopKFrequent, values: Any, first: int = 0) -> Columns:
    array = pa.array(values, aggregate.type_of("x"))
    n, zero = len(array), np.zeros(len(array), np.uint64)
    offset = np.arange(first, first + n)
    rows = Rows(offset, zero, zero, np.zeros(n, np.int32), offset, {"x": array})
    return aggregate.accumulate_columns(rows, np.zeros(n, np.int64), 1)


def answer(aggregate: TopKFrequent, values: Any) -> dict[str, Any]:
    (result,) = aggregate.finish_columns(partial_of(aggregate, values)).values.to_pylist()
    assert isinstance(result, dict)
    return result


def test_up_to_the_capacity_counts_are_exact_and_equals_come_by_value() -> None:
    result = answer(bound(kind=pa.string()), ["b", "a", None, "b", "é", "a", "z"])
    assert result == {
        "items": [{"value": v, "count": n} for v, n in (("a", 2), ("b", 2), ("z", 1))],
        "error": 0,
        "miss": 0.0,
    }


@pytest.mark.parametrize(("n", "beyond"), [(8, False), (9, True)])
def test_the_switch_is_one_value_beyond_the_capacity(n: int, beyond: bool) -> None:
    aggregate = bound()
    partial = partial_of(aggregate, list(range(n)) * 2)
    assert partial.items("counters").lengths[0] == (aggregate.cells if beyond else 0)
    assert partial.items("priorities").lengths[0] == 8
    assert (answer(aggregate, list(range(n)) * 2)["error"] > 0) == beyond


@pytest.mark.parametrize("seed", range(3))
def test_beyond_the_capacity_the_frequent_are_found_and_no_count_is_too_low(seed: int) -> None:
    values = np.random.default_rng(seed).zipf(1.5, 50_000) % 10**6
    aggregate = bound(k=5, capacity=500, error=0.005)
    counts, result = Counter(values.tolist()), answer(aggregate, values)
    assert [item["value"] for item in result["items"]] == [
        value for value, _ in counts.most_common(5)
    ]
    for item in result["items"]:
        assert 0 <= item["count"] - counts[item["value"]] <= result["error"]
    assert result["error"] <= 0.005 * len(values) + 1
    assert result["miss"] < 1e-9


def test_the_probability_of_a_miss_is_what_happens() -> None:
    # 40 values come 6 times each among 2,000 that come once: how many of the 40 are no candidates?
    aggregate, missed, probabilities = bound(k=1, capacity=300, error=0.0005), 0, []
    for seed in range(20):
        values = np.random.default_rng(seed).permutation(
            np.append(np.repeat(np.arange(40), 6), np.arange(100, 2_100))
        )
        partial = partial_of(aggregate, values, first=seed * 10_000)
        missed += 40 - int((partial.items("items").values < 40).sum())
        least = int(partial.items("priorities").values.max())
        probabilities.append((1 - least / 2**64) ** 6)
    assert abs(missed / (20 * 40) - float(np.mean(probabilities))) < 0.06


def test_a_value_too_long_to_be_a_candidate_makes_an_answer_beyond_the_capacity_null_with_an_error() -> (
    None
):
    aggregate = bound(k=1, capacity=2, kind=pa.string())
    short = aggregate.finish_columns(partial_of(aggregate, ["a" * 300, "b"]))
    assert (short.values.to_pylist()[0]["items"][0]["count"], dict(short.errors)) == (1, {})
    beyond = aggregate.finish_columns(partial_of(aggregate, ["a" * 300, "b", "c"]))
    assert (beyond.values.to_pylist(), dict(beyond.errors)) == ([None], {0: "oversized"})


def test_splitmix_is_its_authors() -> None:
    # the first outputs of the reference implementation from state 1234567
    state, result = 1234567, []
    for _ in range(3):
        result.append(mixed_one(state))
        state = (state + 0x9E3779B97F4A7C15) % 2**64
    assert result == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    words = np.random.default_rng(1).integers(0, 2**64, 100, dtype=np.uint64)
    assert mixed(words).tolist() == [mixed_one(word) for word in words.tolist()]


def test_the_width_is_the_least_power_of_two_that_keeps_the_error() -> None:
    assert [countmin.width_of(error) for error in (0.5, 0.1, 0.005, 0.0005)] == [8, 32, 1024, 8192]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "from 1 to 1000"),
        ({"k": 5, "capacity": 4}, "from 5 to 65536"),
        ({"k": 1, "capacity": 70_000}, "from 1 to 65536"),
        ({"k": 1, "capacity": 10.0}, "an integer"),
        ({"k": 1, "error": 0.0}, "from 0.0005 to 0.5"),
        ({"k": 1, "error": "small"}, "from 0.0005 to 0.5"),
    ],
)
def test_parameters_out_of_bounds_are_refused_at_definition(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        agg.top_k_frequent("x", **given)


def test_a_partial_that_is_none_is_refused() -> None:
    aggregate = bound()
    whole = partial_of(aggregate, [1, 2])
    broken = Columns(1, {**whole.values, "counts": partial_of(aggregate, [1]).items("counts")})
    with pytest.raises(CodecError, match="do not fit"):
        aggregate.combine_columns(broken, np.zeros(1, np.int64), 1)


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 41))
def test_the_least_keys_are_those_of_a_stable_sort(keys: list[int], most: int) -> None:
    column = np.array(keys, np.uint64)
    wanted = sorted(np.argsort(column, kind="stable")[:most].tolist())
    assert np.flatnonzero(least_of(column, most)).tolist() == wanted
