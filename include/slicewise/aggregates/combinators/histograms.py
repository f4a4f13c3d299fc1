"""A value's bin follows from exact comparison with the edges; a partial keeps the bins that hold
something."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from struct import unpack
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.combinators.nesting import aligned
from slicewise.aggregates.contract import Invertible
from slicewise.aggregates.exact.counting import add_groups, tally
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Items
from slicewise.aggregates.kernel.grouping import numbered
from slicewise.aggregates.kernel.ragged import Int64, Ragged, offsets_of
from slicewise.aggregates.kernel.values import (
    DECIMAL_BIAS,
    NUMBERS,
    ValueType,
    is_decimal,
    is_double,
    is_number,
    non_null,
)
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Groups, Run, Scalars
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError, DefinitionError

MOST_EDGES = 1_000
EDGES = f"2 to {MOST_EDGES} finite numbers, each greater than the one before it"
Edge = int | str
"""An exact number: an integer, a double as its hexadecimal text, or a decimal as its digits."""


def edge_of(number: object) -> Edge:
    """The one form of a number. Raises ValueError for what is none, or not finite."""
    if isinstance(number, str):
        number = float.fromhex(number) if "0x" in number else Decimal(number)
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float | Decimal)
        or not math.isfinite(number)
    ):
        raise ValueError(number)
    exact = Fraction(number)
    if exact.denominator == 1 and abs(exact) < 2**63:
        return exact.numerator
    with suppress(OverflowError):
        if Fraction(float(exact)) == exact:
            return float(exact).hex()
    return format(number, "f") if isinstance(number, Decimal) else str(number)


def exact_edge(edge: Edge) -> Fraction:
    """The number of an edge."""
    return (
        Fraction(float.fromhex(edge)) if isinstance(edge, str) and "0x" in edge else Fraction(edge)
    )


def _examples(cls: type[Any]) -> Sequence[Invertible]:
    edges: list[Any] = [-(10**30), -2.5, 0, Decimal("0.1"), 1, 2**62, 10**20, 1e308]
    return [
        cls("x", edges).bind({"x": pa.float64()}),
        cls("x", edges).bind({"x": pa.int64()}),
        cls("x", edges).bind({"x": pa.decimal128(12, 3)}),
    ]


@register(_examples)
@dataclass(frozen=True)
class Histogram(Invertible):
    """Number of values in each bin: struct<under, bins: list, over>; a null is in none.

    edges: ascending; bin i holds edges[i] <= value < edges[i + 1], `over` all from the last edge
    on. A number is an int, a float (by its exact value) or a Decimal. Partial: `bin` (0 is under),
    ascending, and `n`, of the bins that hold something.
    """

    kind = "histogram"
    column: str
    edges: tuple[Any, ...]

    def __post_init__(self) -> None:
        try:
            edges = tuple(edge_of(edge) for edge in self.edges)
        except (TypeError, ValueError, ArithmeticError):
            edges = ()
        ascending = all(exact_edge(a) < exact_edge(b) for a, b in pairwise(edges))
        if not ascending or not 2 <= len(edges) <= MOST_EDGES:
            raise DefinitionError(
                f"edges are {self.edges!r}",
                where=f"{self.kind}({self.column!r})",
                expected=EDGES,
                next_step="give them in ascending order, such as edges=[0, 10, 100]",
            )
        object.__setattr__(self, "edges", edges)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_number(kind) else NUMBERS

    def spec(self) -> dict[str, Any]:
        return {**super().spec(), "edges": list(self.edges)}

    def describe(self) -> str:
        shown = ", ".join(
            str(float(exact_edge(e))) if isinstance(e, str) else str(e) for e in self.edges
        )
        return f"{self.kind}(column={self.column!r}, edges=[{shown}])"

    def stored(self) -> Mapping[str, Any]:
        return {"form": "histogram", "column": self.column, "edges": list(self.edges)}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Items("bin", "<i4"), Items("n", "<i8"))

    @property
    def most_items(self) -> int:
        return len(self.edges) + 1

    @property
    def output_type(self) -> pa.DataType:
        return pa.struct(
            [("under", pa.int64()), ("bins", pa.list_(pa.int64())), ("over", pa.int64())]
        )

    @property
    def size(self) -> int:
        """Bins, with those under and over."""
        return len(self.edges) + 1

    @cached_property
    def value(self) -> ValueType:
        """The stored type of the column."""
        return ValueType(self.type_of(self.column))

    @cached_property
    def thresholds(self) -> tuple[Any, ...]:
        """Per edge the least stored value that is not below it; of integers, any integer."""
        numbers = [exact_edge(edge) for edge in self.edges]
        if is_double(self.value.arrow):
            return tuple(_least_double(number) for number in numbers)
        scale = self.value.arrow.scale if is_decimal(self.value.arrow) else 0
        return tuple(math.ceil(number * 10**scale) for number in numbers)

    @cached_property
    def _table(self) -> NDArray[Any]:
        """The thresholds that a value can reach, in the order of `_places`; beyond them is no
        value."""
        if is_decimal(self.value.arrow):
            inside = [
                max(t, -DECIMAL_BIAS) + DECIMAL_BIAS for t in self.thresholds if t < DECIMAL_BIAS
            ]
            return np.array([t.to_bytes(16, "big") for t in inside], "S16")
        if is_double(self.value.arrow):
            return np.array(self.thresholds, np.float64)
        return np.array([max(t, -(2**63)) for t in self.thresholds if t < 2**63], np.int64)

    def _bins(self, array: pa.Array) -> Int64:
        stored = self.value.store(array)
        if is_decimal(self.value.arrow):
            # Biased, big-endian and all of one width: their bytes compare as the numbers do.
            stored = np.frombuffer(stored.buffers()[2] or b"", "S16")[: len(array)]
        bins: Int64 = np.searchsorted(self._table, stored, side="right")
        return bins

    # ---- whole columns

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        pairs, number = numbered(groups * self.size + self._bins(array), n_groups * self.size)
        return self._columns(pairs, tally(number, len(pairs)), n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        bins, n = self._checked_bins(partials)
        pairs, number = numbered(
            groups[bins.row_numbers()] * self.size + bins.values, n_groups * self.size
        )
        return self._columns(pairs, add_groups(n, number, len(pairs)), n_groups)

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        (a, n), (b, less) = self._checked_bins(whole), self._checked_bins(part)
        rows = np.concatenate([a.row_numbers(), b.row_numbers()])
        bins = np.concatenate([a.values, b.values]).astype(np.int64)
        pairs, number = numbered(rows * self.size + bins, whole.n * self.size)
        left = add_groups(np.concatenate([n, -less]), number, len(pairs))
        return self._columns(pairs[left != 0], left[left != 0], whole.n)

    def _checked_bins(self, partials: Columns) -> tuple[Ragged, Int64]:
        bins = partials.items("bin")
        if (
            len(bins.values)
            and not 0 <= int(bins.values.min()) <= int(bins.values.max()) < self.size
        ):
            raise _damaged(f"a bin beyond the {self.size} of {self.describe()}")
        return bins, aligned(partials, "n", bins.offsets).values

    def _columns(self, pairs: Int64, n: Int64, n_groups: int) -> Columns:
        group, bin_index = np.divmod(pairs, self.size)
        offsets = offsets_of(tally(group, n_groups))
        return Columns(
            n_groups, {"bin": Ragged(offsets, bin_index.astype("<i4")), "n": Ragged(offsets, n)}
        )

    def finish_columns(self, partials: Columns) -> Finished:
        bins, n = self._checked_bins(partials)
        whole = np.zeros((partials.n, self.size), np.int64)
        whole[bins.row_numbers(), bins.values] = n
        middle = np.ascontiguousarray(whole[:, 1:-1]).reshape(-1)
        ends = np.arange(partials.n + 1, dtype=np.int32) * (self.size - 2)
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(middle))
        arrays = [pa.array(whole[:, 0]), lists, pa.array(whole[:, -1])]
        return Finished(pa.StructArray.from_arrays(arrays, fields=list(self.output_type)))

    # ---- few rows

    @cached_property
    def scalar(self) -> Bins:
        return Bins(self.size, self.finish)

    # ---- rows

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        if is_decimal(self.value.arrow):
            value = int(Fraction(value) * 10**self.value.arrow.scale)
        bin_index = (
            self.size - 1
            if value != value
            else sum(value >= threshold for threshold in self.thresholds)
        )
        return self.combine(state, ((bin_index,), (1,)))

    def combine(self, a: State, b: State) -> State:
        return _added(a, b, 1)

    def deduct(self, whole: State, part: State) -> State:
        return _added(whole, part, -1)

    def finish(self, state: State) -> dict[str, Any]:
        whole = [0] * self.size
        for bin_index, n in zip(*state, strict=True):
            whole[bin_index] = n
        return {"under": whole[0], "bins": whole[1:-1], "over": whole[-1]}


@dataclass(frozen=True)
class Bins:
    """Few histograms, combined to the counts of their bins; `value` finishes (bins, counts)."""

    size: int
    value: Callable[[State], Any]

    def combine(
        self,
        columns: Sequence[Sequence[Any]],
        runs: Sequence[Run],
        groups: Groups,
        cached: Sequence[Any] = (),
    ) -> list[Any]:
        bins, counts = columns
        states = [self._whole(bins[a:b], counts[a:b]) for a, b in runs] + list(cached)
        nothing = (0,) * self.size
        return [
            tuple(map(sum, zip(nothing, *[states[run] for run in group], strict=True)))
            for group in groups
        ]

    def _whole(self, bins: Sequence[bytes], counts: Sequence[bytes]) -> tuple[int, ...]:
        per_bin = [0] * self.size
        for indices, numbers in zip(bins, counts, strict=True):
            if len(numbers) != 2 * len(indices):
                raise _damaged(f"{len(numbers)} bytes of counts for {len(indices)} of bins")
            at = unpack(f"<{len(indices) // 4}i", indices)
            if at and not 0 <= min(at) <= max(at) < self.size:
                raise _damaged(f"a bin beyond {self.size}")
            for bin_index, n in zip(at, unpack(f"<{len(numbers) // 8}q", numbers), strict=True):
                per_bin[bin_index] += n
        return tuple(per_bin)

    def finish(self, combined: Sequence[Any]) -> Scalars:
        indices = tuple(range(self.size))
        return Scalars([self.value((indices, counts)) for counts in combined])


def _damaged(what: str) -> CodecError:
    return CodecError(what, next_step="the stored value is damaged or of another unit: rebuild it")


def _added(a: State, b: State, sign: int) -> State:
    counts = dict(zip(*a, strict=True))
    for bin_index, n in zip(*b, strict=True):
        counts[bin_index] = counts.get(bin_index, 0) + sign * n
    counted = sorted((bin_index, n) for bin_index, n in counts.items() if n)
    return (tuple(bin_index for bin_index, _ in counted), tuple(n for _, n in counted))


def _least_double(number: Fraction) -> float:
    """The least double that is not below a number; infinity beyond the largest."""
    try:
        nearest = number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -1.7976931348623157e308
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)
