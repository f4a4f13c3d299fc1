"""A sum is the exact sum of the real numbers, rounded once, when it is finished."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Invertible
from slicewise.aggregates.event_forms import ColumnarEvents, ScalarEvents, ScalarOf, Values
from slicewise.aggregates.exact.counting import add_groups, tally
from slicewise.aggregates.exact.prefixes import LanePrefixes
from slicewise.aggregates.kernel import limbs as exact
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import Int64, Ragged
from slicewise.aggregates.kernel.rounding import half_up, scaled, to_doubles
from slicewise.aggregates.kernel.values import (
    EXACT,
    NUMBERS,
    ValueType,
    decimal_words,
    is_decimal,
    is_double,
    is_number,
    non_null,
)
from slicewise.aggregates.operations import OVERFLOW, Failed, Finished
from slicewise.aggregates.ranges import ChosenRows, RangeForm, Ranges, valid_in
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Sums
from slicewise.aggregates.stored_form import State

DOUBLE_UNIT = -1074
"""Exponent of the least double: every double is an integer times 2^-1074."""
WIDEST = 38
"""Digits of the widest decimal128."""


def _examples(cls: type[Any]) -> Sequence[Invertible]:
    kinds = [pa.float64(), pa.int64(), pa.decimal128(12, 3), pa.decimal128(38, 6)]
    return [cls("x").bind({"x": kind}) for kind in kinds]


def most_limbs(kind: pa.DataType, degree: int) -> int:
    """Limbs at most of a sum of 2^63 values of this degree: of doubles those that lie as far apart
    as doubles can."""
    if is_double(kind) and degree == 1:
        return exact.MOST_LANES + 1
    bits = 1024 - DOUBLE_UNIT if is_double(kind) else 128 if is_decimal(kind) else 64
    return (degree * bits + 63) // exact.LIMB_BITS + 2


@dataclass(frozen=True)
class ExactSum(Invertible):
    """Base of sum and mean: the count of values that are not null, and their exact sum.

    Partial: `n`, and the integer of `slicewise.aggregates.kernel.limbs` in units of 1 (integers),
    10^-scale (decimals) or 2^-1074 (doubles). Where a column allows NaN and infinities, they
    make a result NaN or infinite as IEEE 754 has it, whatever the order.
    """

    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_number(kind) else NUMBERS

    def stored(self) -> Mapping[str, Any]:
        return {"form": "exact_sum", "column": self.column}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Fixed("n", "<i8"), Fixed("limb_start", "<i4"), Items("limbs", "<u4"))

    def longest(self, events: int) -> Mapping[str, int]:  # noqa: ARG002
        return {"limbs": most_limbs(self.number, 1)}

    @cached_property
    def number(self) -> pa.DataType:
        """Type of the column."""
        return self.type_of(self.column)

    @property
    def unit(self) -> int:
        """Exponent of two of the unit of the limbs; decimals have a unit of their own."""
        return DOUBLE_UNIT if is_double(self.number) else 0

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        start, limbs = exact.add(self._numbers(array), groups, n_groups)
        return _columns(n_groups, tally(groups, n_groups), start, limbs)

    def _numbers(self, array: pa.Array) -> exact.Numbers:
        if is_decimal(self.number):
            return exact.of_words(decimal_words(array))
        stored = ValueType(self.number).store(array)
        return exact.of_doubles(stored) if is_double(self.number) else exact.of_integers(stored)

    def over_ranges(self, rows: Rows) -> RangeForm | None:
        array = rows.columns[self.column]
        valid = valid_in(array)
        prefixes = LanePrefixes.of(self._numbers(array.drop_null()))
        return None if prefixes is None else _RangeSums(ChosenRows(valid), prefixes)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        n = add_groups(partials.fixed("n"), groups, n_groups)
        limbs = partials.items("limbs")
        numbers = exact.of_limbs(partials.fixed("limb_start"), limbs)
        start, limbs = exact.add(numbers, np.repeat(groups, limbs.lengths), n_groups)
        return _columns(n_groups, n, start, limbs)

    @cached_property
    def scalar_of(self) -> ScalarOf | None:
        if is_decimal(self.number):
            return None
        column, total_of = self.column, _double_total if is_double(self.number) else _whole_total

        def added(events: ScalarEvents | ColumnarEvents) -> tuple[int, int, int]:
            values = events.given(column)
            return (len(values), *total_of(values))

        return added

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        a, b = whole.items("limbs"), part.items("limbs")
        lane, values = exact.signed_limbs(whole.fixed("limb_start"), a)
        other_lane, others = exact.signed_limbs(part.fixed("limb_start"), b)
        lane, values = np.concatenate([lane, other_lane]), np.concatenate([values, -others])
        groups = np.concatenate([a.row_numbers(), b.row_numbers()])
        start, limbs = exact.add(exact.of_lanes(lane, values), groups, whole.n)
        return _columns(whole.n, whole.fixed("n") - part.fixed("n"), start, limbs)

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        n, start, limbs = state
        return (n + 1, *exact.of_int(exact.to_int(start, limbs) + self._units(value)))

    def combine(self, a: State, b: State) -> State:
        return (a[0] + b[0], *exact.of_int(exact.to_int(*a[1:]) + exact.to_int(*b[1:])))

    def deduct(self, whole: State, part: State) -> State:
        total = exact.to_int(*whole[1:]) - exact.to_int(*part[1:])
        return (whole[0] - part[0], *exact.of_int(total))

    def _units(self, value: Any) -> int:
        if is_decimal(self.number):
            return int(value.scaleb(self.number.scale, EXACT))
        if is_double(self.number):
            if not math.isfinite(value):
                return exact.special_of(value)
            return _units_of(value, -DOUBLE_UNIT)
        return int(value)


@register(_examples)
@dataclass(frozen=True)
class Sum(ExactSum):
    """Exact sum of the values that are not null; null without any.

    Integers give int64, decimals decimal(precision + 10, scale), doubles the double nearest
    to the exact sum (half to even, zero is +0.0). What does not fit is null with `overflow`.
    """

    kind = "sum"

    @property
    def output_type(self) -> pa.DataType:
        if is_decimal(self.number):
            return pa.decimal128(min(WIDEST, self.number.precision + 10), self.number.scale)
        return pa.float64() if is_double(self.number) else pa.int64()

    def finish_columns(self, partials: Columns) -> Finished:
        start, limbs, some = (
            partials.fixed("limb_start"),
            partials.items("limbs"),
            partials.fixed("n") > 0,
        )
        if is_decimal(self.number):
            return _finish_by_rows(self, partials)
        if is_double(self.number):
            return _doubles(start, limbs, None, self.unit, some)
        return _finished(*_integers(start, limbs, some))

    @cached_property
    def scalar(self) -> Sums | None:
        if is_decimal(self.number):
            return None
        if is_double(self.number):
            return Sums(lambda _, total, start: _shifted(total, start, DOUBLE_UNIT, 1), _code)
        return Sums(lambda _, total, start: _shifted_int64(total, start), _code)

    def finish(self, state: State) -> int | float | Decimal | Failed | None:
        n, start, limbs = state
        if n == 0:
            return None
        total = exact.to_int(start, limbs)
        if is_decimal(self.number):
            return _decimal(total, self.output_type)
        if is_double(self.number):
            return _rounded(total, self.unit, 1)
        return _int64(total)


@register(_examples)
@dataclass(frozen=True)
class Mean(ExactSum):
    """Exact sum of the values that are not null, divided by their number; null without any.

    A double nearest to the exact quotient (half to even, zero is +0.0), also for integers. Decimals
    give decimal(precision + 4, scale + 4), halves rounded up (away from zero), as in SQL.
    """

    kind = "mean"
    finish_version = 2  # the first gave −0.0 for what lies between −2^-1075 and 0

    @property
    def output_type(self) -> pa.DataType:
        if not is_decimal(self.number):
            return pa.float64()
        kind = self.number
        return pa.decimal128(min(WIDEST, kind.precision + 4), min(WIDEST, kind.scale + 4))

    def finish_columns(self, partials: Columns) -> Finished:
        if is_decimal(self.number):
            return _finish_by_rows(self, partials)
        n = partials.fixed("n")
        start, limbs = partials.fixed("limb_start"), partials.items("limbs")
        return _doubles(start, limbs, np.maximum(n, 1), self.unit, n > 0)

    @cached_property
    def scalar(self) -> Sums | None:
        if is_decimal(self.number):
            return None
        unit = self.unit
        return Sums(lambda n, total, start: _shifted(total, start, unit, n), _code)

    def finish(self, state: State) -> float | Decimal | Failed | None:
        n, start, limbs = state
        if n == 0:
            return None
        total = exact.to_int(start, limbs)
        if is_decimal(self.number):
            shift = self.output_type.scale - self.number.scale
            return _decimal(half_up(total * 10**shift, n), self.output_type)
        return _rounded(total, self.unit, n)


@dataclass(frozen=True, eq=False)
class _RangeSums:
    rows: ChosenRows
    prefixes: LanePrefixes

    def between(self, ranges: Ranges) -> list[Columns]:
        return [
            _columns(len(first), beyond - first, *self.prefixes.between(first, beyond))
            for first, beyond in self.rows.among(ranges)
        ]


def _columns(n: int, count: Int64, start: NDArray[np.int32], limbs: Ragged) -> Columns:
    return Columns(n, {"n": count, "limb_start": start, "limbs": limbs})


def _whole_total(values: Values) -> tuple[int, int]:
    return (sum(values) if isinstance(values, list) else exact.total_of_integers(values)), 0


def _double_total(values: Values) -> tuple[int, int]:
    """The sum of doubles in units of 2^-1074, and how many limbs it is shifted down by."""
    if not isinstance(values, list):
        if np.isfinite(values).all():
            return exact.total_of_doubles(values)
        values = values.tolist()
    if not all(map(math.isfinite, values)):
        units = [
            exact.special_of(v) if not math.isfinite(v) else _units_of(v, -DOUBLE_UNIT)
            for v in values
        ]
        return sum(units), 0
    # a denominator is a power of two: the largest says which limbs are zero in all of them
    ratios = [value.as_integer_ratio() for value in values]
    least = (
        -DOUBLE_UNIT + 1 - max([denominator.bit_length() for _, denominator in ratios], default=1)
    )
    start = least // exact.LIMB_BITS
    unit = -DOUBLE_UNIT - exact.LIMB_BITS * start
    return sum([(n << unit) // denominator for n, denominator in ratios]), start


def _units_of(value: float, bits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << bits) // denominator


def _int64(total: int) -> int | Failed:
    return total if -(2**63) <= total < 2**63 else Failed(OVERFLOW)


def _shifted_int64(total: int, start: int) -> int | Failed:
    exact.check_starts((start,))
    return _int64(total << (exact.LIMB_BITS * start))


def _shifted(total: int, start: int, unit: int, n: int) -> float | Failed:
    """`_rounded` of total · 2^(32 · start), which is not made unless it counts NaN or
    infinities."""
    exact.check_starts((start,))
    if total.bit_length() + exact.LIMB_BITS * start >= exact.FINITE_BITS:
        return _rounded(total << (exact.LIMB_BITS * start), unit, n)
    rounded = scaled(total, unit + exact.LIMB_BITS * start, n)
    return Failed(OVERFLOW) if rounded is None else rounded


def _code(value: object) -> str | None:
    return value.code if isinstance(value, Failed) else None


def _rounded(total: int, unit: int, n: int) -> float | Failed:
    special = exact.not_finite(total)
    if special is not None:
        return special
    rounded = scaled(total, unit, n)
    return Failed(OVERFLOW) if rounded is None else rounded


def _doubles(
    start: NDArray[np.int32],
    limbs: Ragged,
    divisor: Int64 | None,
    unit: int,
    some: NDArray[np.bool_],
) -> Finished:
    values, overflow = to_doubles(start, limbs, divisor, unit)
    for row in np.flatnonzero(exact.has_specials(start, limbs)).tolist():
        special = exact.not_finite(
            exact.to_ints(start[row : row + 1], limbs.take(np.array([row])))[0]
        )
        values[row], overflow[row] = (
            (values[row], overflow[row]) if special is None else (special, False)
        )
    return _finished(values, some, overflow)


def _decimal(unscaled: int, kind: pa.DataType) -> Decimal | Failed:
    if abs(unscaled) >= 10**kind.precision:
        return Failed(OVERFLOW)
    return Decimal(unscaled).scaleb(-kind.scale, EXACT)


def _integers(
    start: NDArray[np.int32], limbs: Ragged, some: NDArray[np.bool_]
) -> tuple[Int64, NDArray[np.bool_], NDArray[np.bool_]]:
    """(values, not null, overflow): limbs are minimal, so two of them are all that int64 holds."""
    overflow = start + limbs.lengths > 2
    lane, pieces = exact.signed_limbs(start, limbs)
    row = limbs.row_numbers()
    fits = ~overflow[row]
    values = np.zeros(len(start), np.int64)
    np.add.at(values, row[fits], pieces[fits] << (exact.LIMB_BITS * lane[fits]))
    return values, some, overflow


def _finished(
    values: NDArray[Any], some: NDArray[np.bool_], overflow: NDArray[np.bool_]
) -> Finished:
    errors = dict.fromkeys(np.flatnonzero(overflow).tolist(), OVERFLOW)
    return Finished(pa.array(values, mask=~some | overflow), errors)


def _finish_by_rows(aggregate: ExactSum, partials: Columns) -> Finished:
    answers = [aggregate.finish(state) for state in aggregate.from_columns(partials)]
    errors = {row: value.code for row, value in enumerate(answers) if isinstance(value, Failed)}
    kept = [None if isinstance(value, Failed) else value for value in answers]
    return Finished(pa.array(kept, aggregate.output_type), errors)
