"""A token's bounds are those of the answer that it came with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slicewise.errors import BadRequest
from slicewise.features.plan.unit import PlannedFeature
from slicewise.training.answering.question import Bounds
from slicewise.training.tables.spine import AlikeTokens


def recorded_bounds(
    features: Sequence[PlannedFeature], tokens: Sequence[AlikeTokens], rows: int
) -> dict[str, Bounds]:
    """Per feature column the bounds that each row's token recorded. Raises BadRequest."""
    bounds = {}
    for feature in features:
        start, end = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        silent = [alike for alike in tokens if feature.column not in alike.bounds]
        if silent:
            first = min(silent, key=lambda alike: int(alike.row.min()))
            raise BadRequest(
                f"the token of row {int(first.row.min())} says nothing of {feature.column!r}",
                where="token",
                expected="one of " + ", ".join(sorted(first.bounds)),
                next_step="ask for the features that the answer had",
            )
        for alike in tokens:
            start[alike.row], end[alike.row] = alike.bounds[feature.column]
        bounds[feature.column] = (start, end)
    return bounds
