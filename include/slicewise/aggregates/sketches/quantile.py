"""The set of values alone decides whether they stand one by one or in bins.

A distinct value is kept with its count while there are at most `threshold` of them; beyond it
they are counted in the bins of DDSketch. A union is never smaller than its parts, so that the
switch comes at the same multiset whatever the order, split or tree; and so does the collapse of
the lowest bins into the lowest of the MOST_BINS highest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.ragged import Int64, Ragged, offsets_of
from slicewise.aggregates.kernel.values import NUMBERS, ValueType, is_decimal, is_number, non_null
from slicewise.aggregates.limits import check_share, check_whole
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.ordering.ranked import listing
from slicewise.aggregates.registry import register
from slicewise.aggregates.sketches.ddsketch import (
    LEAST_ERROR,
    MOST_ERROR,
    bins,
    bins_per_octave,
    grouped,
)
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError, DefinitionError

MOST_VALUES = 65_536
MOST_BINS = 2_048
MOST_COUNT = 1 << 53
MOST_QUANTILES = 100
Counted = tuple[Int64, Int64, Int64]
"""Values or bins: group, key, count."""
_DOUBLES = ValueType(pa.float64())


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        cls("x", (0.5, 0.9), 4, 0.1).bind({"x": pa.float64()}),
        cls("x", (0.0, 0.25, 1.0)).bind({"x": pa.float64()}),
        cls("x", (0.5,), 1, 0.3).bind({"x": pa.int64()}),
        cls("x", (0.99, 0.01), 3).bind({"x": pa.decimal128(12, 3)}),
    ]


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


@register(_examples)
@dataclass(frozen=True)
class Quantiles(Aggregate):
    """The least value that at least a share q of the values do not exceed, for each q: a list of
    doubles.

    Integers and decimals count as the doubles nearest to them. Exact while there are at most
    `threshold` distinct values; beyond it within a share `error` of the value (DDSketch). An entry
    is null where it lies in bins that were collapsed: those below the 2,048 highest. Partial:
    `values` with `counts`, ascending; or `bins` with `counts`, and `collapsed`.
    """

    kind = "quantiles"
    column: str
    q: tuple[float, ...]
    threshold: int = 256
    error: float = 0.01

    def __post_init__(self) -> None:
        if not isinstance(self.q, list | tuple) or not 1 <= len(self.q) <= MOST_QUANTILES:
            raise DefinitionError(
                f"q is {self.q!r}",
                where=self.kind,
                expected=f"a list of 1 to {MOST_QUANTILES} shares",
                next_step="write the shares as a list: q=[0.5, 0.9]",
            )
        object.__setattr__(self, "q", tuple(self.q))
        where = self.describe()
        for q in self.q:
            if not _is_number(q) or not 0 <= q <= 1:
                raise DefinitionError(
                    f"q holds {q!r}",
                    where=where,
                    expected="numbers from 0 to 1, as 0.5",
                    next_step="write each as a share: the 90th percentile is 0.9",
                )
        check_whole("threshold", self.threshold, 1, MOST_VALUES, where)
        check_share("error", self.error, LEAST_ERROR, MOST_ERROR, where)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "q": list(self.q)}

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_number(kind) else NUMBERS

    def stored(self) -> Mapping[str, Any]:
        return {
            "form": "quantiles",
            "column": self.column,
            "threshold": self.threshold,
            "octave": self.octave,
        }

    @cached_property
    def octave(self) -> int:
        """Bins per octave."""
        return bins_per_octave(float(self.error))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (
            Items("values", "<f8"),
            Items("bins", "<i4"),
            Items("counts", "<i8"),
            Fixed("collapsed", "|u1"),
        )

    def longest(self, events: int) -> Mapping[str, int]:
        values, most_bins = (
            min(events, self.threshold),
            min(events, MOST_BINS) if events > self.threshold else 0,
        )
        return {"values": values, "bins": most_bins, "counts": max(values, most_bins)}

    @property
    def output_type(self) -> pa.DataType:
        return pa.list_(pa.float64())

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        keys = _DOUBLES.order(_doubles(array))
        none, no = np.empty(0, np.int64), np.zeros(n_groups, bool)
        return self._union(
            (groups, keys, np.ones(len(keys), np.int64)), (none, none, none), no, no, n_groups
        )

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        values, bin_numbers, counts = self._lists(partials)
        of_value, of_bin = values.row_numbers(), bin_numbers.row_numbers()
        in_bins = (bin_numbers.lengths > 0)[counts.row_numbers()]
        dense, collapsed = np.zeros(n_groups, bool), np.zeros(n_groups, bool)
        dense[groups[bin_numbers.lengths > 0]] = True
        collapsed[groups[partials.fixed("collapsed") != 0]] = True
        exact = (groups[of_value], _DOUBLES.order(values.values), counts.values[~in_bins])
        binned = (groups[of_bin], bin_numbers.values.astype(np.int64), counts.values[in_bins])
        return self._union(exact, binned, dense, collapsed, n_groups)

    def _lists(self, partials: Columns) -> tuple[Ragged, Ragged, Ragged]:
        """Values, bins and counts. Raises CodecError where they are not those of any events."""
        values, bin_numbers, counts = (
            partials.items(name) for name in ("values", "bins", "counts")
        )
        if (values.lengths + bin_numbers.lengths != counts.lengths).any() or (
            values.lengths * bin_numbers.lengths
        ).any():
            raise CodecError(f"{self.describe()} with other than a count for each value or bin")
        if ((counts.values < 1) | (counts.values > MOST_COUNT)).any():
            raise CodecError(
                f"{self.describe()} with counts of {counts.values.min()} to {counts.values.max()}"
            )
        return values, bin_numbers, counts

    def _union(
        self,
        exact: Counted,
        binned: Counted,
        dense: NDArray[np.bool_],
        collapsed: NDArray[np.bool_],
        n_groups: int,
    ) -> Columns:
        """Partials of (group, key of a value, count) and of (group, bin, count)."""
        exact, first = self._fallen(exact, dense)  # which values are equal matters no more there
        group, key, count = grouped(*exact)
        dense = dense | (np.bincount(group, minlength=n_groups) > self.threshold)
        (group, key, count), then = self._fallen((group, key, count), dense)
        of, bin_numbers, n = grouped(
            *(np.concatenate(parts) for parts in zip(binned, first, then, strict=True))
        )
        of, bin_numbers, n, beyond = _collapse(of, bin_numbers, n, n_groups)
        # a group has one of the two
        in_order = np.argsort(np.concatenate([group, of]), kind="stable")
        values, bins_per_group = (
            np.bincount(group, minlength=n_groups),
            np.bincount(of, minlength=n_groups),
        )
        fields: dict[str, Values] = {
            "values": Ragged(offsets_of(values), _DOUBLES.unorder(key)),
            "bins": Ragged(offsets_of(bins_per_group), bin_numbers.astype(np.int32)),
            "counts": Ragged(
                offsets_of(values + bins_per_group), np.concatenate([count, n])[in_order]
            ),
            "collapsed": (collapsed | beyond).astype(np.uint8),
        }
        return Columns(n_groups, fields)

    def _fallen(self, exact: Counted, dense: NDArray[np.bool_]) -> tuple[Counted, Counted]:
        """Parts the values that stay from those that go to bins, which are the values of dense
        groups."""
        group, key, count = exact
        into = dense[group]
        if not into.any():
            none = np.empty(0, np.int64)
            return exact, (none, none, none)
        bin_numbers = bins(self.octave).of(_DOUBLES.unorder(key[into])).astype(np.int64)
        return (group[~into], key[~into], count[~into]), (group[into], bin_numbers, count[into])

    def finish_columns(self, partials: Columns) -> Finished:
        values, bin_numbers, counts = self._lists(partials)
        collapsed, value_of = partials.fixed("collapsed"), bins(self.octave).value
        rows, out, missing = np.flatnonzero(counts.lengths), [], []
        shares = [Fraction(repr(q)) for q in self.q]
        for row in rows.tolist():
            sums = np.cumsum(counts.values[counts.offsets[row] : counts.offsets[row + 1]])
            ranks = [_rank(share, int(sums[-1])) for share in shares]
            at = np.searchsorted(sums, np.array(ranks, np.int64), side="right")
            if values.lengths[row]:
                out += values.values[values.offsets[row] + at].tolist()
                missing += [False] * len(at)
            else:
                out += [
                    value_of(number)
                    for number in bin_numbers.values[bin_numbers.offsets[row] + at].tolist()
                ]
                missing += ((at == 0) & bool(collapsed[row])).tolist()
        lengths = np.where(counts.lengths > 0, len(self.q), 0)
        flat = pa.array(np.array(out, np.float64), mask=np.array(missing, bool))
        return Finished(listing(offsets_of(lengths), flat))

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        return self.combine(state, ((_DOUBLES.store_one(float(value)),), (), (1,), 0))

    def combine(self, a: State, b: State) -> State:
        exact: dict[Any, tuple[float, int]] = {}
        binned: dict[int, int] = {}
        for values, bin_numbers, counts, _ in (a, b):
            for value, n in zip(values, counts if values else (), strict=True):
                key = _DOUBLES.order_one(value)
                exact[key] = (value, exact.get(key, (value, 0))[1] + n)
            for bin_number, n in zip(bin_numbers, counts if bin_numbers else (), strict=True):
                binned[bin_number] = binned.get(bin_number, 0) + n
        collapsed = a[3] or b[3]
        if not binned and len(exact) <= self.threshold:
            ordered = [exact[key] for key in sorted(exact)]
            return (tuple(v for v, _ in ordered), (), tuple(n for _, n in ordered), collapsed)
        for value, n in exact.values():
            bin_number = bins(self.octave).of_one(value)
            binned[bin_number] = binned.get(bin_number, 0) + n
        kept = sorted(binned)[-MOST_BINS:]
        lowest = sum(n for number, n in binned.items() if number < kept[0])
        counts = [binned[number] + (lowest if number == kept[0] else 0) for number in kept]
        return ((), tuple(kept), tuple(counts), int(collapsed or len(binned) > MOST_BINS))

    def finish(self, state: State) -> list[float | None] | None:
        values, bin_numbers, counts, collapsed = state
        if not counts:
            return None
        out: list[float | None] = []
        for q in self.q:
            left, at = _rank(Fraction(repr(q)), sum(counts)), 0
            while left >= counts[at]:
                left, at = left - counts[at], at + 1
            lost = collapsed and at == 0
            out.append(
                values[at] if values else None if lost else bins(self.octave).value(bin_numbers[at])
            )
        return out


def _rank(share: Fraction, n: int) -> int:
    """Place, from 0, of the least of n values that at least this share of them do not exceed."""
    return max(0, -(-share.numerator * n // share.denominator) - 1)


def _doubles(array: pa.Array) -> NDArray[np.float64]:
    """The doubles nearest to a column without nulls, canonical."""
    if not is_decimal(array.type):
        plain: NDArray[np.float64] = ValueType(array.type).store(array).astype(np.float64)
        return plain
    encoded = array.dictionary_encode()
    values: list[Decimal] = encoded.dictionary.to_pylist()
    nearest: NDArray[np.float64] = np.array([float(value) for value in values], np.float64)
    at: Int64 = encoded.indices.to_numpy()
    return nearest[at]


def _collapse(
    groups: Int64, bin_numbers: Int64, counts: Int64, n_groups: int
) -> tuple[Int64, Int64, Int64, NDArray[np.bool_]]:
    """With the counts below the MOST_BINS highest bins of a group in the lowest of these; and where
    there were such."""
    bins_per_group = np.bincount(groups, minlength=n_groups)
    beyond = bins_per_group > MOST_BINS
    if not beyond.any():
        return groups, bin_numbers, counts, beyond
    ends = offsets_of(bins_per_group)[1:]
    lowest = (ends - MOST_BINS)[groups]  # where the lowest that is kept stands
    at = np.where(
        beyond[groups] & (np.arange(len(groups)) < lowest),
        bin_numbers[np.maximum(lowest, 0)],
        bin_numbers,
    )
    return (*grouped(groups, at, counts), beyond)
