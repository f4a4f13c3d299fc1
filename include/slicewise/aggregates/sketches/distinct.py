"""The set of distinct values alone decides whether it stands as a set or as registers.

The set is kept while it has at most `threshold` values of together at most 2^precision bytes
of text; beyond it only registers are. A union is never smaller than its parts, so that the
switch comes at the same multiset whatever the order, split or tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.kernel.columns import Columns, Values
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Items
from slicewise.aggregates.kernel.grouping import coded, shifted
from slicewise.aggregates.kernel.hashing import SEED, hash_one, hash_stored
from slicewise.aggregates.kernel.ragged import (
    Int64,
    Ragged,
    RaggedBytes,
    ascending,
    gather_into,
    offsets_of,
)
from slicewise.aggregates.kernel.values import ValueType, flat, is_double, is_ordered, non_null
from slicewise.aggregates.limits import COUNTABLE, check_whole
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.sketches.hyperloglog import (
    LEAST_PRECISION,
    MOST_PRECISION,
    estimate,
    estimates,
    histogram,
    register_and_rank,
    registers_and_ranks,
)
from slicewise.aggregates.sketches.scalar_distinct import ScalarDistinct
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError

MOST_VALUES = 65_536


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        cls("x").bind({"x": pa.string()}),
        cls("x", 3, 4).bind({"x": pa.string()}),
        cls("x", 2, 5).bind({"x": pa.int64()}),
        cls("x", 4, 4).bind({"x": pa.decimal128(12, 3)}),
        cls("x", 1, 4).bind({"x": pa.bool_()}),
    ]


@register(_examples)
@dataclass(frozen=True)
class DistinctCount(Aggregate):
    """Number of distinct values that are not null; of no events 0.

    Exact up to `threshold`; beyond it HyperLogLog's estimate, of relative standard error
    1.04 / 2^(precision/2). Partial: `values`, the ascending set, or `registers` [2^precision].
    """

    kind = "distinct_count"
    column: str
    threshold: int = 256
    precision: int = 12

    def __post_init__(self) -> None:
        for name, low, high in (
            ("threshold", 1, MOST_VALUES),
            ("precision", LEAST_PRECISION, MOST_PRECISION),
        ):
            check_whole(name, getattr(self, name), low, high, self.describe())

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) and not is_double(kind) else COUNTABLE

    def stored(self) -> Mapping[str, Any]:
        return {
            **self.spec(),
            "form": "distinct",
            "kind": "hyperloglog",
            "hash": f"xxh64:{SEED:016x}",
        }

    @cached_property
    def value(self) -> ValueType:
        """The stored type of the column."""
        return ValueType(self.type_of(self.column))

    @property
    def size(self) -> int:
        """Registers, and the most bytes of text in a set."""
        return 1 << self.precision

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (self.value.field("values"), Items("registers", "|u1"))

    def longest(self, events: int) -> Mapping[str, int]:
        values = min(events, self.threshold)
        registers = events > self.threshold or (self.value.dtype is None and events > 0)
        return {"values": values, "registers": self.size if registers else 0}

    @property
    def output_type(self) -> pa.DataType:
        return pa.int64()

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        none = np.empty((0, self.size), np.uint8)
        return self._union(self.value.store(array), groups, none, np.empty(0, np.int64), n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        lists = partials.lists("values")
        dense, rows = self._registers(partials)
        return self._union(flat(lists), groups[lists.row_numbers()], dense, groups[rows], n_groups)

    def _registers(self, partials: Columns) -> tuple[NDArray[np.uint8], Int64]:
        """Registers [dense, 2^p], and the rows that have them."""
        lists = partials.items("registers")
        rows = np.flatnonzero(lists.lengths)
        if (lists.lengths[rows] != self.size).any():
            raise CodecError(f"{self.describe()} with other than {self.size} registers")
        return lists.values.reshape(-1, self.size), rows

    def _union(
        self,
        stored: Any,
        groups: Int64,
        dense: NDArray[np.uint8],
        dense_groups: Int64,
        n_groups: int,
    ) -> Columns:
        """Partials of values [n] with their groups, and of registers with theirs."""
        near = shifted(stored, self.value, n_groups)
        if near is None:
            universe, code = coded(stored, self.value)
            pairs = ascending(groups * max(1, len(universe)) + code)
            group, code = np.divmod(pairs, max(1, len(universe)))
        else:
            positions, span, least = near
            group, universe = np.divmod(ascending(groups * span + positions, merging=True), span)
            universe += least
            code = np.arange(len(universe))
        count = np.bincount(group, minlength=n_groups)
        is_dense = count > self.threshold
        if self.value.dtype is None:
            sizes = np.diff(RaggedBytes.from_strings(np.zeros(1, np.int64), universe).ends)
            is_dense |= np.bincount(group, weights=sizes[code], minlength=n_groups) > self.size
        is_dense[dense_groups] = True
        registers = np.zeros((int(is_dense.sum()), self.size), np.uint8)
        if len(registers):
            row_of = np.cumsum(is_dense) - 1
            gather_into(registers, row_of[dense_groups], dense, np.maximum)
            into = is_dense[group]
            self._insert(registers, row_of[group[into]], universe, code[into])
            group, code = group[~into], code[~into]
        values: dict[str, Values] = {
            "values": self.value.listed(
                universe, code, offsets_of(np.bincount(group, minlength=n_groups))
            ),
            "registers": Ragged(offsets_of(is_dense * self.size), registers.reshape(-1)),
        }
        return Columns(n_groups, values)

    def _insert(
        self, registers: NDArray[np.uint8], rows: Int64, universe: Any, code: Int64
    ) -> None:
        seen = np.zeros(len(universe), np.bool_)
        seen[code] = True
        used = np.flatnonzero(seen)  # each distinct value is hashed once
        chosen = (
            universe[used] if isinstance(universe, np.ndarray) else universe.take(pa.array(used))
        )
        register, rank = registers_and_ranks(hash_stored(chosen), self.precision)
        at = (np.cumsum(seen) - 1)[code]
        np.maximum.at(registers.reshape(-1), rows * self.size + register[at], rank[at])

    def finish_columns(self, partials: Columns) -> Finished:
        counts = partials.lists("values").lengths.copy()
        registers, rows = self._registers(partials)
        counts[rows] = estimates(registers, self.precision)
        return Finished(pa.array(counts, pa.int64()))

    @cached_property
    def scalar(self) -> ScalarDistinct:
        return ScalarDistinct(self.value, self.threshold, self.precision)

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        return state if value is None else self.combine(state, ((self.value.store_one(value),), ()))

    def combine(self, a: State, b: State) -> State:
        values = sorted({*a[0], *b[0]})
        text = sum(len(value) for value in values) if self.value.dtype is None else 0
        if not a[1] and not b[1] and len(values) <= self.threshold and text <= self.size:
            return (tuple(values), ())
        registers = [
            max(pair)
            for pair in zip(a[1] or b[1] or [0] * self.size, b[1] or [0] * self.size, strict=True)
        ]
        for value in values:
            register, rank = register_and_rank(hash_one(value), self.precision)
            registers[register] = max(registers[register], rank)
        return ((), tuple(registers))

    def finish(self, state: State) -> int:
        return (
            estimate(histogram(state[1], self.precision), self.precision)
            if state[1]
            else len(state[0])
        )
