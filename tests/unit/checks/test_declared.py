"""Beyond what is exact an answer is held to its declared error; what no error allows is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from slicewise.checks import declared
from slicewise.checks.declared import Truth, strangers, truth_of, within
from slicewise.checks.judges import Row, judged
from slicewise.checks.recompute.queries import aggregated
from slicewise.checks.recompute.questions import Distinct

QUANTILES = {"kind": "quantiles", "column": "x", "q": [0.5, 1.0], "threshold": 3, "error": 0.1}
FREQUENT = {"kind": "top_k_frequent", "column": "x", "k": 2, "capacity": 2, "error": 0.01}
BLOOM = {"kind": "bloom", "column": "x", "capacity": 10, "error": 0.01}


def _rows(values: Sequence[Any]) -> list[Row]:
    return [Row(i, "t", 0, i, {"x": value}) for i, value in enumerate(values)]


def _truth(spec: Mapping[str, Any], values: Sequence[Any]) -> Truth:
    truth = truth_of(aggregated(spec), judged(_rows(values), spec))
    assert truth is not None
    return truth


def test_an_exact_kind_has_no_truth_beside_its_value() -> None:
    assert truth_of(aggregated({"kind": "sum", "column": "x"}), 5.0) is None
    assert truth_of(aggregated({"kind": "histogram"}), {"under": 1, "bins": [], "over": 0}) is None


@pytest.mark.parametrize(("count", "equal"), [(256, True), (257, False)])
def test_distinct_values_must_be_counted_exactly_up_to_the_threshold(
    count: int, equal: bool
) -> None:
    spec = {"kind": "distinct_count", "threshold": 256, "precision": 12}
    assert truth_of(aggregated(spec), Distinct(count, 0)) == Truth(equal, count)
    assert truth_of(aggregated(spec), Distinct(2, 5_000)) == Truth(False, 2)


def test_quantiles_must_be_exact_up_to_the_threshold_and_near_beyond_it() -> None:
    assert _truth(QUANTILES, [2, 1, None, 2, 9, 1]) == Truth(True, [2.0, 9.0])
    truth = _truth(QUANTILES, [1.0, 2.0, 10.0, -4.0])
    assert truth == Truth(False, [1.0, 10.0])
    aggregate = aggregated(QUANTILES)
    assert within(aggregate, truth.value, [1.05, 9.1])
    # collapsed; the engine's bytes say whether it was
    assert within(aggregate, truth.value, [None, 10.0])
    assert not within(aggregate, truth.value, [1.2, 10.0])
    assert not within(aggregate, truth.value, [1.0])
    assert not within(aggregate, truth.value, None)


def test_frequent_values_are_never_counted_too_low() -> None:
    assert _truth(FREQUENT, ["b", "a", "b", None]) == Truth(
        True,
        {
            "items": [{"value": "b", "count": 2}, {"value": "a", "count": 1}],
            "error": 0,
            "miss": 0.0,
        },
    )
    truth = _truth(FREQUENT, ["a"] * 50 + ["b"] * 30 + ["c"] * 20)
    assert not truth.equal
    aggregate = aggregated(FREQUENT)

    def counted(*items: tuple[str, int]) -> dict[str, Any]:
        return {
            "items": [{"value": value, "count": count} for value, count in items],
            "error": 1,
            "miss": 0.0,
        }

    assert within(aggregate, truth.value, counted(("a", 50), ("b", 31)))
    assert within(aggregate, truth.value, counted(("a", 60), ("c", 20)))
    assert not within(aggregate, truth.value, counted(("a", 49), ("b", 30)))
    assert not within(aggregate, truth.value, counted(("a", 50), ("b", 99)))
    assert not within(aggregate, truth.value, counted(("z", 50)))
    assert not within(aggregate, truth.value, counted(("a", 50), ("b", 30), ("c", 20)))
    assert not within(aggregate, truth.value, None)


def test_a_member_is_never_denied_and_strangers_rarely_taken_for_one() -> None:
    spec = declared.with_question(BLOOM, ["a", "b", *(f"stranger {i}" for i in range(98))])
    truth = _truth(spec, ["a", "b", "c", None])
    assert truth == Truth(False, [True, True, *[False] * 98])
    aggregate = aggregated(spec)
    assert within(aggregate, truth.value, [True, True, *[True] * 3, *[False] * 95])
    assert within(aggregate, truth.value, [None, True, *[None] * 98])
    assert not within(aggregate, truth.value, [False, True, *[False] * 98])
    assert not within(aggregate, truth.value, [True, True, *[True] * 20, *[False] * 78])
    assert not within(aggregate, truth.value, [True])


def test_a_question_reaches_what_a_condition_gives_events_to() -> None:
    spec = declared.with_question(
        {"kind": "where", "aggregate": BLOOM, "where": "w", "column": "w"}, [1, 2]
    )
    assert declared.question(spec) == [1, 2]
    assert declared.question(QUANTILES) == ()
    rows = [Row(i, "t", 0, i, {"x": i, "w": i == 2}) for i in range(3)]
    assert truth_of(aggregated(spec), judged(rows, spec)) == Truth(False, [False, True])


def test_strangers_follow_from_the_run_and_are_of_the_columns_type() -> None:
    assert strangers("string", "r") == strangers("string", "r") != strangers("string", "s")
    assert len(set(strangers("long", "r"))) == len(set(strangers("string", "r"))) == 24
    assert strangers("boolean", "r") == []
