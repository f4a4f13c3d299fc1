"""Statistics of a data set's columns: what is there of each feature, for people and for checks.

They are functions of the values alone, so that a set that is built again has them again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = 100
"""Digits that sums of decimals of 38 digits keep, however many rows there are."""
Statistics = Mapping[str, Any]
"""`nulls`, and by type: `min`, `max` and `mean` of numbers; `min` and `max` of instants and dates;
`true` of booleans; `distinct` of texts; `least`, `most` and `mean` of list lengths."""


def statistics_of(table: pa.Table, columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Statistics of these columns, in their order: plain values that JSON has."""
    return {name: _of(table[name]) for name in columns}


def _of(column: pa.ChunkedArray) -> dict[str, Any]:
    kind, nulls = column.type, {"nulls": column.null_count}
    values = column.drop_null()
    if not len(values):
        return nulls
    if pa.types.is_boolean(kind):
        return {**nulls, "true": int(pc.sum(values).as_py())}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = pc.list_value_length(values)
        least, most = pc.min_max(lengths).values()
        mean = float(pc.sum(lengths).as_py()) / len(values)
        return {**nulls, "least": least.as_py(), "most": most.as_py(), "mean": mean}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return {**nulls, "distinct": int(pc.count_distinct(values).as_py())}
    if pa.types.is_floating(kind):
        return {**nulls, **_of_doubles(values)}
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    if not is_number and not pa.types.is_temporal(kind):
        return nulls  # structs, and what is made of them
    least, most = pc.min_max(values).values()
    ends = {"min": _plain(least.as_py()), "max": _plain(most.as_py())}
    if not is_number:
        return {**nulls, **ends}
    if pa.types.is_decimal(kind):
        with localcontext(prec=_DIGITS):
            return {**nulls, **ends, "mean": float(sum(values.to_pylist()) / len(values))}
    whole = np.asarray(values.cast(pa.int64()).to_numpy())
    # in halves, whose sums no column is long enough to overflow
    total = int((whole >> 32).sum()) * 2**32 + int((whole & 0xFFFFFFFF).sum())
    return {**nulls, **ends, "mean": total / len(values)}


def _of_doubles(values: pa.ChunkedArray) -> dict[str, Any]:
    """Statistics of doubles: NaN is counted, and is in nothing else."""
    numbers = values.filter(pc.invert(pc.is_nan(values)))
    other = {"nan": len(values) - len(numbers)} if len(numbers) < len(values) else {}
    if not len(numbers):
        return other
    least, most = pc.min_max(numbers).values()
    # fsum rounds once, whatever the order; infinities leave no mean
    finite = numbers.filter(pc.is_finite(numbers)).to_pylist()
    mean: dict[str, Any] = {}
    if len(finite) == len(numbers):
        try:
            mean = {"mean": math.fsum(finite) / len(finite)}
        except OverflowError:  # the sum is no double, though the mean may be
            mean = {"mean": math.fsum(value / len(finite) for value in finite)}
    return {**other, "min": _plain(least.as_py()), "max": _plain(most.as_py()), **mean}


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, float | int):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
