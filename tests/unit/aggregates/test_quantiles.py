"""Quantiles are exact up to the threshold, within the declared error beyond it, and null where bins
collapsed."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise import aggregates as agg
from slicewise.aggregates import Columns, Rows
from slicewise.aggregates.sketches.ddsketch import LEAST_ERROR, MOST_ERROR, bins, bins_per_octave
from slicewise.aggregates.sketches.quantile import MOST_BINS, Quantiles
from slicewise.errors import CodecError, DefinitionError

SHARES = (0.0, 0.01, 0.5, 0.9, 0.99, 1.0)


def bound(threshold: int = 256, error: float = 0.01, kind: pa.DataType | None = None) -> Quantiles:
    made = agg.quantiles("x", q=SHARES, threshold=threshold, error=error).bind(
        {"x": kind or pa.float64()}
    )
    assert isinstance(made, Quantiles)
    return made


def partial_of(aggregate: Quantiles, values: Any) -> Columns:
    array = pa.array(values, aggregate.type_of("x"))
    n, zero = len(array), np.zeros(len(array), np.uint64)
    rows = Rows(np.arange(n), zero, zero, np.zeros(n, np.int32), np.arange(n), {"x": array})
    return aggregate.accumulate_columns(rows, np.zeros(n, np.int64), 1)


def answer(aggregate: Quantiles, values: Any) -> list[float | None]:
    (result,) = aggregate.finish_columns(partial_of(aggregate, values)).values.to_pylist()
    assert isinstance(result, list)
    return result


@pytest.mark.parametrize(("n", "in_bins"), [(255, False), (256, False), (257, True)])
def test_the_switch_is_one_distinct_value_beyond_the_threshold(n: int, in_bins: bool) -> None:
    partial = partial_of(bound(), [float(i) for i in range(n)] * 3)
    assert bool(partial.items("bins").lengths[0]) == in_bins
    assert partial.items("values").lengths[0] == (0 if in_bins else n)
    assert int(partial.items("counts").values.sum()) == 3 * n


def test_a_share_is_the_decimal_that_was_written() -> None:
    # nine tenths of ten values are nine; the double 0.9 is a little more, and would be the tenth
    made = agg.quantiles("x", q=[0.9]).bind({"x": pa.int64()})
    assert isinstance(made, Quantiles)
    assert answer(made, list(range(1, 11))) == [9.0]


@pytest.mark.parametrize("error", [0.001, 0.01, 0.2, 0.5])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "pareto", "subnormal"])
def test_beyond_the_threshold_every_answer_is_within_the_error(error: float, shape: str) -> None:
    random = np.random.default_rng(11)
    values = {
        "normal": random.normal(0, 1e3, 5_000),
        "lognormal": random.lognormal(0, 2, 5_000),
        "pareto": random.pareto(0.4, 5_000) + 1,
        "subnormal": random.integers(1, 10**6, 5_000) * 5e-324,
    }[shape]
    result, ordered = answer(bound(16, error), values), np.sort(values).tolist()
    for share, got in zip(SHARES, result, strict=True):
        exact = ordered[max(0, math.ceil(Fraction(str(share)) * len(ordered)) - 1)]
        if got is not None:
            assert abs(Fraction(got) - Fraction(exact)) <= Fraction(str(error)) * abs(
                Fraction(exact)
            ) + Fraction(5e-324)
    assert None not in result[2:]


def test_what_lies_in_collapsed_bins_is_null_and_the_rest_stands() -> None:
    aggregate = bound(16, 0.001)
    values = np.exp2(np.linspace(-20, 20, 20_000))  # forty octaves of 347 bins
    partial = partial_of(aggregate, values)
    assert partial.items("bins").lengths[0] == MOST_BINS
    assert partial.fixed("collapsed")[0] == 1
    assert partial.items("counts").values.sum() == len(values)
    result = answer(aggregate, values)
    assert result[:4] == [None, None, None, result[3]]
    assert all(
        abs(got / values[int(s * 20_000) - 1] - 1) <= 0.001
        for s, got in zip((0.9, 0.99), result[3:5], strict=True)
        if got
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_collapse_is_the_same_in_any_tree(seed: int) -> None:
    random = np.random.default_rng(seed)
    aggregate = bound(4, 0.001)
    values = np.exp2(random.uniform(-30, 30, 12_000)) * random.choice([-1, 1], 12_000)
    whole = partial_of(aggregate, values)
    parts = [partial_of(aggregate, part) for part in np.array_split(random.permutation(values), 7)]
    while len(parts) > 1:
        random.shuffle(parts)
        joined = Columns.concat([parts.pop(), parts.pop()])
        parts.append(aggregate.combine_columns(joined, np.zeros(2, np.int64), 1))
    assert aggregate.from_columns(parts[0]) == aggregate.from_columns(whole)


@pytest.mark.parametrize("error", [LEAST_ERROR, 0.01, 0.3, MOST_ERROR])
def test_the_table_is_the_roots_of_two_rounded_up(error: float) -> None:
    n = bins_per_octave(error)
    edges = bins(n).edges
    assert len(edges) == n + 1
    assert all((edges[j] - 1) ** n < 2 ** (52 * n + j) <= edges[j] ** n for j in range(1, n))
    widest = max(Fraction(b - a, a + b) for a, b in pairwise(edges))
    assert widest <= Fraction(str(error))


def test_a_bins_own_value_lies_in_it_for_every_double() -> None:
    table = bins(35)
    random = np.random.default_rng(3)
    values = random.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    values = np.append(
        values[~np.isnan(values)],
        [0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308, np.inf, -np.inf],
    )
    result = table.of(values)
    assert result.tolist() == [table.of_one(value) for value in values.tolist()]
    assert bool((np.diff(result[np.argsort(values)]) >= 0).all())
    normal = result[np.abs(values) > 1e-300]
    assert [table.of_one(table.value(value)) for value in normal.tolist()] == normal.tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"q": []}, "list of 1 to 100"),
        ({"q": [0.5] * 101}, "list of 1 to 100"),
        ({"q": [1.5]}, "from 0 to 1"),
        ({"q": [True]}, "from 0 to 1"),
        ({"q": ["half"]}, "from 0 to 1"),
        ({"q": [float("nan")]}, "from 0 to 1"),
        ({"q": [0.5], "threshold": 0}, "from 1 to 65536"),
        ({"q": [0.5], "threshold": 2.5}, "an integer"),
        ({"q": [0.5], "error": 0}, "from 0.001 to 0.5"),
        ({"q": [0.5], "error": "1%"}, "from 0.001 to 0.5"),
    ],
)
def test_parameters_out_of_bounds_are_refused_at_definition(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        agg.quantiles("x", **given)


def test_a_partial_that_is_none_is_refused() -> None:
    aggregate = bound()
    whole = partial_of(aggregate, [1.0, 2.0])
    broken = Columns(1, {**whole.values, "counts": partial_of(aggregate, [1.0]).items("counts")})
    with pytest.raises(CodecError, match="a count for each"):
        aggregate.combine_columns(broken, np.zeros(1, np.int64), 1)
