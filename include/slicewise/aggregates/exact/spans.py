"""A span holds the times of the first and of the last event, whatever the events carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slicewise.aggregates.contract import Aggregate
from slicewise.aggregates.event_forms import ScalarOf
from slicewise.aggregates.kernel.columns import Columns
from slicewise.aggregates.kernel.events import Event, Rows
from slicewise.aggregates.kernel.fields import Field, Fixed
from slicewise.aggregates.kernel.ragged import Int64
from slicewise.aggregates.operations import OVERFLOW, Failed, Finished
from slicewise.aggregates.registry import register
from slicewise.aggregates.scalar import Spans
from slicewise.aggregates.stored_form import State

EARLIEST, LATEST = -(2**63), 2**63 - 1


def _examples(cls: type[Any]) -> Sequence[Aggregate]:
    return [cls().bind({})]


@register(_examples)
@dataclass(frozen=True)
class Span(Aggregate):
    """Microseconds from the first to the last event, of one event 0, of none null.

    Partial: `first` and `last` (event time) and `present`; of no events all are 0. A view with a
    session keeps it for every slice: where a session starts follows from it.
    """

    kind = "span"

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def accepts(self, column: str, kind: pa.DataType) -> str | None:  # noqa: ARG002
        return None

    def stored(self) -> Mapping[str, Any]:
        return {"form": "span"}

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Fixed("first", "<i8"), Fixed("last", "<i8"), Fixed("present", "|u1"))

    @property
    def output_type(self) -> pa.DataType:
        return pa.int64()

    def accumulate_columns(self, rows: Rows, groups: Int64, n_groups: int) -> Columns:
        return _outermost(rows.time, rows.time, groups, n_groups)

    def combine_columns(self, partials: Columns, groups: Int64, n_groups: int) -> Columns:
        first, last, present = (partials.fixed(name) for name in ("first", "last", "present"))
        if not present.all():
            rows = np.flatnonzero(present)
            first, last, groups = first[rows], last[rows], groups[rows]
        return _outermost(first, last, groups, n_groups)

    def finish_columns(self, partials: Columns) -> Finished:
        length = partials.fixed("last") - partials.fixed("first")
        present = partials.fixed("present") != 0
        errors = {int(row): OVERFLOW for row in np.flatnonzero(length < 0)}
        return Finished(pa.array(length, pa.int64(), mask=~present | (length < 0)), errors)

    @cached_property
    def scalar(self) -> Spans:
        return Spans(OVERFLOW)

    @cached_property
    def scalar_of(self) -> ScalarOf:
        return lambda events: events.span() if len(events) else None

    def accumulate(self, state: State, event: Event) -> State:
        return self.combine(state, (event.time, event.time, 1))

    def combine(self, a: State, b: State) -> State:
        if not (a[2] and b[2]):
            return a if a[2] else b
        return (min(a[0], b[0]), max(a[1], b[1]), 1)

    def finish(self, state: State) -> Any:
        first, last, present = state
        if not present:
            return None
        return last - first if last - first <= LATEST else Failed(OVERFLOW)


def _outermost(first: Int64, last: Int64, groups: Int64, n_groups: int) -> Columns:
    earliest, latest = np.full(n_groups, LATEST, np.int64), np.full(n_groups, EARLIEST, np.int64)
    np.minimum.at(earliest, groups, first)
    np.maximum.at(latest, groups, last)
    present = np.zeros(n_groups, np.uint8)
    present[groups] = 1
    earliest[present == 0] = latest[present == 0] = 0
    return Columns(n_groups, {"first": earliest, "last": latest, "present": present})
