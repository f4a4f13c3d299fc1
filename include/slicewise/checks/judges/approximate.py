"""The exact truth of approximate aggregates, and whether an answer must equal it: `{"equal", "value"}`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from slicewise.checks.judges import Row, judge


def _held(rows: Sequence[Row], spec: Mapping[str, Any]) -> list[Any]:
    """The values that are not null."""
    values = [row.values[spec["column"]] for row in rows]
    return [value for value in values if value is not None]


@judge("quantiles")
def quantiles(rows: Sequence[Row], spec: Mapping[str, Any]) -> Any:
    """For each q the least value whose place from 1 is at least q times the number of values."""
    values = sorted(map(float, _held(rows, spec)))
    exact = len(set(values)) <= spec["threshold"]
    if not values:
        return {"equal": True, "value": None}
    places = [max(1, math.ceil(Fraction(str(q)) * len(values))) for q in spec["q"]]
    return {"equal": exact, "value": [values[place - 1] for place in places]}
