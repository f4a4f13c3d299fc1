"""The judges of moments say what brute force says, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import slicewise as sw
from slicewise.checks.judges import Row, judged
from tests.support.oracles import moments

DOUBLES = [0.0, 5e-324, -5e-324, 2.0**-1022, 1e308, -1e308, 0.1, 1e16, 1e16 + 2, math.nan, math.inf]
AGGREGATES = [
    sw.variance("x"),
    sw.variance("c", population=True),
    sw.stddev("x"),
    sw.stddev("y", population=True),
    sw.skewness("x"),
    sw.skewness("c"),
    sw.kurtosis("y"),
    sw.covariance("x", "y"),
    sw.covariance("y", "c", population=True),
    sw.correlation("x", "c"),
    sw.linear_trend("x"),
    sw.linear_trend("y", output="intercept"),
    sw.linear_trend("x", over="y"),
    sw.linear_trend("c", over="x", output="intercept"),
    sw.linear_trend("y", over="c", output="r2"),
]


def some_rows(random: Random) -> list[Row]:
    doubles = [*DOUBLES[: random.choice([4, 9, 9, 11])], 29.7, 33.3]

    def values() -> Mapping[str, Any]:
        row = {
            "x": random.choice(doubles) if random.random() < 0.6 else random.gauss(60, 40),
            "y": random.choice([0, 1, 2, -(2**63), 2**63 - 1, random.randrange(100)]),
            "c": Decimal(random.randrange(10**9)).scaleb(-3),
        }
        return {name: None if random.random() < 0.1 else value for name, value in row.items()}

    return [
        Row(random.randrange(10**9), "a", 0, offset, values())
        for offset in range(random.randrange(12))
    ]


def expected(spec: Mapping[str, Any], rows: list[Row]) -> float | None:
    given = {name: value for name, value in spec.items() if name != "kind"}
    try:
        return moments.BY_KIND[spec["kind"]]([_Event(row) for row in rows], **given)
    except moments.TooLarge:
        return None


class _Event:
    def __init__(self, row: Row) -> None:
        self.time, self.columns = row.t, row.values


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=lambda a: a.describe())
def test_a_judge_says_what_brute_force_says(aggregate: Any) -> None:
    results = []
    for seed in range(40):
        rows = some_rows(Random(seed))
        value = judged(rows, aggregate.spec())
        assert repr(value) == repr(expected(aggregate.spec(), rows)), f"seed {seed}"
        results.append(value)
    assert len(set(map(repr, results))) > 10
