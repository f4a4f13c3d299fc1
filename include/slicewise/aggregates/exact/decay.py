"""A decaying sum is the exact sum of value · weight(its instant). The weight of the instant of ages
divides it once.

Weights have one landmark for ever (`halving`), so that no partial is ever rewritten as time passes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.exact.counting import add_groups, tally
from slicewise.aggregates.exact.sums import DOUBLE_UNIT
from slicewise.aggregates.kernel import limbs as exact
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.halving import weight, weights
from slicewise.aggregates.kernel.magnitudes import (
    Magnitudes,
    of_doubles,
    of_integers,
    of_ones,
    of_words,
    shifted,
    times,
)
from slicewise.aggregates.kernel.ragged import Int64, Ragged, offsets_of
from slicewise.aggregates.kernel.rounding import scaled
from slicewise.aggregates.kernel.values import (
    EXACT,
    NUMBERS,
    ValueType,
    decimal_words,
    is_decimal,
    is_double,
    is_number,
)
from slicewise.aggregates.operations import OVERFLOW, Ends, Failed, Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError, DefinitionError
from slicewise.windows.durations import format_duration, parse_duration

LEAST_HALF_LIFE_US, MOST_HALF_LIFE_US = 1_000_000, 3_650 * 86_400_000_000
MOST_HALVINGS = 1_024
"""Half-lives between the events of one partial at most: what bounds its size. The earliest then
weighs 2^-1024 of the latest; every window that may be declared is shorter."""
NO_END = "no_end"
"""Error code: it was finished without being told where the window ends."""
TOO_LONG = "too_long"
"""Error code: events lie more than MOST_HALVINGS half-lives apart."""
MOST_LANES = (MOST_HALVINGS + 2_100 + 64 + 64) // exact.LIMB_BITS + 4
"""Above every sum, counted from the lane of its earliest event's weight."""
NEVER = 1_100
"""A quotient of more than so many bits before or behind the point is no double but zero."""
NONE = 2**63 - 1


@dataclass(frozen=True)
class Decayed(Aggregate):
    """Base of decaying sums and counts. Nulls do not count.

    Partial: `n` values; `first` and `last`, the whole half-lives since the epoch of the earliest
    and the latest event (0 without any); their sum of value · weight as the integer of
    `slicewise.aggregates.kernel.limbs` (`limb_start`, `limbs`), in units of the value times 2^-63;
    and where a column allows them, `specials`, three counts of NaN, +infinity and -infinity. More
    than MOST_HALVINGS half-lives apart, `limbs` stay empty.
    """

    half_life: str

    @cached_property
    def half_life_us(self) -> int:
        """Microseconds after which a value weighs half."""
        return parse_duration(self.half_life)

    @property
    @abstractmethod
    def number(self) -> pa.DataType | None:
        """Type of the column that is added up; None where each event adds one."""

    def answers(self, length_us: int) -> str | None:
        if length_us <= MOST_HALVINGS * self.half_life_us:
            return None
        return (
            f"a window of at most {MOST_HALVINGS} half-lives; what is 64 half-lives old weighs "
            "less than a rounding"
        )

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        scalars = (Fixed(name, "<i8") for name in ("n", "first", "last", "limb_start"))
        return (*scalars, Items("limbs", "<u4"), Items("specials", "<i8"))

    def longest(self, events: int) -> Mapping[str, int]:  # noqa: ARG002
        return {"limbs": MOST_LANES + 1, "specials": 3}

    @property
    def output_type(self) -> pa.DataType:
        return pa.float64()

    @property
    def unit(self) -> int:
        """Exponent of two of a value's unit; decimals have ten to some power beside it."""
        return DOUBLE_UNIT if self.number is not None and is_double(self.number) else 0

    @property
    def divisor(self) -> int:
        """Units of a value in one."""
        return 10**self.number.scale if self.number is not None and is_decimal(self.number) else 1

    # ---- whole columns

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        if self.inputs:
            rows, groups = rows.present(self.inputs[0], self.inputs, groups)
        n = tally(groups, n_groups)
        half_lives = rows.time // self.half_life_us
        first, last = _extent(half_lives, half_lives, groups, n)
        numbers = self._numbers(rows)
        representable = last[groups] - first[groups] <= MOST_HALVINGS
        if numbers.special is not None:
            representable &= numbers.special < 0
        at = slice(None) if representable.all() else np.flatnonzero(representable)
        base = first[groups[at]] >> 5
        power = half_lives[at] if numbers.shift is None else half_lives[at] + numbers.shift[at]
        lane, shift = (power >> 5) - base, (power & 31).astype(np.uint64)
        time = rows.time[at]
        values = numbers if isinstance(at, slice) else numbers.take(at)

        def pieces(part: exact.Part) -> exact.Pieces:
            _, factor = weights(time[part], self.half_life_us)
            digits = shifted(times(values.digits(part), factor), shift[part])
            sign = values.sign(part)
            signed = [
                digit.view(np.int64) if sign is None else digit.view(np.int64) * sign
                for digit in digits
            ]
            where = lane[part]
            return [(where + i if i else where, digit) for i, digit in enumerate(signed)]

        start, limbs = np.zeros(n_groups, np.int32), Ragged.empty(n_groups, "<u4")
        if len(lane):
            lanes = exact.Numbers(
                len(lane), int(lane.min()), int(lane.max()) + values.width + 2, pieces
            )
            start, limbs = exact.add(lanes, groups[at], n_groups, MOST_LANES)
        specials = np.zeros((n_groups, 3), np.int64)
        if numbers.special is not None:
            odd = np.flatnonzero(numbers.special >= 0)
            np.add.at(specials, (groups[odd], numbers.special[odd]), 1)
        return _columns(n, first, last, start, limbs, specials)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        some = partials.fixed("n") > 0
        n = add_groups(partials.fixed("n"), groups, n_groups)
        firsts, theirs = partials.fixed("first"), partials.fixed("last")
        first, last = _extent(firsts[some], theirs[some], groups[some], n)
        limbs, owner = partials.items("limbs"), groups
        base = first[owner] >> 5
        relative = partials.fixed("limb_start") - base
        with_limbs = (last[owner] - first[owner] <= MOST_HALVINGS) & (limbs.lengths > 0)
        if ((relative[with_limbs] < 0) | (relative[with_limbs] > MOST_LANES)).any():
            raise CodecError(f"{self.describe()} with limbs far from its events")
        rows = np.flatnonzero(with_limbs)
        chosen = limbs.take(rows)
        numbers = exact.of_limbs(relative[rows].astype(np.int32), chosen)
        start, total = exact.add(
            numbers, np.repeat(owner[rows], chosen.lengths), n_groups, MOST_LANES
        )
        specials = np.zeros((n_groups, 3), np.int64)
        counted, odd = _specials(partials)
        np.add.at(specials, owner[odd], counted)
        return _columns(n, first, last, start, total, specials)

    def finish_columns(self, partials: Columns) -> Finished:
        return self._finished(partials, None)

    def finish_columns_at(self, partials: Columns, ends: Ends) -> Finished:
        return self._finished(partials, weights(ends(), self.half_life_us))

    def _finished(
        self, partials: Columns, ends: tuple[Int64, NDArray[np.uint64]] | None
    ) -> Finished:
        counts, rows = _specials(partials)
        odd = dict(zip(rows.tolist(), counts.tolist(), strict=True))
        totals = exact.to_ints(np.zeros(partials.n, np.int64), partials.items("limbs"))
        n, first, last, start = (
            partials.fixed(name).tolist() for name in ("n", "first", "last", "limb_start")
        )
        at = (
            [None] * partials.n
            if ends is None
            else list(zip(ends[0].tolist(), ends[1].tolist(), strict=True))
        )
        answers = [
            self._value(n[i], last[i] - first[i], start[i], totals[i], odd.get(i, ()), at[i])
            for i in range(partials.n)
        ]
        errors = {row: value.code for row, value in enumerate(answers) if isinstance(value, Failed)}
        return Finished(
            pa.array([None if isinstance(v, Failed) else v for v in answers], pa.float64()), errors
        )

    def _value(
        self,
        n: int,
        apart: int,
        start: int,
        total: int,
        specials: Sequence[int],
        end: tuple[int, int] | None,
    ) -> float | Failed | None:
        """apart: half-lives between the events; end: (q, w) of the instant at which a weight is
        one."""
        if n == 0:
            return self.of_none
        if specials:
            nan, positive, negative = specials
            if nan or (positive and negative):
                return math.nan
            return math.inf if positive else -math.inf
        if end is None:
            return Failed(NO_END)
        if apart > MOST_HALVINGS:
            return Failed(TOO_LONG)
        power, factor = exact.LIMB_BITS * start + self.unit - end[0], end[1] * self.divisor
        size = total.bit_length() + power - factor.bit_length()
        if size < -NEVER or total == 0:
            return 0.0
        rounded = scaled(total, power, factor) if size < NEVER else None
        # zero is +0.0 also where it was less
        return Failed(OVERFLOW) if rounded is None else rounded + 0.0

    @property
    def of_none(self) -> float | None:
        """The value of no events."""
        return None

    def _numbers(self, rows: Rows) -> Magnitudes:
        """The values of rows, none of them null."""
        if self.number is None:
            return of_ones(len(rows))
        array = rows.columns[self.inputs[0]]
        if is_decimal(self.number):
            return of_words(decimal_words(array))
        stored = ValueType(self.number).store(array)
        return of_doubles(stored) if is_double(self.number) else of_integers(stored)

    # ---- rows

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.inputs[0]] if self.inputs else 1
        if value is None:
            return state
        q, factor = weight(event.time, self.half_life_us)
        if self.number is not None and isinstance(value, float) and not math.isfinite(value):
            kind = 0 if value != value else 1 if value > 0 else 2
            return self.combine(state, (1, q, q, 0, (), tuple(int(i == kind) for i in range(3))))
        start, limbs = exact.of_int(self._units(value) * factor << (q & 31))
        return self.combine(state, (1, q, q, start + (q >> 5) if limbs else 0, limbs, ()))

    def combine(self, a: State, b: State) -> State:
        if a[0] == 0 or b[0] == 0:
            return b if a[0] == 0 else a
        first, last = min(a[1], b[1]), max(a[2], b[2])
        specials = tuple(map(sum, zip(a[5], b[5], strict=True))) if a[5] and b[5] else a[5] or b[5]
        if last - first > MOST_HALVINGS:
            return (a[0] + b[0], first, last, 0, (), specials)
        base = first >> 5
        total = sum(exact.to_int(state[3] - base, state[4]) for state in (a, b) if state[4])
        start, limbs = exact.of_int(total)
        return (a[0] + b[0], first, last, start + base if limbs else 0, limbs, specials)

    def finish(self, state: State) -> float | Failed | None:
        return self._finish(state, None)

    def finish_at(self, state: State, end_us: int) -> float | Failed | None:
        return self._finish(state, weight(end_us, self.half_life_us))

    def _finish(self, state: State, end: tuple[int, int] | None) -> float | Failed | None:
        n, first, last, start, limbs, specials = state
        return self._value(n, last - first, start, exact.to_int(0, limbs), specials, end)

    def _units(self, value: Any) -> int:
        if self.number is None:
            return 1
        if is_decimal(self.number):
            return int(value.scaleb(self.number.scale, EXACT))
        if is_double(self.number):
            numerator, denominator = value.as_integer_ratio()
            return int((numerator << -DOUBLE_UNIT) // denominator)
        return int(value)


def _sums(cls: type[Any]) -> Sequence[Aggregate]:
    kinds = [
        ("3650d", pa.float64()),
        ("1000d", pa.int64()),
        ("3650d", pa.decimal128(12, 3)),
        ("1h", pa.float64()),
    ]
    return [cls(half_life, "x").bind({"x": kind}) for half_life, kind in kinds]


def _counts(cls: type[Any]) -> Sequence[Aggregate]:
    return [cls("3650d").bind({}), cls("2500d", "x").bind({"x": pa.string()})]


def _half_life(given: object, where: str) -> str:
    """In its shortest form. Raises DefinitionError for none that weights can have."""
    us = parse_duration(given) if isinstance(given, str) else 0
    if not LEAST_HALF_LIFE_US <= us <= MOST_HALF_LIFE_US:
        raise DefinitionError(
            f"the half-life is {given!r}",
            where=where,
            expected='from "1s" to "3650d", such as "1h"',
            next_step="write the length so",
        )
    return format_duration(us)


@register(_sums)
@dataclass(frozen=True)
class DecaySum(Decayed):
    """Sum in which a value weighs 2^(-age / half_life); age: from the event to the window's end, in
    exact windows and rows to the instant that is asked for, less the offset.

    Null without values. The nearest double to the exact quotient (half to even) of the weights,
    each of which is within 2^-33 of the power that it stands for. Beyond the largest double null
    with `overflow`.
    """

    kind = "decay_sum"
    column: str

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "half_life", _half_life(self.half_life, f"{self.kind}({self.column!r})")
        )

    @property
    def number(self) -> pa.DataType:
        return self.type_of(self.column)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_number(kind) else NUMBERS

    def stored(self) -> Mapping[str, Any]:
        return {"form": "decay", "column": self.column, "half_life_us": self.half_life_us}


@register(_counts)
@dataclass(frozen=True)
class DecayCount(Decayed):
    """Number of events, or of values that are not null, in which each weighs 2^(-age / half_life).

    0.0 of no events; else as `DecaySum` of ones.
    """

    kind = "decay_count"
    column: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_life", _half_life(self.half_life, self.kind))

    @property
    def number(self) -> None:
        return None

    @property
    def of_none(self) -> float:
        return 0.0

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None

    def stored(self) -> Mapping[str, Any]:
        return {"form": "decay_count", "column": self.column, "half_life_us": self.half_life_us}


# ---- parts of partials


def _extent(least: Int64, most: Int64, groups: Int64, n: Int64) -> tuple[Int64, Int64]:
    """Per group the least and the greatest; 0 of a group without events. n: events per group."""
    first, last = np.full(len(n), NONE), np.full(len(n), -NONE)
    np.minimum.at(first, groups, least)
    np.maximum.at(last, groups, most)
    return np.where(n > 0, first, 0), np.where(n > 0, last, 0)


def _specials(partials: Columns) -> tuple[Int64, Int64]:
    """Counts [m, 3] of the rows that have any, and those rows."""
    lists = partials.items("specials")
    rows = np.flatnonzero(lists.lengths)
    if (lists.lengths[rows] != 3).any():
        raise CodecError(
            f"{lists.lengths.max()} counts of NaN and infinities", expected="three, or none"
        )
    return lists.values.astype(np.int64).reshape(-1, 3), rows


def _columns(
    n: Int64, first: Int64, last: Int64, start: NDArray[np.int32], limbs: Ragged, specials: Int64
) -> Columns:
    """start: counted from the lane of `first`."""
    some = np.asarray(specials.any(axis=1), np.int64)
    return Columns(
        len(n),
        {
            "n": n,
            "first": first,
            "last": last,
            "limb_start": np.where(limbs.lengths > 0, start + (first >> 5), 0),
            "limbs": limbs,
            "specials": Ragged(offsets_of(3 * some), specials[some != 0].reshape(-1)),
        },
    )
