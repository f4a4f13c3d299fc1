"""Measures of scores against labels, once these are there; they are scikit-learn's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
BINS = 10
"""Bins of a calibration."""
LEAST = 20
"""Fewest values of a feature that are judged by themselves."""
TINY = 1e-15
"""Least probability of a label of which the logarithm is taken."""


@dataclass(frozen=True)
class Bin:
    """Rows whose scores lie in [low, high). score: their mean; rate: the mean of their labels."""

    low: float
    high: float
    rows: int
    score: float | None
    rate: float | None


@dataclass(frozen=True)
class Measures:
    """Measures of scores of labelled rows. values: name of a measure -> its value; None where it
    is not defined for these rows."""

    rows: int
    values: dict[str, float | None]
    calibration: tuple[Bin, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Gain:
    """Mean loss of B less that of A over the same rows, below 0 where B is better. within: half of
    the interval that holds it with 95 % (normal, of sums by entity); None of one entity."""

    rows: int
    entities: int
    loss_a: float
    loss_b: float
    difference: float
    within: float | None

    @property
    def verdict(self) -> str:
        """Word on B: "better", "worse", or "no difference" that these rows show."""
        if self.within is None or abs(self.difference) <= self.within:
            return "no difference"
        return "better" if self.difference < 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"verdict": self.verdict}


def is_binary(labels: Doubles) -> bool:
    """Tells whether all labels are 0 or 1."""
    return bool(np.isin(labels, (0.0, 1.0)).all())


def measured(labels: Doubles, scores: Doubles, threshold: float) -> Measures:
    """Measures of these scores. Of labels 0 and 1: ranking, loss and classes at the threshold; of
    other numbers: errors."""
    if not len(labels):
        return Measures(0, {}, ())
    if is_binary(labels):
        values = _of_classes(labels, scores, threshold)
        bins = _bins(labels, scores) if values["log_loss"] is not None else ()
        return Measures(len(labels), values, bins)
    return Measures(len(labels), _of_numbers(labels, scores), ())


def _of_classes(labels: Doubles, scores: Doubles, threshold: float) -> dict[str, float | None]:
    from sklearn import metrics

    both = len(np.unique(labels)) == 2
    predicted = (scores >= threshold).astype(np.float64)
    probable = bool(((scores >= 0) & (scores <= 1)).all())
    values = {
        "auc": metrics.roc_auc_score(labels, scores) if both else None,
        "average_precision": metrics.average_precision_score(labels, scores) if both else None,
        "log_loss": float(np.mean(losses(labels, scores)[0])) if probable else None,
        "brier": metrics.brier_score_loss(labels, scores) if probable and both else None,
        "accuracy": metrics.accuracy_score(labels, predicted),
        "precision": metrics.precision_score(labels, predicted, zero_division=np.nan),
        "recall": metrics.recall_score(labels, predicted, zero_division=np.nan),
        "rate": float(labels.mean()),
        "mean_score": float(scores.mean()),
    }
    return {name: _finite(value) for name, value in values.items()}


def _of_numbers(labels: Doubles, scores: Doubles) -> dict[str, float | None]:
    from sklearn import metrics

    values = {
        "mean_absolute_error": metrics.mean_absolute_error(labels, scores),
        "root_mean_squared_error": math.sqrt(metrics.mean_squared_error(labels, scores)),
        "bias": float(np.mean(scores - labels)),
        "r2": metrics.r2_score(labels, scores) if len(labels) > 1 else None,
        "mean": float(labels.mean()),
        "mean_score": float(scores.mean()),
    }
    return {name: _finite(value) for name, value in values.items()}


def losses(labels: Doubles, *scores: Doubles) -> tuple[Doubles, ...]:
    """Loss of each row by each of these scores, of one kind for all: logarithmic where labels are 0
    and 1 and all scores lie between, else squared."""
    between = all(bool(((one >= 0) & (one <= 1)).all()) for one in scores)
    if is_binary(labels) and between:
        return tuple(_logarithmic(labels, one) for one in scores)
    return tuple((one - labels) ** 2 for one in scores)


def _logarithmic(labels: Doubles, scores: Doubles) -> Doubles:
    of_label = np.where(labels == 1, scores, 1 - scores)
    loss: Doubles = -np.log(np.maximum(of_label, TINY))
    return loss


def groups_of(entities: Sequence[str]) -> npt.NDArray[np.int64]:
    """Numbers of entities: rows of one are not independent of each other."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(one, len(numbers)) for one in entities], np.int64)


def gain(loss_a: Doubles, loss_b: Doubles, groups: npt.NDArray[np.int64]) -> Gain:
    """The gain of B over A on the same rows. groups: numbers of their entities, by whose sums the
    interval is: rows of one entity are alike."""
    differences = loss_b - loss_a
    rows = len(differences)
    _, numbers = np.unique(groups, return_inverse=True)
    sums = np.bincount(numbers, differences - differences.mean())
    several, within = len(sums), None
    if several > 1:
        within = 1.96 * math.sqrt(float((sums**2).sum()) * several / (several - 1)) / rows
    return Gain(
        rows,
        several,
        float(loss_a.mean()),
        float(loss_b.mean()),
        float(differences.mean()),
        within,
    )


def _bins(labels: Doubles, scores: Doubles) -> tuple[Bin, ...]:
    edges = np.arange(BINS + 1) / BINS
    bin_of = np.clip(np.searchsorted(edges, scores, "right") - 1, 0, BINS - 1)
    made = []
    for i in range(BINS):
        inside = bin_of == i
        rows = int(inside.sum())
        score = float(scores[inside].mean()) if rows else None
        rate = float(labels[inside].mean()) if rows else None
        made.append(Bin(float(edges[i]), float(edges[i + 1]), rows, score, rate))
    return tuple(made)


def single_auc(labels: Doubles, values: Doubles) -> float | None:
    """The area under the curve of one feature by itself, in whichever direction is better; None of
    labels of one class, and of fewer than LEAST values."""
    from sklearn import metrics

    there = np.isfinite(values)
    if there.sum() < LEAST or not is_binary(labels) or len(np.unique(labels[there])) < 2:
        return None
    auc = float(metrics.roc_auc_score(labels[there], values[there]))
    return max(auc, 1 - auc)


def _finite(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


MEASURE_WORDS: Sequence[tuple[str, str]] = (
    ("auc", "area under the ROC curve"),
    ("average_precision", "average precision"),
    ("log_loss", "logarithmic loss"),
    ("brier", "Brier score"),
    ("accuracy", "accuracy at the threshold"),
    ("precision", "precision at the threshold"),
    ("recall", "recall at the threshold"),
    ("rate", "rate of the label"),
    ("mean_absolute_error", "mean absolute error"),
    ("root_mean_squared_error", "root of the mean squared error"),
    ("bias", "mean of score less label"),
    ("r2", "R²"),
    ("mean", "mean of the label"),
    ("mean_score", "mean score"),
)
"""Measure -> its name for people, in the order in which they are shown."""
