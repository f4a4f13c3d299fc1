"""`and` and `or` follow from the counts of true and of false values; nulls are neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slicewise.aggregates.contract import Invertible
from slicewise.aggregates.event_forms import ColumnarEvents, ScalarEvents, ScalarOf
from slicewise.aggregates.exact.counting import add_groups, tally
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.kernel.values import non_null
from slicewise.aggregates.operations import Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Tallies
from slicewise.aggregates.stored_form import State


def _examples(cls: type[Any]) -> Sequence[Invertible]:
    return [cls("x").bind({"x": pa.bool_()})]


@dataclass(frozen=True)
class BooleanCounts(Invertible):
    """Partial of boolean and and or: `n_true` and `n_false`."""

    column: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.column,)

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None if pa.types.is_boolean(kind) else "a boolean column"

    def stored(self) -> Mapping[str, Any]:
        return {"form": "boolean_counts", "column": self.column}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Fixed("n_true", "<i8"), Fixed("n_false", "<i8"))

    @property
    def output_type(self) -> pa.DataType:
        return pa.bool_()

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        array, groups, _ = non_null(rows.columns[self.column], groups)
        true = array.to_numpy(zero_copy_only=False)
        n_true = tally(groups[true], n_groups)
        return Columns(n_groups, {"n_true": n_true, "n_false": tally(groups, n_groups) - n_true})

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        names = ("n_true", "n_false")
        return Columns(
            n_groups, {name: add_groups(partials.fixed(name), groups, n_groups) for name in names}
        )

    def deduct_columns(self, whole: Columns, part: Columns) -> Columns:
        names = ("n_true", "n_false")
        return Columns(whole.n, {name: whole.fixed(name) - part.fixed(name) for name in names})

    @cached_property
    def scalar(self) -> Tallies:
        return Tallies(self.finish)

    @cached_property
    def scalar_of(self) -> ScalarOf:
        def tallied(events: ScalarEvents | ColumnarEvents) -> tuple[int, int]:
            values = events.given(self.column)
            true = int(np.count_nonzero(values))
            return true, len(values) - true

        return tallied

    def accumulate(self, state: State, event: Event) -> State:
        value = event.columns[self.column]
        if value is None:
            return state
        return (state[0] + 1, state[1]) if value else (state[0], state[1] + 1)

    def combine(self, a: State, b: State) -> State:
        return (a[0] + b[0], a[1] + b[1])

    def deduct(self, whole: State, part: State) -> State:
        return (whole[0] - part[0], whole[1] - part[1])


def _finished(partials: Columns, values: NDArray[np.bool_]) -> Finished:
    none = (partials.fixed("n_true") == 0) & (partials.fixed("n_false") == 0)
    return Finished(pa.array(values, pa.bool_(), mask=none))


@register(_examples)
@dataclass(frozen=True)
class BoolAnd(BooleanCounts):
    """True where all values that are not null are true; null without any."""

    kind = "bool_and"

    def finish_columns(self, partials: Columns) -> Finished:
        return _finished(partials, partials.fixed("n_false") == 0)

    def finish(self, state: State) -> bool | None:
        return None if state == (0, 0) else state[1] == 0


@register(_examples)
@dataclass(frozen=True)
class BoolOr(BooleanCounts):
    """True where any value that is not null is true; null without any."""

    kind = "bool_or"

    def finish_columns(self, partials: Columns) -> Finished:
        return _finished(partials, partials.fixed("n_true") > 0)

    def finish(self, state: State) -> bool | None:
        return None if state == (0, 0) else state[0] > 0
