"""The latest values are those of the greatest identities, whatever order they came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.base import Aggregate, Finished, State, register
from slicewise.aggregates.columns import Columns
from slicewise.aggregates.events import Event, Rows
from slicewise.aggregates.fields import IDENTITY, Field, Items
from slicewise.aggregates.ragged import Int64, Ragged
from slicewise.aggregates.ranked import check_k, listing
from slicewise.aggregates.ranking import choose, identity_order, rows_order
from slicewise.aggregates.values import ORDERED, ValueType, flat, is_ordered


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    kinds = [(1, pa.string()), (3, pa.float64()), (2, pa.decimal128(12, 3)), (4, pa.date32())]
    return [cls("x", k).bind({"x": kind}) for k, kind in kinds]


@register(_examples)
@dataclass(frozen=True)
class LastK(Aggregate):
    """The values, not null, of the k latest events by the total order: a list, newest first.

    Null without any. Partial: `identity` and `value`, two lists, ascending by identity.
    """

    kind = "last_k"
    column: str
    k: int

    def __post_init__(self) -> None:
        check_k(self.k, self.describe())

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if is_ordered(kind) else ORDERED

    def stored(self) -> Mapping[str, Any]:
        return {"form": "last", "column": self.column, "k": self.k}

    @cached_property
    def value(self) -> ValueType:
        """How the column is stored."""
        return ValueType(self.type_of(self.column))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Items("identity", IDENTITY), self.value.field("value"))

    @property
    def output_type(self) -> pa.DataType:
        return pa.list_(self.value.arrow)

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        rows, groups = rows.present(self.column, self.inputs, groups)
        chosen, offsets = choose(rows.time, rows_order(rows), groups, n_groups, self.k, newest=True)
        values = self.value.store(rows.columns[self.column].take(pa.array(chosen)))
        identity = Ragged(offsets, rows.identities(chosen))
        listed = self.value.listed(values, np.arange(len(chosen)), offsets)
        return Columns(n_groups, {"identity": identity, "value": listed})

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        identity = partials.items("identity")
        of = groups[identity.row_numbers()]
        time = identity.values["time"].astype(np.uint64)
        chosen, offsets = choose(time, identity_order(identity.values), of, n_groups, self.k, newest=True)
        listed = self.value.listed(flat(partials.lists("value")), chosen, offsets)
        return Columns(n_groups, {"identity": Ragged(offsets, identity.values[chosen]), "value": listed})

    def finish_columns(self, partials: Columns) -> Finished:
        lists = partials.lists("value")
        row = lists.row_numbers()
        backwards = lists.offsets[row] + lists.offsets[row + 1] - 1 - np.arange(len(row))
        values = self.value.load(flat(lists)).take(pa.array(backwards))
        return Finished(listing(lists.offsets, values))

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        return self.combine(state, ((event.identity(),), (self.value.store_one(value),)))

    def combine(self, a: State, b: State) -> State:
        entries = sorted([*zip(*a, strict=True), *zip(*b, strict=True)], key=lambda entry: entry[0])
        return tuple(zip(*entries[-self.k :], strict=True)) if entries else self.empty()

    def finish(self, state: State) -> list[Any] | None:
        return [self.value.load_one(stored) for stored in reversed(state[1])] or None
