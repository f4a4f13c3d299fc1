"""Filters never deny a member, keep their declared error, and say nothing where they cannot keep
it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Columns, Finished, Rows
from slicewise.aggregates.sketches.bloom_filters import Bloom, BloomFill
from slicewise.aggregates.sketches.cuckoo_filters import Cuckoo
from slicewise.aggregates.sketches.membership import Membership
from slicewise.errors import CodecError, DefinitionError

MAKERS = [agg.bloom, agg.cuckoo]


def bound(make: Any, capacity: int, error: float = 0.01, kind: pa.DataType | None = None) -> Any:
    return make("x", capacity=capacity, error=error).bind({"x": kind or pa.int64()})


def partial_of(aggregate: Any, values: Any) -> Columns:
    array = pa.array(values, aggregate.type_of("x"))
    n, zero = len(array), np.zeros(len(array), np.uint64)
    rows = Rows(np.arange(n), zero, zero, np.zeros(n, np.int32), np.arange(n), {"x": array})
    return aggregate.accumulate_columns(rows, np.zeros(n, np.int64), 1)  # type: ignore[no-any-return]


def answers_to(aggregate: Membership, seen: Any, questions: Any) -> Finished:
    finished = aggregate.finish_columns(partial_of(aggregate, seen))
    return aggregate.answered(
        finished, pa.array([list(questions)], pa.list_(aggregate.type_of("x")))
    )


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("error", [0.3, 0.01, 0.001])
@pytest.mark.parametrize("n", [1, 50, 3_000])
def test_members_are_members_and_strangers_rarely(make: Any, error: float, n: int) -> None:
    aggregate = bound(make, 3_000, error)
    (result,) = answers_to(aggregate, np.arange(n), np.arange(20_000 + n)).values.to_pylist()
    assert result[:n] == [True] * n
    wrong, expected = sum(result[n:]), error * 20_000
    assert wrong <= expected + 6 * expected**0.5


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("capacity", [1, 10, 500, 20_000])
def test_at_its_capacity_a_filter_still_answers(make: Any, capacity: int) -> None:
    for seed in range(4):
        seen = np.arange(capacity) + seed * 10**9
        answers = answers_to(bound(make, capacity), seen, [int(seen[0])])
        assert (answers.values.to_pylist(), dict(answers.errors)) == ([[True]], {})


def test_a_bloom_filter_beyond_its_error_denies_strangers_and_says_no_more() -> None:
    result = answers_to(bound(agg.bloom, 1_000), np.arange(5_000), range(20_000))
    (answers,) = result.values.to_pylist()
    assert set(answers[:5_000]) == {None}
    assert set(answers) == {None, False}
    assert dict(result.errors) == {0: "over_capacity"}


def test_a_cuckoo_filter_beyond_its_capacity_says_nothing_and_stores_nothing() -> None:
    aggregate = bound(agg.cuckoo, 100)
    partial = partial_of(aggregate, np.arange(150))
    assert (partial.items("entries").lengths[0], partial.fixed("beyond")[0]) == (0, 1)
    answers = answers_to(aggregate, np.arange(150), [1, 10**9])
    assert (answers.values.to_pylist(), dict(answers.errors)) == (
        [[None, None]],
        {0: "over_capacity"},
    )


@pytest.mark.parametrize("make", MAKERS)
def test_an_answer_has_the_shape_of_its_question(make: Any) -> None:
    aggregate = bound(make, 10, kind=pa.string())
    partials = Columns.concat([partial_of(aggregate, some) for some in (["a", None], [], ["b"])])
    finished = aggregate.finish_columns(partials)
    one = aggregate.answered(finished, pa.array(["a", "a", None]))
    assert one.values.to_pylist() == [True, False, None]
    several = aggregate.answered(
        finished, pa.array([["a", "b", None], [], None], pa.list_(pa.string()))
    )
    assert several.values.to_pylist() == [[True, False, None], [], None]
    assert (dict(one.errors), dict(several.errors)) == ({}, {})


@pytest.mark.parametrize(("n", "dense"), [(1, False), (41, False), (42, True)])
def test_hashes_stand_while_they_take_no_more_room_than_the_bits(n: int, dense: bool) -> None:
    aggregate = bound(agg.bloom, 150)
    assert isinstance(aggregate, Bloom)
    assert (aggregate.probes, aggregate.bits, aggregate.most_hashes) == (7, 2_624, 41)
    partial = partial_of(aggregate, np.arange(n))
    assert bool(partial.items("bits").lengths[0]) == dense
    assert partial.items("hashes").lengths[0] == (0 if dense else n)


def test_the_fill_is_of_the_same_partial_and_says_the_probability_of_a_false_member() -> None:
    filter_, fill = bound(agg.bloom, 2_000), bound(agg.bloom_fill, 2_000)
    assert isinstance(fill, BloomFill)
    assert fill.partial_id() == filter_.partial_id()
    seen = np.arange(2_000)
    (share,) = fill.finish_columns(partial_of(fill, seen)).values.to_pylist()
    (result,) = answers_to(filter_, seen, range(2_000, 62_000)).values.to_pylist()
    assert abs(sum(result) / 60_000 - share**7) < 6 * (share**7 / 60_000) ** 0.5
    assert share**7 <= 0.01


def test_the_geometry_of_a_cuckoo_filter_follows_from_capacity_and_error() -> None:
    aggregate = bound(agg.cuckoo, 10_000)
    assert isinstance(aggregate, Cuckoo)
    assert (aggregate.bucket_bits, aggregate.fingerprint_bits, aggregate.dtype) == (12, 10, "<u4")
    assert bound(agg.cuckoo, 1_000_000, 1e-6).dtype == "<u8"


@pytest.mark.parametrize("make", [*MAKERS, agg.bloom_fill])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"capacity": 0}, "from 1 to 1000000"),
        ({"capacity": 2_000_000}, "from 1 to 1000000"),
        ({"capacity": 1.5}, "an integer"),
        ({"capacity": 5, "error": 0.9}, "a share from"),
        ({"capacity": 5, "error": "1%"}, "a share from"),
    ],
)
def test_parameters_out_of_bounds_are_refused_at_definition(
    make: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        make("x", **given)


def test_doubles_are_no_members() -> None:
    with pytest.raises(DefinitionError, match="doubles are no categories"):
        bound(agg.bloom, 5, kind=pa.float64())


def test_bits_of_another_geometry_are_refused() -> None:
    small, large = bound(agg.bloom, 10, 0.5), bound(agg.bloom, 10_000, 0.5)
    other = partial_of(large, np.arange(9_000))
    with pytest.raises(CodecError, match="other than"):
        small.combine_columns(other, np.zeros(1, np.int64), 1)
