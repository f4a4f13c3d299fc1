"""Several exact sums of the same events make one partial, and a rational number that is rounded
once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Invertible
from slicewise.aggregates.exact.counting import add_groups
from slicewise.aggregates.exact.sums import DOUBLE_UNIT, most_limbs
from slicewise.aggregates.kernel import limbs as exact
from slicewise.aggregates.kernel import products
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.products import Operand
from slicewise.aggregates.kernel.ragged import Int64, Ragged
from slicewise.aggregates.kernel.values import (
    EXACT,
    NUMBERS,
    ValueType,
    decimal_words,
    is_decimal,
    is_double,
    is_number,
)
from slicewise.aggregates.operations import OVERFLOW, Failed, Finished
from slicewise.aggregates.scalar import Groups, Run, Scalars
from slicewise.aggregates.stored_form import State

DOUBLE_BITS = 1024 - DOUBLE_UNIT
"""Every finite double is an integer below 2^2098 in units of 2^-1074."""
EVENT_BITS = 63

Shifted = tuple[int, int]
"""(integer, limbs that it is shifted up by)."""


@dataclass(frozen=True)
class NumberUnit:
    """A stored integer times 2^two · 10^-ten is the number."""

    two: int = 0
    ten: int = 0

    @staticmethod
    def of(kind: pa.DataType) -> NumberUnit:
        """The unit of a column's numbers."""
        return (
            NumberUnit(DOUBLE_UNIT)
            if is_double(kind)
            else NumberUnit(0, kind.scale)
            if is_decimal(kind)
            else NumberUnit()
        )

    def stored(self, value: Any) -> int:
        """The integer of a finite value."""
        if self.two:
            numerator, denominator = value.as_integer_ratio()
            return int((numerator << -self.two) // denominator)
        return int(value.scaleb(self.ten, EXACT)) if self.ten else int(value)


@dataclass(frozen=True)
class SeveralSums(Invertible):
    """Base of aggregates that hold several exact sums over the same events.

    Partial: `n`, how many events count, and per sum `<name>_start` and `<name>_limbs`, the integer
    of `slicewise.aggregates.kernel.limbs`. A sum of values of degree d (of a square 2) counts
    units^d. NaN and infinities, where a column allows them, are counted in the sums of degree 1 as
    `sum` does, and are zero in all others: one of them makes the result NaN.
    """

    @property
    @abstractmethod
    def degrees(self) -> dict[str, int]:
        """Name and degree of each sum."""

    @abstractmethod
    def answer(self, n: int, sums: Sequence[Shifted]) -> float | Failed | None:
        """The value of n > 0 events and their sums."""

    @abstractmethod
    def terms(self, event: Event) -> Sequence[int] | None:
        """The addend of one event to each sum; None if it does not count."""

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_number(kind) else NUMBERS

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        pairs = [
            (Fixed(f"{name}_start", "<i4"), Items(f"{name}_limbs", "<u4")) for name in self.degrees
        ]
        return (Fixed("n", "<i8"), *(field for pair in pairs for field in pair))

    def longest(self, events: int) -> Mapping[str, int]:  # noqa: ARG002
        kinds = [self.type_of(name) for name in self.inputs]
        most = {
            name: max(most_limbs(kind, degree) for kind in kinds)
            for name, degree in self.degrees.items()
        }
        return {f"{name}_limbs": limbs for name, limbs in most.items()}

    @property
    def output_type(self) -> pa.DataType:
        return pa.float64()

    @cached_property
    def scalar(self) -> ScalarSums:
        return ScalarSums(self.answer)

    def columns(self, n: Int64, sums: Sequence[tuple[Any, Ragged]]) -> Columns:
        """Column form of counts [n] and, per sum, (start, limbs)."""
        values: dict[str, Values] = {"n": n}
        for name, (start, limbs) in zip(self.degrees, sums, strict=True):
            values[f"{name}_start"], values[f"{name}_limbs"] = start, limbs
        return Columns(len(n), values)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        added = []
        for name, degree in self.degrees.items():
            start, limbs = partials.fixed(f"{name}_start"), partials.items(f"{name}_limbs")
            owners = np.repeat(groups, limbs.lengths)
            added.append(
                exact.add(exact.of_limbs(start, limbs), owners, n_groups, most_lanes(degree))
            )
        return self.columns(add_groups(partials.fixed("n"), groups, n_groups), added)

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        added = []
        for name, degree in self.degrees.items():
            a, b = whole.items(f"{name}_limbs"), part.items(f"{name}_limbs")
            lane, values = exact.signed_limbs(whole.fixed(f"{name}_start"), a)
            other_lane, others = exact.signed_limbs(part.fixed(f"{name}_start"), b)
            numbers = exact.of_lanes(
                np.concatenate([lane, other_lane]), np.concatenate([values, -others])
            )
            owners = np.concatenate([a.row_numbers(), b.row_numbers()])
            added.append(exact.add(numbers, owners, whole.n, most_lanes(degree)))
        return self.columns(whole.fixed("n") - part.fixed("n"), added)

    def finish_columns(self, partials: Columns) -> Finished:
        sums = [_shifted(partials, name) for name in self.degrees]
        counted = partials.fixed("n").tolist()
        answers = [
            self.answer(n, row_sums) if n else None
            for n, row_sums in zip(counted, zip(*sums, strict=True), strict=True)
        ]
        listed = _listed(answers)
        return Finished(pa.array(listed.values, pa.float64()), listed.errors)

    def accumulate(self, state: State, event: Event) -> State:
        terms = self.terms(event)
        if terms is None:
            return state
        return self._state(
            state[0] + 1, [a + b for a, b in zip(_integers(state), terms, strict=True)]
        )

    def combine(self, a: State, b: State) -> State:
        return self._state(
            a[0] + b[0], [x + y for x, y in zip(_integers(a), _integers(b), strict=True)]
        )

    def deduct(self, whole: State, part: State) -> State:
        return self._state(
            whole[0] - part[0],
            [x - y for x, y in zip(_integers(whole), _integers(part), strict=True)],
        )

    def finish(self, state: State) -> float | Failed | None:
        return (
            self.answer(state[0], [(total, 0) for total in _integers(state)]) if state[0] else None
        )

    def _state(self, n: int, sums: Sequence[int]) -> State:
        return (n, *(part for total in sums for part in exact.of_int(total)))


def most_lanes(degree: int) -> int:
    """The last lane that a sum of this degree can reach; of degree 1 those that count NaN and
    infinities."""
    return (
        exact.MOST_LANES
        if degree == 1
        else (degree * DOUBLE_BITS + EVENT_BITS) // exact.LIMB_BITS + 2
    )


def operand(kind: pa.DataType, array: pa.Array) -> Operand:
    """A number column without nulls, in units of `Unit.of(kind)`."""
    if is_decimal(kind):
        return products.of_words(decimal_words(array))
    values = ValueType(kind).store(array)
    return products.of_doubles(values) if is_double(kind) else products.of_integers(values)


def not_finite(total: Shifted) -> bool:
    """Tells whether a sum of degree 1 of doubles counts NaN or infinities."""
    number, shift = total  # a zero may stand in any unit
    return number != 0 and number.bit_length() + exact.LIMB_BITS * shift >= exact.FINITE_BITS


def rounded(value: float | None) -> float | Failed:
    """The value of a rounded rational: null with an error beyond the largest double, zero is
    +0.0."""
    return Failed(OVERFLOW) if value is None else value + 0.0


def _shifted(partials: Columns, name: str) -> list[Shifted]:
    limbs = partials.items(f"{name}_limbs")
    raw = limbs.values.astype("<u4", copy=False).tobytes()
    ends = pairwise((limbs.offsets * 4).tolist())
    numbers = [int.from_bytes(raw[a:b], "little", signed=True) for a, b in ends]
    starts = partials.fixed(f"{name}_start").tolist()
    exact.check_starts(starts)
    return list(zip(numbers, starts, strict=True))


def _integers(state: State) -> list[int]:
    return [
        exact.to_int(start, limbs) for start, limbs in zip(state[1::2], state[2::2], strict=True)
    ]


def _listed(answers: list[Any]) -> Scalars:
    errors = {at: value.code for at, value in enumerate(answers) if isinstance(value, Failed)}
    return Scalars(
        [None if isinstance(value, Failed) else value for value in answers] if errors else answers,
        errors,
    )


@dataclass(frozen=True)
class ScalarSums:
    """Several exact sums of few rows, combined to (n, per sum a `Shifted`)."""

    answer: Callable[[int, Sequence[Shifted]], float | Failed | None]

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        counts = columns[0]
        n = [sum(counts[a:b]) for a, b in runs] + [state[0] for state in cached]
        totals: list[list[Shifted]] = []
        for at, (starts, limbs) in enumerate(zip(columns[1::2], columns[2::2], strict=True)):
            numbers = [int.from_bytes(raw, "little", signed=True) for raw in limbs]
            before = [state[1][at] for state in cached]
            units = {start for number, start in zip(numbers, starts, strict=True) if number}
            units |= {shift for total, shift in before if total}
            exact.check_starts(units)
            least = min(units, default=0)
            if len(units) > 1:  # a zero has start 0, whatever the others have
                ups = [max(start - least, 0) << 5 for start in starts]
                numbers = [number << up for number, up in zip(numbers, ups, strict=True)]
                before = [(total << (max(shift - least, 0) << 5), least) for total, shift in before]
            by_run = [sum(numbers[a:b]) for a, b in runs] + [total for total, _ in before]
            totals.append([(sum([by_run[run] for run in group]), least) for group in groups])
        return [
            (sum([n[run] for run in group]), sums)
            for group, sums in zip(groups, zip(*totals, strict=True), strict=True)
        ]

    def finish(self, combined: Sequence[Any]) -> Scalars:
        answer = self.answer
        return _listed([answer(n, sums) if n else None for n, sums in combined])
