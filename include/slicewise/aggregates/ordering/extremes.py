"""A minimum or maximum is the least or greatest stored value; equal values are the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.event_forms import ScalarOf, Values
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed
from slicewise.aggregates.kernel.ragged import Int64, offsets_of
from slicewise.aggregates.kernel.values import ORDERED, ValueType, flat, is_ordered, non_null
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.ranges import BestOfRuns, ChosenRows, RangeForm, Ranges, valid_in
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Extremes
from slicewise.aggregates.stored_form import State

WORST = np.int64(2**63 - 1)


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    kinds = [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.timestamp("us", "UTC"),
        pa.decimal128(12, 3),
        pa.date32(),
    ]
    return [cls("x").bind({"x": kind}) for kind in kinds]


@dataclass(frozen=True)
class Extreme(Aggregate):
    """Base of min and max. Text is compared by its UTF-8 bytes; NaN is above every number.

    Partial: `value` and `present`; for text and decimals the list `value` of none or one.
    """

    largest: ClassVar[bool]
    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) else ORDERED

    def stored(self) -> Mapping[str, Any]:
        return {"form": self.kind, "column": self.column}

    @cached_property
    def value(self) -> ValueType:
        """The stored type of the column."""
        return ValueType(self.type_of(self.column))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if self.value.dtype is None:
            return (self.value.field("value"),)
        return (Fixed("value", self.value.dtype), Fixed("present", "|u1"))

    def longest(self, events: int) -> Mapping[str, int]:  # noqa: ARG002
        return {"value": 1} if self.value.dtype is None else {}

    @property
    def output_type(self) -> pa.DataType:
        return self.value.arrow

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        return self._best(self.value.store(array), groups, n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        if self.value.dtype is None:
            lists = partials.texts("value")
            return self._best(flat(lists), groups[lists.row_numbers()], n_groups)
        present = partials.fixed("present") != 0
        return self._best(partials.fixed("value")[present], groups[present], n_groups)

    def _best(self, stored: Any, groups: Int64, n_groups: int) -> Columns:
        keys = self._keys(stored)
        best = np.full(n_groups, WORST)
        np.minimum.at(best, groups, keys)
        present = np.zeros(n_groups, np.uint8)
        present[groups] = 1
        return self._chosen(stored, keys, best, present)

    def _keys(self, stored: Any) -> Int64:
        """The best of stored values has the least key."""
        keys = self.value.order(stored)
        return ~keys if self.largest else keys

    def over_ranges(self, rows: Rows) -> RangeForm:
        array = rows.columns[self.column]
        stored = self.value.store(array.drop_null())
        return _RangeExtremes(self, ChosenRows(valid_in(array)), stored, self._keys(stored))

    def _chosen(self, stored: Any, keys: Int64, best: Int64, present: NDArray[np.uint8]) -> Columns:
        """The partials of the best keys, of stored values with these keys."""
        n_groups = len(best)
        codes = best[present != 0]
        if self.value.dtype is None:
            # Any row that has the best key will do: equal keys are equal bytes.
            row_of = np.zeros(len(keys) + 1, np.int64)
            row_of[~keys if self.largest else keys] = np.arange(len(keys))
            chosen = row_of[~codes if self.largest else codes]
            return Columns(
                n_groups, {"value": self.value.listed(stored, chosen, offsets_of(present))}
            )
        values = np.zeros(n_groups, self.value.dtype)
        values[present != 0] = self.value.unorder(~codes if self.largest else codes)
        return Columns(n_groups, {"value": values, "present": present})

    def finish_columns(self, partials: Columns) -> Finished:
        if self.value.dtype is not None:
            return Finished(
                self.value.load(partials.fixed("value"), partials.fixed("present") != 0)
            )
        lists = partials.texts("value")
        present = lists.lengths > 0
        at = pa.array(np.where(present, lists.offsets[:-1], 0), mask=~present)
        return Finished(self.value.load(flat(lists)).take(at))

    @cached_property
    def scalar(self) -> Extremes | None:
        if not (pa.types.is_int64(self.output_type) or pa.types.is_float64(self.output_type)):
            return None
        return Extremes(self.largest, self.value.order_one)

    @cached_property
    def scalar_of(self) -> ScalarOf | None:
        if self.scalar is None:
            return None
        return lambda events: (
            self._best_of(values) if len(values := events.given(self.column)) else None
        )

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        stored = self.value.store_one(value)
        return self.combine(state, ((stored,),) if self.value.dtype is None else (stored, 1))

    def combine(self, a: State, b: State) -> State:
        if self.value.dtype is None:
            values = a[0] + b[0]
            return ((self._choose(values),),) if values else a
        if not a[1] or not b[1]:
            return a if a[1] else b
        return (self._choose((a[0], b[0])), 1)

    def _best_of(self, values: Values) -> Any:
        if isinstance(values, list):
            return self._choose(values)
        if self.largest:
            return values.max().item()  # NaN where there is one: the greatest
        return (np.fmin.reduce(values) if self.value.dtype == "<f8" else values.min()).item()

    def _choose(self, stored: Sequence[Any]) -> Any:
        return (max if self.largest else min)(stored, key=self.value.order_one)

    def finish(self, state: State) -> Any:
        if self.value.dtype is None:
            return self.value.load_one(state[0][0]) if state[0] else None
        return self.value.load_one(state[0]) if state[1] else None


@dataclass(frozen=True, eq=False)
class _RangeExtremes:
    aggregate: Extreme
    rows: ChosenRows
    stored: Any
    keys: Int64

    def between(self, ranges: Ranges) -> list[Columns]:
        among = self.rows.among(ranges)
        return [
            self.aggregate._chosen(self.stored, self.keys, best, (first < beyond).astype(np.uint8))
            for (first, beyond), best in zip(
                among, BestOfRuns(self.keys, WORST).least(among), strict=True
            )
        ]


@register(_examples)
@dataclass(frozen=True)
class Min(Extreme):
    """The least value that is not null; null without any."""

    kind = "min"
    largest = False


@register(_examples)
@dataclass(frozen=True)
class Max(Extreme):
    """The greatest value that is not null; null without any."""

    kind = "max"
    largest = True
