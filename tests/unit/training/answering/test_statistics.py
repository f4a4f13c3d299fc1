"""Statistics of a data set's columns are those of its values, exact, and none of what has none."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.training.statistics import ColumnStatistics, statistics_of

INF = float("inf")


def of(values: list[Any], kind: pa.DataType) -> dict[str, Any]:
    made = statistics_of(pa.table({"x": pa.array(values, kind)}), ["x"])["x"]
    assert json.loads(json.dumps(made, allow_nan=False)) == made, "plain values"
    return made


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([], pa.int64(), {"nulls": 0}),
        ([None, None], pa.float64(), {"nulls": 2}),
        ([3, None, 5], pa.int64(), {"nulls": 1, "min": 3, "max": 5, "mean": 4.0}),
        (
            [2**63 - 1] * 3,
            pa.int64(),
            {"nulls": 0, "min": 2**63 - 1, "max": 2**63 - 1, "mean": float(2**63 - 1)},
        ),
        (
            [-(2**63), 2**63 - 1],
            pa.int64(),
            {"nulls": 0, "min": -(2**63), "max": 2**63 - 1, "mean": -0.5},
        ),
        ([0.1] * 10, pa.float64(), {"nulls": 0, "min": 0.1, "max": 0.1, "mean": 0.1}),
        ([1e308, 1e308], pa.float64(), {"nulls": 0, "min": 1e308, "max": 1e308, "mean": 1e308}),
        (
            [math.nan, 1.0],
            pa.float64(),
            {"nulls": 0, "nan": 1, "min": 1.0, "max": 1.0, "mean": 1.0},
        ),
        ([math.nan], pa.float64(), {"nulls": 0, "nan": 1}),
        ([INF, 1.0], pa.float64(), {"nulls": 0, "min": 1.0, "max": "inf"}),
        ([True, None, False, True], pa.bool_(), {"nulls": 1, "true": 2}),
        (["a", "b", "a"], pa.string(), {"nulls": 0, "distinct": 2}),
        (
            [[1, 2], [], None],
            pa.list_(pa.int64()),
            {"nulls": 1, "least": 0, "most": 2, "mean": 1.0},
        ),
        (
            [Decimal("1.50"), Decimal("2.50")],
            pa.decimal128(5, 2),
            {"nulls": 0, "min": "1.50", "max": "2.50", "mean": 2.0},
        ),
        (
            [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(3)],
            pa.decimal128(38, 0),
            {"nulls": 0, "min": "-" + "9" * 38, "max": "9" * 38, "mean": 1.0},
        ),
        ([date(2026, 1, 2)], pa.date32(), {"nulls": 0, "min": "2026-01-02", "max": "2026-01-02"}),
        ([{"by": 1}], pa.struct([("by", pa.int64())]), {"nulls": 0}),
    ],
)
def test_statistics_follow_from_the_values(
    values: list[Any], kind: pa.DataType, wanted: dict[str, Any]
) -> None:
    assert of(values, kind) == wanted


def test_instants_are_written_with_their_zone() -> None:
    moment = datetime(2026, 11, 30, 8, tzinfo=UTC)
    made = of([moment], pa.timestamp("us", "UTC"))
    assert made["min"] == made["max"] == "2026-11-30T08:00:00+00:00"


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_the_mean_of_whole_numbers_is_exact(values: list[int]) -> None:
    mean = Fraction(sum(values), len(values))
    assert of(values, pa.int64())["mean"] == mean.numerator / mean.denominator


@given(st.lists(st.floats(-1e300, 1e300), min_size=1), st.randoms())
def test_the_order_of_rows_changes_nothing(values: list[float], chance: Any) -> None:
    before = of(values, pa.float64())
    chance.shuffle(values)
    assert of(values, pa.float64()) == before


def test_columns_of_several_chunks_are_one() -> None:
    column = pa.chunked_array([pa.array([1, 2]), pa.array([], pa.int64()), pa.array([6])])
    assert statistics_of(pa.table({"x": column}), ["x"]) == {
        "x": {"nulls": 0, "min": 1, "max": 6, "mean": 3.0}
    }


@given(
    st.lists(
        st.floats() | st.none() | st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324]), max_size=12
    ),
    st.integers(0, 12),
)
def test_parts_of_a_column_give_what_the_whole_gives(values: list[float | None], cut: int) -> None:
    counted = ColumnStatistics(pa.float64())
    for part in (values[cut:], values[:cut]):
        counted.add(pa.chunked_array([pa.array(part, pa.float64())]))
    assert counted.result() == of(values, pa.float64())


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_mean_of_doubles_is_rounded_once(values: list[float]) -> None:
    mean = sum(map(Fraction, values), Fraction()) / len(values)
    assert of(values, pa.float64())["mean"] == mean.numerator / mean.denominator
