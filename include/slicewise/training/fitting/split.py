"""A model is measured on what came after all that it learned from: the newest tenth of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slicewise.errors import BadRequest
from slicewise.models.declared import DeclaredModel
from slicewise.models.fitted.code import Code
from slicewise.models.fitted.estimator import fitted
from slicewise.models.measures import measured
from slicewise.models.scoring import Scores, named_columns, scored
from slicewise.training.ranges import Ints
from slicewise.training.tables.instants import text_of

Doubles = npt.NDArray[np.float64]
LEAST_ROWS = 20
"""Fewest rows of which a tenth is kept for measures."""


@dataclass(frozen=True)
class Rows:
    """Rows to learn from, in the order of their instants: values as they are scored, a column per
    ref."""

    refs: tuple[str, ...]
    matrix: Doubles
    labels: Doubles
    at_us: Ints


@dataclass(frozen=True)
class Judged:
    """Measures of the newest rows by a model of the older ones. split: words on both, or why
    nothing is measured."""

    split: str
    rows: int = 0
    values: dict[str, float | None] = field(default_factory=dict)


def refuse_one_class(labels: Doubles, where: str) -> None:
    """Raises BadRequest for labels that are all alike."""
    if len(np.unique(labels)) < 2:
        raise BadRequest(
            f"all {len(labels):,} labels are {labels[0]:g}",
            where=where,
            expected="rows of both classes, or numbers that differ",
            next_step="take more days, or correct `label` and `positive` of the model",
        )


def judged(code: Code, rows: Rows, seed: int, model: DeclaredModel, scratch: Path) -> Judged:
    """Fits a model on the older rows, and measures it on the newest tenth.

    Rows of one instant are not parted. scratch: file for that model, which is removed.
    """
    count = len(rows.labels)
    if count < LEAST_ROWS:
        return Judged(f"not measured: fewer than {LEAST_ROWS} rows")
    cut_us = int(rows.at_us[count - count // 10])
    older = rows.at_us < cut_us
    if len(np.unique(rows.labels[older])) < 2:
        return Judged(f"not measured: rows before {text_of(cut_us)} have one label alone")
    content = fitted(code, rows.refs, rows.matrix[older], rows.labels[older], seed, model.trusted)
    scratch.write_bytes(content)
    try:
        scores = scores_of(scratch, model, rows.refs, rows.matrix[~older])
    finally:
        scratch.unlink()
    usable = np.isfinite(scores.values)
    labels = rows.labels[~older][usable]
    measures = measured(labels, scores.values[usable], model.threshold)
    words = (
        f"by time: a model of the {int(older.sum()):,} rows before {text_of(cut_us)}, measured on "
        f"the {len(labels):,} from then on"
    )
    return Judged(words, measures.rows, measures.values)


def scores_of(file: Path, model: DeclaredModel, refs: tuple[str, ...], matrix: Doubles) -> Scores:
    """Scores of a file, read as whoever serves it reads it."""
    written = replace(model, kind="skops", location=str(file))
    return scored(written, named_columns(matrix, refs))
