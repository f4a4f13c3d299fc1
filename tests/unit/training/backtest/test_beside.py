"""The model beside has a score of every row: as it was sent, else as it would have been."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import skops.io
from sklearn.linear_model import LinearRegression

from slicewise.models.declared import DeclaredModel
from slicewise.training.backtest.backtest import BOTH, COMPUTED, SENT, beside_scores
from slicewise.training.backtest.rows import LoggedRows
from tests.unit.training.backtest.test_meanings import NOW, REFS

LOST = float("nan")


def rows(*sent: float) -> LoggedRows:
    answers = [json.dumps(dict(zip(REFS, (n, n / 2), strict=True))) for n in range(len(sent))]
    empty = pa.chunked_array([pa.nulls(len(sent))])
    counts, nothing = np.zeros(len(sent), np.int64), np.full(len(sent), np.nan)
    requests = pa.table({"answer": answers})
    score = np.array(sent, np.float64)
    return LoggedRows(requests, empty, empty, nothing, 0, counts, score, Counter(), {})


def model(folder: Path) -> DeclaredModel:
    """One that gives the number of the row, and a hundred."""
    given = np.array([[n, n / 2] for n in range(9)])
    skops.io.dump(LinearRegression().fit(given, given[:, 0] + 100), folder / "m.skops")
    return DeclaredModel("a", REFS, "skops", str(folder / "m.skops"))


def scores(folder: Path, *sent: float, named: bool = True) -> tuple[list[float], str]:
    models = {"a": model(folder)} if named else {}
    given, whence = beside_scores(NOW, models, "a", rows(*sent), lambda _: None)
    return given.values.round(6).tolist(), whence


def test_rows_without_a_sent_score_have_the_one_that_is_computed(tmp_path: Path) -> None:
    """A shadow of a fifth of the entities would be measured on that fifth alone else."""
    assert scores(tmp_path, 7.0, LOST, LOST, 8.0) == ([7.0, 101.0, 102.0, 8.0], BOTH)
    assert scores(tmp_path, LOST, LOST) == ([100.0, 101.0], COMPUTED)
    assert scores(tmp_path, 7.0, 8.0) == ([7.0, 8.0], SENT)


def test_a_model_that_nobody_declares_has_the_scores_that_were_sent(tmp_path: Path) -> None:
    given, whence = scores(tmp_path, 7.0, LOST, named=False)
    assert (given[0], np.isnan(given[1]), whence) == (7.0, True, SENT)
