"""Identities alone decide what comes first or last, whatever order the events came in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.event_forms import ColumnarEvents, ScalarEvents, ScalarOf
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import IDENTITY, Field, Items
from slicewise.aggregates.kernel.grouping import SPARE, coded, numbered
from slicewise.aggregates.kernel.ragged import Int64, Ragged
from slicewise.aggregates.kernel.ranking import Key, Keys, choose, identity_order, rows_order
from slicewise.aggregates.kernel.values import ORDERED, ValueType, flat, is_double, is_ordered
from slicewise.aggregates.limits import COUNTABLE
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.ordering.ranked import OfK, foremost, listing
from slicewise.aggregates.ordering.scalar_ranks import ScalarListing, leaves_plain
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Outermost
from slicewise.aggregates.scalar_lists import CODES
from slicewise.aggregates.stored_form import State

OFFERED = 4
"""Latest events per value asked for, of which k values are likely to be found at once."""


def _single(cls: type[Any]) -> Sequence[Aggregate]:
    kinds = [
        pa.int64(),
        pa.float64(),
        pa.string(),
        pa.decimal128(12, 3),
        pa.timestamp("us", "UTC"),
        pa.bool_(),
    ]
    return [cls("x").bind({"x": kind}) for kind in kinds]


def _several(cls: type[Any]) -> Sequence[Aggregate]:
    kinds = [(1, pa.string()), (3, pa.float64()), (2, pa.decimal128(12, 3)), (4, pa.date32())]
    return [cls("x", k).bind({"x": kind}) for k, kind in kinds]


def _categories(cls: type[Any]) -> Sequence[Aggregate]:
    kinds = [
        (1, pa.string()),
        (3, pa.string()),
        (2, pa.int64()),
        (2, pa.decimal128(12, 3)),
        (1, pa.bool_()),
    ]
    return [cls("x", k).bind({"x": kind}) for k, kind in kinds]


@dataclass(frozen=True)
class Placed(Aggregate):
    """Base of first, last, first-k, last-k and last-k distinct. Nulls do not count.

    Partial: `identity` and `value`, two lists, ascending by identity.
    """

    form: ClassVar[str]
    newest: ClassVar[bool]
    column: str

    @property
    def entries(self) -> int:
        """The number of entries that are kept."""
        return 1

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) else ORDERED

    def stored(self) -> Mapping[str, Any]:
        return {"form": self.form, "column": self.column, "k": self.entries}

    @cached_property
    def value(self) -> ValueType:
        """The stored type of the column."""
        return ValueType(self.type_of(self.column))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Items("identity", IDENTITY), self.value.field("value"))

    @property
    def most_items(self) -> int:
        return self.entries

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        rows, groups = rows.present(self.column, self.inputs, groups)
        array = rows.columns[self.column]
        stored = partial(self.value.store, array)
        chosen, offsets = self._choose(rows.time, rows_order(rows), groups, n_groups, stored)
        values = self.value.store(array.take(pa.array(chosen)))
        listed = self.value.listed(values, np.arange(len(chosen)), offsets)
        return Columns(
            n_groups, {"identity": Ragged(offsets, rows.identities(chosen)), "value": listed}
        )

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        partials.abreast("identity", "value")
        identity, stored = partials.items("identity"), flat(partials.lists("value"))
        of, time = groups[identity.row_numbers()], identity.values["time"].astype(np.uint64)
        chosen, offsets = self._choose(
            time, identity_order(identity.values), of, n_groups, lambda: stored
        )
        listed = self.value.listed(stored, chosen, offsets)
        return Columns(
            n_groups, {"identity": Ragged(offsets, identity.values[chosen]), "value": listed}
        )

    def _choose(
        self,
        time: Key,
        ties: Keys,
        groups: Int64,
        n_groups: int,
        stored: Callable[[], Any],  # noqa: ARG002
    ) -> tuple[Int64, Int64]:
        """Chooses the entries that are kept, and the offsets of the groups among them; stored: all
        values."""
        return choose(time, ties, groups, n_groups, self.entries, newest=self.newest)

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        return self.combine(state, ((event.identity(),), (self.value.store_one(value),)))

    def combine(self, a: State, b: State) -> State:
        entries = sorted([*zip(*a, strict=True), *zip(*b, strict=True)], key=lambda entry: entry[0])
        kept = entries[-self.entries :] if self.newest else entries[: self.entries]
        return tuple(zip(*kept, strict=True)) if kept else self.empty()


def _outermost(value: ValueType, newest: bool, *, listed: bool) -> Outermost | None:
    """The form of one entry; None of values that do not leave as they are loaded."""
    if not leaves_plain(value):
        return None
    if value.dtype is None:
        return Outermost(newest, 1, lambda stored: value.load_one(stored[0]), listed)
    number = struct.Struct("<" + CODES[value.dtype])
    return Outermost(newest, number.size, lambda raw: value.load_one(number.unpack(raw)[0]), listed)


@dataclass(frozen=True)
class Single(Placed):
    """One entry; finished to its value."""

    @property
    def output_type(self) -> pa.DataType:
        return self.value.arrow

    def finish_columns(self, partials: Columns) -> Finished:
        partials.abreast("identity", "value")
        lists = partials.lists("value")
        return Finished(foremost(lists.offsets, self.value.load(flat(lists))))

    @cached_property
    def scalar(self) -> Outermost | None:
        return _outermost(self.value, self.newest, listed=False)

    @cached_property
    def scalar_of(self) -> ScalarOf | None:
        if not (pa.types.is_int64(self.output_type) or pa.types.is_float64(self.output_type)):
            return None
        pack = struct.Struct("<" + CODES[str(self.value.dtype)]).pack

        def outermost(events: ScalarEvents | ColumnarEvents) -> tuple[bytes, bytes] | None:
            entry = events.outermost(self.column, self.newest)
            return None if entry is None else (entry[0], pack(entry[1]))

        return outermost

    def finish(self, state: State) -> Any:
        return self.value.load_one(state[1][0]) if state[0] else None


@register(_single)
@dataclass(frozen=True)
class First(Single):
    """The earliest value that is not null, by the total order of events; null without any."""

    kind = "first"
    form = "first"
    newest = False


@register(_single)
@dataclass(frozen=True)
class Last(Single):
    """The latest value that is not null, by the total order of events; null without any."""

    kind = "last"
    form = "last"
    newest = True


@dataclass(frozen=True)
class Listing(OfK, Placed):
    """k entries; finished to the list of their values, the outermost first; null without any."""

    distinct: ClassVar[bool] = False

    @property
    def output_type(self) -> pa.DataType:
        return pa.list_(self.value.arrow)

    def finish_columns(self, partials: Columns) -> Finished:
        partials.abreast("identity", "value")
        lists = partials.lists("value")
        values = self.value.load(flat(lists))
        if self.newest:
            row = lists.row_numbers()
            values = values.take(
                pa.array(lists.offsets[row] + lists.offsets[row + 1] - 1 - np.arange(len(row)))
            )
        return Finished(listing(lists.offsets, values))

    @cached_property
    def scalar(self) -> ScalarListing | Outermost | None:
        if self.k == 1 and not self.distinct:
            # what is stored is what `first` or `last` stores, and so are the states
            return _outermost(self.value, self.newest, listed=True)
        if not leaves_plain(self.value):
            return None
        return ScalarListing(self.k, self.newest, self.distinct, self.value)

    def finish(self, state: State) -> list[Any] | None:
        values = [self.value.load_one(stored) for stored in state[1]]
        return (values[::-1] if self.newest else values) or None


@register(_several)
@dataclass(frozen=True)
class FirstK(Listing):
    """The values, not null, of the k earliest events by the total order: a list, oldest first."""

    kind = "first_k"
    form = "first"
    newest = False


@register(_several)
@dataclass(frozen=True)
class LastK(Listing):
    """The values, not null, of the k latest events by the total order: a list, newest first."""

    kind = "last_k"
    form = "last"
    newest = True


@register(_categories)
@dataclass(frozen=True)
class LastKDistinct(Listing):
    """The k distinct values that were seen last, each at its latest event: a list, newest first.

    Exact in any merge: fewer than k values of a part are newer than one that the whole keeps.
    """

    kind = "last_k_distinct"
    form = "last_distinct"
    newest = True
    distinct = True

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) and not is_double(kind) else COUNTABLE

    def _choose(
        self, time: Key, ties: Keys, groups: Int64, n_groups: int, stored: Callable[[], Any]
    ) -> tuple[Int64, Int64]:
        universe, code = coded(stored(), self.value)
        kept = np.arange(len(groups))
        if n_groups * len(universe) > 4 * len(groups) + SPARE:
            # Few events share a group and a value: the latest events alone have most of what is
            # kept.
            kept = self._likely(time, ties, groups, n_groups, code, len(universe))
        of, pairs = groups[kept], groups[kept] * len(universe) + code[kept]
        numbers, pair = numbered(pairs, n_groups * len(universe))
        latest, _ = choose(
            time[kept], lambda at: ties(kept[at]), pair, len(numbers), 1, newest=True
        )
        chosen, offsets = choose(
            time[kept[latest]],
            lambda at: ties(kept[latest[at]]),
            of[latest],
            n_groups,
            self.k,
            newest=True,
        )
        return kept[latest[chosen]], offsets

    def _likely(
        self, time: Key, ties: Keys, groups: Int64, n_groups: int, code: Int64, values: int
    ) -> Int64:
        """Entries that have all that is kept: the latest of each group, and all of a group in which
        those do not have k values."""
        offered, offsets = choose(time, ties, groups, n_groups, OFFERED * self.k, newest=True)
        numbers, _ = numbered(groups[offered] * values + code[offered], n_groups * values)
        short = np.bincount(numbers // values, minlength=n_groups) < self.k
        short &= np.bincount(groups, minlength=n_groups) > np.diff(offsets)
        return np.concatenate([offered[~short[groups[offered]]], np.flatnonzero(short[groups])])

    def combine(self, a: State, b: State) -> State:
        latest: dict[Any, Any] = {}
        for identity, value in [*zip(*a, strict=True), *zip(*b, strict=True)]:
            latest[value] = max(identity, latest.get(value, identity))
        kept = sorted((identity, value) for value, identity in latest.items())[-self.k :]
        return tuple(zip(*kept, strict=True)) if kept else self.empty()
