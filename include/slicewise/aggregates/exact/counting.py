"""A count is the number of events, or of those where a column is not null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Invertible
from slicewise.aggregates.event_forms import ScalarOf
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.ranges import ChosenRows, Counted, RangeForm, valid_in
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Tallies
from slicewise.aggregates.stored_form import State


def tally(groups: Int64, n_groups: int) -> Int64:
    """Rows per group [n_groups]."""
    return np.bincount(groups, minlength=n_groups).astype(np.int64, copy=False)


def add_groups(values: Int64, groups: Int64, n_groups: int) -> Int64:
    """Sum of int64 counts per group, in integers throughout."""
    out = np.zeros(n_groups, np.int64)
    np.add.at(out, groups, values)
    return out


def _examples(cls: type[Any]) -> Sequence[Invertible]:
    return [cls().bind({}), cls("x").bind({"x": pa.string()}), cls("x").bind({"x": pa.float64()})]


@register(_examples)
@dataclass(frozen=True)
class Count(Invertible):
    """Number of events; with a column, of events where it is not null. Of no events 0."""

    kind = "count"
    column: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None

    def stored(self) -> Mapping[str, Any]:
        return {"form": "count", "column": self.column}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Fixed("n", "<i8"),)

    @property
    def output_type(self) -> pa.DataType:
        return pa.int64()

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        if self.column is not None and rows.columns[self.column].null_count > 0:
            valid = rows.columns[self.column].is_valid().to_numpy(zero_copy_only=False)
            groups = groups[valid]
        return Columns(n_groups, {"n": tally(groups, n_groups)})

    def over_ranges(self, rows: Rows) -> RangeForm:
        valid = None if self.column is None else valid_in(rows.columns[self.column])
        return Counted(ChosenRows(valid), lambda counts: Columns(len(counts), {"n": counts}))

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        return Columns(n_groups, {"n": add_groups(partials.fixed("n"), groups, n_groups)})

    def finish_columns(self, partials: Columns) -> Finished:
        return Finished(pa.array(partials.fixed("n"), pa.int64()))

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        return Columns(whole.n, {"n": whole.fixed("n") - part.fixed("n")})

    @cached_property
    def scalar(self) -> Tallies:
        return Tallies(itemgetter(0))

    @cached_property
    def scalar_of(self) -> ScalarOf:
        column = self.column
        if column is None:
            return lambda events: (len(events),)
        return lambda events: (len(events.given(column)),)

    def accumulate(self, state: State, event: Event) -> State:
        counts = self.column is None or event.columns[self.column] is not None
        return (state[0] + counts,)

    def combine(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def deduct(self, whole: State, part: State) -> State:
        return (whole[0] - part[0],)

    def finish(self, state: State) -> int:
        return int(state[0])
