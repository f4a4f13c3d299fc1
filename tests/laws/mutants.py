"""Aggregates that break one law each, as plausible mistakes would, to show that the laws can
fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates import Aggregate, Columns, Event, Finished, Ragged, Rows, State
from slicewise.aggregates.exact.booleans import BoolOr
from slicewise.aggregates.exact.counting import Count
from slicewise.aggregates.exact.sums import Sum
from slicewise.aggregates.kernel.fields import Field, Fixed
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.ordering.extremes import Max
from slicewise.aggregates.ordering.latest import FirstK, LastK
from slicewise.aggregates.ordering.ranked import ArgMax
from slicewise.aggregates.ranges import ChosenRows, Counted, RangeForm, Ranges
from slicewise.aggregates.sketches.distinct import DistinctCount
from tests.laws import laws


@dataclass(frozen=True)
class FloatSum(Sum):
    """Adds doubles as they come."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Fixed("total", "<f8"), Fixed("n", "<i8"))

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        kept = rows.columns[self.column].is_valid().to_numpy(zero_copy_only=False)
        values = rows.columns[self.column].drop_null().to_numpy()
        total = np.zeros(n_groups)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(total, groups[kept], values)
        return Columns(
            n_groups,
            {"total": total, "n": np.bincount(groups[kept], minlength=n_groups).astype(np.int64)},
        )

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        total, n = np.zeros(n_groups), np.zeros(n_groups, np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(total, groups, partials.fixed("total"))
        np.add.at(n, groups, partials.fixed("n"))
        return Columns(n_groups, {"total": total, "n": n})

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        return state if value is None else (state[0] + value, state[1] + 1)

    def combine(self, a: State, b: State) -> State:
        return (a[0] + b[0], a[1] + b[1])


@dataclass(frozen=True)
class FirstOffered(ArgMax):
    """Keeps of equal values the one that was given first, instead of the earliest event."""

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        n = len(rows)
        same = np.zeros(n, np.uint64)
        arrival = Rows(np.arange(n), same, same, np.zeros(n, np.int32), np.arange(n), rows.columns)
        return super().accumulate_columns(arrival, groups, n_groups)


@dataclass(frozen=True)
class KeepsTheLeft(LastK):
    """Combines by taking the left partial where there is one."""

    def combine(self, a: State, b: State) -> State:
        return a if a[0] else b


@dataclass(frozen=True)
class CountsEmpties(Count):
    """Counts an event in its empty partial."""

    def empty(self) -> State:
        return (1,)


@dataclass(frozen=True)
class EagerRegisters(DistinctCount):
    """Switches by the number of values offered, not by how many are distinct."""

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        offered = np.bincount(groups, minlength=1).max(initial=0)
        if offered <= self.threshold:
            return super().accumulate_columns(rows, groups, n_groups)
        eager = DistinctCount(self.column, 1, self.precision, types=self.types)
        return eager.accumulate_columns(rows, groups, n_groups)


@dataclass(frozen=True)
class SubtractsTheRest(Count):
    """Combine is a difference: neither associative nor commutative."""

    def combine(self, a: State, b: State) -> State:
        return (a[0] - b[0],)


@dataclass(frozen=True)
class MixesGroups(Count):
    """Counts every event for group 0."""

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        return super().accumulate_columns(rows, np.zeros_like(groups), n_groups)


@dataclass(frozen=True)
class TwoForms(BoolOr):
    """Counts nulls as false in its row form, and not in its column form."""

    def accumulate(self, state: State, event: Event) -> State:
        return (
            (state[0], state[1] + 1)
            if event.columns[self.column] is None
            else super().accumulate(state, event)
        )


@dataclass(frozen=True)
class WrongTwice(BoolOr):
    """Wrong in both forms alike: only an oracle that shares nothing can see it."""

    def finish_columns(self, partials: Columns) -> Finished:
        none = (partials.fixed("n_true") == 0) & (partials.fixed("n_false") == 0)
        return Finished(pa.array(partials.fixed("n_true") > partials.fixed("n_false"), mask=none))


@dataclass(frozen=True)
class LongLimbs(Sum):
    """Keeps a sign limb that it need not keep where the combine was of several partials."""

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        combined = super().combine_columns(partials, groups, n_groups)
        limbs = combined.items("limbs")
        if partials.n < 2 or len(limbs.values) == 0 or n_groups != 1:
            return combined
        fill = np.uint32(2**32 - 1) if limbs.values[-1] >> 31 else np.uint32(0)
        longer = Ragged(np.array([0, len(limbs.values) + 1]), np.append(limbs.values, fill))
        return Columns(1, {**combined.values, "limbs": longer})


@dataclass(frozen=True)
class WritesItsInput(Count):
    """Adds in place."""

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        partials.fixed("n")[:] = partials.fixed("n") + 1
        return super().combine_columns(partials, groups, n_groups)


@dataclass(frozen=True)
class NarrowField(Count):
    """States a field narrower than its values: what is decoded is not what was encoded."""

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Fixed("n", "|u1"),)

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        columns = super().accumulate_columns(rows, groups, n_groups)
        return Columns(n_groups, {"n": columns.fixed("n") * 255})


@dataclass(frozen=True)
class ForgetsOnDeduct(Count):
    """Deducts nothing."""

    def deduct(self, whole: State, part: State) -> State:  # noqa: ARG002
        return whole

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:  # noqa: ARG002
        return whole


@dataclass(frozen=True)
class ShorterLongest(FirstK):
    """Says that it keeps one entry fewer than it does."""

    @property
    def most_items(self) -> int:
        return self.entries - 1


X: dict[str, Any] = {"x": pa.float64()}


@dataclass(frozen=True)
class CountsNulls(Count):
    """Looks a count up as if no value were null."""

    def over_ranges(self, rows: Rows) -> RangeForm:  # noqa: ARG002
        return Counted(ChosenRows(None), lambda counts: Columns(len(counts), {"n": counts}))


@dataclass(frozen=True)
class LooksAtOneRun(Max):
    """Looks at the first of the two runs that cover a range."""

    def over_ranges(self, rows: Rows) -> RangeForm:
        form = super().over_ranges(rows)

        class OneRun:
            def between(self, ranges: Ranges) -> list[Columns]:
                return form.between([(a, a + (b - a + 1) // 2) for a, b in ranges])

        return OneRun()


MUTANTS: list[tuple[Callable[[], Aggregate], laws.Law]] = [
    (lambda: CountsEmpties().bind({}), laws.empty_is_the_identity),
    (lambda: KeepsTheLeft("x", 2).bind(X), laws.combine_is_commutative),
    (lambda: SubtractsTheRest().bind({}), laws.combine_is_associative),
    (lambda: FloatSum("x").bind(X), laws.any_split_gives_the_same_bytes),
    (lambda: FloatSum("x").bind(X), laws.any_order_gives_the_same_bytes),
    (
        lambda: FirstOffered("p", "b").bind({"p": pa.int64(), "b": pa.bool_()}),
        laws.any_order_gives_the_same_bytes,
    ),
    (
        lambda: EagerRegisters("x", 3, 4).bind({"x": pa.string()}),
        laws.any_split_gives_the_same_bytes,
    ),
    (lambda: LongLimbs("x").bind(X), laws.any_split_gives_the_same_bytes),
    (lambda: MixesGroups().bind({}), laws.groups_are_independent),
    (lambda: TwoForms("x").bind({"x": pa.bool_()}), laws.rows_and_columns_agree),
    (lambda: WrongTwice("x").bind({"x": pa.bool_()}), laws.the_oracle_agrees),
    (lambda: NarrowField().bind({}), laws.bytes_come_back),
    (lambda: ShorterLongest("x", 2).bind(X), laws.lists_are_no_longer_than_longest),
    (lambda: WritesItsInput().bind({}), laws.inputs_stay_as_they_are),
    (lambda: ForgetsOnDeduct().bind({}), laws.deduct_undoes_combine),
    (lambda: CountsNulls("x").bind(X), laws.ranges_are_looked_up),
    (lambda: LooksAtOneRun("x").bind(X), laws.ranges_are_looked_up),
]
