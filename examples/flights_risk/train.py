"""Fits the models of models.toml: features and labels in, a fitted estimator out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer


def fit(features: pa.Table, labels: npt.NDArray[np.float64], seed: int) -> Any:
    """A logistic regression over the ranks of the features; a missing one is the median, and a
    column of its own says that it was missing."""
    columns = [column.cast(pa.float64()).combine_chunks() for column in features.columns]
    matrix = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
    model = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        QuantileTransformer(n_quantiles=min(100, len(matrix)), random_state=seed),
        LogisticRegression(C=1.0, max_iter=1_000, random_state=seed),
    )
    return model.fit(matrix, labels)
