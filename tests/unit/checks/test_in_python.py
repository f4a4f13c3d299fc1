"""Windows of the rows that Spark's workers get are answered as one, however they are cut into
batches."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from slicewise.checks.recompute.in_python import ABSOLUTE, InPython, _listed
from slicewise.checks.recompute.queries import aggregated
from slicewise.checks.values import value_of

KINDS = {"x": "double", "d": "decimal(10,2)", "s": "string"}
AGGREGATES = [
    aggregated({"kind": "sum", "column": "x"}, ["x"]),
    aggregated({"kind": "mean", "column": "x"}, ["x"]),
    aggregated({"kind": ABSOLUTE, "column": "x"}, ["x"]),
    aggregated({"kind": "mean", "column": "d"}, ["d"]),
    aggregated({"kind": "last", "column": "s"}, ["s"]),
    aggregated({"kind": "decay_count", "column": None, "half_life": "1s"}),
]
# (w, t, offset, x, d, s): windows 3, 4 and 9 in turn, the rows of each in no order
ROWS: list[tuple[int, int, int, float | None, Decimal | None, str | None]] = [
    (3, 5, 1, 0.1, Decimal("0.01"), "b"),
    (3, 4, 0, 0.2, None, "a"),
    (3, 6, 2, -0.3, Decimal("0.02"), None),
    (4, 1, 0, None, Decimal("1.00"), "only"),
    (9, 2, 1, 1e300, None, "y"),
    (9, 2, 0, -1e300, None, "x"),
]


def _answers(size: int, wanted: dict[int, list[int]]) -> dict[tuple[int, int], Any]:
    names = ("w", "t", "o", "v_x", "v_d", "v_s")
    types = (pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.decimal128(10, 2), pa.string())
    columns = {n: pa.array([row[i] for row in ROWS], types[i]) for i, n in enumerate(names)}
    rows = pa.table(
        {**columns, "topic_id": ["a"] * len(ROWS), "p": pa.array([0] * len(ROWS), pa.int32())}
    )
    in_python = InPython(AGGREGATES, KINDS, wanted, dict.fromkeys(wanted, 1_000_000))
    answers: dict[tuple[int, int], Any] = {}
    for batch in in_python(rows.to_batches(max_chunksize=size)):
        for row in batch.to_pylist():
            assert (row["w"], row["number"]) not in answers
            answers[row["w"], row["number"]] = value_of(row["value"])
    return answers


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_a_window_that_goes_on_in_the_next_batch_is_answered_once_and_whole(size: int) -> None:
    everything = list(range(len(AGGREGATES)))
    answers = _answers(size, dict.fromkeys((3, 4, 9), everything))
    assert [answers[3, n] for n in everything[:5]] == [
        math.fsum([0.1, 0.2, -0.3]),
        float(sum(map(Fraction, (0.1, 0.2, -0.3)), Fraction(0)) / 3),
        math.fsum([0.1, 0.2, 0.3]),
        "0.015000",
        "b",
    ]
    assert [answers[4, n] for n in everything[:5]] == [None, None, 0.0, "1.000000", "only"]
    assert [answers[9, n] for n in everything[:5]] == [0.0, 0.0, 2e300, None, "y"]
    assert answers[3, 5] == pytest.approx(3 * 0.5, rel=1e-4)


def test_windows_are_answered_what_they_are_asked_and_no_more() -> None:
    assert set(_answers(2, {3: [4], 9: [0, 1], 7: [2]})) == {(3, 4), (9, 0), (9, 1)}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([3, -(2**63), None], pa.int64()),
        ([0.1, None, -0.5], pa.float64()),
        (["b", None, "a", "b"], pa.string()),
        ([True, None, False], pa.bool_()),
        ([Decimal("1.10"), None], pa.decimal128(10, 2)),
    ],
    ids=str,
)
def test_a_column_is_read_as_its_values_with_and_without_a_null(
    values: list[Any], kind: pa.DataType
) -> None:
    for some in (values, [value for value in values if value is not None], []):
        read = _listed(pa.array(some, kind))
        assert read == some
        assert [type(value) for value in read] == [type(value) for value in some]
