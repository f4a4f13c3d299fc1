"""Statistics of a data set's columns: what is there of each feature, for people and for checks.

They are functions of the values alone, so that a set that is built again has them again, and
whether it was looked through in one piece or in several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slicewise.aggregates.exact.sums import DOUBLE_UNIT
from slicewise.aggregates.kernel import limbs
from slicewise.aggregates.kernel.rounding import scaled

_DIGITS = 100
"""Digits that sums of decimals of 38 digits keep, however many rows there are."""
Statistics = Mapping[str, Any]
"""`nulls`, and by type: `min`, `max` and `mean` of numbers, the mean rounded once; `min` and `max`
of instants and dates; `true` of booleans; `distinct` of texts; `least`, `most` and `mean` of list
lengths."""


def statistics_of(table: pa.Table, columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Statistics of these columns, in their order: plain values that JSON has."""
    counted = {name: ColumnStatistics(table[name].type) for name in columns}
    for name, column in counted.items():
        column.add(table[name])
    return {name: column.result() for name, column in counted.items()}


@dataclass
class ColumnStatistics:
    """Statistics of the values of a column that were added so far."""

    kind: pa.DataType
    _nulls: int = 0
    _values: int = 0
    """Values that are neither null nor NaN."""
    _more: dict[str, int] = field(default_factory=dict)
    _ends: tuple[Any, Any] | None = None
    _total: int | Decimal = 0
    _finite: bool = True
    _distinct: pa.Array | None = None

    def add(self, column: pa.ChunkedArray) -> None:
        """Adds the values of a part of the column."""
        kind = self.kind
        self._nulls += column.null_count
        values = column.drop_null()
        if pa.types.is_floating(kind):
            values = self._without_nan(values)
        self._values += len(values)
        if not len(values):
            return
        if pa.types.is_boolean(kind):
            self._count("true", int(pc.sum(values).as_py()))
        elif _is_list(kind):
            lengths = pc.list_value_length(values)
            self._extend(lengths)
            self._total += int(pc.sum(lengths).as_py())
        elif _is_text(kind):
            distinct = pc.unique(values)
            before = () if self._distinct is None else (self._distinct,)
            self._distinct = pc.unique(pa.concat_arrays([*before, distinct]))
        elif _is_number(kind) or pa.types.is_temporal(kind):
            self._extend(values)
            self._sum(values)

    def result(self) -> dict[str, Any]:
        """Gives plain values that JSON has."""
        made: dict[str, Any] = {"nulls": self._nulls, **self._more}
        if self._distinct is not None:
            made["distinct"] = len(self._distinct)
        if self._ends is None:
            return made
        if _is_list(self.kind):
            least, most = self._ends
            return {**made, "least": least, "most": most, "mean": self._total / self._values}
        made |= {"min": _plain(self._ends[0]), "max": _plain(self._ends[1])}
        if _is_number(self.kind) and self._finite:
            made["mean"] = self._mean()
        return made

    def _without_nan(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The numbers among doubles: NaN is counted, and is in nothing else."""
        is_nan = pc.is_nan(values)
        count = pc.sum(is_nan).as_py() or 0
        if not count:
            return values
        self._count("nan", count)
        return values.filter(pc.invert(is_nan))

    def _count(self, name: str, more: int) -> None:
        self._more[name] = self._more.get(name, 0) + more

    def _extend(self, values: pa.ChunkedArray) -> None:
        least, most = (end.as_py() for end in pc.min_max(values).values())
        if self._ends is not None:
            least, most = min(least, self._ends[0]), max(most, self._ends[1])
        self._ends = least, most

    def _sum(self, values: pa.ChunkedArray) -> None:
        if pa.types.is_decimal(self.kind):
            with localcontext(prec=_DIGITS):
                self._total += sum(values.to_pylist())
        elif pa.types.is_floating(self.kind):
            numbers = np.asarray(values.cast(pa.float64()).to_numpy())
            self._finite = self._finite and bool(np.isfinite(numbers).all())
            if self._finite:
                total, start = limbs.total_of_doubles(numbers)
                self._total += total << (limbs.LIMB_BITS * start)
        elif pa.types.is_integer(self.kind):
            whole = np.asarray(values.cast(pa.int64()).to_numpy())
            self._total += limbs.total_of_integers(whole)

    def _mean(self) -> float | None:
        if isinstance(self._total, Decimal):
            with localcontext(prec=_DIGITS):
                return float(self._total / self._values)
        return scaled(self._total, self._unit, self._values)

    @property
    def _unit(self) -> int:
        return DOUBLE_UNIT if pa.types.is_floating(self.kind) else 0


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, float | int):
        return value + 0  # -0.0 equals 0.0: which of them comes first is no property of the values
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
