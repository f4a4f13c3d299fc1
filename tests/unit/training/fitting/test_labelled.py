"""Rows to train on: those with a label, of the days that count, in an order of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slicewise.errors import BadRequest
from slicewise.models.versions.manifest import Recipe
from slicewise.training.fitting.labelled import labelled_rows, labels_of
from slicewise.training.tables.spine import given_spine

DAY = 86_400_000_000
HOUR = DAY // 24
RECIPE = Recipe("taste", "", None, "train.py:fit", "spine", "label", 7)


def rows(*labels: Any, step: int = HOUR) -> pa.Table:
    at = [(len(labels) - n) * step for n in range(len(labels))]
    return pa.table({"user": [f"u{n}" for n in range(len(labels))], "at": at, "label": labels})


def chosen(table: pa.Table, recipe: Recipe = RECIPE, until_us: int | None = None) -> Any:
    return labelled_rows(given_spine(table), recipe, until_us, "test")


def test_rows_without_a_label_are_left_out_and_counted() -> None:
    made = chosen(rows(1, None, 0, float("nan"), 1))
    assert made.spine.table["user"].to_pylist() == ["u4", "u2", "u0"], "by their instants"
    assert dict(made.left_out) == {"without a label": 2}


def test_the_newest_rows_and_those_before_the_last_days_are_left_out() -> None:
    # at hour 10 (no label yet), 9, … 1; matured leaves 10 and 9, six hours leave 8 … 3
    table = rows(None, *([1, 0] * 5)[:9])
    made = chosen(table, replace(RECIPE, matured="2h", days=0.25))
    assert sorted(made.spine.at_us // HOUR) == [3, 4, 5, 6, 7, 8]
    assert dict(made.left_out) == {
        "without a label": 1,
        "newer than 2h before the newest": 1,
        "older than the newest 6h": 2,
    }
    made = chosen(table, replace(RECIPE, matured="2h"), until_us=6 * HOUR)
    assert sorted(made.spine.at_us // HOUR) == [1, 2, 3], "the newest before --until is hour 5"


def test_rows_in_another_order_are_the_same_rows() -> None:
    table = pa.concat_tables([rows(1, 0, 1, 0)] * 3)
    other = table.take(pa.array(np.random.default_rng(1).permutation(12)))
    assert chosen(table).spine.table.equals(chosen(other).spine.table)


@pytest.mark.parametrize(
    ("values", "positive", "wanted"),
    [
        ([1, 0, None], "", [1, 0, np.nan]),
        ([True, False, None], "", [1, 0, np.nan]),
        (["late", "fine", None], "late", [1, 0, np.nan]),
        (pa.array(["late", "fine"]).dictionary_encode(), "late", [1, 0]),
        ([2.5, float("inf")], "", [2.5, np.nan]),
        (pa.nulls(2), "", [np.nan, np.nan]),
    ],
)
def test_labels_are_numbers_booleans_or_texts(values: Any, positive: str, wanted: Any) -> None:
    made = labels_of(pa.chunked_array([pa.array(values)]), replace(RECIPE, positive=positive), "x")
    assert np.array_equal(made, np.array(wanted, np.float64), equal_nan=True)


@pytest.mark.parametrize(
    ("table", "positive", "what"),
    [
        (rows("late", "fine"), "", "nothing says which one"),
        (rows("late", "fine"), "soon", "'soon' is none of them"),
        (rows([1], [2]), "", "the label 'label' is list"),
        (rows(None, None), "", "no row of the spine is left"),
        (rows(1, 0).rename_columns(["user", "at", "other"]), "", "no column 'label'"),
    ],
)
def test_what_cannot_be_trained_on_is_said(table: pa.Table, positive: str, what: str) -> None:
    with pytest.raises(BadRequest, match=what):
        chosen(table, replace(RECIPE, positive=positive))


def test_a_time_before_all_rows_leaves_none() -> None:
    with pytest.raises(BadRequest, match="no row of the spine is left") as refused:
        chosen(rows(1, 0), until_us=5)
    assert "2 at 1970-01-01" in str(refused.value.expected)
