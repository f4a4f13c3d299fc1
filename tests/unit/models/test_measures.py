"""Measures are those of their formulas, and say nothing where nothing can be said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewise.models.measures import Doubles, gain, groups_of, losses, measured, single_auc

ROWS = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=60)


def columns(rows: list[tuple[int, float]]) -> tuple[Doubles, Doubles]:
    return np.array([float(r[0]) for r in rows]), np.array([r[1] for r in rows])


@given(ROWS)
def test_the_area_under_the_curve_is_the_share_of_pairs_in_order(
    rows: list[tuple[int, float]],
) -> None:
    labels, scores = columns(rows)
    of = measured(labels, scores, 0.5)
    good, bad = scores[labels == 1], scores[labels == 0]
    if not len(good) or not len(bad):
        assert of.values["auc"] is None
        return
    pairs = [(g > b) + 0.5 * (g == b) for g in good for b in bad]
    assert of.values["auc"] == pytest.approx(sum(pairs) / len(pairs))


@given(ROWS)
def test_losses_and_bins_hold_every_row_once(rows: list[tuple[int, float]]) -> None:
    labels, scores = columns(rows)
    of = measured(labels, scores, 0.5)
    assert sum(one.rows for one in of.calibration) == len(rows) == of.rows
    summed = sum(one.rate * one.rows for one in of.calibration if one.rate is not None)
    assert summed == pytest.approx(labels.sum())
    wanted = [
        -math.log(min(max(score if label else 1 - score, 1e-15), 1))
        for label, score in zip(labels, scores, strict=True)
    ]
    assert of.values["log_loss"] == pytest.approx(np.mean(wanted), rel=1e-6)


def test_numbers_have_errors_and_no_classes() -> None:
    labels, scores = np.array([1.0, 2.0, 6.0]), np.array([1.5, 2.0, 4.0])
    of = measured(labels, scores, 0.5)
    assert of.values["mean_absolute_error"] == pytest.approx(2.5 / 3)
    assert of.values["root_mean_squared_error"] == pytest.approx(math.sqrt(4.25 / 3))
    assert of.values["bias"] == pytest.approx(-0.5)
    assert (of.calibration, "auc" in of.values) == ((), False)


def test_losses_of_two_models_are_of_one_kind() -> None:
    labels, inside = np.array([1.0, 0.0]), np.array([0.5, 0.0])
    [logarithmic] = losses(labels, inside)
    assert logarithmic.tolist() == [math.log(2), 0.0]
    both = losses(labels, inside, np.array([1.5, 0.0]))
    assert [one.tolist() for one in both] == [[0.25, 0.0], [0.25, 0.0]]
    assert measured(labels, np.array([1.5, 0.0]), 0.5).calibration == ()


def test_nothing_is_measured_of_nothing() -> None:
    assert measured(np.array([]), np.array([]), 0.5).values == {}


def test_a_gain_is_by_chance_until_it_is_not() -> None:
    chance = np.random.default_rng(1)
    same, single = chance.normal(size=1_000), np.arange(1_000)
    assert gain(same, same + chance.normal(size=1_000), single).verdict == "no difference"
    better = gain(same, same - 0.5 + chance.normal(size=1_000), single)
    assert (better.verdict, better.rows, better.entities) == ("better", 1_000, 1_000)
    assert gain(same, same + 0.5, single).verdict == "worse"
    one = gain(same, same + 0.5, np.zeros(1_000, np.int64))
    assert (one.within, one.verdict) == (None, "no difference")


def test_rows_of_one_entity_are_not_taken_for_independent_ones() -> None:
    chance = np.random.default_rng(5)
    groups = np.repeat(np.arange(100), 20)
    wrong = 0
    for _ in range(200):
        loss = np.repeat(chance.normal(size=100), 20)  # whole histories are alike
        wrong += gain(np.zeros(2_000), loss, groups).verdict != "no difference"
    assert wrong <= 20, "one in twenty by chance"
    assert groups_of(["a", "b", "a"]).tolist() == [0, 1, 0]


def test_a_feature_that_knows_the_label_is_seen_in_either_direction() -> None:
    labels, numbers = np.repeat([0.0, 1.0], 10), np.arange(20.0)
    assert single_auc(labels, numbers) == single_auc(labels, -numbers) == 1.0
    assert single_auc(labels, np.ones(20)) == 0.5
    assert single_auc(labels[:19], numbers[:19]) is None, "too few to say"
    assert single_auc(labels, np.where(labels == 0, math.nan, 1.0)) is None
    assert single_auc(labels * 2.5, numbers) is None
