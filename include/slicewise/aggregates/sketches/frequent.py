"""The events alone decide whether items stand with exact counts or as candidates beside counters.

An item is kept with its count while there are at most `capacity` of them, of together at most 256
times as many bytes; beyond it Count-Min counts, and the candidates are the items of least priority:
an item's is the least hash of (item, identity) over its events, kept from the start. A union is
never smaller than its parts, so the switch comes at the same events whatever the order or tree.
An item of more than 256 bytes is no candidate; beyond the capacity such an answer is refused.
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
from slicewise.aggregates.kernel.fields import Field, Fixed, Items
from slicewise.aggregates.kernel.grouping import (
    SMALL_SORT,
    coded,
    least_of,
    numbered,
    order_of,
    shifted,
)
from slicewise.aggregates.kernel.hashing import SEED, hash_one, hash_stored, mixed, mixed_one
from slicewise.aggregates.kernel.ragged import Int64, Ragged, RaggedBytes, gather_into, offsets_of
from slicewise.aggregates.kernel.values import ValueType, flat, is_double, is_ordered, non_null
from slicewise.aggregates.limits import COUNTABLE, check_share, check_whole
from slicewise.aggregates.operations import Failed, Finished
from slicewise.aggregates.ordering.ranked import MOST_ENTRIES
from slicewise.aggregates.registry import register
from slicewise.aggregates.sketches import countmin
from slicewise.aggregates.stored_form import State
from slicewise.errors import CodecError

MOST_ITEMS = 65_536
LEAST_ERROR, MOST_ERROR = 0.0005, 0.5
BYTES_PER_ITEM = 256
OVERSIZED = "oversized"
"""Error code: beyond the capacity, with a value of more than BYTES_PER_ITEM bytes."""
Words = NDArray[np.uint64]
Entries = tuple[Int64, Int64, Words, Int64]
"""Items: group, number among the distinct ones, priority, count."""


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [
        cls("x", 2, 3, 0.5).bind({"x": pa.string()}),
        cls("x", 5, 5, 0.4).bind({"x": pa.int64()}),
        cls("x", 3).bind({"x": pa.date32()}),
        cls("x", 1, 2, 0.3).bind({"x": pa.decimal128(12, 3)}),
    ]


@register(_examples)
@dataclass(frozen=True)
class TopKFrequent(Aggregate):
    """The k values that came most often, with their counts: struct<items: list<struct<value,
    count>>, error, miss>.

    Most frequent first, equals by value; null of no events. Exact, with error 0 and miss 0.0, while
    there are at most `capacity` values. Beyond it no count is too low, none is more than `error`
    too high with a probability of at least 1 - e^-4, and `miss` is the probability that a value as
    frequent as the last one listed is no candidate. `error` is at most the share given of all
    events, plus one. Beyond the capacity values of more than 256 bytes make it null with error
    `oversized`. Partial: `items` and `priorities`; `counts`, or beyond the capacity `counters`.
    """

    kind = "top_k_frequent"
    column: str
    k: int
    capacity: int = 1_000
    error: float = 0.005

    def __post_init__(self) -> None:
        where = self.describe()
        check_whole("k", self.k, 1, MOST_ENTRIES, where)
        check_whole("capacity", self.capacity, self.k, MOST_ITEMS, where)
        check_share("error", self.error, LEAST_ERROR, MOST_ERROR, where)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) and not is_double(kind) else COUNTABLE

    def stored(self) -> Mapping[str, Any]:
        geometry = {"capacity": self.capacity, "width": self.width, "depth": countmin.DEPTH}
        return {"form": "frequent", "column": self.column, **geometry, "hash": f"xxh64:{SEED:016x}"}

    @cached_property
    def width(self) -> int:
        """Counters in a row."""
        return countmin.width_of(self.error)

    @property
    def cells(self) -> int:
        """Counters in all."""
        return self.width * countmin.DEPTH

    @property
    def most_bytes(self) -> int:
        """The most bytes of the items together, where those are byte strings."""
        return BYTES_PER_ITEM * self.capacity

    @cached_property
    def value(self) -> ValueType:
        """The stored type of the column."""
        return ValueType(self.type_of(self.column))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        numbers = (Items("priorities", "<u8"), Items("counts", "<i8"), Items("counters", "<i8"))
        return (self.value.field("items"), *numbers, Fixed("oversized", "|u1"))

    def longest(self, events: int) -> Mapping[str, int]:
        items = min(events, self.capacity)
        counters = events > self.capacity or (self.value.dtype is None and events > 0)
        return {
            "items": items,
            "priorities": items,
            "counts": items,
            "counters": self.cells if counters else 0,
        }

    @cached_property
    def output_type(self) -> pa.DataType:
        item = pa.struct([("value", self.value.arrow), ("count", pa.int64())])
        return pa.struct([("items", pa.list_(item)), ("error", pa.int64()), ("miss", pa.float64())])

    # ---- whole columns

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, valid = non_null(rows.columns[self.column], groups)
        stored = self.value.store(array)
        universe, code = coded(stored, self.value)
        priority = hash_stored(universe)[code] if len(universe) else np.empty(0, np.uint64)
        kept: Any = slice(None) if valid is None else valid
        for word in _words(rows):
            priority = mixed(priority ^ word[kept])
        ones = np.ones(len(code), np.int64)
        none = np.empty((0, self.cells), np.int64)
        seen = np.zeros(n_groups, bool)
        entries = _gathered(groups, code, priority, ones, len(universe))
        return self._union(universe, entries, none, np.empty(0, np.int64), seen, n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        items, counts = partials.lists("items"), partials.items("counts")
        priorities, counters = partials.items("priorities"), partials.items("counters")
        dense = np.flatnonzero(counters.lengths)
        exact = counters.lengths == 0
        if (
            (counters.lengths[dense] != self.cells).any()
            or (items.lengths != priorities.lengths).any()
            or (counts.lengths != items.lengths * exact).any()
        ):
            raise CodecError(f"{self.describe()} with lists that do not fit together")
        row = items.row_numbers()
        n = np.zeros(len(row), np.int64)
        n[exact[row]] = counts.values
        stored, owners, priority = flat(items), groups[row], priorities.values
        if len(dense):
            kept = np.flatnonzero(
                exact[row] | (priority <= self._bounds(priorities, dense, groups, n_groups)[owners])
            )
            if len(kept) < len(row):
                stored = (
                    stored[kept] if isinstance(stored, np.ndarray) else stored.take(pa.array(kept))
                )
                owners, priority, n = owners[kept], priority[kept], n[kept]
        near = shifted(stored, self.value, n_groups)
        if near is None:
            universe, code = coded(stored, self.value)
            entries = _gathered(owners, code, priority, n, len(universe))
        else:
            positions, span, lowest = near
            group, position, priority, n = _gathered(owners, positions, priority, n, span)
            universe, entries = position + lowest, (group, np.arange(len(position)), priority, n)
        table = counters.values.reshape(-1, self.cells)
        seen = np.zeros(n_groups, bool)
        seen[groups[partials.fixed("oversized") != 0]] = True
        return self._union(universe, entries, table, groups[dense], seen, n_groups)

    def _bounds(self, priorities: Ragged, dense: Int64, groups: Int64, n_groups: int) -> Words:
        """Per group a priority above which no candidate beyond the capacity is one of the union: of
        a row of as many candidates as there may be, the most that one has."""
        bounds = np.full(n_groups, 2**64 - 1, np.uint64)
        for at in dense[priorities.lengths[dense] == self.capacity].tolist():
            most = priorities.values[priorities.offsets[at] : priorities.offsets[at + 1]].max()
            bounds[groups[at]] = min(bounds[groups[at]], most)
        return bounds

    def _union(
        self,
        universe: Any,
        entries: Entries,
        counters: Int64,
        of: Int64,
        seen: NDArray[np.bool_],
        n_groups: int,
    ) -> Columns:
        """Partials of entries, each (group, code) once and ascending, and of counters with their
        groups."""
        group, code, priority, counts = entries
        dense = np.bincount(group, minlength=n_groups) > self.capacity
        allowed = np.ones(len(group), bool)
        if self.value.dtype is None and len(universe):
            sizes = np.diff(RaggedBytes.from_strings(np.zeros(1, np.int64), universe).ends)[code]
            dense |= np.bincount(group, weights=sizes, minlength=n_groups) > self.most_bytes
            allowed = sizes <= BYTES_PER_ITEM
            seen = seen | (np.bincount(group, weights=~allowed, minlength=n_groups) > 0)
        dense[of] = True
        table = np.zeros((int(dense.sum()), self.cells), np.int64)
        kept = np.ones(len(group), bool)
        if len(table):
            row_of = np.cumsum(dense) - 1
            gather_into(table, row_of[of], counters, np.add)
            into = np.flatnonzero(dense[group])
            new = into[counts[into] != 0]  # candidates beside counters are counted in these
            used, at = numbered(code[new], len(universe))
            begins, added = row_of[group[new]] * self.cells, counts[new]
            for cells in countmin.cells(_hashes(universe, used), self.width):
                np.add.at(table.reshape(-1), cells[at] + begins, added)
            kept[into] = self._candidates(group[into], priority[into], allowed[into])
        group, code, priority, counts = group[kept], code[kept], priority[kept], counts[kept]
        exact = ~dense[group]
        offsets = offsets_of(np.bincount(group, minlength=n_groups))
        values: dict[str, Values] = {
            "items": self.value.listed(universe, code, offsets),
            "priorities": Ragged(offsets, priority),
            "counts": Ragged(
                offsets_of(np.bincount(group[exact], minlength=n_groups)), counts[exact]
            ),
            "counters": Ragged(offsets_of(dense * self.cells), table.reshape(-1)),
            "oversized": seen.astype(np.uint8),
        }
        return Columns(n_groups, values)

    def _candidates(
        self, group: Int64, priority: Words, fits: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Marks the items (sorted by group) among the `capacity` of least priority that are not
        oversized."""
        allowed = np.flatnonzero(fits)
        if len(allowed) and group[allowed[0]] == group[allowed[-1]]:
            kept = np.zeros(len(fits), bool)
            kept[allowed[least_of(priority[allowed], self.capacity)]] = True
            return kept
        # Priorities are spread evenly: of many items only the lower ones need any order.
        items_per_group = np.bincount(group[allowed])
        share = np.minimum(2.0 * self.capacity / np.maximum(items_per_group, 1), 1.0)
        low = priority[allowed] <= (share * (2.0**64 - 2.0**12)).astype(np.uint64)[group[allowed]]
        enough = np.bincount(group[allowed], weights=low) >= self.capacity
        allowed = allowed[low | ~enough[group[allowed]]]
        group = group[allowed]
        order = order_of(priority[allowed], group, stable=True)  # equal priorities stay by value
        # groups stand alike in both orders
        rank = np.arange(len(group)) - np.searchsorted(group, group)
        kept = np.zeros(len(fits), bool)
        kept[allowed[order[rank < self.capacity]]] = True
        return kept

    def finish_columns(self, partials: Columns) -> Finished:
        items, counters = partials.lists("items"), partials.items("counters")
        for counts in (counters.values, partials.items("counts").values):
            if (counts < 0).any():
                raise CodecError(
                    f"{self.describe()} with a count of {counts.min()}", expected="0 or more"
                )
        row, values = items.row_numbers(), flat(items)
        estimates = np.zeros(len(row), np.int64)
        in_sketch = counters.lengths[row] > 0
        estimates[~in_sketch] = partials.items("counts").values
        if in_sketch.any():
            at = np.flatnonzero(in_sketch)
            cells = countmin.cells(_hashes(values, at), self.width) + counters.offsets[row[at]]
            estimates[at] = counters.values[cells].min(axis=0)
        order = np.lexsort((self.value.order(values), -estimates, row))
        rank = np.arange(len(row)) - items.offsets[row]
        chosen = order[rank < self.k]
        lengths = np.minimum(items.lengths, self.k)
        bounds, empty = offsets_of(lengths), (items.lengths == 0) & (counters.lengths == 0)
        taken = values[chosen] if isinstance(values, np.ndarray) else values.take(pa.array(chosen))
        entries = pa.StructArray.from_arrays(
            [self.value.load(taken), pa.array(estimates[chosen])],
            fields=list(self.output_type.field("items").type.value_type),
        )
        error, miss = np.zeros(partials.n, np.int64), np.zeros(partials.n)
        priorities = partials.items("priorities").values
        for i in np.flatnonzero(counters.lengths).tolist():
            events = int(
                counters.values[counters.offsets[i] : counters.offsets[i] + self.width].sum()
            )
            error[i] = countmin.bound(events, self.width)
            span = slice(items.offsets[i], items.offsets[i + 1])
            last = estimates[chosen[bounds[i + 1] - 1]] if lengths[i] else 0
            miss[i] = _miss(priorities[span].max(initial=0) if lengths[i] else None, int(last))
        refused = (counters.lengths > 0) & (partials.fixed("oversized") != 0)
        whole = [
            pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), entries),
            pa.array(error),
            pa.array(miss),
        ]
        lists = pa.StructArray.from_arrays(
            whole, fields=list(self.output_type), mask=pa.array(empty | refused)
        )
        return Finished(lists, dict.fromkeys(np.flatnonzero(refused).tolist(), OVERSIZED))

    # ---- rows

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        stored = self.value.store_one(value)
        priority = hash_one(stored)
        for word in event.identity():
            priority = mixed_one(priority ^ word)
        return self.combine(
            state, ((stored,), (priority,), (1,), (), int(self._size(stored) > BYTES_PER_ITEM))
        )

    def _size(self, stored: Any) -> int:
        return len(stored) if self.value.dtype is None else 0

    def combine(self, a: State, b: State) -> State:
        entries: dict[Any, tuple[int, int]] = {}
        for items, priorities, counts, _, _ in (a, b):
            for i, item in enumerate(items):
                least, n = entries.get(item, (2**64, 0))
                entries[item] = (min(least, priorities[i]), n + (counts[i] if counts else 0))
        size, oversized = sum(map(self._size, entries)), a[4] or b[4]
        if not a[3] and not b[3] and len(entries) <= self.capacity and size <= self.most_bytes:
            ordered = sorted(entries)
            return (
                tuple(ordered),
                *(tuple(entries[item][i] for item in ordered) for i in (0, 1)),
                (),
                oversized,
            )
        counters = [
            sum(pair)
            for pair in zip(a[3] or (0,) * self.cells, b[3] or (0,) * self.cells, strict=True)
        ]
        for item, (_, n) in entries.items():
            for cell in countmin.cells_of_one(hash_one(item), self.width):
                counters[cell] += n
        allowed = [item for item in entries if self._size(item) <= BYTES_PER_ITEM]
        kept = sorted(sorted(allowed, key=lambda item: (entries[item][0], item))[: self.capacity])
        return (
            tuple(kept),
            tuple(entries[item][0] for item in kept),
            (),
            tuple(counters),
            oversized,
        )

    def finish(self, state: State) -> dict[str, Any] | Failed | None:
        items, priorities, counts, counters, oversized = state
        if not items and not counters:
            return None
        if counters and oversized:
            return Failed(OVERSIZED)
        estimates = counts or [
            min(counters[c] for c in countmin.cells_of_one(hash_one(i), self.width)) for i in items
        ]
        ranked = sorted(zip(estimates, items, strict=True), key=lambda pair: (-pair[0], pair[1]))[
            : self.k
        ]
        listed = [{"value": self.value.load_one(item), "count": n} for n, item in ranked]
        if not counters:
            return {"items": listed, "error": 0, "miss": 0.0}
        error = countmin.bound(sum(counters[: self.width]), self.width)
        most = max(priorities, default=None)
        return {
            "items": listed,
            "error": error,
            "miss": _miss(most, ranked[-1][0] if ranked else 0),
        }


def _words(rows: Rows) -> list[Words]:
    """The words by which identities are hashed."""
    numbers = (
        rows.time.view(np.uint64) ^ np.uint64(1 << 63),
        rows.topic_hi,
        rows.topic_lo,
        rows.partition,
        rows.offset,
    )
    return [number.astype(np.uint64) for number in numbers]


def _hashes(stored: Any, chosen: Int64) -> Words:
    return hash_stored(
        stored[chosen] if isinstance(stored, np.ndarray) else stored.take(pa.array(chosen))
    )


def _gathered(groups: Int64, code: Int64, priority: Words, counts: Int64, n: int) -> Entries:
    """Per (group, code), ascending, the least priority and the sum of the counts."""
    if len(groups) == 0:
        return groups, code, priority, counts
    pair = groups * n + code
    # what is combined comes in ascending runs
    order = np.argsort(pair, kind="stable" if len(pair) <= SMALL_SORT else None)
    pair = pair[order]
    first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
    group, code = np.divmod(pair[first], n)
    return (
        group,
        code,
        np.minimum.reduceat(priority[order], first),
        np.add.reduceat(counts[order], first),
    )


def _miss(most: int | np.uint64 | None, count: int) -> float:
    """The probability that all of so many events have a priority above `most`, that of every
    candidate (None: there is none)."""
    return 1.0 if most is None else countmin.power((2**64 - 1 - int(most)) / 2**64, count)
